//! Finds the servers and settings of a configuration that refer to secrets of the vault
//! (`${keyring:NAME}`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;

use crate::{
    edit::{Document, EditError},
    read::Syntax,
    read::named_secrets,
};

/// The keys that hold the servers.
const SERVERS: [&str; 2] = ["mcpServers", "servers"];

/// The servers and settings that refer to one secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretUses {
    pub servers: Vec<String>,
    /// Other keys at the top of the file, such as `telemetry`.
    pub settings: Vec<String>,
}

impl SecretUses {
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.settings.is_empty()
    }
}

impl fmt::Display for SecretUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut users = self.servers.clone();
        users.extend(self.settings.iter().map(|key| format!("`{key}`")));
        f.write_str(&users.join(", "))
    }
}

/// The uses of each secret that a configuration names, by the name of the secret.
pub fn secret_uses(text: &str, syntax: Syntax) -> Result<BTreeMap<String, SecretUses>, EditError> {
    let document = Document::read(text, syntax)?;
    let mut by_name: BTreeMap<String, SecretUses> = BTreeMap::new();
    for (server, entry) in document.entries() {
        for name in names_in(&Value::Object(entry)) {
            let users = by_name.entry(name).or_default();
            users.servers.push(server.to_string());
        }
    }
    // An empty document refers to no secret.
    let Ok(Value::Object(members)) = document.value() else {
        return Ok(by_name);
    };
    for (key, value) in &members {
        if SERVERS.contains(&key.as_str()) {
            continue;
        }
        for name in names_in(value) {
            by_name.entry(name).or_default().settings.push(key.clone());
        }
    }
    Ok(by_name)
}

/// The names of secrets in all texts of a value.
fn names_in(value: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    add_names(value, &mut names);
    names
}

fn add_names(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => names.extend(named_secrets(text).map(str::to_owned)),
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| add_names(element, names)),
        Value::Object(members) => members.values().for_each(|member| add_names(member, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_that_names_a_secret_is_known() {
        let text = r#"{
            // The literal names nothing.
            "mcpServers": {
                "a": {"command": "x", "args": ["--key=${keyring:k}", "${keyring:k:-d}", "$${keyring:no}"]},
                "b": {"url": "http://h", "headers": {"x": "${keyring:k} ${keyring:b/c}"}},
                "c": {"command": "x", "args": ["${keyring:bad name}", "${"]}
            },
            "telemetry": {"headers": {"x": "${keyring:t}"}}
        }"#;
        let uses = secret_uses(text, Syntax::Jsonc).expect("read");
        let lines: Vec<String> = uses
            .iter()
            .map(|(name, users)| format!("{name}: {users}"))
            .collect();
        assert_eq!(lines, ["b/c: b", "k: a, b", "t: `telemetry`"]);
        assert!(secret_uses("", Syntax::Jsonc).expect("read").is_empty());
    }
}
