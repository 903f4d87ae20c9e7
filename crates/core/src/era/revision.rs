//! The protocol revisions and their features.

/// The way in which client and server begin (specification 2026-07-28, "Versioning").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// `initialize` opens a session.
    Legacy,
    /// No session. `_meta` of every request describes the client.
    Modern,
}

/// The revisions, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    #[default]
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// The legacy revisions, oldest first.
    pub const LEGACY: [Self; 4] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
    ];
    pub const LATEST: Self = Self::V2026_07_28;
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The revision of an HTTP request that has neither `MCP-Protocol-Version` nor a session.
    pub const ASSUMED: Self = Self::V2025_03_26;

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|revision| revision.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => {
                Era::Legacy
            }
            Self::V2026_07_28 => Era::Modern,
        }
    }

    /// Like [`parse`](Self::parse), but accepts only legacy revisions.
    pub fn parse_legacy(text: &str) -> Option<Self> {
        Self::parse(text).filter(|revision| revision.era() == Era::Legacy)
    }

    /// Returns the revision to answer to an `initialize`: `requested` if it is a legacy revision,
    /// else the latest legacy revision (specification 2025-11-25, "Lifecycle").
    pub fn negotiate(requested: &str) -> Self {
        Self::parse_legacy(requested).unwrap_or(Self::LATEST_LEGACY)
    }

    /// True if messages of a server of revision `server` need translation for a client of this
    /// revision.
    pub fn differs_from(self, server: Self) -> bool {
        self.era() != server.era() || self < server && !self.has_resource_link()
    }

    /// True if JSON-RPC batches are accepted. 2025-03-26 requires them. Later revisions removed
    /// them.
    pub const fn accepts_batches(self) -> bool {
        matches!(self, Self::V2025_03_26)
    }

    /// True if HTTP requests have the header `MCP-Protocol-Version`.
    pub fn sends_version_header(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// True if HTTP event streams begin with an event for resumption and set a retry time
    /// (SEP-1699).
    pub const fn resumes_streams(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    pub fn has_elicitation(self) -> bool {
        self >= Self::V2025_06_18
    }

    pub fn has_url_elicitation(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// True for tools in `sampling/createMessage`, and several blocks in one message (SEP-1577).
    pub fn has_sampling_tools(self) -> bool {
        self >= Self::V2025_11_25
    }

    pub fn has_audio(self) -> bool {
        self >= Self::V2025_03_26
    }

    pub fn has_resource_link(self) -> bool {
        self >= Self::V2025_06_18
    }

    pub fn has_structured_content(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// True if servers declare completion as a capability. In earlier revisions, each server with
    /// prompts or resources may offer completion.
    pub fn has_completions_capability(self) -> bool {
        self >= Self::V2025_03_26
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_revision_is_mirrored_and_an_unknown_one_gets_the_latest() {
        for revision in Revision::LEGACY {
            assert_eq!(Revision::negotiate(revision.as_str()), revision);
        }
        for requested in ["1999-01-01", "", Revision::LATEST.as_str()] {
            assert_eq!(Revision::negotiate(requested), Revision::LATEST_LEGACY);
        }
    }
}
