//! Reads the rules of each client. Each file in the folder `clients` is for one client, or for several
//! similar clients.

mod agents;
mod claude_code;
mod codex;
mod crush;
mod cursor;
mod gemini;
mod goose;
mod opencode;
mod zed;

use std::path::Path;

use serde_json::{Map, Value};

use super::{Effect, Rule, RuleScope, RulesFile, Tools};
use crate::{
    client::ClientKind,
    own_address::LABEL,
    places::ClientFile,
    read::{FoundServer, names},
};

pub(crate) use agents::has_agents;
pub(crate) use claude_code::MANAGED_SERVERS;
pub(super) use zed::default_profile;

/// The keys that are read in files without servers. All other keys of these files are removed.
pub(crate) const KEYS: [&str; 17] = [
    "agent",
    "allowedMcpServers",
    "allowedTools",
    "coreTools",
    "deniedMcpServers",
    "disabledMcpServers",
    "disabledMcpjsonServers",
    "excludeTools",
    "mcp",
    "mode",
    "name",
    "options",
    "permission",
    "permissions",
    "tools",
    "user",
    "mcpServers",
];

/// True if the strictest matching rule decides. In other clients the last matching rule decides.
pub(super) fn strictest_counts(client: ClientKind) -> bool {
    matches!(
        client,
        ClientKind::ClaudeCode | ClientKind::Cursor | ClientKind::GeminiCli | ClientKind::QwenCode
    )
}

/// A rule in a file that is not matched with servers yet.
struct WrittenRule<'a> {
    key: &'a str,
    text: String,
    effect: Effect,
    place: RuleScope,
}

struct RuleReader<'a> {
    source: &'a RulesFile<'a>,
    servers: &'a [FoundServer],
    rules: &'a mut Vec<Rule>,
}

pub(super) fn read(
    file: &ClientFile,
    source: &RulesFile<'_>,
    servers: &[FoundServer],
    rules: &mut Vec<Rule>,
) {
    let mut reader = RuleReader {
        source,
        servers,
        rules,
    };
    match file.client {
        ClientKind::ClaudeCode => {
            reader.permissions();
            reader.lists_of_claude_code(file.project().is_some());
        }
        ClientKind::GeminiCli => reader.lists_of_gemini(),
        ClientKind::QwenCode => {
            reader.lists_of_gemini();
            reader.permissions();
        }
        // Read files at an unknown path in the same way as `serve --config`.
        ClientKind::Unknown => {
            reader.chosen_servers();
            reader.tools_of_agent();
        }
        ClientKind::Opencode | ClientKind::KiloCli => reader.opencode(),
        ClientKind::Zed => reader.zed(),
        ClientKind::Goose => reader.goose(),
        ClientKind::Crush => reader.crush(),
        ClientKind::Cursor => reader.cursor(),
        ClientKind::Codex => reader.codex(),
        client if has_agents(client) && source.file.is_none() => reader.tools_of_agent(),
        client if has_agents(client) => reader.agent(),
        _ => {}
    }
}

impl RuleReader<'_> {
    fn at(&self, path: &str) -> Option<&Value> {
        let mut keys = path.split('.');
        keys.try_fold(self.source.whole, |value, key| value.get(key))
    }

    fn list(&self, path: &str) -> Option<Vec<String>> {
        names(self.at(path))
    }

    fn map(&self, path: &str) -> Map<String, Value> {
        let map = self.at(path).and_then(Value::as_object);
        map.cloned().unwrap_or_default()
    }

    fn written<'k>(
        &self,
        key: &'k str,
        text: impl Into<String>,
        effect: Effect,
    ) -> WrittenRule<'k> {
        WrittenRule {
            key,
            text: text.into(),
            effect,
            place: self.source.place.clone(),
        }
    }

    /// Adds the rule for each server to whose tools it applies.
    fn add(&mut self, written: &WrittenRule<'_>, tools: impl Fn(&str) -> Option<Tools>) {
        let holds_behind = match tools(LABEL) {
            Some(Tools::All) => true,
            Some(Tools::Pattern(rest)) => rest.starts_with('*'),
            _ => false,
        };
        self.add_all(written, holds_behind, tools);
    }

    fn add_all(
        &mut self,
        written: &WrittenRule<'_>,
        holds_behind: bool,
        tools: impl Fn(&str) -> Option<Tools>,
    ) {
        for server in self.servers {
            let Some(tools) = tools(&server.label) else {
                continue;
            };
            self.rules.push(Rule {
                file: self.source.file.map(Path::to_owned),
                key: written.key.to_owned(),
                text: written.text.clone(),
                server: server.label.clone(),
                tools,
                effect: written.effect,
                place: written.place.clone(),
                holds_behind,
            });
        }
    }

    /// Excludes servers because of a list. `is_out` returns true for the servers to exclude.
    fn leave_out(&mut self, key: &str, place: RuleScope, is_out: impl Fn(&str) -> bool) {
        let written = WrittenRule {
            place,
            ..self.written(key, key, Effect::Refused)
        };
        self.add_all(&written, false, |label| is_out(label).then_some(Tools::All));
    }
}

/// The change of a list that makes the server available in the client.
pub(super) fn mend(client: ClientKind, rule: &Rule, label: &str) -> String {
    let add = |text: String| format!("add {text} to that list");
    let last = rule.key.rsplit('.').next().unwrap_or_default();
    match (client, last) {
        (_, "allowed") => add(format!("{label:?}")),
        (client, "tools") if has_agents(client) => add(format!("{:?}", format!("@{label}"))),
        (ClientKind::ClaudeCode, "allowedMcpServers") => {
            add(format!("{{\"serverName\": {label:?}}}"))
        }
        (ClientKind::ClaudeCode, "mcpServers") => {
            "its administrator has to add it there".to_owned()
        }
        (ClientKind::Zed, "enable_all_context_servers") => {
            let profile = rule.key.trim_end_matches(".enable_all_context_servers");
            format!("set it to true, or name tools in {profile}.context_servers.{label}.tools")
        }
        (client, "tools") if client.is_of_opencode() => add(format!("\"{label}_*\": true")),
        (client, "permission") if client.is_of_opencode() => {
            add(format!("\"{label}_*\": \"allow\""))
        }
        (_, "deny" | "exclude" | "excludeTools") => {
            format!("take {:?} out of that list", rule.text)
        }
        _ => format!("take {label:?} out of that list"),
    }
}
