//! Protocol revisions and their eras.

/// The legacy revisions, oldest first.
pub const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// A revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Revision {
    #[value(name = "2024-11-05")]
    V2024_11_05,
    #[value(name = "2025-03-26")]
    V2025_03_26,
    #[value(name = "2025-06-18")]
    V2025_06_18,
    #[value(name = "2025-11-25")]
    V2025_11_25,
    #[value(name = "2026-07-28")]
    V2026_07_28,
}

/// The era of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevisionEra {
    /// The client describes itself once, in `initialize`.
    Legacy,
    /// The client describes itself in the `_meta` of every request.
    Modern,
}

impl Revision {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => REVISIONS[0],
            Self::V2025_03_26 => REVISIONS[1],
            Self::V2025_06_18 => REVISIONS[2],
            Self::V2025_11_25 => REVISIONS[3],
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    pub(crate) fn era(self) -> RevisionEra {
        if self == Self::V2026_07_28 {
            RevisionEra::Modern
        } else {
            RevisionEra::Legacy
        }
    }
}
