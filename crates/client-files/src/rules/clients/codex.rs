//! Rules of Codex.

use serde_json::Value;

use super::RuleReader;
use crate::rules::{Effect, Tools};

impl RuleReader<'_> {
    /// Reads the approval modes and disabled tools of the entries.
    pub(super) fn codex(&mut self) {
        let is_confirmed = |word: &Value| {
            word.as_str()
                .is_some_and(|mode| mode != "auto" && mode != "approve")
        };
        for (server, entry) in self.map("mcp_servers") {
            let mut found = Vec::new();
            let default = "default_tools_approval_mode";
            if let Some(word) = entry.get(default).filter(|word| is_confirmed(word)) {
                let text = format!("{default} = {word}");
                found.push((default, text, Effect::Asked, Tools::All));
            }
            let tools = entry.get("tools").and_then(Value::as_object);
            for (tool, rules) in tools.into_iter().flatten() {
                if rules.get("enabled") == Some(&Value::Bool(false)) {
                    let text = format!("{tool}.enabled = false");
                    found.push(("tools", text, Effect::Refused, Tools::One(tool.clone())));
                }
                if let Some(word) = rules.get("approval_mode").filter(|word| is_confirmed(word)) {
                    let text = format!("{tool}.approval_mode = {word}");
                    found.push(("tools", text, Effect::Asked, Tools::One(tool.clone())));
                }
            }
            for (key, text, effect, tools) in found {
                let written = self.written(key, text, effect);
                self.add(&written, |label| (label == server).then(|| tools.clone()));
            }
        }
    }
}
