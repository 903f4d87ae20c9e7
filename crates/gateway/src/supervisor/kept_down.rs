//! Servers that must not be started.

use mainstay_core::config::{Launch, ServerConfig};

/// The reason why a server must not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptDown {
    /// An MCP client has added the server, and no person has approved it yet.
    Unapproved,
    Disabled,
}

impl KeptDown {
    /// The reason why a server with this configuration must not be started, if there is one.
    pub fn for_config(config: &ServerConfig) -> Option<Self> {
        match &config.launch {
            Launch::Unapproved => Some(Self::Unapproved),
            _ if !config.enabled => Some(Self::Disabled),
            _ => None,
        }
    }

    /// The word that replaces the server's status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unapproved => "pending",
            Self::Disabled => "disabled",
        }
    }
}
