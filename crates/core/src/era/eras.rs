//! The eras that a server is known to support.

use serde::{Deserialize, Serialize};

use super::{Era, Revision};

/// The eras that a server supports: true, false, or `None` if unknown. Known from the configured
/// revision, from the server's own lists, and from the outcome of `initialize`.
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

    /// Supports only this era. The other era is never tried.
    pub fn only(era: Era) -> Self {
        Self {
            modern: Some(era == Era::Modern),
            legacy: Some(era == Era::Legacy),
        }
    }

    /// The eras of the revisions that a server lists. The server may also support the other era.
    pub fn named(revisions: &[Revision]) -> Self {
        let has_era = |era| revisions.iter().any(|revision| revision.era() == era);
        let known_support = |era| has_era(era).then_some(true);
        Self {
            modern: known_support(Era::Modern),
            legacy: known_support(Era::Legacy),
        }
    }

    /// Returns these eras. Unknown ones are taken from `before`.
    #[must_use]
    pub fn or(self, before: Self) -> Self {
        Self {
            modern: self.modern.or(before.modern),
            legacy: self.legacy.or(before.legacy),
        }
    }

    /// The era to try first. `None` if a probe has to detect it.
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

    /// New knowledge about one era does not change the other.
    #[test]
    fn each_era_keeps_its_own_knowledge() {
        let dual_support = Eras::named(&[Revision::V2025_06_18, Revision::V2026_07_28]);
        assert_eq!(
            (dual_support.modern, dual_support.legacy),
            (Some(true), Some(true))
        );
        let modern_support = Eras::named(&[Revision::V2026_07_28]);
        assert_eq!(
            (modern_support.modern, modern_support.legacy),
            (Some(true), None)
        );
        let legacy_refusal = Eras {
            legacy: Some(false),
            ..Eras::UNKNOWN
        };
        assert_eq!(legacy_refusal.or(dual_support).legacy, Some(false));
        assert_eq!(legacy_refusal.or(dual_support).first(), Some(Era::Modern));
        assert_eq!(
            Eras::only(Era::Legacy).or(dual_support).first(),
            Some(Era::Legacy)
        );
        assert_eq!(legacy_refusal.first(), None);
    }
}
