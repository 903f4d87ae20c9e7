//! The rules of each client, read from where it has them.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{
    Effect, Rule, RuleScope, RulesFile, Tools,
    names::{behind_prefix, fits, is_pattern, plain, tools},
};
use crate::{
    client::Client,
    own_address::LABEL,
    places::ClientFile,
    read::{FoundServer, names},
};

/// The keys of other files that are looked at. What else stands there is not kept.
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

/// A file with the only servers that Claude Code has, where an administrator manages it.
pub(crate) const MANAGED_SERVERS: &str = "managed-mcp.json";

/// Whether a refusal counts wherever it stands. For other clients the last rule that fits counts.
pub(super) fn strictest_counts(client: Client) -> bool {
    matches!(
        client,
        Client::ClaudeCode | Client::Cursor | Client::GeminiCli | Client::QwenCode
    )
}

/// Whether the client has agents in files of their own, with servers and `tools`.
pub(crate) fn has_agents(client: Client) -> bool {
    matches!(client, Client::AmazonQ | Client::Kiro)
}

/// A rule as it stands in a file, before it is known which servers it is about.
struct Written<'a> {
    key: &'a str,
    text: String,
    effect: Effect,
    place: RuleScope,
}

struct Reading<'a> {
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
    let mut reading = Reading {
        source,
        servers,
        rules,
    };
    match file.client {
        Client::ClaudeCode => {
            reading.permissions();
            reading.lists_of_claude_code(file.project().is_some());
        }
        Client::GeminiCli => reading.lists_of_gemini(),
        Client::QwenCode => {
            reading.lists_of_gemini();
            reading.permissions();
        }
        // Files at an unknown place are read as `serve --config` reads them.
        Client::Unknown => {
            reading.chosen_servers();
            reading.tools_of_agent();
        }
        Client::Opencode | Client::KiloCli => reading.opencode(),
        Client::Zed => reading.zed(),
        Client::Goose => reading.goose(),
        Client::Crush => reading.crush(),
        Client::Cursor => reading.cursor(),
        Client::Codex => reading.codex(),
        client if has_agents(client) && source.file.is_none() => reading.tools_of_agent(),
        client if has_agents(client) => reading.agent(),
        _ => {}
    }
}

impl Reading<'_> {
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

    fn written<'k>(&self, key: &'k str, text: impl Into<String>, effect: Effect) -> Written<'k> {
        Written {
            key,
            text: text.into(),
            effect,
            place: self.source.place.clone(),
        }
    }

    /// Adds the rule for each server of which it means tools.
    fn add(&mut self, written: &Written<'_>, tools: impl Fn(&str) -> Option<Tools>) {
        let holds_behind = match tools(LABEL) {
            Some(Tools::All) => true,
            Some(Tools::Pattern(rest)) => rest.starts_with('*'),
            _ => false,
        };
        self.add_all(written, holds_behind, tools);
    }

    fn add_all(
        &mut self,
        written: &Written<'_>,
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

    /// Leaves out the servers that a list names, or those that it does not name.
    fn leave_out(&mut self, key: &str, place: RuleScope, is_out: impl Fn(&str) -> bool) {
        let written = Written {
            place,
            ..self.written(key, key, Effect::Refused)
        };
        self.add_all(&written, false, |label| is_out(label).then_some(Tools::All));
    }

    /// `permissions.deny` and `permissions.ask` with `mcp__SERVER`, `mcp__SERVER__TOOL` or patterns.
    fn permissions(&mut self) {
        for (key, effect) in [
            ("permissions.ask", Effect::Asked),
            ("permissions.deny", Effect::Refused),
        ] {
            for text in self.list(key).unwrap_or_default() {
                // Rules about arguments are for tools of the client.
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

    fn lists_of_claude_code(&mut self, is_of_project: bool) {
        let place = self.source.place.clone();
        let mut lists = vec!["disabledMcpServers"];
        // The servers of `.mcp.json`.
        lists.extend(is_of_project.then_some("disabledMcpjsonServers"));
        for key in lists {
            if let Some(names) = self.list(key) {
                self.leave_out(key, place.clone(), |label| {
                    names.iter().any(|it| it == label)
                });
            }
        }
        for (folder, project) in self.map("projects") {
            if let Some(names) = names(project.get("disabledMcpServers")) {
                let place = RuleScope::Project(folder.into());
                self.leave_out("disabledMcpServers", place, |label| {
                    names.iter().any(|it| it == label)
                });
            }
        }
        let denied = self.at("deniedMcpServers").and_then(Value::as_array);
        if let Some(denied) = denied.cloned() {
            self.of_policy("deniedMcpServers", |server| {
                denied.iter().any(|it| policy_fits(it, server))
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

    /// `options.disabled_tools` with `mcp_SERVER_TOOL`.
    fn crush(&mut self) {
        const KEY: &str = "options.disabled_tools";
        for text in self.list(KEY).unwrap_or_default() {
            let written = self.written(KEY, &text, Effect::Refused);
            self.add(&written, |label| {
                behind_prefix(&text, &format!("mcp_{label}_"))
            });
        }
    }

    /// `permission.yaml` with `SERVER__TOOL`.
    fn goose(&mut self) {
        for (key, effect) in [
            ("user.ask_before", Effect::Asked),
            ("user.never_allow", Effect::Refused),
        ] {
            for text in self.list(key).unwrap_or_default() {
                let written = self.written(key, &text, effect);
                self.add(&written, |label| {
                    let label: String = label.split_whitespace().collect();
                    let prefix = format!("{}__", plain(&label).to_lowercase());
                    behind_prefix(&text, &prefix)
                });
            }
        }
    }

    fn of_policy(&mut self, key: &str, is_out: impl Fn(&FoundServer) -> bool) {
        let servers = self.servers.iter().filter(|server| is_out(server));
        let labels: Vec<String> = servers.map(|server| server.label.clone()).collect();
        let place = self.source.place.clone();
        self.leave_out(key, place, |label| labels.iter().any(|it| it == label));
    }

    fn chosen_servers(&mut self) {
        let place = self.source.place.clone();
        if let Some(names) = self.list("mcp.allowed") {
            self.leave_out("mcp.allowed", place.clone(), |label| {
                !names.iter().any(|it| it == label)
            });
        }
        if let Some(names) = self.list("mcp.excluded") {
            self.leave_out("mcp.excluded", place, |label| {
                names.iter().any(|it| it == label)
            });
        }
    }

    fn lists_of_gemini(&mut self) {
        self.chosen_servers();
        for (key, effect) in [
            ("coreTools", Effect::Asked),
            ("tools.core", Effect::Asked),
            ("excludeTools", Effect::Refused),
            ("tools.exclude", Effect::Refused),
        ] {
            for text in self.list(key).unwrap_or_default() {
                let written = self.written(key, &text, effect);
                self.add(&written, |label| {
                    let label = plain(label);
                    let prefixes = [
                        format!("mcp__{label}__"),
                        format!("mcp_{label}_"),
                        format!("{label}__"),
                    ];
                    let mut named = prefixes.iter();
                    let named = named.find_map(|prefix| behind_prefix(&text, prefix));
                    // A tool whose name no other has is called by it alone.
                    named.or_else(|| {
                        let is_bare = effect == Effect::Refused
                            && !text.contains("__")
                            && !text.starts_with("mcp_")
                            && !is_of_gemini_itself(&text);
                        is_bare.then(|| tools(&text))
                    })
                });
            }
        }
    }

    fn opencode(&mut self) {
        let place = self.source.place.clone();
        let whole = self.source.whole.clone();
        self.of_opencode(&whole, "", &place);
        for kind in ["agent", "mode"] {
            for (name, agent) in self.map(kind) {
                let place = RuleScope::Part(format!("the {kind} {name}"));
                self.of_opencode(&agent, &format!("{kind}.{name}."), &place);
            }
        }
    }

    /// `tools` and `permission` of an object: patterns for `SERVER_TOOL`.
    fn of_opencode(&mut self, holder: &Value, path: &str, place: &RuleScope) {
        let mut found: Vec<(&str, String, Effect, String)> = Vec::new();
        let tools = holder.get("tools").and_then(Value::as_object);
        for (pattern, value) in tools.into_iter().flatten() {
            let effect = match value.as_bool() {
                Some(true) => Effect::Allowed,
                Some(false) => Effect::Refused,
                None => continue,
            };
            found.push(("tools", pattern.clone(), effect, value.to_string()));
        }
        match holder.get("permission") {
            Some(Value::String(word)) => {
                found.extend(
                    word_of_opencode(word)
                        .map(|effect| ("permission", "*".to_owned(), effect, word.clone())),
                );
            }
            Some(Value::Object(permissions)) => {
                for (pattern, value) in permissions {
                    // Rules for arguments, of which `*` are all.
                    let word = value.as_str().or_else(|| value.get("*")?.as_str());
                    let effect = word.and_then(word_of_opencode);
                    found.extend(effect.map(|effect| {
                        let word = word.unwrap_or_default().to_owned();
                        ("permission", pattern.clone(), effect, word)
                    }));
                }
            }
            _ => {}
        }
        for (key, pattern, effect, word) in found {
            let key = format!("{path}{key}");
            let written = Written {
                place: place.clone(),
                ..self.written(&key, format!("{pattern}: {word}"), effect)
            };
            let labels: Vec<String> = self.servers.iter().map(|it| plain(&it.label)).collect();
            self.add(&written, |label| {
                let label = plain(label);
                let meant = behind_prefix(&pattern, &format!("{label}_"))?;
                // `a_b_c` is a tool of `a_b` where there is such a server.
                let is_of_longer = |other: &String| {
                    other.len() > label.len() && pattern.starts_with(&format!("{other}_"))
                };
                let is_of_other = !is_pattern(&pattern) && labels.iter().any(is_of_longer);
                (!is_of_other).then_some(meant)
            });
        }
    }

    fn zed(&mut self) {
        for (name, rules) in self.map("agent.tool_permissions.tools") {
            let effect = match rules.get("default").and_then(Value::as_str) {
                Some("deny") => Effect::Refused,
                Some("confirm") => Effect::Asked,
                _ => continue,
            };
            let written = self.written("agent.tool_permissions.tools", &name, effect);
            self.add(&written, |label| {
                let tool = name.strip_prefix("mcp:")?.strip_prefix(label)?;
                Some(Tools::One(tool.strip_prefix(':')?.to_owned()))
            });
        }
        let mut profiles = self.map("agent.profiles");
        // A profile of Zed itself, without servers.
        let default = self.at("agent.default_profile").and_then(Value::as_str);
        if default == Some("minimal") {
            profiles.entry("minimal").or_insert_with(|| json!({}));
        }
        for (id, profile) in profiles {
            let place = RuleScope::Part(format!("the profile {id}"));
            let servers = profile.get("context_servers").and_then(Value::as_object);
            let servers = servers.cloned().unwrap_or_default();
            let has_all = has_all_servers(&id, &profile);
            if !has_all {
                let key = format!("agent.profiles.{id}.enable_all_context_servers");
                self.leave_out(&key, place.clone(), |label| {
                    let tools = servers.get(label).and_then(|choice| choice.get("tools"));
                    let mut tools = tools.and_then(Value::as_object).into_iter().flatten();
                    !tools.any(|(_, value)| *value == true)
                });
            }
            let key = format!("agent.profiles.{id}.context_servers");
            for (server, choice) in &servers {
                let tools = choice.get("tools").and_then(Value::as_object);
                for (tool, value) in tools.into_iter().flatten() {
                    let effect = match (value.as_bool(), has_all) {
                        (Some(false), _) => Effect::Refused,
                        // Only such tools are in the profile.
                        (Some(true), false) => Effect::Asked,
                        _ => continue,
                    };
                    let written = Written {
                        place: place.clone(),
                        ..self.written(&key, format!("{tool}: {value}"), effect)
                    };
                    self.add(&written, |label| {
                        (label == server).then(|| Tools::One(tool.clone()))
                    });
                }
            }
        }
    }

    /// `permissions.deny` with `Mcp(SERVER:TOOL)`, of patterns both.
    fn cursor(&mut self) {
        const KEY: &str = "permissions.deny";
        for text in self.list(KEY).unwrap_or_default() {
            let inside = text
                .strip_prefix("Mcp(")
                .and_then(|it| it.strip_suffix(')'));
            let Some((server, tool)) = inside.and_then(|it| it.split_once([':', ','])) else {
                continue;
            };
            let written = self.written(KEY, &text, Effect::Refused);
            self.add(&written, |label| {
                fits(server.trim(), label).then(|| tools(tool.trim()))
            });
        }
    }

    /// What the entries say of approval.
    fn codex(&mut self) {
        let asks = |word: &Value| {
            word.as_str()
                .is_some_and(|it| it != "auto" && it != "approve")
        };
        for (server, entry) in self.map("mcp_servers") {
            let mut found = Vec::new();
            let default = "default_tools_approval_mode";
            if let Some(word) = entry.get(default).filter(|word| asks(word)) {
                let text = format!("{default} = {word}");
                found.push((default, text, Effect::Asked, Tools::All));
            }
            let tools = entry.get("tools").and_then(Value::as_object);
            for (tool, rules) in tools.into_iter().flatten() {
                if rules.get("enabled") == Some(&Value::Bool(false)) {
                    let text = format!("{tool}.enabled = false");
                    found.push(("tools", text, Effect::Refused, Tools::One(tool.clone())));
                }
                if let Some(word) = rules.get("approval_mode").filter(|word| asks(word)) {
                    let text = format!("{tool}.approval_mode = {word}");
                    found.push(("tools", text, Effect::Asked, Tools::One(tool.clone())));
                }
            }
            for (key, text, effect, meant) in found {
                let written = self.written(key, text, effect);
                self.add(&written, |label| (label == server).then(|| meant.clone()));
            }
        }
    }

    /// `tools` of the agent whose file it is: `*`, `@SERVER` or `@SERVER/TOOL`, and nothing else.
    fn tools_of_agent(&mut self) {
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

    /// What the file of another agent says of servers that are not its own.
    fn agent(&mut self) {
        let stem = self.source.file.and_then(Path::file_stem);
        let stem = stem.map(|it| it.to_string_lossy().into_owned());
        let name = self.at("name").and_then(Value::as_str);
        let name = name.map(str::to_owned).or(stem).unwrap_or_default();
        let own = self.map("mcpServers");
        for key in ["tools", "allowedTools"] {
            for text in self.list(key).unwrap_or_default() {
                let written = Written {
                    place: RuleScope::Part(format!("the agent {name}")),
                    ..self.written(key, &text, Effect::Asked)
                };
                self.add(&written, |label| {
                    let is_own = own.contains_key(label) || !text.starts_with('@');
                    of_agent(&text, label).filter(|_| !is_own)
                });
            }
        }
    }
}

fn word_of_opencode(word: &str) -> Option<Effect> {
    match word {
        "allow" => Some(Effect::Allowed),
        "ask" => Some(Effect::Asked),
        "deny" => Some(Effect::Refused),
        _ => None,
    }
}

/// Which tools of the server an agent means by this.
fn of_agent(text: &str, label: &str) -> Option<Tools> {
    if text == "*" {
        return Some(Tools::All);
    }
    match text.strip_prefix('@')?.strip_prefix(label)? {
        "" => Some(Tools::All),
        rest => rest.strip_prefix('/').map(tools),
    }
}

/// Whether an element of a list of Claude Code means the server: by its name, its command or its URL.
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

/// Where a list has commands, a name lets in no server with a command, and so it is with URLs.
fn is_allowed(allowed: &[Value], server: &FoundServer) -> bool {
    let by = if server.entry.contains_key("url") {
        "serverUrl"
    } else {
        "serverCommand"
    };
    let is_strict = allowed.iter().any(|it| it.get(by).is_some());
    let mut counts = allowed
        .iter()
        .filter(|it| !is_strict || it.get(by).is_some());
    counts.any(|it| policy_fits(it, server))
}

/// A tool of Gemini CLI or Qwen Code itself, or a class of theirs. Behind some stand arguments.
fn is_of_gemini_itself(text: &str) -> bool {
    const OWN: [&str; 25] = [
        "activate_skill",
        "ask_user",
        "codebase_investigator",
        "edit",
        "edit_file",
        "exit_plan_mode",
        "get_internal_docs",
        "glob",
        "google_web_search",
        "grep_search",
        "list_directory",
        "ls",
        "read_file",
        "read_many_files",
        "replace",
        "run_shell_command",
        "save_memory",
        "search_file_content",
        "skill",
        "task",
        "todo_write",
        "web_fetch",
        "web_search",
        "write_file",
        "write_todos",
    ];
    let name = text.split('(').next().unwrap_or(text);
    let is_class = name.ends_with("Tool") && name.starts_with(|c: char| c.is_ascii_uppercase());
    name != text || is_class || OWN.contains(&name)
}

/// Whether a profile of Zed has servers that it does not name.
fn has_all_servers(id: &str, profile: &Value) -> bool {
    let stated = profile.get("enable_all_context_servers");
    let stated = stated.and_then(Value::as_bool);
    stated.unwrap_or(matches!(id, "write" | "ask"))
}

/// The profile with which Zed begins.
pub(super) fn default_profile(file: &ClientFile, whole: &Value) -> Option<RuleScope> {
    if file.client != Client::Zed {
        return None;
    }
    let stated = whole.get("agent").and_then(|it| it.get("default_profile"));
    let id = stated.and_then(Value::as_str).unwrap_or("write");
    Some(RuleScope::Part(format!("the profile {id}")))
}

/// What to change so that the client has the server.
pub(super) fn mend(client: Client, rule: &Rule, label: &str) -> String {
    let add = |text: String| format!("add {text} to that list");
    let last = rule.key.rsplit('.').next().unwrap_or_default();
    match (client, last) {
        (_, "allowed") => add(format!("{label:?}")),
        (client, "tools") if has_agents(client) => add(format!("{:?}", format!("@{label}"))),
        (Client::ClaudeCode, "allowedMcpServers") => add(format!("{{\"serverName\": {label:?}}}")),
        (Client::ClaudeCode, "mcpServers") => "its administrator has to add it there".to_owned(),
        (Client::Zed, "enable_all_context_servers") => {
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
