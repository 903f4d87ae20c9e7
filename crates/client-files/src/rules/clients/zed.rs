//! Rules of Zed.

use serde_json::{Value, json};

use super::{RuleReader, WrittenRule};
use crate::{
    client::ClientKind,
    places::ClientFile,
    rules::{Effect, RuleScope, Tools},
};

impl RuleReader<'_> {
    /// Reads the permissions of tools, and the servers and tools of profiles.
    pub(super) fn zed(&mut self) {
        for (name, rules) in self.map("agent.tool_permissions.tools") {
            let effect = match rules.get("default").and_then(Value::as_str) {
                Some("deny") => Effect::Refused,
                Some("confirm") => Effect::Asked,
                _ => continue,
            };
            let written = self.written("agent.tool_permissions.tools", &name, effect);
            self.add(&written, |label| {
                let tool = name.strip_prefix("mcp:")?.strip_prefix(label)?;
                Some(Tools::One(tool.strip_prefix(':')?.to_owned()))
            });
        }
        let mut profiles = self.map("agent.profiles");
        // Zed has this built-in profile, which has no servers.
        let default = self.at("agent.default_profile").and_then(Value::as_str);
        if default == Some("minimal") {
            profiles.entry("minimal").or_insert_with(|| json!({}));
        }
        for (id, profile) in profiles {
            let place = RuleScope::Part(format!("the profile {id}"));
            let servers = profile.get("context_servers").and_then(Value::as_object);
            let servers = servers.cloned().unwrap_or_default();
            let has_all = has_all_servers(&id, &profile);
            if !has_all {
                let key = format!("agent.profiles.{id}.enable_all_context_servers");
                self.leave_out(&key, place.clone(), |label| {
                    let tools = servers.get(label).and_then(|choice| choice.get("tools"));
                    let mut tools = tools.and_then(Value::as_object).into_iter().flatten();
                    !tools.any(|(_, value)| *value == true)
                });
            }
            let key = format!("agent.profiles.{id}.context_servers");
            for (server, choice) in &servers {
                let tools = choice.get("tools").and_then(Value::as_object);
                for (tool, value) in tools.into_iter().flatten() {
                    let effect = match (value.as_bool(), has_all) {
                        (Some(false), _) => Effect::Refused,
                        // The profile has only the tools that are set to true.
                        (Some(true), false) => Effect::Asked,
                        _ => continue,
                    };
                    let written = WrittenRule {
                        place: place.clone(),
                        ..self.written(&key, format!("{tool}: {value}"), effect)
                    };
                    self.add(&written, |label| {
                        (label == server).then(|| Tools::One(tool.clone()))
                    });
                }
            }
        }
    }
}

/// True if a profile contains servers that it does not list.
fn has_all_servers(id: &str, profile: &Value) -> bool {
    let stated = profile.get("enable_all_context_servers");
    let stated = stated.and_then(Value::as_bool);
    stated.unwrap_or(matches!(id, "write" | "ask"))
}

/// The profile that is active when Zed starts.
pub(in crate::rules) fn default_profile(file: &ClientFile, whole: &Value) -> Option<RuleScope> {
    if file.client != ClientKind::Zed {
        return None;
    }
    let stated = whole
        .get("agent")
        .and_then(|agent| agent.get("default_profile"));
    let id = stated.and_then(Value::as_str).unwrap_or("write");
    Some(RuleScope::Part(format!("the profile {id}")))
}
