//! Mainstay's own tools, in groups that a profile chooses by `ownTools`.

/// A group of tools that Mainstay offers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Search, describe and execute any tool, so that a thousand cost a client six.
    Meta,
    /// The five `external_` tools (requirements, section N).
    External,
    /// Events, and questions of servers for clients that cannot be asked (Z2).
    Activity,
    /// Records of calls and the objects they name (L7).
    Records,
    /// Adds, removes, enables and disables servers; for the operator's token alone.
    Control,
}

impl Group {
    pub const ALL: [Self; 5] = [
        Self::Meta,
        Self::External,
        Self::Activity,
        Self::Records,
        Self::Control,
    ];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::External => "external",
            Self::Activity => "activity",
            Self::Records => "records",
            Self::Control => "control",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }
}
