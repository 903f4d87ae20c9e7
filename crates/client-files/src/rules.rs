//! What a client refuses, or asks before, of the tools of a server, beside the server's own entry: in the
//! client's file, or in another one. Behind Mainstay the tools have other names there, which these rules do
//! not fit.

mod apply;
mod clients;
mod names;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    client::Client,
    own_address::LABEL,
    places::{ClientFile, Scope},
    read::{Fate, Note, Server},
};

pub(crate) use apply::apply;
pub(crate) use clients::KEYS;

/// What a rule does. The last one is the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Allowed,
    /// The client asks a person before each call. Or it is some other rule that Mainstay cannot keep.
    Asked,
    Refused,
}

/// The tools of its server for which a rule holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tools {
    All,
    /// The one of this name.
    One(String),
    /// Those whose names fit. The pattern is what is left behind the server's name.
    Pattern(String),
}

/// Where a rule holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Everywhere,
    /// In the project in this folder.
    Project(PathBuf),
    /// In a part of the client: `the agent reviewer`.
    Part(String),
}

/// A rule of a client about the tools of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The file that has it, where it is not the file of the server.
    file: Option<PathBuf>,
    key: String,
    /// As it stands in the file.
    text: String,
    /// The server's name in the client's file.
    server: String,
    tools: Tools,
    effect: Effect,
    place: Place,
    /// Whether it fits the tools behind Mainstay as well.
    holds_behind: bool,
}

impl Rule {
    /// Whether it holds wherever the client has this server.
    fn is_whole(&self, server: &Server) -> bool {
        match &self.place {
            Place::Everywhere => true,
            Place::Project(folder) => server.project() == Some(folder),
            Place::Part(_) => false,
        }
    }
}

/// A file with rules.
struct Source<'a> {
    /// `None` for the file of the servers.
    file: Option<&'a Path>,
    whole: &'a Value,
    place: Place,
}

fn place_of(scope: &Scope) -> Place {
    match scope {
        Scope::User => Place::Everywhere,
        Scope::Project(folder) => Place::Project(folder.clone()),
    }
}

/// The rules about these servers, in the order in which they count: the last one that fits does.
pub(crate) fn of_servers(file: &ClientFile, whole: &Value, servers: &[Server]) -> Vec<Rule> {
    let mut sources: Vec<Source<'_>> = file
        .choices
        .iter()
        .map(|choices| Source {
            file: Some(&choices.path),
            whole: &choices.whole,
            place: place_of(&choices.scope),
        })
        .collect();
    sources.push(Source {
        file: None,
        whole,
        place: place_of(&file.scope),
    });
    // What a project says counts more than what its user says.
    sources.sort_by_key(|source| source.place != Place::Everywhere);
    let mut rules = Vec::new();
    for source in &sources {
        clients::read(file, source, servers, &mut rules);
    }
    if clients::strictest_counts(file.client) {
        rules.sort_by_key(|rule| rule.effect);
    }
    rules
}

/// How a list of the client leaves out a server that is put into its file. The client then has nothing of
/// it.
pub(crate) fn leaving_out(file: &ClientFile, whole: &Value, server: &Server) -> Option<Note> {
    let mut rules = of_servers(file, whole, std::slice::from_ref(server));
    let default = clients::default_profile(file, whole);
    for rule in &mut rules {
        if default.as_ref().is_some_and(|it| rule.place == *it) {
            rule.place = Place::Everywhere;
        }
    }
    let rule = apply::refusal(server, &rules)?;
    let list = match &rule.file {
        None => "this list".to_owned(),
        Some(file) => format!("this list of {}", file.display()),
    };
    let (client, label) = (file.client, &server.label);
    let mend = clients::mend(client, rule, label);
    Some(Note {
        key: rule.key.clone(),
        fate: Fate::Reported,
        text: format!("{client} leaves {label} out by {list}, and has none of its tools: {mend}"),
    })
}

/// What the client calls a tool of this server of Mainstay. A tool that is not known is `TOOL`.
fn behind(client: Client, server: &str, tool: &str) -> String {
    let tool = format!("{server}__{tool}");
    match client {
        Client::ClaudeCode | Client::QwenCode => format!("mcp__{LABEL}__{tool}"),
        Client::GeminiCli => format!("mcp_{LABEL}_{tool}"),
        Client::Opencode | Client::KiloCli => format!("{LABEL}_{tool}"),
        Client::Zed => format!("mcp:{LABEL}:{tool}"),
        Client::Cursor => format!("Mcp({LABEL}:{tool})"),
        Client::Codex => format!("mcp_servers.{LABEL}.tools.{tool}"),
        Client::Kiro | Client::AmazonQ => format!("@{LABEL}/{tool}"),
        _ => format!("{tool} of {LABEL}"),
    }
}
