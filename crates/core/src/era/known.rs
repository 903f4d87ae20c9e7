//! Which eras a server is known to speak.

use serde::{Deserialize, Serialize};

use super::{Era, Revision};

/// Whether a server speaks each era; `None` is unknown. It comes from the pin, from what the server
/// says of itself, and from how `initialize` fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Eras {
    pub modern: Option<bool>,
    pub legacy: Option<bool>,
}

impl Eras {
    pub const UNKNOWN: Self = Self {
        modern: None,
        legacy: None,
    };

    /// One era and, as far as anyone asks, no other.
    pub fn only(era: Era) -> Self {
        Self {
            modern: Some(era == Era::Modern),
            legacy: Some(era == Era::Legacy),
        }
    }

    /// The eras of the revisions that a server names. It may also speak others.
    pub fn named(revisions: &[Revision]) -> Self {
        let speaks = |era| revisions.iter().any(|revision| revision.era() == era);
        let named = |era| speaks(era).then_some(true);
        Self {
            modern: named(Era::Modern),
            legacy: named(Era::Legacy),
        }
    }

    /// These, and of what they do not know what was known `before`.
    #[must_use]
    pub fn or(self, before: Self) -> Self {
        Self {
            modern: self.modern.or(before.modern),
            legacy: self.legacy.or(before.legacy),
        }
    }

    /// In which era a server is first spoken to; `None` where that is to be found out.
    pub fn first(self) -> Option<Era> {
        match self.modern {
            Some(true) => Some(Era::Modern),
            Some(false) => Some(Era::Legacy),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Protocol brief, section 6: what is new counts, and what it leaves open stays as it was.
    #[test]
    fn knowledge_is_replaced_and_kept_per_era() {
        let dual = Eras::named(&[Revision::V2025_06_18, Revision::V2026_07_28]);
        assert_eq!((dual.modern, dual.legacy), (Some(true), Some(true)));
        let one = Eras::named(&[Revision::V2026_07_28]);
        assert_eq!((one.modern, one.legacy), (Some(true), None));
        let refused = Eras {
            legacy: Some(false),
            ..Eras::UNKNOWN
        };
        assert_eq!(refused.or(dual).legacy, Some(false));
        assert_eq!(refused.or(dual).first(), Some(Era::Modern));
        assert_eq!(Eras::only(Era::Legacy).or(dual).first(), Some(Era::Legacy));
        assert_eq!(refused.first(), None);
    }
}
