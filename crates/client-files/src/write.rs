//! Translates an entry of our configuration for a client.

use mainstay_config::{ALLOWED_TOOLS, DISABLED_TOOLS, edit::Entry};
use serde_json::{Map, Value, json};

use crate::{
    client::ClientKind,
    placeholders,
    places::Section,
    read::{ImportNote, KeyFate, kept_members},
    translate::{self, Unit, whole},
};

/// An entry in the form of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The entry. `None` if the client does not support this server. The notes then have the
    /// reason.
    pub entry: Option<Value>,
    /// Notes about what the client does not support. A key of ours without a note is translated.
    pub notes: Vec<ImportNote>,
}

struct Writing<'a> {
    client: ClientKind,
    ours: &'a Entry,
    theirs: Map<String, Value>,
    notes: Vec<ImportNote>,
    cannot: bool,
}

/// Translates the entry of a server for this client. `section` is the place of the entry.
pub fn entry_for(client: ClientKind, name: &str, ours: &Entry, section: &Section) -> Written {
    let with_params = without_params(ours);
    let mut writing = Writing {
        client,
        ours: &with_params,
        theirs: Map::new(),
        notes: Vec::new(),
        cannot: false,
    };
    if section.is_list {
        writing.put("name", name);
    }
    writing.launch(name, section);
    writing.switches(section);
    writing.times(section);
    writing.tools();
    writing.rest();
    Written {
        entry: (!writing.cannot).then_some(Value::Object(writing.theirs)),
        notes: writing.notes,
    }
}

/// Replaces references to `inputParams` by the values of these parameters.
fn without_params(ours: &Entry) -> Entry {
    let Some(Value::Object(params)) = ours.get("inputParams") else {
        return ours.clone();
    };
    let mut text = Value::Object(ours.clone());
    for (name, value) in params {
        let value = value
            .get("value")
            .or_else(|| value.get("default"))
            .unwrap_or(value);
        if let Some(value) = value.as_str() {
            replace_texts(&mut text, &format!("${{input:{name}}}"), value);
            replace_texts(&mut text, &format!("${{{name}}}"), value);
        }
    }
    match text {
        Value::Object(mut entry) => {
            entry.shift_remove("inputParams");
            entry
        }
        _ => ours.clone(),
    }
}

fn replace_texts(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) => *text = text.replace(from, to),
        Value::Array(elements) => elements
            .iter_mut()
            .for_each(|element| replace_texts(element, from, to)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| replace_texts(member, from, to)),
        _ => {}
    }
}

/// A client's keys and types for settings that all clients have.
struct EntryKeys {
    env: &'static str,
    url: &'static str,
    headers: &'static str,
    /// The `type` of a process, of Streamable HTTP and of HTTP+SSE, in clients that write it.
    types: Option<[&'static str; 3]>,
}

fn words(client: ClientKind) -> EntryKeys {
    let plain = EntryKeys {
        env: "env",
        url: "url",
        headers: "headers",
        types: None,
    };
    match client {
        ClientKind::ClaudeCode | ClientKind::VsCode | ClientKind::VsCodeInsiders => EntryKeys {
            types: Some(["stdio", "http", "sse"]),
            ..plain
        },
        ClientKind::Cline => EntryKeys {
            types: Some(["stdio", "streamableHttp", "sse"]),
            ..plain
        },
        ClientKind::Roo | ClientKind::Kilo | ClientKind::LibreChat | ClientKind::Continue => {
            EntryKeys {
                types: Some(["stdio", "streamable-http", "sse"]),
                ..plain
            }
        }
        ClientKind::Goose => EntryKeys {
            env: "envs",
            url: "uri",
            types: Some(["stdio", "streamable_http", "sse"]),
            ..plain
        },
        ClientKind::Opencode | ClientKind::KiloCli => EntryKeys {
            env: "environment",
            types: Some(["local", "remote", "remote"]),
            ..plain
        },
        ClientKind::Codex => EntryKeys {
            headers: "http_headers",
            ..plain
        },
        ClientKind::Windsurf | ClientKind::Antigravity => EntryKeys {
            url: "serverUrl",
            ..plain
        },
        ClientKind::CopilotCli => EntryKeys {
            types: Some(["local", "http", "sse"]),
            ..plain
        },
        ClientKind::AmazonQ | ClientKind::Crush => EntryKeys {
            types: Some(["stdio", "http", "sse"]),
            ..plain
        },
        _ => plain,
    }
}

impl Writing<'_> {
    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.theirs.insert(key.to_owned(), value.into());
    }

    fn report(&mut self, key: &str, text: impl Into<String>) {
        self.notes.push(ImportNote {
            key: key.to_owned(),
            fate: KeyFate::Reported,
            text: text.into(),
        });
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        let translated = placeholders::theirs(self.client, text);
        for note in translated.notes {
            self.report(key, note);
        }
        translated.text
    }

    /// Translates all texts in a value.
    fn texts(&mut self, key: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(key, text).into(),
            Value::Array(elements) => elements
                .iter()
                .map(|element| self.texts(key, element))
                .collect(),
            Value::Object(members) => {
                let translated = members
                    .iter()
                    .map(|(name, member)| (name.clone(), self.texts(key, member)));
                Value::Object(translated.collect())
            }
            other => other.clone(),
        }
    }

    fn launch(&mut self, name: &str, section: &Section) {
        let words = words(self.client);
        let ours = self.ours;
        let url = ["url", "serverUrl", "httpUrl", "remoteUrl"]
            .into_iter()
            .find_map(|key| ours.get(key)?.as_str());
        let stated = ["type", "transport", "transportType"]
            .into_iter()
            .find_map(|key| ours.get(key)?.as_str());
        let is_sse = stated == Some("sse");
        if self.client == ClientKind::Goose {
            // goose rejects an entry without these keys.
            self.put("name", name);
            let description = kept_members(ours, ClientKind::Goose)
                .and_then(|members| members.get("description"));
            let description = description.cloned().unwrap_or_else(|| "".into());
            self.put("description", description);
        }
        match (ours.get("command").and_then(Value::as_str), url) {
            (Some(command), _) => {
                if let Some([word, _, _]) = words.types {
                    self.put("type", word);
                }
                if self.client == ClientKind::Zed {
                    self.put("source", "custom");
                }
                self.command(command);
                self.env(words.env);
                self.cwd(section);
            }
            (None, Some(url)) => {
                if !self.client.speaks_http() {
                    self.cannot = true;
                    return self.report(
                        "url",
                        format!("{} has no servers with a URL in its file", self.client),
                    );
                }
                if let Some([_, http, sse]) = words.types {
                    self.put("type", if is_sse { sse } else { http });
                }
                let url = self.text("url", url);
                match self.client {
                    client if client.is_of_gemini() && !is_sse => self.put("httpUrl", url),
                    _ => self.put(words.url, url),
                }
                if is_sse && !self.client.speaks_sse() {
                    let text = format!("{} speaks Streamable HTTP only", self.client);
                    self.report("type", text);
                }
                self.headers(words.headers);
            }
            (None, None) => {
                self.cannot = true;
                self.report("command", "the entry has neither a command nor a URL");
            }
        }
    }

    fn command(&mut self, command: &str) {
        let command = self.text("command", command);
        let args = self.ours.get("args").cloned().unwrap_or_else(|| json!([]));
        let args = self.texts("args", &args);
        let is_empty = args.as_array().is_none_or(Vec::is_empty);
        match self.client {
            ClientKind::Opencode | ClientKind::KiloCli => {
                let mut words = vec![Value::from(command)];
                words.extend(args.as_array().into_iter().flatten().cloned());
                self.put("command", words);
            }
            ClientKind::Goose => {
                self.put("cmd", command);
                self.put("args", args);
            }
            _ => {
                self.put("command", command);
                // Some versions of these clients reject an entry without `args`.
                if !is_empty || matches!(self.client, ClientKind::LibreChat | ClientKind::Zed) {
                    self.put("args", args);
                }
            }
        }
    }

    fn env(&mut self, key: &str) {
        if let Some(env) = self.ours.get("env").filter(|env| !is_nothing(env)) {
            let env = self.texts("env", env);
            self.put(key, env);
        }
        if let Some(file) = self.ours.get("envFile").and_then(Value::as_str) {
            match self.client {
                ClientKind::VsCode | ClientKind::VsCodeInsiders | ClientKind::Cursor => {
                    let file = self.text("envFile", file);
                    self.put("envFile", file);
                }
                client => self.report("envFile", format!("{client} reads no file of variables")),
            }
        }
    }

    fn cwd(&mut self, place: &Section) {
        let Some(cwd) = self.ours.get("cwd").and_then(Value::as_str) else {
            return;
        };
        let cwd = self.text("cwd", cwd);
        match self.client {
            ClientKind::Warp => self.put("working_directory", cwd),
            _ if self.is_second_opencode(place) => self.put("cwd", cwd),
            ClientKind::VsCode
            | ClientKind::VsCodeInsiders
            | ClientKind::Cursor
            | ClientKind::Codex
            | ClientKind::GeminiCli
            | ClientKind::QwenCode
            | ClientKind::Cline
            | ClientKind::Roo
            | ClientKind::Kilo
            | ClientKind::Continue => self.put("cwd", cwd),
            client => self.report(
                "cwd",
                format!("{client} starts servers in a folder of its own choice"),
            ),
        }
    }

    /// Writes `headersHelper`, which is a command line in Claude Code.
    fn headers_helper(&mut self) {
        let Some(helper) = self.ours.get("headersHelper") else {
            return;
        };
        let command = helper.as_str().or_else(|| helper["command"].as_str());
        match (self.client, command) {
            (ClientKind::ClaudeCode, Some(command)) => self.put("headersHelper", command),
            (client, _) => {
                self.cannot = true;
                self.report(
                    "headersHelper",
                    format!("{client} runs no command for headers, so the server is left out"),
                );
            }
        }
    }

    fn headers(&mut self, key: &str) {
        self.headers_helper();
        let mut headers = match self.ours.get("headers") {
            Some(Value::Object(headers)) => headers.clone(),
            _ => Map::new(),
        };
        if let Some(token) = self.ours.get("bearerToken").and_then(Value::as_str) {
            let variable = token
                .strip_prefix("${")
                .and_then(|text| text.strip_suffix('}'));
            let variable = variable.map(|inside| inside.strip_prefix("env:").unwrap_or(inside));
            match variable.filter(|name| !name.contains([':', '$', '{'])) {
                Some(variable) if self.client == ClientKind::Codex => {
                    self.put("bearer_token_env_var", variable);
                }
                _ => {
                    headers.insert("Authorization".to_owned(), format!("Bearer {token}").into());
                }
            }
        }
        if self.client == ClientKind::Codex {
            self.env_headers(&mut headers);
        }
        if headers.is_empty() {
            return;
        }
        let headers = self.texts("headers", &Value::Object(headers));
        match self.client {
            ClientKind::Continue => self.put("requestOptions", json!({ "headers": headers })),
            _ => self.put(key, headers),
        }
    }

    /// Moves headers whose value is exactly one variable.
    fn env_headers(&mut self, headers: &mut Map<String, Value>) {
        let mut variables = Map::new();
        for (name, value) in headers.iter() {
            let text = value.as_str().unwrap_or_default();
            let variable = text
                .strip_prefix("${")
                .and_then(|text| text.strip_suffix('}'));
            let variable = variable.map(|inside| inside.strip_prefix("env:").unwrap_or(inside));
            if let Some(variable) = variable.filter(|name| !name.contains([':', '$', '{'])) {
                variables.insert(name.clone(), variable.into());
            }
        }
        headers.retain(|name, _| !variables.contains_key(name));
        if !variables.is_empty() {
            self.put("env_http_headers", variables);
        }
    }

    fn switches(&mut self, place: &Section) {
        let flag = |key: &str| self.ours.get(key).and_then(Value::as_bool);
        let is_off = flag("enabled") == Some(false) || flag("disabled") == Some(true);
        let does_not_start = flag("autoStart") == Some(false);
        let is_second = place.keys.len() == 2;
        match self.client {
            ClientKind::Goose => self.put("enabled", !is_off),
            _ if !is_off => {}
            client if client.is_of_opencode() && is_second => self.put("disabled", true),
            ClientKind::Codex
            | ClientKind::Zed
            | ClientKind::Opencode
            | ClientKind::KiloCli
            | ClientKind::JetBrains => {
                self.put("enabled", false);
            }
            ClientKind::Windsurf
            | ClientKind::Cline
            | ClientKind::Roo
            | ClientKind::AmazonQ
            | ClientKind::LmStudio
            | ClientKind::Kiro
            | ClientKind::Antigravity
            | ClientKind::Kilo
            | ClientKind::Crush => self.put("disabled", true),
            client => {
                self.cannot = true;
                self.report(
                    "enabled",
                    format!("{client} cannot disable a server in its file, so it is left out"),
                );
            }
        }
        match self.client {
            _ if !does_not_start => {}
            ClientKind::Warp => self.put("start_on_launch", false),
            ClientKind::LibreChat => self.put("startup", false),
            client => self.report("autoStart", format!("{client} starts every server")),
        }
    }

    /// True if this is the place of servers in the second version of opencode.
    fn is_second_opencode(&self, place: &Section) -> bool {
        self.client.is_of_opencode() && place.keys == ["mcp", "servers"]
    }

    fn times(&mut self, place: &Section) {
        let is_second = self.is_second_opencode(place);
        let number = |key: &str| self.ours.get(key).and_then(Value::as_f64);
        let seconds = number("timeout_s")
            .or_else(|| number("timeout").map(|milliseconds| milliseconds / 1000.0));
        if let Some(seconds) = seconds {
            match self.client {
                _ if is_second => self.put("timeout", json!({"request": whole(seconds * 1000.0)})),
                ClientKind::Codex => self.put("tool_timeout_sec", whole(seconds)),
                ClientKind::ClaudeCode
                | ClientKind::GeminiCli
                | ClientKind::QwenCode
                | ClientKind::Kiro
                | ClientKind::Cline
                | ClientKind::Roo
                | ClientKind::Kilo
                | ClientKind::KiloCli
                | ClientKind::Crush
                | ClientKind::Goose
                | ClientKind::LibreChat
                | ClientKind::AmazonQ
                | ClientKind::LmStudio
                | ClientKind::Opencode
                | ClientKind::Zed => match translate::unit(self.client) {
                    Unit::Seconds => self.put("timeout", whole(seconds)),
                    Unit::Milliseconds => self.put("timeout", whole(seconds * 1000.0)),
                },
                client => self.report(
                    "timeout_s",
                    format!("{client} has a time for calls of its own"),
                ),
            }
        }
        if let Some(milliseconds) = number("connectTimeoutMs") {
            match self.client {
                _ if is_second => {
                    let times = self.theirs.entry("timeout").or_insert_with(|| json!({}));
                    times["startup"] = whole(milliseconds);
                }
                ClientKind::Codex => self.put("startup_timeout_sec", whole(milliseconds / 1000.0)),
                // These clients have a single time limit for all requests.
                ClientKind::Opencode | ClientKind::KiloCli => {
                    let one = whole(milliseconds);
                    let stated = self.theirs.entry("timeout").or_insert_with(|| one.clone());
                    if *stated != one {
                        self.report(
                            "connectTimeoutMs",
                            format!("{} has one time for every request", self.client),
                        );
                    }
                }
                ClientKind::Continue => self.put("connectionTimeout", whole(milliseconds)),
                ClientKind::LibreChat => self.put("initTimeout", whole(milliseconds)),
                client => self.report(
                    "connectTimeoutMs",
                    format!("{client} has a time for starts of its own"),
                ),
            }
        }
    }

    fn tools(&mut self) {
        for key in DISABLED_TOOLS {
            let Some(names) = self
                .ours
                .get(key)
                .filter(|names| !is_nothing(names))
                .cloned()
            else {
                continue;
            };
            match self.client {
                client if client.is_of_gemini() => self.put("excludeTools", names),
                ClientKind::Codex | ClientKind::Crush => self.put("disabled_tools", names),
                ClientKind::Roo
                | ClientKind::Kilo
                | ClientKind::Kiro
                | ClientKind::Antigravity
                | ClientKind::Windsurf
                | ClientKind::AmazonQ => self.put("disabledTools", names),
                client => self.report(
                    key,
                    format!("{client} cannot hide tools in its file, and shows them"),
                ),
            }
        }
        for key in ALLOWED_TOOLS {
            let Some(names) = self.ours.get(key).cloned() else {
                continue;
            };
            match self.client {
                client if client.is_of_gemini() => self.put("includeTools", names),
                ClientKind::CopilotCli => self.put("tools", names),
                ClientKind::Codex => self.put("enabled_tools", names),
                ClientKind::Goose if !is_nothing(&names) => self.put("available_tools", names),
                client => self.report(
                    key,
                    format!("{client} cannot choose tools in its file, and shows all"),
                ),
            }
        }
    }

    /// Adds the parts that the entry keeps for this client, and reports settings that only Mainstay
    /// has.
    fn rest(&mut self) {
        // Copilot CLI uses no tools of a server without `tools`.
        if self.client == ClientKind::CopilotCli && !self.theirs.contains_key("tools") {
            self.put("tools", json!(["*"]));
        }
        if let Some(members) = kept_members(self.ours, self.client) {
            for (key, value) in members {
                // Write the key into its outer object, which is translated by itself.
                if let Some((outer, inner)) = key.split_once('.') {
                    let outer = self.theirs.entry(outer).or_insert_with(|| json!({}));
                    if let Some(members) = outer.as_object_mut() {
                        members.entry(inner).or_insert_with(|| value.clone());
                    }
                    continue;
                }
                if !self.theirs.contains_key(key) {
                    self.theirs.insert(key.clone(), value.clone());
                }
            }
        }
        let keys: Vec<String> = self.ours.keys().cloned().collect();
        for key in keys {
            let is_note = key.starts_with(['_', '$']) || key.starts_with("//");
            let is_of_tools = ALLOWED_TOOLS.iter().chain(&DISABLED_TOOLS);
            let mut translated = TRANSLATED_KEYS.iter().chain(is_of_tools);
            if !is_note && !translated.any(|known_key| *known_key == key) {
                self.report(&key, format!("{} knows no such setting", self.client));
            }
        }
    }
}

/// Our keys that are translated for clients or reported.
const TRANSLATED_KEYS: [&str; 25] = [
    "command",
    "args",
    "env",
    "envFile",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "remoteUrl",
    "type",
    "transport",
    "transportType",
    "headers",
    "bearerToken",
    "headersHelper",
    "enabled",
    "disabled",
    "autoStart",
    "timeout",
    "timeout_s",
    "connectTimeoutMs",
    "inputParams",
    "name",
    "description",
    "title",
];

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        other => other.is_null(),
    }
}
