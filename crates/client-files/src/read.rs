//! Reads the servers of a client's file. Each server becomes an entry of our configuration. A note for
//! every key says whether it was honoured, kept or reported.

use std::path::{Path, PathBuf};

use mainstay_config::{adopt, edit::Entry};
use mainstay_core::ids::ServerName;
use serde_json::{Map, Value};

use crate::{
    client::ClientKind,
    document::{self, NotReadable, Repeated},
    own_address::is_mainstay,
    places::{ClientFile, Section},
    rules, translate,
};

/// The result of importing a key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFate {
    /// The entry of Mainstay has a setting with the same meaning.
    Honoured,
    /// Only the client understands the key. Mainstay's entry keeps the key under `_CLIENT`, where it has
    /// no effect. An export to this client writes it back.
    Kept,
    /// The key is not translated, or not completely. A person has to know.
    Reported,
    /// The server needs the key, and Mainstay has no equivalent. A person has to know. The server stays
    /// with its client if it works there.
    Unsupported,
}

impl KeyFate {
    /// True if a person has to know about the key.
    pub fn is_reported(self) -> bool {
        matches!(self, Self::Reported | Self::Unsupported)
    }
}

/// A note about the import of a key. A key may have several notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportNote {
    /// The key of the client's entry, or `name` for the server's own name.
    pub key: String,
    pub fate: KeyFate,
    /// A sentence without a full stop. Empty if the key is honoured without remarks. Never contains a
    /// secret.
    pub text: String,
}

/// The reason why Mainstay does not import a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    #[error("it is Mainstay itself")]
    Mainstay,
    #[error("{0}")]
    NoServer(String),
    /// A part of the entry that decides what runs cannot be read: arguments, variables, headers or a
    /// switch. Without this part, Mainstay would run another server, or a server that is off in its
    /// client.
    #[error("its entry cannot be read: {0}")]
    NotUnderstood(String),
}

impl LeftOut {
    /// True if the entry stays in its client's file when Mainstay replaces the servers there.
    pub fn stays_in_file(&self) -> bool {
        !matches!(self, Self::Mainstay)
    }
}

/// A server of a client, in the form of our configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundServer {
    pub client: ClientKind,
    pub file: PathBuf,
    /// The place of the server in the file.
    pub section: Section,
    /// The name of the server in the file.
    pub label: String,
    /// A legal name for the server in Mainstay.
    pub name: ServerName,
    /// The entry for our configuration.
    pub entry: Entry,
    pub notes: Vec<ImportNote>,
    pub left_out: Option<LeftOut>,
}

impl FoundServer {
    pub(crate) fn note(&mut self, key: &str, fate: KeyFate, text: String) {
        self.notes.push(ImportNote {
            key: key.to_owned(),
            fate,
            text,
        });
    }

    /// The notes that a person has to know about.
    pub fn reports(&self) -> impl Iterator<Item = &ImportNote> {
        self.notes.iter().filter(|note| note.fate.is_reported())
    }

    /// The notes about what the server needs and Mainstay does not support.
    pub fn unsupported(&self) -> impl Iterator<Item = &ImportNote> {
        self.notes
            .iter()
            .filter(|note| note.fate == KeyFate::Unsupported)
    }

    /// True if Mainstay can run the server instead of its client.
    pub fn is_movable(&self) -> bool {
        self.left_out.is_none() && self.unsupported().next().is_none()
    }

    /// The project of the server. `None` if the server is for all projects.
    pub fn project(&self) -> Option<&Path> {
        self.section.project.as_deref()
    }
}

/// Reads the servers of this text, in the order of the text.
pub fn servers(file: &ClientFile, text: &str) -> Result<Vec<FoundServer>, NotReadable> {
    let whole = document::value(file.format, text)?;
    let mut found = unrestricted(file, &whole, text)?;
    restrict(file, &whole, &mut found);
    Ok(found)
}

/// Reads the servers from their entries alone, without the client's rules.
pub(crate) fn unrestricted(
    file: &ClientFile,
    whole: &Value,
    text: &str,
) -> Result<Vec<FoundServer>, NotReadable> {
    let mut found = Vec::new();
    for mut section in file.sections(whole) {
        if section.project.is_none() {
            section.project = file.project().map(Path::to_owned);
        }
        servers_of(file, whole, &section, &mut found)?;
    }
    let repeated = document::repeated_keys(file.format, text);
    for server in &mut found {
        if server.left_out.is_none() {
            server.left_out = repetition(server, &repeated).map(LeftOut::NotUnderstood);
        }
    }
    Ok(found)
}

/// Applies the client's rules about its servers.
pub(crate) fn restrict(file: &ClientFile, whole: &Value, servers: &mut [FoundServer]) {
    let rules = rules::of_servers(file, whole, servers);
    let is_usable = |server: &&mut FoundServer| server.left_out.is_none();
    for server in servers.iter_mut().filter(is_usable) {
        rules::apply(server, &rules);
        if rules::has_agents(file.client) && !is_list_or_nothing(whole.get("tools")) {
            let reason = "`tools` of the agent: expected a list of texts".to_owned();
            server.left_out = Some(LeftOut::NotUnderstood(reason));
        }
    }
}

fn is_list_or_nothing(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_null() || value.is_array())
}

/// Describes a duplicate key in the server's entry or above it.
fn repetition(server: &FoundServer, repeated: &[Repeated]) -> Option<String> {
    let mut server_path = server.section.keys.clone();
    server_path.push(server.label.clone());
    repeated.iter().find_map(|Repeated { path, .. }| {
        if let Some(below) = path.strip_prefix(&server_path[..]) {
            return Some(match below {
                [] => "its name stands twice".to_owned(),
                below => format!("`{}` stands twice", below.join(".")),
            });
        }
        let above = server_path.starts_with(path);
        above.then(|| format!("`{}` stands twice", path.join(".")))
    })
}

/// Adds the servers of one section.
pub(crate) fn servers_of(
    file: &ClientFile,
    whole: &Value,
    section: &Section,
    found: &mut Vec<FoundServer>,
) -> Result<(), NotReadable> {
    let Some(value) = section.value(whole).filter(|value| !value.is_null()) else {
        return Ok(());
    };
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(label, entry)| (label.clone(), entry))
            .collect(),
        Value::Array(elements) => elements
            .iter()
            .map(|entry| {
                let label = entry.get("name").and_then(Value::as_str);
                (label.unwrap_or_default().to_owned(), entry)
            })
            .collect(),
        _ => return Err(NotReadable::NoServers(section.keys.join("."))),
    };
    let counts_seconds = translate::counts_seconds(value);
    for (label, entry) in entries {
        found.push(server(file, section, whole, label, entry, counts_seconds));
    }
    Ok(())
}

fn server(
    file: &ClientFile,
    section: &Section,
    whole: &Value,
    label: String,
    entry: &Value,
    counts_seconds: bool,
) -> FoundServer {
    let (name, mut notes) = name_of(&label);
    let mut server = FoundServer {
        client: file.client,
        file: file.path.clone(),
        section: section.clone(),
        name,
        entry: Entry::new(),
        notes: Vec::new(),
        left_out: None,
        label,
    };
    match entry {
        Value::Object(members) => {
            let folder = file.path.parent().unwrap_or(Path::new(""));
            let read =
                translate::read(file.client, members, whole, section, counts_seconds, folder);
            notes.extend(read.notes);
            server.entry = read.entry;
            server.left_out = read.left_out;
        }
        other => {
            let kind = match other {
                Value::String(_) => "a text",
                Value::Array(_) => "a list",
                Value::Null => "nothing",
                _ => "a single value",
            };
            server.left_out = Some(LeftOut::NoServer(format!("it is {kind}, not an object")));
        }
    }
    if server.client == ClientKind::Kiro && server.section.keys.len() > 1 {
        server.left_out = Some(LeftOut::NoServer("a power of Kiro starts it".to_owned()));
    }
    if server.left_out.is_none() && is_mainstay(&server.entry, &file.own_addresses) {
        server.left_out = Some(LeftOut::Mainstay);
    }
    if let ([_, folder, _], None) = (server.section.keys.as_slice(), &server.left_out) {
        notes.push(ImportNote {
            key: "projects".to_owned(),
            fate: KeyFate::Reported,
            text: format!(
                "{} has it in {folder} only, and Mainstay everywhere",
                server.client
            ),
        });
    }
    server.notes = notes;
    server
}

/// Derives a legal server name from a name in a client's file. Returns a note if the name has changed.
fn name_of(label: &str) -> (ServerName, Vec<ImportNote>) {
    let report = |text| {
        vec![ImportNote {
            key: "name".to_owned(),
            fate: KeyFate::Reported,
            text,
        }]
    };
    match adopt(label) {
        Ok((name, None)) => (name, Vec::new()),
        Ok((name, Some(_))) => {
            let text = format!("{label:?} is called {name} here");
            (name, report(text))
        }
        Err(_) => {
            let (name, _) = adopt("server").unwrap_or_else(|_| unreachable!("a legal name"));
            (
                name,
                report("it has no name, and is called server here".to_owned()),
            )
        }
    }
}

/// The reason why a list in the file would exclude a server that is added to the file. The client then has
/// no tools of the server.
pub fn left_out_by_list(
    file: &ClientFile,
    whole: &Value,
    section: &Section,
    label: &str,
) -> Option<ImportNote> {
    let (name, _) = name_of(label);
    let server = FoundServer {
        client: file.client,
        file: file.path.clone(),
        section: section.clone(),
        label: label.to_owned(),
        name,
        entry: Entry::new(),
        notes: Vec::new(),
        left_out: None,
    };
    rules::leaving_out(file, whole, &server)
}

pub(crate) fn names(list: Option<&Value>) -> Option<Vec<String>> {
    let list = list?.as_array()?.iter();
    Some(list.filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The key in our entry for the part that only this client understands.
pub(crate) fn kept_key(client: ClientKind) -> String {
    format!("_{}", client.id())
}

/// The part of our entry that only this client understands.
pub(crate) fn kept_members(entry: &Entry, client: ClientKind) -> Option<&Map<String, Value>> {
    entry.get(&kept_key(client))?.as_object()
}
