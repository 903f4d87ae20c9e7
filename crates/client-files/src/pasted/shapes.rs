//! Finds the servers in a value, which may have the shape of any client's file.

use std::path::PathBuf;

use mainstay_config::is_known_key;
use serde_json::{Map, Value};

use super::{UnnamedServer, map, shortened};
use crate::{
    client::ClientKind,
    document::NotReadable,
    format::FileFormat,
    places::{ClientFile, FileScope, Section},
    read::{self, FoundServer, KeyFate, kept_key},
};

/// The maximum depth at which servers are searched.
const MAX_DEPTH: usize = 4;

/// The servers in a value.
pub(super) struct PastedShape {
    client: ClientKind,
    /// True if keys that only this client writes identify the client.
    is_certain: bool,
    whole: Value,
    section: Section,
    /// A description of the kind of value.
    pub words: String,
}

/// Keys of an entry that say how its server is started or reached.
const REACH: [&str; 7] = [
    "command",
    "cmd",
    "url",
    "serverUrl",
    "httpUrl",
    "uri",
    "remoteUrl",
];

pub(super) fn find(whole: Value, format: FileFormat) -> Option<PastedShape> {
    find_at(whole, format, 0)
}

fn find_at(whole: Value, format: FileFormat, depth: usize) -> Option<PastedShape> {
    if let Value::Array(_) = whole {
        return of_list(whole, format);
    }
    let members = whole.as_object()?;
    if let Some(shape) = of_client(members, format) {
        let ClientShape {
            client,
            section,
            words,
        } = shape;
        let entries = section.value(&whole).map(entries).unwrap_or_default();
        let (client, is_certain) = match client {
            Some(client) => (client, true),
            None => (guessed(&entries), false),
        };
        return Some(PastedShape {
            client,
            is_certain,
            words: words.to_owned(),
            section,
            whole,
        });
    }
    if is_entry(&whole) {
        let label = whole
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (label, client) = (label.to_owned(), guessed(&[members]));
        let whole = Value::Object(map([(
            "mcpServers",
            Value::Object(Map::from_iter([(label, whole)])),
        )]));
        return Some(PastedShape {
            client,
            is_certain: false,
            whole,
            section: section(&["mcpServers"], false),
            words: "one entry".to_owned(),
        });
    }
    if !members.is_empty()
        && members.values().any(is_entry)
        && members.values().all(Value::is_object)
    {
        let client = match format {
            FileFormat::Yaml if members.values().any(is_of_goose) => ClientKind::Goose,
            _ => guessed(&entries(&whole)),
        };
        return Some(PastedShape {
            client,
            is_certain: false,
            whole: Value::Object(map([("mcpServers", whole)])),
            section: section(&["mcpServers"], false),
            words: "entries by their names".to_owned(),
        });
    }
    if depth >= MAX_DEPTH {
        return None;
    }
    let Value::Object(members) = whole else {
        return None;
    };
    let below = members.into_iter().map(|(_, value)| value);
    below
        .filter(Value::is_object)
        .find_map(|value| find_at(value, format, depth + 1))
}

struct ClientShape {
    /// `None` if many clients have this shape.
    client: Option<ClientKind>,
    section: Section,
    words: &'static str,
}

/// Recognises a client by the key that contains the servers.
fn of_client(members: &Map<String, Value>, format: FileFormat) -> Option<ClientShape> {
    let shape_of = |client, keys: &[&str], is_list, words| {
        let section = section(keys, is_list);
        Some(ClientShape {
            client,
            section,
            words,
        })
    };
    let is_map = |key: &str| members.get(key).is_some_and(Value::is_object);
    let is_list = |key: &str| members.get(key).is_some_and(Value::is_array);
    if is_map("context_servers") {
        return shape_of(
            Some(ClientKind::Zed),
            &["context_servers"],
            false,
            "settings of Zed",
        );
    }
    if is_map("mcp_servers") {
        return shape_of(
            Some(ClientKind::Codex),
            &["mcp_servers"],
            false,
            "servers of Codex",
        );
    }
    if is_list("mcpServers") {
        return shape_of(
            Some(ClientKind::Continue),
            &["mcpServers"],
            true,
            "servers of Continue",
        );
    }
    if is_map("mcpServers") {
        return match format {
            FileFormat::Yaml => shape_of(
                Some(ClientKind::LibreChat),
                &["mcpServers"],
                false,
                "servers of LibreChat",
            ),
            _ => shape_of(
                None,
                &["mcpServers"],
                false,
                "\"mcpServers\", as most clients have them",
            ),
        };
    }
    if is_map("servers") {
        return shape_of(
            Some(ClientKind::VsCode),
            &["servers"],
            false,
            "servers of VS Code",
        );
    }
    if is_list("servers") {
        return shape_of(None, &["servers"], true, "a list of servers");
    }
    if let Some(mcp) = members.get("mcp").and_then(Value::as_object) {
        let has = |key: &str| mcp.get(key).is_some_and(Value::is_object);
        if has("servers") && !mcp.get("servers").is_some_and(is_entry) {
            return shape_of(
                Some(ClientKind::VsCode),
                &["mcp", "servers"],
                false,
                "settings of VS Code",
            );
        }
        if has("mcpServers") {
            return shape_of(
                None,
                &["mcp", "mcpServers"],
                false,
                "\"mcpServers\", as most clients have them",
            );
        }
        if mcp.values().any(is_entry) {
            return shape_of(
                Some(ClientKind::Opencode),
                &["mcp"],
                false,
                "servers of opencode",
            );
        }
    }
    let extensions = members.get("extensions").and_then(Value::as_object);
    if extensions.is_some_and(|extensions| {
        extensions
            .values()
            .any(|entry| is_of_goose(entry) || is_entry(entry))
    }) {
        return shape_of(
            Some(ClientKind::Goose),
            &["extensions"],
            false,
            "extensions of goose",
        );
    }
    // Some settings have a path as their key: `amp.mcpServers`, `mcp.servers`.
    let ends = |key: &&String| key.ends_with(".mcpServers") || *key == "mcp.servers";
    let flat = members.keys().find(|key| ends(key) && is_map(key))?;
    shape_of(None, &[flat], false, "settings with servers")
}

/// Reads a list of entries that contain their names.
fn of_list(list: Value, format: FileFormat) -> Option<PastedShape> {
    let elements = list.as_array()?;
    if !elements.iter().any(is_entry) {
        // A list may contain one whole file.
        return match list {
            Value::Array(mut elements) if elements.len() == 1 => {
                let only = elements.swap_remove(0);
                only.is_object().then(|| find_at(only, format, 1)).flatten()
            }
            _ => None,
        };
    }
    let (client, words) = match format {
        FileFormat::Yaml => (ClientKind::Continue, "servers of Continue"),
        _ => (guessed(&entries(&list)), "a list of servers"),
    };
    Some(PastedShape {
        client,
        is_certain: false,
        whole: Value::Object(map([("mcpServers", list)])),
        section: section(&["mcpServers"], true),
        words: words.to_owned(),
    })
}

fn section(keys: &[&str], is_list: bool) -> Section {
    Section {
        keys: keys.iter().map(ToString::to_string).collect(),
        is_list,
        project: None,
    }
}

fn entries(value: &Value) -> Vec<&Map<String, Value>> {
    match value {
        Value::Object(members) => members.values().filter_map(Value::as_object).collect(),
        Value::Array(elements) => elements.iter().filter_map(Value::as_object).collect(),
        _ => Vec::new(),
    }
}

fn is_entry(value: &Value) -> bool {
    let Some(members) = value.as_object() else {
        return false;
    };
    let is_reach = |key: &&str| match members.get(*key) {
        Some(Value::String(_)) => true,
        // `command` is an array for opencode, and an object in older versions of Zed.
        Some(Value::Array(words)) => *key == "command" && words.iter().all(Value::is_string),
        Some(Value::Object(inner)) => *key == "command" && inner.contains_key("path"),
        _ => false,
    };
    REACH.iter().any(is_reach)
}

fn is_of_goose(value: &Value) -> bool {
    ["cmd", "uri", "envs", "env_keys"]
        .iter()
        .any(|key| value.get(key).is_some())
}

/// Guesses the client of entries whose shape is common to many clients. The default is Claude Code,
/// because it writes references in the same form as our configuration.
fn guessed(entries: &[&Map<String, Value>]) -> ClientKind {
    let has = |key: &str| entries.iter().any(|entry| entry.contains_key(key));
    if has("cmd") || has("envs") || has("uri") {
        ClientKind::Goose
    } else if has("environment")
        || entries
            .iter()
            .any(|entry| entry.get("command").is_some_and(Value::is_array))
    {
        ClientKind::Opencode
    } else if has("httpUrl") {
        ClientKind::GeminiCli
    } else {
        ClientKind::ClaudeCode
    }
}

impl PastedShape {
    pub fn servers(&self) -> Result<Vec<FoundServer>, NotReadable> {
        let file = ClientFile {
            client: self.client,
            path: PathBuf::new(),
            format: FileFormat::Json,
            scope: FileScope::User,
            is_main: false,
            choices: Vec::new(),
            own_addresses: Vec::new(),
        };
        let mut found = Vec::new();
        read::servers_of(&file, &self.whole, &self.section, &mut found)?;
        read::restrict(&file, &self.whole, &mut found);
        Ok(found)
    }

    /// Converts a server. Its notes are for a person who may not know the client.
    pub fn found(&self, server: FoundServer) -> UnnamedServer {
        let FoundServer {
            label,
            mut entry,
            mut notes,
            ..
        } = server;
        let client_part = entry.shift_remove(&kept_key(self.client));
        let mut lost = Vec::new();
        if let Some(Value::Object(client_part)) = client_part {
            // Skip the name, which is not a part of the entry.
            for (key, value) in client_part.into_iter().filter(|(key, _)| key != "name") {
                let mut of_key = notes.iter().filter(|note| note.key == key);
                // Keep keys without a meaning in the entry. People also have such keys in our file.
                if is_known_key(&key) && of_key.clone().all(|note| note.fate == KeyFate::Kept) {
                    notes.retain(|note| note.key != key);
                    entry.entry(key).or_insert(value);
                } else if of_key.any(|note| note.fate == KeyFate::Kept) {
                    lost.push(shortened(&key));
                }
            }
        }
        let reports = notes.iter().filter(|note| note.fate.is_reported());
        let mut notes: Vec<String> = reports
            .filter(|note| !label.is_empty() || note.key != "name")
            .map(|note| {
                let text = note.text.replace("Claude Code", "a client");
                let text = if self.is_certain { &note.text } else { &text };
                format!("{}: {text}", shortened(&note.key))
            })
            .collect();
        if !lost.is_empty() {
            notes.push(format!(
                "left out, for it means nothing here: {}",
                lost.join(", ")
            ));
        }
        UnnamedServer {
            label: Some(label),
            entry,
            notes,
        }
    }
}
