//! Rules of opencode and Kilo CLI.

use serde_json::Value;

use super::{RuleReader, WrittenRule};
use crate::rules::{
    Effect, RuleScope,
    names::{behind_prefix, is_pattern, plain},
};

impl RuleReader<'_> {
    /// Reads the rules of the file, and the rules of its agents and modes.
    pub(super) fn opencode(&mut self) {
        let place = self.source.place.clone();
        let whole = self.source.whole.clone();
        self.of_opencode(&whole, "", &place);
        for kind in ["agent", "mode"] {
            for (name, agent) in self.map(kind) {
                let place = RuleScope::Part(format!("the {kind} {name}"));
                self.of_opencode(&agent, &format!("{kind}.{name}."), &place);
            }
        }
    }

    /// Reads `tools` and `permission` of an object. Their keys are patterns for `SERVER_TOOL`.
    fn of_opencode(&mut self, holder: &Value, path: &str, place: &RuleScope) {
        let mut found: Vec<(&str, String, Effect, String)> = Vec::new();
        let tools = holder.get("tools").and_then(Value::as_object);
        for (pattern, value) in tools.into_iter().flatten() {
            let effect = match value.as_bool() {
                Some(true) => Effect::Allowed,
                Some(false) => Effect::Refused,
                None => continue,
            };
            found.push(("tools", pattern.clone(), effect, value.to_string()));
        }
        match holder.get("permission") {
            Some(Value::String(word)) => {
                found.extend(
                    word_of_opencode(word)
                        .map(|effect| ("permission", "*".to_owned(), effect, word.clone())),
                );
            }
            Some(Value::Object(permissions)) => {
                for (pattern, value) in permissions {
                    // An object has rules by arguments. Take its rule for `*`, which matches all
                    // arguments.
                    let word = value.as_str().or_else(|| value.get("*")?.as_str());
                    let effect = word.and_then(word_of_opencode);
                    found.extend(effect.map(|effect| {
                        let word = word.unwrap_or_default().to_owned();
                        ("permission", pattern.clone(), effect, word)
                    }));
                }
            }
            _ => {}
        }
        for (key, pattern, effect, word) in found {
            let key = format!("{path}{key}");
            let written = WrittenRule {
                place: place.clone(),
                ..self.written(&key, format!("{pattern}: {word}"), effect)
            };
            let labels: Vec<String> = self
                .servers
                .iter()
                .map(|server| plain(&server.label))
                .collect();
            self.add(&written, |label| {
                let label = plain(label);
                let tools = behind_prefix(&pattern, &format!("{label}_"))?;
                // If a server `a_b` exists, `a_b_c` is its tool and not a tool of `a`.
                let is_of_longer = |other: &String| {
                    other.len() > label.len() && pattern.starts_with(&format!("{other}_"))
                };
                let is_of_other = !is_pattern(&pattern) && labels.iter().any(is_of_longer);
                (!is_of_other).then_some(tools)
            });
        }
    }
}

fn word_of_opencode(word: &str) -> Option<Effect> {
    match word {
        "allow" => Some(Effect::Allowed),
        "ask" => Some(Effect::Asked),
        "deny" => Some(Effect::Refused),
        _ => None,
    }
}
