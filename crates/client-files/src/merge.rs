//! Makes one list of the servers of several clients: equal ones become one, and names stay apart.

use std::collections::BTreeMap;

use mainstay_core::{
    config::{adopt, edit::Entry},
    ids::ServerName,
};
use serde_json::Value;

use crate::{
    client::Client,
    read::{Fate, Note, Server},
};

/// A server as the configuration is to have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    pub name: ServerName,
    pub entry: Entry,
    /// Where it comes from, in the order in which they were given.
    pub sources: Vec<Server>,
    /// What follows from the others: a name that had to change.
    pub notes: Vec<Note>,
    pub standing: Standing,
}

/// How a server stands to the configuration that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    New,
    /// The configuration has a server that means the same, under this name or another.
    Present,
}

/// The servers for our configuration, which has `known` already. Servers that are left out are not among
/// them. A server that is known, under whatever name, is [`Standing::Present`].
pub fn merge(servers: &[Server], known: &[(ServerName, Entry)]) -> Vec<Merged> {
    let mut merged: Vec<Merged> = Vec::new();
    let mut taken: BTreeMap<ServerName, Value> = known
        .iter()
        .map(|(name, entry)| (name.clone(), meaning(entry)))
        .collect();
    for server in servers.iter().filter(|server| server.left_out.is_none()) {
        let own = meaning(&server.entry);
        if let Some(equal) = merged.iter_mut().find(|it| meaning(&it.entry) == own) {
            keep_notes(&mut equal.entry, &server.entry);
            equal.sources.push(server.clone());
            continue;
        }
        let present = taken
            .get_key_value(&server.name)
            .filter(|(_, it)| **it == own);
        let present = present.or_else(|| taken.iter().find(|(_, it)| **it == own));
        if let Some((name, _)) = present {
            merged.push(Merged {
                name: name.clone(),
                entry: server.entry.clone(),
                sources: vec![server.clone()],
                notes: Vec::new(),
                standing: Standing::Present,
            });
            continue;
        }
        let name = free_name(server, |name| taken.contains_key(name));
        let mut notes = Vec::new();
        if name != server.name {
            notes.push(Note {
                key: "name".to_owned(),
                fate: Fate::Reported,
                text: format!(
                    "another server is called {} already, so that of {} is called {name}",
                    server.name, server.client
                ),
            });
        }
        taken.insert(name.clone(), own);
        merged.push(Merged {
            name,
            entry: server.entry.clone(),
            sources: vec![server.clone()],
            notes,
            standing: Standing::New,
        });
    }
    merged
}

/// An entry without notes, in one spelling: two of equal meaning start the same server in the same way.
/// The order of members does not count.
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
            // A command is stdio.
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
                value
                    .as_f64()
                    .map_or(Value::Null, |it| crate::translate::whole(it / 1000.0)),
            ),
            key => (key, value.clone()),
        };
        plain.insert(key.to_owned(), value);
    }
    Value::Object(plain)
}

/// What an entry keeps for its client is kept in the equal entry, too.
fn keep_notes(entry: &mut Entry, other: &Entry) {
    for client in Client::ALL.into_iter().chain([Client::Unknown]) {
        let key = crate::read::kept_key(client);
        if let Some(value) = other.get(&key) {
            entry.entry(key).or_insert_with(|| value.clone());
        }
    }
}

/// The server's own name, or one with its client's, its project's, or a number behind it.
fn free_name(server: &Server, is_taken: impl Fn(&ServerName) -> bool) -> ServerName {
    let project = server.project().and_then(|it| it.file_name());
    let project = project.map(|it| it.to_string_lossy().into_owned());
    let name = server.name.as_str();
    let with_client = format!("{name}-{}", server.client.id());
    let candidates = [
        Some(name.to_owned()),
        Some(with_client.clone()),
        project.map(|project| format!("{with_client}-{project}")),
    ];
    let numbered = (2..).map(|number| format!("{with_client}-{number}"));
    let mut candidates = candidates.into_iter().flatten().chain(numbered);
    candidates
        .find_map(|candidate| {
            let (name, _) = adopt(&candidate).ok()?;
            (!is_taken(&name)).then_some(name)
        })
        .unwrap_or_else(|| server.name.clone())
}
