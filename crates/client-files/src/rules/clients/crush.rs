//! Rules of Crush.

use super::RuleReader;
use crate::rules::{Effect, names::behind_prefix};

impl RuleReader<'_> {
    /// Reads `options.disabled_tools`: `mcp_SERVER_TOOL`.
    pub(super) fn crush(&mut self) {
        const KEY: &str = "options.disabled_tools";
        for text in self.list(KEY).unwrap_or_default() {
            let written = self.written(KEY, &text, Effect::Refused);
            self.add(&written, |label| {
                behind_prefix(&text, &format!("mcp_{label}_"))
            });
        }
    }
}
