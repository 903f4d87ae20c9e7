//! The entry that makes a client talk to Mainstay.

use std::path::PathBuf;

use mainstay_config::edit::Entry;
use serde_json::{Value, json};

use crate::{
    client::Client, own_address::LABEL, places::Section, read::FoundServer, translate, write,
};

/// How a client reaches Mainstay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Front {
    /// The client starts `mainstay connect`, which needs no token and outlives a restart of the daemon.
    Connect {
        /// The absolute path of the program, for clients that do not search the `PATH` of a shell.
        program: PathBuf,
        /// Whether `mainstay` leads to it in the `PATH` of a shell.
        is_on_path: bool,
        /// The state directory, where it is not the usual one.
        home: Option<PathBuf>,
    },
    /// The client asks the daemon over HTTP.
    Http { url: String },
    /// The same with a token.
    HttpWithToken { url: String, token: String },
}

impl Front {
    /// Our own entry of it.
    pub fn entry(&self, client: Client) -> Entry {
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

/// The times in seconds that a server in whose place Mainstay stands has for a call and for its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrontTimes {
    call: Option<f64>,
    start: Option<f64>,
}

impl FrontTimes {
    pub fn of_server(server: &FoundServer) -> Self {
        // A time above the servers holds for Mainstay's entry as well.
        let is_own = |key: &str| server.notes.iter().all(|note| note.key != key);
        let number = |key: &str| server.entry.get(key).and_then(Value::as_f64);
        Self {
            call: number("timeout_s").filter(|_| is_own("mcp.timeout.request")),
            start: number("connectTimeoutMs")
                .filter(|_| is_own("mcp.timeout.startup"))
                .map(|it| it / 1000.0),
        }
    }
}

/// The entry in the client's words. A client without HTTP gets nothing but its name. It has the longest times
/// of the servers in whose place it stands.
pub(crate) fn entry(
    client: Client,
    label: &str,
    front: &Front,
    times: &[FrontTimes],
    section: &Section,
) -> Value {
    let mut ours = front.entry(client);
    let all_state = times.iter().all(|it| it.call.is_some());
    let least = if all_state {
        0.0
    } else {
        client.usual_call_limit()
    };
    if let Some(limit) = longest(times.iter().map(|it| it.call)).filter(|it| *it > least) {
        ours.insert("timeout_s".to_owned(), translate::whole(limit));
    }
    if let Some(limit) = longest(times.iter().map(|it| it.start)) {
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

/// A name that no other server of the file has.
pub(crate) fn free_label(
    servers: &[FoundServer],
    section: &Section,
    takes: impl Fn(&FoundServer) -> bool,
) -> String {
    let is_taken = |label: &str| {
        servers.iter().any(|server| {
            let stays = server.left_out.is_some() || !takes(server);
            server.label == label && server.section.keys == section.keys && stays
        })
    };
    let numbered = (2..).map(|number| format!("{LABEL}-{number}"));
    let mut labels = std::iter::once(LABEL.to_owned()).chain(numbered);
    labels
        .find(|label| !is_taken(label))
        .unwrap_or_else(|| LABEL.to_owned())
}
