//! Builds the entry of Mainstay in a client's file.

use std::path::PathBuf;

use mainstay_config::edit::Entry;
use serde_json::{Value, json};

use crate::{
    client::ClientKind, own_address::LABEL, places::Section, read::FoundServer, translate, write,
};

/// The way in which a client reaches Mainstay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnEntry {
    /// The client starts `mainstay connect`, which needs no token and survives a restart of the daemon.
    Connect {
        /// The absolute path of the program, for clients that do not search a shell's `PATH`.
        program: PathBuf,
        /// True if `mainstay` in a shell's `PATH` is this program.
        is_on_path: bool,
        /// The state directory, if it is not the default.
        home: Option<PathBuf>,
    },
    /// The client reaches the daemon over HTTP.
    Http { url: String },
    /// Like `Http`, with a token.
    HttpWithToken { url: String, token: String },
}

impl OwnEntry {
    /// Returns the entry in the form of our configuration.
    pub fn entry(&self, client: ClientKind) -> Entry {
        let entry = match self {
            Self::Connect {
                program,
                is_on_path,
                home,
            } => {
                let command = if *is_on_path && client.searches_path() {
                    LABEL.to_owned()
                } else {
                    program.to_string_lossy().into_owned()
                };
                let mut entry = json!({"command": command, "args": ["connect"]});
                if let Some(home) = home {
                    entry["env"] = json!({"MAINSTAY_HOME": home.to_string_lossy()});
                }
                entry
            }
            Self::Http { url } => json!({"type": "http", "url": url}),
            Self::HttpWithToken { url, token } => {
                json!({"type": "http", "url": url, "headers": {"Authorization": format!("Bearer {token}")}})
            }
        };
        match entry {
            Value::Object(entry) => entry,
            _ => Entry::new(),
        }
    }
}

/// The time limits of a replaced server, for a call and for its start, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnEntryTimes {
    call: Option<f64>,
    start: Option<f64>,
}

impl OwnEntryTimes {
    pub fn of_server(server: &FoundServer) -> Self {
        // Ignore a time limit for all servers of the file. It also applies to Mainstay's entry.
        let is_own = |key: &str| server.notes.iter().all(|note| note.key != key);
        let number = |key: &str| server.entry.get(key).and_then(Value::as_f64);
        Self {
            call: number("timeout_s").filter(|_| is_own("mcp.timeout.request")),
            start: number("connectTimeoutMs")
                .filter(|_| is_own("mcp.timeout.startup"))
                .map(|milliseconds| milliseconds / 1000.0),
        }
    }
}

/// Builds the entry in the client's form, with the longest time limits of the replaced servers. For a
/// client without HTTP, an HTTP entry is empty apart from its name.
pub(crate) fn entry(
    client: ClientKind,
    label: &str,
    own_entry: &OwnEntry,
    times: &[OwnEntryTimes],
    section: &Section,
) -> Value {
    let mut ours = own_entry.entry(client);
    let all_state = times.iter().all(|server| server.call.is_some());
    let least = if all_state {
        0.0
    } else {
        client.usual_call_limit()
    };
    if let Some(limit) =
        longest(times.iter().map(|server| server.call)).filter(|limit| *limit > least)
    {
        ours.insert("timeout_s".to_owned(), translate::whole(limit));
    }
    if let Some(limit) = longest(times.iter().map(|server| server.start)) {
        ours.insert(
            "connectTimeoutMs".to_owned(),
            translate::whole(limit * 1000.0),
        );
    }
    let written = write::entry_for(client, label, &ours, section);
    written.entry.unwrap_or_default()
}

fn longest(times: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    times.flatten().max_by(f64::total_cmp)
}

/// Returns a name for Mainstay's entry that no other server of the file has.
pub(crate) fn free_label(
    servers: &[FoundServer],
    section: &Section,
    takes_over: impl Fn(&FoundServer) -> bool,
) -> String {
    let is_taken = |label: &str| {
        servers.iter().any(|server| {
            let is_staying = server.left_out.is_some() || !takes_over(server);
            server.label == label && server.section.keys == section.keys && is_staying
        })
    };
    let numbered = (2..).map(|number| format!("{LABEL}-{number}"));
    let mut labels = std::iter::once(LABEL.to_owned()).chain(numbered);
    labels
        .find(|label| !is_taken(label))
        .unwrap_or_else(|| LABEL.to_owned())
}
