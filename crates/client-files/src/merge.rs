//! Merges the servers of several clients into one list. Equal servers become one server, and each name is
//! used once.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_config::{adopt, edit::Entry};
use mainstay_core::ids::ServerName;
use serde_json::{Value, json};

use crate::{
    client::ClientKind,
    read::{FoundServer, ImportNote, KeyFate, names},
};

/// A server for the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    pub name: ServerName,
    pub entry: Entry,
    /// The servers that were merged into this one, in the order in which they were found.
    pub sources: Vec<FoundServer>,
    /// Notes about effects of other servers: a changed name, a restriction of another client.
    pub notes: Vec<ImportNote>,
    pub standing: MergeStatus,
}

/// The relation of a server to the current configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStatus {
    New,
    /// The configuration has an equal server, under the same or another name.
    Present,
}

/// Merges servers for a configuration that already has the servers `current`. The result does not contain
/// servers that are left out. A server that is also in `current`, under any name, is
/// [`MergeStatus::Present`].
pub fn merge(servers: &[FoundServer], current: &[(ServerName, Entry)]) -> Vec<Merged> {
    let mut used: BTreeMap<ServerName, Value> = current
        .iter()
        .map(|(name, entry)| (name.clone(), meaning(entry)))
        .collect();
    let mut merged = one_of_each(servers);
    for at in 0..merged.len() {
        let (before, rest) = merged.split_at_mut(at);
        let target = &mut rest[0];
        let server_meaning = meaning(&target.entry);
        let present = used
            .get_key_value(&target.name)
            .filter(|(_, meaning)| **meaning == server_meaning);
        let present =
            present.or_else(|| used.iter().find(|(_, meaning)| **meaning == server_meaning));
        if let Some((name, _)) = present {
            target.name = name.clone();
            target.standing = MergeStatus::Present;
            continue;
        }
        let server = &target.sources[0];
        let name = free_name(server, |name| used.contains_key(name));
        if name != server.name {
            let text = format!(
                "another server is called {} already, so that of {} is called {name}",
                server.name, server.client
            );
            target.notes.push(reported("name", text));
        }
        let mut others = before.iter();
        if let Some(other) = others.find(|other| is_same_switched(&other.entry, &target.entry)) {
            let text = format!(
                "it is the server {} again, which one client has enabled and another has not",
                other.name
            );
            target.notes.push(reported("enabled", text));
        }
        used.insert(name.clone(), server_meaning);
        target.name = name;
    }
    merged
}

/// Returns equal servers once. Servers that differ only in their lists of tools count as equal. The result
/// has the tools that all their clients have.
fn one_of_each(servers: &[FoundServer]) -> Vec<Merged> {
    let mut merged: Vec<Merged> = Vec::new();
    for server in servers.iter().filter(|server| server.left_out.is_none()) {
        let server_meaning = meaning_without(&server.entry, &TOOL_LISTS);
        let equal = merged
            .iter_mut()
            .find(|equal| meaning_without(&equal.entry, &TOOL_LISTS) == server_meaning);
        match equal {
            Some(equal) => {
                keep_notes(&mut equal.entry, &server.entry);
                equal.restrict(server);
                equal.sources.push(server.clone());
            }
            None => merged.push(Merged {
                name: server.name.clone(),
                entry: server.entry.clone(),
                sources: vec![server.clone()],
                notes: Vec::new(),
                standing: MergeStatus::New,
            }),
        }
    }
    merged
}

const ALLOWED: &str = "allowedTools";
const DISABLED: &str = "disabledTools";
const TOOL_LISTS: [&str; 2] = [ALLOWED, DISABLED];

impl Merged {
    /// Removes the tools that the other server's entry does not allow.
    fn restrict(&mut self, server: &FoundServer) {
        let lists = |key: &str| {
            let entries = [&self.entry, &server.entry];
            entries.map(|entry| names(entry.get(key)).map(BTreeSet::from_iter))
        };
        let allowed: [Option<BTreeSet<String>>; 2] = lists(ALLOWED);
        let disabled = lists(DISABLED).map(Option::unwrap_or_default);
        let mut differing = Vec::new();
        if allowed[0] != allowed[1] {
            differing.push(ALLOWED);
            let both = match allowed {
                [Some(ours), Some(other)] => Some(&ours & &other),
                [ours, other] => ours.or(other),
            };
            self.entry.insert(ALLOWED.to_owned(), json!(both));
        }
        if disabled[0] != disabled[1] {
            differing.push(DISABLED);
            let both = &disabled[0] | &disabled[1];
            self.entry.insert(DISABLED.to_owned(), json!(both));
        }
        if differing.is_empty() {
            return;
        }
        let mut clients: Vec<&str> = self
            .sources
            .iter()
            .map(|source| source.client.name())
            .collect();
        clients.push(server.client.name());
        clients.dedup();
        let text = format!(
            "{} restrict its tools differently; all clients have those that none of them refuses",
            clients.join(" and ")
        );
        self.notes.push(reported(&differing.join(", "), text));
    }
}

fn reported(key: &str, text: String) -> ImportNote {
    ImportNote {
        key: key.to_owned(),
        fate: KeyFate::Reported,
        text,
    }
}

/// True if two entries differ at most in tool lists and in the `enabled` switch.
fn is_same_switched(one: &Entry, other: &Entry) -> bool {
    let keys = [&TOOL_LISTS[..], &["enabled"]].concat();
    meaning_without(one, &keys) == meaning_without(other, &keys)
}

/// Like [`meaning`], but without these keys.
fn meaning_without(entry: &Entry, keys: &[&str]) -> Value {
    let mut meaning = meaning(entry);
    if let Some(members) = meaning.as_object_mut() {
        members.retain(|key, _| !keys.contains(&key.as_str()));
    }
    meaning
}

/// Returns a normalised entry without notes. Two entries with equal results start the same server in the
/// same way. The order of members does not matter.
pub fn meaning(entry: &Entry) -> Value {
    let mut plain = Entry::new();
    for (key, value) in entry {
        if key.starts_with(['_', '$']) || key.starts_with("//") || value.is_null() {
            continue;
        }
        let is_default = match key.as_str() {
            "enabled" | "autoStart" => *value == Value::Bool(true),
            "disabled" => *value == Value::Bool(false),
            "args" | "env" | "headers" | "disabledTools" => match value {
                Value::Array(elements) => elements.is_empty(),
                Value::Object(members) => members.is_empty(),
                _ => false,
            },
            // A command implies stdio, so the type adds nothing.
            "type" | "transport" => entry.contains_key("command"),
            "description" | "name" | "title" => true,
            _ => false,
        };
        if is_default {
            continue;
        }
        let (key, value) = match key.as_str() {
            "serverUrl" | "httpUrl" | "remoteUrl" => ("url", value.clone()),
            "disabled" => ("enabled", Value::Bool(false)),
            "transport" => ("type", value.clone()),
            "timeout" => (
                "timeout_s",
                value.as_f64().map_or(Value::Null, |milliseconds| {
                    crate::translate::whole(milliseconds / 1000.0)
                }),
            ),
            key => (key, value.clone()),
        };
        plain.insert(key.to_owned(), value);
    }
    Value::Object(plain)
}

/// Copies the parts of an entry that are kept for clients into an equal entry.
fn keep_notes(entry: &mut Entry, other: &Entry) {
    for client in ClientKind::ALL.into_iter().chain([ClientKind::Unknown]) {
        let key = crate::read::kept_key(client);
        if let Some(value) = other.get(&key) {
            entry.entry(key).or_insert_with(|| value.clone());
        }
    }
}

/// Returns the server's own name. If it is taken, appends its client, its project or a number.
fn free_name(server: &FoundServer, is_taken: impl Fn(&ServerName) -> bool) -> ServerName {
    let project = server.project().and_then(|folder| folder.file_name());
    let project = project.map(|name| name.to_string_lossy().into_owned());
    let name = server.name.as_str();
    let with_client = format!("{name}-{}", server.client.id());
    let candidates = [
        Some(name.to_owned()),
        Some(with_client.clone()),
        project.map(|project| format!("{with_client}-{project}")),
    ];
    let numbered = (2..).map(|number| format!("{with_client}-{number}"));
    candidates
        .into_iter()
        .flatten()
        .chain(numbered)
        .find_map(|candidate| {
            let (name, _) = adopt(&candidate).ok()?;
            (!is_taken(&name)).then_some(name)
        })
        .unwrap_or_else(|| server.name.clone())
}
