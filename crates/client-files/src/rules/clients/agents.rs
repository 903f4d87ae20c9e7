//! Rules of agents. Amazon Q and Kiro keep each agent in a file.

use std::path::Path;

use serde_json::Value;

use super::{RuleReader, WrittenRule};
use crate::{
    client::ClientKind,
    rules::{Effect, RuleScope, Tools, names::tools},
};

/// True if the client keeps agents with servers and `tools` in separate files.
pub(crate) fn has_agents(client: ClientKind) -> bool {
    matches!(client, ClientKind::AmazonQ | ClientKind::Kiro)
}

impl RuleReader<'_> {
    /// Reads `tools` of the agent of this file: `*`, `@SERVER` or `@SERVER/TOOL`. The agent has only
    /// these tools.
    pub(super) fn tools_of_agent(&mut self) {
        const KEY: &str = "tools";
        let Some(chosen) = self.list(KEY) else {
            return;
        };
        let place = self.source.place.clone();
        self.leave_out(KEY, place, |_| true);
        for text in chosen {
            let written = self.written(KEY, &text, Effect::Allowed);
            self.add(&written, |label| of_agent(&text, label));
        }
    }

    /// Reads the rules in another agent's file about servers of other files.
    pub(super) fn agent(&mut self) {
        let stem = self.source.file.and_then(Path::file_stem);
        let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        let name = self.at("name").and_then(Value::as_str);
        let name = name.map(str::to_owned).or(stem).unwrap_or_default();
        let own_servers = self.map("mcpServers");
        for key in ["tools", "allowedTools"] {
            for text in self.list(key).unwrap_or_default() {
                let written = WrittenRule {
                    place: RuleScope::Part(format!("the agent {name}")),
                    ..self.written(key, &text, Effect::Asked)
                };
                self.add(&written, |label| {
                    let is_own = own_servers.contains_key(label) || !text.starts_with('@');
                    of_agent(&text, label).filter(|_| !is_own)
                });
            }
        }
    }
}

/// The tools of the server that an element of `tools` refers to. `None` if it does not refer to the
/// server.
fn of_agent(text: &str, label: &str) -> Option<Tools> {
    if text == "*" {
        return Some(Tools::All);
    }
    match text.strip_prefix('@')?.strip_prefix(label)? {
        "" => Some(Tools::All),
        rest => rest.strip_prefix('/').map(tools),
    }
}
