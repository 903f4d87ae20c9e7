//! Which tools of a server are kept from clients, at every door (`disabledTools`, `strictToolNames`).

use std::sync::Arc;

use crate::names;

/// Goes by what the server itself calls its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Neither listed nor callable, by name (`disabledTools`).
    pub disabled: Arc<[String]>,
    /// Nor are those whose names are not `^[a-zA-Z0-9_-]{1,64}$` (`strictToolNames`; J12, Y4).
    pub strict_names: bool,
}

impl Withheld {
    /// Whether every tool may be shown, whatever it is called.
    pub fn is_nothing(&self) -> bool {
        self.disabled.is_empty() && !self.strict_names
    }

    pub fn has(&self, tool: &str) -> bool {
        self.disables(tool) || self.refuses_name(tool)
    }

    /// Whether somebody has disabled it.
    pub fn disables(&self, tool: &str) -> bool {
        self.disabled.iter().any(|name| name == tool)
    }

    /// Whether its name alone keeps it from clients: those are reported.
    pub fn refuses_name(&self, tool: &str) -> bool {
        self.strict_names && !names::is_strict(tool)
    }
}
