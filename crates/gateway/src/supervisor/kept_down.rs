//! Servers that nothing may start.

use mainstay_core::config::{Launch, ServerConfig};

/// Why nothing may start a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptDown {
    /// An MCP client added it, and no person has approved it yet.
    Unapproved,
    Disabled,
}

impl KeptDown {
    /// Why nothing may start a server of this configuration, if nothing may.
    pub fn of(config: &ServerConfig) -> Option<Self> {
        match &config.launch {
            Launch::Unapproved => Some(Self::Unapproved),
            _ if !config.enabled => Some(Self::Disabled),
            _ => None,
        }
    }

    /// The word that stands for its status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unapproved => "pending",
            Self::Disabled => "disabled",
        }
    }
}
