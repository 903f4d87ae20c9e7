//! Rules of Cursor.

use super::RuleReader;
use crate::rules::{
    Effect,
    names::{fits, tools},
};

impl RuleReader<'_> {
    /// Reads `permissions.deny`: `Mcp(SERVER:TOOL)`. Both parts are patterns.
    pub(super) fn cursor(&mut self) {
        const KEY: &str = "permissions.deny";
        for text in self.list(KEY).unwrap_or_default() {
            let inside = text
                .strip_prefix("Mcp(")
                .and_then(|rule| rule.strip_suffix(')'));
            let Some((server, tool)) = inside.and_then(|pair| pair.split_once([':', ','])) else {
                continue;
            };
            let written = self.written(KEY, &text, Effect::Refused);
            self.add(&written, |label| {
                fits(server.trim(), label).then(|| tools(tool.trim()))
            });
        }
    }
}
