//! Rules of Claude Code. Qwen Code has the same permissions.

use std::path::Path;

use serde_json::Value;

use super::RuleReader;
use crate::{
    read::{FoundServer, names},
    rules::{
        Effect, RuleScope, Tools,
        names::{behind_prefix, fits, plain},
    },
};

/// The file of managed servers. If it exists, Claude Code has no other servers.
pub(crate) const MANAGED_SERVERS: &str = "managed-mcp.json";

impl RuleReader<'_> {
    /// Reads `permissions.deny` and `permissions.ask`: `mcp__SERVER`, `mcp__SERVER__TOOL` or patterns.
    pub(super) fn permissions(&mut self) {
        for (key, effect) in [
            ("permissions.ask", Effect::Asked),
            ("permissions.deny", Effect::Refused),
        ] {
            for text in self.list(key).unwrap_or_default() {
                // Skip rules with arguments. They are about tools of the client itself.
                if !text.starts_with("mcp__") || text.contains('(') {
                    continue;
                }
                let written = self.written(key, &text, effect);
                self.add(&written, |label| {
                    let server = format!("mcp__{}", plain(label));
                    if text == server {
                        return Some(Tools::All);
                    }
                    behind_prefix(&text, &format!("{server}__"))
                });
            }
        }
    }

    /// Reads the lists of servers that a user or an administrator has forbidden or allowed.
    pub(super) fn lists_of_claude_code(&mut self, is_of_project: bool) {
        let place = self.source.place.clone();
        let mut lists = vec!["disabledMcpServers"];
        // Only a project has `.mcp.json`.
        lists.extend(is_of_project.then_some("disabledMcpjsonServers"));
        for key in lists {
            if let Some(names) = self.list(key) {
                self.leave_out(key, place.clone(), |label| {
                    names.iter().any(|name| name == label)
                });
            }
        }
        for (folder, project) in self.map("projects") {
            if let Some(names) = names(project.get("disabledMcpServers")) {
                let place = RuleScope::Project(folder.into());
                self.leave_out("disabledMcpServers", place, |label| {
                    names.iter().any(|name| name == label)
                });
            }
        }
        let denied = self.at("deniedMcpServers").and_then(Value::as_array);
        if let Some(denied) = denied.cloned() {
            self.of_policy("deniedMcpServers", |server| {
                denied.iter().any(|element| policy_fits(element, server))
            });
        }
        let allowed = self.at("allowedMcpServers").and_then(Value::as_array);
        if let Some(allowed) = allowed.cloned() {
            self.of_policy("allowedMcpServers", |server| !is_allowed(&allowed, server));
        }
        let name = self.source.file.and_then(Path::file_name);
        if name.is_some_and(|name| name == MANAGED_SERVERS) {
            self.leave_out("mcpServers", place, |_| true);
        }
    }

    /// Excludes the servers that an administrator's policy forbids.
    fn of_policy(&mut self, key: &str, is_out: impl Fn(&FoundServer) -> bool) {
        let left_out = self.servers.iter().filter(|server| is_out(server));
        let labels: Vec<String> = left_out.map(|server| server.label.clone()).collect();
        let place = self.source.place.clone();
        self.leave_out(key, place, |label| labels.iter().any(|name| name == label));
    }
}

/// True if an element of a policy list matches the server by its name, command or URL.
fn policy_fits(element: &Value, server: &FoundServer) -> bool {
    let text = |key: &str| element.get(key).and_then(Value::as_str);
    let url = server.entry.get("url").and_then(Value::as_str);
    let is_url = text("serverUrl").zip(url);
    text("serverName").is_some_and(|name| name == server.label)
        || is_url.is_some_and(|(pattern, url)| fits(pattern, url))
        || names(element.get("serverCommand")).is_some_and(|words| words == command_of(server))
}

fn command_of(server: &FoundServer) -> Vec<String> {
    let command = server.entry.get("command").and_then(Value::as_str);
    let args = names(server.entry.get("args")).unwrap_or_default();
    command.map(str::to_owned).into_iter().chain(args).collect()
}

/// True if the list allows the server. If the list contains commands, a name does not allow a server
/// with a command. The same applies to URLs.
fn is_allowed(allowed: &[Value], server: &FoundServer) -> bool {
    let by = if server.entry.contains_key("url") {
        "serverUrl"
    } else {
        "serverCommand"
    };
    let is_strict = allowed.iter().any(|element| element.get(by).is_some());
    let mut elements = allowed
        .iter()
        .filter(|element| !is_strict || element.get(by).is_some());
    elements.any(|element| policy_fits(element, server))
}
