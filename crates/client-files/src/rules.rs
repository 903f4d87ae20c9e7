//! Rules of a client about the tools of its servers. A rule may refuse a tool, or make the client ask a
//! person before a call. Rules are outside of the servers' entries, or in another file. Behind Mainstay the
//! tools have other names in the client, so these rules no longer match.

mod apply;
mod clients;
mod names;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    client::ClientKind,
    own_address::LABEL,
    places::{ClientFile, FileScope},
    read::{FoundServer, ImportNote, KeyFate},
};

pub(crate) use apply::apply;
pub(crate) use clients::{KEYS, MANAGED_SERVERS, has_agents};

/// The effect of a rule, ordered from the mildest to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Allowed,
    /// The client asks a person before each call. Also stands for other rules that Mainstay cannot express.
    Asked,
    Refused,
}

/// The tools of a server to which a rule applies.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tools {
    All,
    /// The tool of this name.
    One(String),
    /// All tools whose names match. The pattern is the text after the server's name.
    Pattern(String),
}

/// The part of a client in which a rule applies.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RuleScope {
    Everywhere,
    /// The project in this folder.
    Project(PathBuf),
    /// A part of the client: `the agent reviewer`.
    Part(String),
}

/// A rule of a client about the tools of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The file of the rule, if it is not the file of the server.
    file: Option<PathBuf>,
    key: String,
    /// The text of the rule in the file.
    text: String,
    /// The server's name in the client's file.
    server: String,
    tools: Tools,
    effect: Effect,
    place: RuleScope,
    /// True if the rule also matches the tools behind Mainstay.
    holds_behind: bool,
}

impl Rule {
    /// True if the rule applies wherever the client uses this server.
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
    /// The path of the file. `None` for the file of the servers.
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

/// The rules about these servers, in order of precedence: the last rule that matches decides.
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
    // Put rules of a project last, because they override those of the user.
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

/// Describes the list of the client that excludes this server. The client then has no tools of the server.
pub(crate) fn leaving_out(
    file: &ClientFile,
    whole: &Value,
    server: &FoundServer,
) -> Option<ImportNote> {
    let mut rules = of_servers(file, whole, std::slice::from_ref(server));
    let default = clients::default_profile(file, whole);
    for rule in &mut rules {
        if default.as_ref().is_some_and(|place| rule.place == *place) {
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

/// The name in the client of a tool of this server behind Mainstay. `TOOL` stands for any tool.
fn behind(client: ClientKind, server: &str, tool: &str) -> String {
    let tool = format!("{server}__{tool}");
    match client {
        ClientKind::ClaudeCode | ClientKind::QwenCode => format!("mcp__{LABEL}__{tool}"),
        ClientKind::GeminiCli | ClientKind::Crush => format!("mcp_{LABEL}_{tool}"),
        ClientKind::Goose => format!("{LABEL}__{tool}"),
        ClientKind::Opencode | ClientKind::KiloCli => format!("{LABEL}_{tool}"),
        ClientKind::Zed => format!("mcp:{LABEL}:{tool}"),
        ClientKind::Cursor => format!("Mcp({LABEL}:{tool})"),
        ClientKind::Codex => format!("mcp_servers.{LABEL}.tools.{tool}"),
        ClientKind::Kiro | ClientKind::AmazonQ => format!("@{LABEL}/{tool}"),
        _ => format!("{tool} of {LABEL}"),
    }
}
