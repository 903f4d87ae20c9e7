//! Changes the servers in the text of a client's file. All other bytes stay: comments, order, indentation,
//! line ends, other keys. If that is impossible, the text stays unchanged, and the error contains a block
//! to paste.

mod json;
mod toml;
mod yaml;

use mainstay_config::lines::spliced;
use serde_json::{Map, Value};

use crate::{
    document::{self, MARK, NotReadable, Repeated},
    format::FileFormat,
    own_entry::{self, OwnEntry},
    places::{ClientFile, Section},
    read::{self, ImportNote, LeftOut},
};

/// A change of one server of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryChange {
    /// Sets the entry of a server, translated for the client. A new entry is added at the end.
    Put {
        section: Section,
        label: String,
        entry: Value,
    },
    Remove {
        section: Section,
        label: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error(transparent)]
    NotReadable(#[from] NotReadable),
    /// The text has a form that cannot be changed in place.
    #[error("it cannot be changed in place: {reason}")]
    Unwritable {
        reason: String,
        /// A block that a person can paste into the file, in the file's format.
        block: String,
        /// The servers that a person has to remove by hand.
        remove: Vec<String>,
    },
}

/// The text of a file after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointed {
    pub text: String,
    /// The removed servers, by their names in the file.
    pub removed: Vec<String>,
    /// The name of Mainstay's entry.
    pub label: String,
    /// The reason why Mainstay is excluded by a list of the client.
    pub left_out: Option<ImportNote>,
}

/// Returns the text after these changes. Checks the result by reading it again: it must have the changes,
/// and no other change.
pub fn apply(file: &ClientFile, text: &str, changes: &[EntryChange]) -> Result<String, EditError> {
    let (mark, plain) = match text.strip_prefix(MARK) {
        Some(plain) => (true, plain),
        None => (false, text),
    };
    let before = document::value(file.format, plain)?;
    let after = expected(&before, changes)?;
    let unwritable = |reason: String| EditError::Unwritable {
        reason,
        block: block(file.format, changes),
        remove: removed(changes),
    };
    let repeated = document::repeated_keys(file.format, plain);
    let mut repetitions = changes.iter();
    if let Some(reason) = repetitions.find_map(|change| repetition(change, &before, &repeated)) {
        return Err(unwritable(reason));
    }
    let normal = plain.replace("\r\n", "\n");
    let edited = match file.format {
        FileFormat::Json => json::apply(&normal, changes),
        FileFormat::Toml => toml::apply(&normal, changes),
        FileFormat::Yaml => yaml::apply(&normal, changes),
    };
    let edited = edited.map_err(unwritable)?;
    let edited = spliced(plain, &edited);
    match document::value(file.format, &edited) {
        Ok(found) if is_same(&found, &after) => {
            // Compare duplicate keys separately, because a parsed value does not contain them.
            let left = document::repeated_keys(file.format, &edited);
            if !left
                .iter()
                .map(|key| &key.path)
                .eq(repeated.iter().map(|key| &key.path))
            {
                return Err(unwritable(
                    "a key that stands twice would be lost".to_owned(),
                ));
            }
        }
        Ok(_) => return Err(unwritable("more than its servers would change".to_owned())),
        Err(error) => return Err(unwritable(error.to_string())),
    }
    Ok(if mark {
        format!("{MARK}{edited}")
    } else {
        edited
    })
}

/// Describes a duplicate key at, above or below the place of a change. The change would lose one of the
/// two values.
fn repetition(change: &EntryChange, whole: &Value, repeated: &[Repeated]) -> Option<String> {
    let (EntryChange::Put { section, label, .. } | EntryChange::Remove { section, label }) = change;
    if let Some(Value::Array(elements)) = section.value(whole) {
        let named = |element: &&Value| element.get("name").and_then(Value::as_str) == Some(label);
        let is_twice = elements.iter().filter(named).count() > 1;
        let place = section.keys.join(".");
        return is_twice.then(|| format!("`{label}` stands twice in `{place}`"));
    }
    let mut path = section.keys.clone();
    path.push(label.clone());
    let found = repeated
        .iter()
        .find(|key| path.starts_with(&key.path) || key.path.starts_with(&path))?;
    Some(found.to_string())
}

/// Makes the client use Mainstay. Puts Mainstay's entry where the client itself adds servers. Removes the
/// servers for which `takes_over` returns true, in projects as well. The other servers stay. A second run
/// changes nothing.
pub fn point_at_mainstay(
    file: &ClientFile,
    text: &str,
    own_entry: &OwnEntry,
    takes_over: impl Fn(&read::FoundServer) -> bool,
) -> Result<Pointed, EditError> {
    let whole = document::value(file.format, text)?;
    let servers = read::servers(file, text)?;
    let sections = file.sections(&whole);
    let section = sections.first().cloned().unwrap_or_else(|| Section {
        keys: vec!["mcpServers".to_owned()],
        is_list: false,
        project: None,
    });
    let is_ours = |server: &&read::FoundServer| {
        server.left_out == Some(LeftOut::Mainstay) && server.section.keys == section.keys
    };
    let present_label = servers
        .iter()
        .find(is_ours)
        .map(|server| server.label.clone());
    let label =
        present_label.unwrap_or_else(|| own_entry::free_label(&servers, &section, &takes_over));
    let mut changes = Vec::new();
    let mut removed = Vec::new();
    // The time limits of each server that Mainstay replaces.
    let mut times = Vec::new();
    for server in &servers {
        let is_removed = match &server.left_out {
            None => takes_over(server),
            Some(reason) => !reason.stays_in_file(),
        };
        let is_it = server.label == label && server.section.keys == section.keys;
        if is_it || is_removed && server.left_out.is_none() {
            times.push(own_entry::OwnEntryTimes::of_server(server));
        }
        if is_removed && !is_it {
            if server.left_out.is_none() {
                removed.push(server.label.clone());
            }
            changes.push(EntryChange::Remove {
                section: server.section.clone(),
                label: server.label.clone(),
            });
        }
    }
    let left_out = read::left_out_by_list(file, &whole, &section, &label);
    changes.insert(
        0,
        EntryChange::Put {
            entry: own_entry::entry(file.client, &label, own_entry, &times, &section),
            label: label.clone(),
            section,
        },
    );
    let text = apply(file, text, &changes)?;
    Ok(Pointed {
        text,
        removed,
        label,
        left_out,
    })
}

/// Removes the entries of Mainstay. Returns `None` if there are none.
pub fn remove_mainstay(file: &ClientFile, text: &str) -> Result<Option<String>, EditError> {
    let servers = read::servers(file, text)?.into_iter();
    let ours = servers.filter(|server| server.left_out == Some(LeftOut::Mainstay));
    let changes: Vec<EntryChange> = ours
        .map(|server| EntryChange::Remove {
            section: server.section,
            label: server.label,
        })
        .collect();
    if changes.is_empty() {
        return Ok(None);
    }
    apply(file, text, &changes).map(Some)
}

/// Computes the value that the changed file must have.
pub(crate) fn expected(before: &Value, changes: &[EntryChange]) -> Result<Value, NotReadable> {
    let mut after = before.clone();
    for change in changes {
        let (EntryChange::Put { section, .. } | EntryChange::Remove { section, .. }) = change;
        let not_there = || NotReadable::NoServers(section.keys.join("."));
        let mut place = &mut after;
        for (depth, key) in section.keys.iter().enumerate() {
            let is_last = depth + 1 == section.keys.len();
            let members = place.as_object_mut().ok_or_else(not_there)?;
            let next = members.entry(key.clone()).or_insert(Value::Null);
            if next.is_null() {
                *next = if is_last && section.is_list {
                    Value::Array(Vec::new())
                } else {
                    Value::Object(Map::new())
                };
            }
            place = next;
        }
        let named = |label: &str| {
            let label = label.to_owned();
            move |element: &Value| element.get("name").and_then(Value::as_str) == Some(&label)
        };
        match (change, place) {
            (EntryChange::Put { label, entry, .. }, Value::Object(members)) => {
                members.insert(label.clone(), entry.clone());
            }
            (EntryChange::Put { label, entry, .. }, Value::Array(elements)) => {
                match elements.iter_mut().find(|element| named(label)(element)) {
                    Some(element) => *element = entry.clone(),
                    None => elements.push(entry.clone()),
                }
            }
            (EntryChange::Remove { label, .. }, Value::Object(members)) => {
                members.shift_remove(label);
            }
            (EntryChange::Remove { label, .. }, Value::Array(elements)) => {
                let is_it = named(label);
                elements.retain(|element| !is_it(element));
            }
            _ => return Err(not_there()),
        }
    }
    Ok(after)
}

/// Compares two values. An empty object or list may also be absent.
pub(crate) fn is_same(found: &Value, expected: &Value) -> bool {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    };
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let has = |key: &String, value: &Value, other: &Map<String, Value>| match other.get(key)
            {
                Some(other) => is_same(other, value),
                None => is_nothing(value),
            };
            expected.iter().all(|(key, value)| has(key, value, found))
                && found.iter().all(|(key, value)| has(key, value, expected))
        }
        (found, expected) => found == expected || is_nothing(found) && is_nothing(expected),
    }
}

/// Writes the entries of these changes as the text of a file, or for a person to paste.
pub fn block(format: FileFormat, changes: &[EntryChange]) -> String {
    let mut whole = Value::Object(Map::new());
    let puts: Vec<EntryChange> = changes
        .iter()
        .filter(|change| matches!(change, EntryChange::Put { .. }))
        .cloned()
        .collect();
    if let Ok(value) = expected(&whole, &puts) {
        whole = value;
    }
    written(format, &whole)
}

/// Writes the value in this format, readable for people.
fn written(format: FileFormat, value: &Value) -> String {
    match format {
        FileFormat::Json => format!("{value:#}\n"),
        FileFormat::Toml => toml::written(value),
        FileFormat::Yaml => yaml::written(value),
    }
}

fn removed(changes: &[EntryChange]) -> Vec<String> {
    let removed = changes.iter().filter_map(|change| match change {
        EntryChange::Remove { label, .. } => Some(label.clone()),
        EntryChange::Put { .. } => None,
    });
    removed.collect()
}
