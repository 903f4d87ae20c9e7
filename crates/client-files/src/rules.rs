//! Rules of a client about the tools of its servers: which of them it refuses, and before which it asks. They
//! stand beside the servers' entries, or in another file. The client has other names for tools behind Mainstay,
//! which these rules do not fit.

mod apply;
mod clients;
mod names;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    client::Client,
    own_address::LABEL,
    places::{ClientFile, FileScope},
    read::{FoundServer, ImportNote, KeyFate},
};

pub(crate) use apply::apply;
pub(crate) use clients::{KEYS, MANAGED_SERVERS, has_agents};

/// The effect of a rule. The last one is the strictest.
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
enum RuleScope {
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
    place: RuleScope,
    /// Whether it fits the tools behind Mainstay as well.
    holds_behind: bool,
}

impl Rule {
    /// Whether it holds wherever the client has this server.
    fn is_whole(&self, server: &FoundServer) -> bool {
        match &self.place {
            RuleScope::Everywhere => true,
            RuleScope::Project(folder) => server.project() == Some(folder),
            RuleScope::Part(_) => false,
        }
    }
}

/// A file with rules.
struct RulesFile<'a> {
    /// `None` for the file of the servers.
    file: Option<&'a Path>,
    whole: &'a Value,
    place: RuleScope,
}

fn place_of(scope: &FileScope) -> RuleScope {
    match scope {
        FileScope::User => RuleScope::Everywhere,
        FileScope::Project(folder) => RuleScope::Project(folder.clone()),
    }
}

/// The rules about these servers, in the order in which they count: the last one that fits does.
pub(crate) fn of_servers(file: &ClientFile, whole: &Value, servers: &[FoundServer]) -> Vec<Rule> {
    let mut sources: Vec<RulesFile<'_>> = file
        .choices
        .iter()
        .map(|choices| RulesFile {
            file: Some(&choices.path),
            whole: &choices.whole,
            place: place_of(&choices.scope),
        })
        .collect();
    sources.push(RulesFile {
        file: None,
        whole,
        place: place_of(&file.scope),
    });
    // A project counts more than its user.
    sources.sort_by_key(|source| source.place != RuleScope::Everywhere);
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
pub(crate) fn leaving_out(
    file: &ClientFile,
    whole: &Value,
    server: &FoundServer,
) -> Option<ImportNote> {
    let mut rules = of_servers(file, whole, std::slice::from_ref(server));
    let default = clients::default_profile(file, whole);
    for rule in &mut rules {
        if default.as_ref().is_some_and(|it| rule.place == *it) {
            rule.place = RuleScope::Everywhere;
        }
    }
    let rule = apply::refusal(server, &rules)?;
    let list = match &rule.file {
        None => "this list".to_owned(),
        Some(file) => format!("this list of {}", file.display()),
    };
    let (client, label) = (file.client, &server.label);
    let mend = clients::mend(client, rule, label);
    Some(ImportNote {
        key: rule.key.clone(),
        fate: KeyFate::Reported,
        text: format!("{client} leaves {label} out by {list}, and has none of its tools: {mend}"),
    })
}

/// The client's name for a tool that this server has behind Mainstay. `TOOL` stands for any.
fn behind(client: Client, server: &str, tool: &str) -> String {
    let tool = format!("{server}__{tool}");
    match client {
        Client::ClaudeCode | Client::QwenCode => format!("mcp__{LABEL}__{tool}"),
        Client::GeminiCli | Client::Crush => format!("mcp_{LABEL}_{tool}"),
        Client::Goose => format!("{LABEL}__{tool}"),
        Client::Opencode | Client::KiloCli => format!("{LABEL}_{tool}"),
        Client::Zed => format!("mcp:{LABEL}:{tool}"),
        Client::Cursor => format!("Mcp({LABEL}:{tool})"),
        Client::Codex => format!("mcp_servers.{LABEL}.tools.{tool}"),
        Client::Kiro | Client::AmazonQ => format!("@{LABEL}/{tool}"),
        _ => format!("{tool} of {LABEL}"),
    }
}
