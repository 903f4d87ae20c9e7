//! Puts one entry of a client into our words, key by key.

use std::path::Path;

use mainstay_core::config::edit::Entry;
use serde_json::{Map, Value, json};

use crate::{
    client::Client,
    placeholders,
    places::Section,
    read::{Fate, LeftOut, Note, kept_key},
};

/// An entry in our words.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub entry: Entry,
    pub notes: Vec<Note>,
    pub left_out: Option<LeftOut>,
}

struct Reading<'a> {
    client: Client,
    project: Option<&'a Path>,
    read: Read,
    /// What only the client understands.
    kept: Map<String, Value>,
}

/// In what a client counts the `timeout` of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

/// The unit of `timeout`, and `None` where that is no time of a call.
pub(crate) fn unit(client: Client) -> Unit {
    match client {
        Client::Cline | Client::Roo | Client::Goose | Client::Zed => Unit::Seconds,
        _ => Unit::Milliseconds,
    }
}

pub(crate) fn read(
    client: Client,
    members: &Map<String, Value>,
    whole: &Value,
    section: &Section,
) -> Read {
    let mut reading = Reading {
        client,
        project: section.project.as_deref(),
        read: Read::default(),
        kept: Map::new(),
    };
    for (key, value) in members {
        if section.is_list && key == "name" {
            reading.honoured(key);
        } else {
            reading.take(key, value, members);
        }
    }
    reading.inputs(whole, section);
    reading.look_for_places();
    reading.finish(members)
}

impl Reading<'_> {
    fn note(&mut self, key: &str, fate: Fate, text: impl Into<String>) {
        self.read.notes.push(Note {
            key: key.to_owned(),
            fate,
            text: text.into(),
        });
    }

    fn honoured(&mut self, key: &str) {
        self.note(key, Fate::Honoured, "");
    }

    fn report(&mut self, key: &str, text: impl Into<String>) {
        self.note(key, Fate::Reported, text);
    }

    fn keep(&mut self, key: &str, value: &Value) {
        self.kept.insert(key.to_owned(), value.clone());
        self.note(key, Fate::Kept, format!("kept for {}", self.client));
    }

    /// Kept, and a person has to know.
    fn keep_and_report(&mut self, key: &str, value: &Value, text: impl Into<String>) {
        self.kept.insert(key.to_owned(), value.clone());
        self.report(key, text);
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.read.entry.insert(key.to_owned(), value.into());
    }

    fn disable(&mut self) {
        self.set("enabled", false);
    }

    fn take(&mut self, key: &str, value: &Value, members: &Map<String, Value>) {
        if value.is_null() {
            return self.note(key, Fate::Honoured, "it is null, as if it were not there");
        }
        if key.starts_with(['$', '_']) || key.starts_with("//") {
            return self.keep(key, value);
        }
        match (self.client, key) {
            (Client::Goose, "type") => self.goose_type(value),
            (Client::Goose, "cmd") => self.command(key, value),
            (Client::Goose, "uri") => self.url(key, value, members),
            (Client::Goose, "env_keys") => self.env_keys(value),
            (Client::Goose, "available_tools") if is_empty(value) => self.honoured(key),
            (Client::Goose, "available_tools") => self.tools(key, "allowedTools", value),
            (Client::Goose, "name" | "display_name" | "bundled" | "description") => {
                self.keep(key, value)
            }
            (Client::Opencode, "environment") => self.env(key, value),
            (Client::Opencode, "timeout") => self.connect_timeout(key, value, 1.0),
            (Client::Codex, "startup_timeout_sec") => self.connect_timeout(key, value, 1000.0),
            (Client::Codex, "startup_timeout_ms") => self.connect_timeout(key, value, 1.0),
            (Client::Codex, "tool_timeout_sec") => self.timeout(key, value, Unit::Seconds),
            (Client::Codex, "http_headers") => self.headers(key, value),
            (Client::Codex, "env_http_headers") => self.env_headers(key, value),
            (Client::Codex, "bearer_token_env_var") => self.token_variable(key, value),
            (Client::Codex, "env_vars") => self.inherited(key, value),
            (Client::Codex, "tools" | "required" | "default_tools_approval_mode") => {
                self.keep(key, value);
            }
            (Client::Continue, "requestOptions") => self.request_options(key, value),
            (Client::Continue, "connectionTimeout") => self.connect_timeout(key, value, 1.0),
            (Client::LibreChat, "initTimeout") => self.connect_timeout(key, value, 1.0),
            (Client::LibreChat, "startup") => self.flag(key, "autoStart", value),
            (Client::Zed, "source") => self.source(value),
            (Client::Zed, "settings") => self.extension_settings(value),
            (Client::Warp, "start_on_launch") => self.flag(key, "autoStart", value),
            (_, "type" | "transport" | "transportType") => self.transport(key, value, members),
            (_, "command") => self.command(key, value),
            (_, "args") => self.args(key, value),
            (_, "env" | "envs") => self.env(key, value),
            (_, "cwd" | "working_directory" | "workingDirectory") => self.cwd(key, value),
            (_, "url" | "serverUrl" | "httpUrl" | "uri" | "remoteUrl") => {
                self.url(key, value, members);
            }
            (_, "headers") => self.headers(key, value),
            (_, "requestInit") => self.request_options(key, value),
            (_, "bearerToken") => self.text(key, "bearerToken", value),
            (_, "envFile") => self.env_file(key, value),
            (_, "enabled") => self.flag(key, "enabled", value),
            (_, "disabled") => match value.as_bool() {
                Some(disabled) => {
                    self.honoured(key);
                    if disabled {
                        self.disable();
                    }
                }
                None => self.odd(key, value, "a boolean"),
            },
            (client, "timeout") => self.timeout(key, value, unit(client)),
            (_, "disabledTools" | "disabled_tools" | "excludeTools" | "suppressedTools") => {
                self.tools(key, "disabledTools", value);
            }
            (
                _,
                "allowedTools" | "allowed_tools" | "enabledTools" | "enabled_tools"
                | "includeTools" | "tools",
            ) => self.tools(key, "allowedTools", value),
            (_, "sandboxEnabled" | "sandbox") => self.sandbox(key, value),
            (_, "disabled_prompts" | "disabled_resources" | "include_tags" | "exclude_tags") => {
                self.disable();
                self.keep_and_report(
                    key,
                    value,
                    "Mainstay hides tools only, by their names: the server is disabled until you take the key out",
                );
            }
            (
                _,
                "oauth"
                | "auth"
                | "authProviderType"
                | "oauth_resource"
                | "scopes"
                | "requiresOAuth"
                | "targetAudience"
                | "targetServiceAccount"
                | "oauth_headers",
            ) => self.sign_in(key, value),
            (_, "headersHelper") => self.keep_and_report(
                key,
                value,
                "Mainstay runs no command for a server's headers: give them in `headers`",
            ),
            (Client::LibreChat, "customUserVars") => self.keep_and_report(
                key,
                value,
                "what LibreChat asks of each of its users has to stand in the entry itself",
            ),
            (Client::LibreChat, "proxy") => {
                self.keep_and_report(key, value, "Mainstay uses the proxy of its own environment")
            }
            (
                _,
                "alwaysAllow"
                | "autoApprove"
                | "trust"
                | "description"
                | "title"
                | "icon"
                | "iconPath"
                | "faviconUrl"
                | "gallery"
                | "version"
                | "id"
                | "tags"
                | "note"
                | "notes"
                | "metadata"
                | "chatMenu"
                | "serverInstructions"
                | "stderr"
                | "name"
                | "alwaysLoad"
                | "watchPaths"
                | "dev"
                | "supports_parallel_tool_calls"
                | "isInternal"
                | "autoconnect"
                | "schema"
                | "uses"
                | "with"
                | "sourceFile",
            ) => self.keep(key, value),
            _ => self.keep_and_report(key, value, "not known to Mainstay: it changes nothing here"),
        }
    }

    /// A value of the wrong kind.
    fn odd(&mut self, key: &str, value: &Value, expected: &str) {
        self.keep_and_report(
            key,
            value,
            format!("expected {expected}, so it changes nothing here"),
        );
    }

    /// A text in our words; what is to be told is told about `key`.
    fn ours(&mut self, key: &str, text: &str) -> String {
        let translated = placeholders::ours(self.client, text, self.project);
        for told in translated.told {
            self.report(key, told);
        }
        translated.text
    }

    /// A text that clients also write as a number or a boolean.
    fn scalar(&mut self, key: &str, value: &Value) -> Option<String> {
        match value {
            Value::String(text) => Some(self.ours(key, text)),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    fn text(&mut self, key: &str, own: &str, value: &Value) {
        match value.as_str() {
            Some(text) => {
                self.honoured(key);
                let text = self.ours(key, text);
                self.set(own, text);
            }
            None => self.odd(key, value, "a text"),
        }
    }

    fn flag(&mut self, key: &str, own: &str, value: &Value) {
        match value.as_bool() {
            Some(flag) => {
                self.honoured(key);
                if !flag {
                    self.set(own, false);
                }
            }
            None => self.odd(key, value, "a boolean"),
        }
    }

    fn command(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(_) => self.text(key, "command", value),
            // opencode's.
            Value::Array(words) => {
                let words: Option<Vec<String>> =
                    words.iter().map(|word| self.scalar(key, word)).collect();
                let Some((program, args)) = words.as_deref().and_then(<[String]>::split_first)
                else {
                    return self.odd(key, value, "the words of a command");
                };
                self.honoured(key);
                self.set("command", program.clone());
                if !args.is_empty() {
                    self.set("args", args.to_vec());
                }
            }
            // Zed's, before it had `args` beside it.
            Value::Object(members) => {
                self.honoured(key);
                for (inner, value) in members {
                    match inner.as_str() {
                        "path" | "command" => self.text("command.path", "command", value),
                        "args" => self.args("command.args", value),
                        "env" => self.env("command.env", value),
                        _ => {
                            let key = format!("command.{inner}");
                            self.keep_and_report(
                                &key,
                                value,
                                "not known to Mainstay: it changes nothing here",
                            );
                        }
                    }
                }
            }
            _ => self.odd(key, value, "a command"),
        }
    }

    fn args(&mut self, key: &str, value: &Value) {
        let args: Option<Vec<String>> = match value {
            Value::Array(args) => args.iter().map(|arg| self.scalar(key, arg)).collect(),
            _ => None,
        };
        match args {
            Some(args) => {
                self.honoured(key);
                if !args.is_empty() {
                    let mut all: Vec<Value> = self
                        .read
                        .entry
                        .get("args")
                        .and_then(Value::as_array)
                        .cloned()
                        .unwrap_or_default();
                    all.extend(args.into_iter().map(Value::from));
                    self.set("args", all);
                }
            }
            None => self.odd(key, value, "a list of texts"),
        }
    }

    /// Names with texts: variables, headers.
    fn pairs(&mut self, key: &str, own: &str, value: &Value) {
        let Value::Object(members) = value else {
            return self.odd(key, value, "names with texts");
        };
        self.honoured(key);
        let mut pairs = Map::new();
        for (name, value) in members {
            match (self.scalar(key, value), value) {
                (Some(text), _) => {
                    pairs.insert(name.clone(), text.into());
                }
                (None, Value::Null) if own == "env" => {
                    pairs.insert(name.clone(), Value::Null);
                }
                (None, _) => self.report(
                    key,
                    format!("{name:?} has no text as its value and is left out"),
                ),
            }
        }
        if pairs.is_empty() {
            return;
        }
        match self.read.entry.get_mut(own).and_then(Value::as_object_mut) {
            Some(known) => known.extend(pairs),
            None => self.set(own, pairs),
        }
    }

    fn env(&mut self, key: &str, value: &Value) {
        self.pairs(key, "env", value);
    }

    fn headers(&mut self, key: &str, value: &Value) {
        self.pairs(key, "headers", value);
    }

    /// Headers whose values are names of variables.
    fn env_headers(&mut self, key: &str, value: &Value) {
        let Value::Object(members) = value else {
            return self.odd(key, value, "headers with names of variables");
        };
        let texts = members.iter().map(|(name, value)| {
            let variable = value.as_str().map(|variable| format!("${{{variable}}}"));
            (name.clone(), variable.map_or(Value::Null, Value::String))
        });
        let texts: Map<String, Value> = texts.filter(|(_, value)| !value.is_null()).collect();
        if texts.len() < members.len() {
            self.report(key, "what names no variable is left out");
        }
        self.honoured(key);
        match self
            .read
            .entry
            .get_mut("headers")
            .and_then(Value::as_object_mut)
        {
            Some(known) => known.extend(texts),
            None => self.set("headers", texts),
        }
    }

    fn token_variable(&mut self, key: &str, value: &Value) {
        match value.as_str() {
            Some(variable) => {
                self.honoured(key);
                self.set("bearerToken", format!("${{{variable}}}"));
            }
            None => self.odd(key, value, "the name of a variable"),
        }
    }

    /// Variables that are passed on. Ours passes on all that it has.
    fn inherited(&mut self, key: &str, value: &Value) {
        let from_elsewhere = |it: &Value| {
            let source = it.get("source").and_then(Value::as_str);
            source.is_some_and(|source| source != "local")
        };
        let elements = value.as_array();
        if elements.is_some_and(|elements| elements.iter().any(from_elsewhere)) {
            self.keep_and_report(
                key,
                value,
                "a server of Mainstay inherits the variables of this machine only",
            );
        } else {
            self.keep(key, value);
        }
    }

    fn env_keys(&mut self, value: &Value) {
        if is_empty(value) {
            return self.honoured("env_keys");
        }
        let names = value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let names: Vec<&str> = names.collect();
        let text = format!(
            "goose has {} in its own store of secrets: set them as variables for Mainstay, or in `env`",
            names.join(", ")
        );
        self.keep_and_report("env_keys", value, text);
    }

    fn cwd(&mut self, key: &str, value: &Value) {
        let Some(text) = value.as_str() else {
            return self.odd(key, value, "a path");
        };
        self.honoured(key);
        let text = self.ours(key, text);
        if is_relative(&text) {
            match self.project {
                Some(project) => {
                    let path = project.join(text.trim_start_matches("./"));
                    self.report(
                        key,
                        format!("a path within the project, which became {}", path.display()),
                    );
                    self.set("cwd", path.to_string_lossy());
                }
                None => {
                    let text = format!(
                        "{} resolves it against the folder that it has open, which Mainstay does not know: write the whole path",
                        self.client
                    );
                    self.keep_and_report(key, value, text);
                }
            }
        } else {
            self.set("cwd", text);
        }
    }

    fn env_file(&mut self, key: &str, value: &Value) {
        let Some(text) = value.as_str() else {
            return self.odd(key, value, "a path");
        };
        self.honoured(key);
        let text = self.ours(key, text);
        match self.project {
            _ if !is_relative(&text) => self.set("envFile", text),
            Some(project) => {
                let path = project.join(text.trim_start_matches("./"));
                self.report(
                    key,
                    format!("a path within the project, which became {}", path.display()),
                );
                self.set("envFile", path.to_string_lossy());
            }
            None => {
                let text = format!(
                    "{} resolves it against the folder that it has open, which Mainstay does not know: write the whole path",
                    self.client
                );
                self.keep_and_report(key, value, text);
            }
        }
    }

    fn url(&mut self, key: &str, value: &Value, members: &Map<String, Value>) {
        let Some(text) = value.as_str() else {
            return self.odd(key, value, "a URL");
        };
        // What Gemini CLI calls `url` is SSE, and `httpUrl` wins over it.
        let has_http = members.get("httpUrl").is_some_and(Value::is_string);
        if self.client == Client::GeminiCli && key == "url" && has_http {
            return self.keep_and_report(key, value, "`httpUrl` stands beside it and counts");
        }
        let text = self.ours(key, text);
        if let Some(known) = self.read.entry.get("url")
            && *known != text
        {
            return self.keep_and_report(key, value, "another URL stands beside it and counts");
        }
        self.honoured(key);
        self.set("url", text);
        let stated = ["type", "transport", "transportType"];
        let is_stated = stated.iter().any(|key| members.contains_key(*key));
        match (self.client, key) {
            (Client::GeminiCli, "url") if !is_stated => self.set("type", "sse"),
            (_, "httpUrl") if !is_stated => self.set("type", "http"),
            _ => {}
        }
    }

    fn transport(&mut self, key: &str, value: &Value, members: &Map<String, Value>) {
        let Some(word) = value.as_str() else {
            return self.odd(key, value, "a word");
        };
        let simple = word.replace(['-', '_', ' '], "").to_lowercase();
        match simple.as_str() {
            // The command says it already.
            "stdio" | "local" => self.honoured(key),
            "sse" => {
                self.honoured(key);
                self.set("type", "sse");
            }
            "http" | "streamablehttp" => {
                self.honoured(key);
                // Some clients write it for SSE servers, too, and try both.
                self.set("type", "http");
            }
            "remote" => self.honoured(key),
            _ => {
                self.disable();
                let has_url = members.contains_key("url");
                let what = if has_url {
                    "the server is disabled"
                } else {
                    "it changes nothing here"
                };
                self.keep_and_report(key, value, format!("Mainstay speaks no {word:?}: {what}"));
            }
        }
    }

    fn goose_type(&mut self, value: &Value) {
        match value.as_str() {
            Some("stdio") => self.honoured("type"),
            Some("sse") => {
                self.honoured("type");
                self.set("type", "sse");
            }
            Some("streamable_http") => {
                self.honoured("type");
                self.set("type", "http");
            }
            Some(word) => {
                self.honoured("type");
                let reason = format!("it is a part of goose itself ({word})");
                self.read.left_out = Some(LeftOut::NoServer(reason));
            }
            None => self.odd("type", value, "a word"),
        }
    }

    fn source(&mut self, value: &Value) {
        if value == "extension" {
            let reason = "an extension of Zed starts it".to_owned();
            self.read.left_out = Some(LeftOut::NoServer(reason));
        }
        self.keep("source", value);
    }

    /// What an extension of Zed is told. Without a command there is nothing to start.
    fn extension_settings(&mut self, value: &Value) {
        self.keep("settings", value);
    }

    fn timeout(&mut self, key: &str, value: &Value, unit: Unit) {
        let Some(number) = value.as_f64().filter(|number| *number > 0.0) else {
            return self.odd(key, value, "a time above zero");
        };
        self.honoured(key);
        let seconds = match unit {
            Unit::Seconds => number,
            Unit::Milliseconds => number / 1000.0,
        };
        self.set("timeout_s", whole(seconds));
    }

    /// The time for the start, in milliseconds once it is multiplied.
    fn connect_timeout(&mut self, key: &str, value: &Value, factor: f64) {
        let Some(number) = value.as_f64().filter(|number| *number > 0.0) else {
            return self.odd(key, value, "a time above zero");
        };
        self.honoured(key);
        self.set("connectTimeoutMs", whole(number * factor));
    }

    fn tools(&mut self, key: &str, own: &str, value: &Value) {
        let names: Option<Vec<String>> = match value {
            Value::Array(names) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        };
        let Some(names) = names else {
            // A restriction that cannot be read must not become none.
            self.disable();
            return self.keep_and_report(
                key,
                value,
                "expected a list of tools: the server is disabled until you correct it",
            );
        };
        self.honoured(key);
        if names.is_empty() && own == "disabledTools" {
            return;
        }
        let known = self.read.entry.get(own).and_then(Value::as_array).cloned();
        let names: Vec<Value> = names.into_iter().map(Value::from).collect();
        let names = match known {
            None => names,
            // Each list restricts.
            Some(known) if own == "allowedTools" => known
                .into_iter()
                .filter(|name| names.contains(name))
                .collect(),
            Some(mut known) => {
                known.extend(
                    names
                        .into_iter()
                        .filter(|name| !known.contains(name))
                        .collect::<Vec<_>>(),
                );
                known
            }
        };
        self.set(own, names);
    }

    fn sandbox(&mut self, key: &str, value: &Value) {
        if is_off(value) {
            return self.honoured(key);
        }
        self.disable();
        self.keep_and_report(
            key,
            value,
            "Mainstay has no sandbox for servers: it is disabled until you enable it",
        );
    }

    fn sign_in(&mut self, key: &str, value: &Value) {
        if is_off(value) {
            return self.keep(key, value);
        }
        self.keep_and_report(
            key,
            value,
            "Mainstay cannot sign in by OAuth: get a token in another way, and give it as `bearerToken`",
        );
    }

    /// `requestOptions` of Continue, `requestInit` of the SDK.
    fn request_options(&mut self, key: &str, value: &Value) {
        let Value::Object(members) = value else {
            return self.odd(key, value, "an object");
        };
        self.honoured(key);
        for (inner, value) in members {
            let place = format!("{key}.{inner}");
            if inner == "headers" {
                self.headers(&place, value);
            } else {
                self.keep_and_report(
                    &place,
                    value,
                    "not known to Mainstay: it changes nothing here",
                );
            }
        }
    }

    /// Questions of VS Code that the entry refers to. Only their defaults are known.
    fn inputs(&mut self, whole: &Value, place: &Section) {
        let holder = match place.keys.as_slice() {
            [first, _] => whole.get(first),
            _ => Some(whole),
        };
        let inputs = holder
            .and_then(|it| it.get("inputs"))
            .and_then(Value::as_array);
        let text = Value::Object(self.read.entry.clone()).to_string();
        let mut params = Map::new();
        let mut asked: Vec<String> = Vec::new();
        let mut rest = text.as_str();
        while let Some((_, from)) = rest.split_once("${input:") {
            let Some((id, after)) = from.split_once('}') else {
                break;
            };
            rest = after;
            if params.contains_key(id) || asked.iter().any(|known| known == id) {
                continue;
            }
            let mut inputs = inputs.into_iter().flatten();
            let input = inputs.find(|input| input.get("id").is_some_and(|it| it == id));
            let default = input
                .and_then(|input| input.get("default"))
                .and_then(Value::as_str);
            match default.filter(|default| !default.is_empty()) {
                Some(default) => {
                    params.insert(id.to_owned(), default.into());
                }
                None => asked.push(id.to_owned()),
            }
        }
        for id in asked {
            let text = format!(
                "{} asks for {id:?}, and Mainstay cannot: give it in `inputParams` of the entry",
                self.client
            );
            self.report("inputs", text);
        }
        if !params.is_empty() {
            self.set("inputParams", params);
        }
    }

    /// Relative paths that the client resolves against the folder that it has open.
    fn look_for_places(&mut self) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let command = self.read.entry.get("command").and_then(text);
        let args = self
            .read
            .entry
            .get("args")
            .and_then(Value::as_array)
            .cloned();
        let is_dotted = |text: &String| {
            let dotted = ["./", "../", ".\\", "..\\"];
            text == "." || dotted.iter().any(|start| text.starts_with(start))
        };
        let in_command = command.as_ref().is_some_and(|command| {
            is_dotted(command) || is_relative(command) && command.contains('/')
        });
        let args = args.iter().flatten().filter_map(text);
        let in_args = args.into_iter().any(|arg| is_dotted(&arg));
        if self.read.entry.contains_key("cwd") {
            return;
        }
        for key in [in_command.then_some("command"), in_args.then_some("args")]
            .into_iter()
            .flatten()
        {
            match self.project {
                Some(project) => {
                    let folder = project.to_string_lossy().into_owned();
                    self.report(key, format!("a path within the project, so `cwd` became {folder}"));
                    self.set("cwd", folder);
                }
                None => self.report(key, format!(
                    "{} resolves a relative path against the folder that it has open, which Mainstay does not know: write the whole path",
                    self.client
                )),
            }
        }
    }

    fn finish(mut self, members: &Map<String, Value>) -> Read {
        let has = |key: &str| self.read.entry.contains_key(key);
        if !has("command") && !has("url") && self.read.left_out.is_none() {
            let reason = if self.client == Client::Zed && members.contains_key("settings") {
                "an extension of Zed starts it"
            } else {
                "it has neither a command nor a URL"
            };
            self.read.left_out = Some(LeftOut::NoServer(reason.to_owned()));
        }
        if has("command") && has("url") {
            let counts = match self.client {
                Client::GeminiCli => "url",
                _ if has("type") => "url",
                _ => "command",
            };
            let dropped = if counts == "url" { "command" } else { "url" };
            let value = self.read.entry.shift_remove(dropped).unwrap_or_default();
            self.keep_and_report(
                dropped,
                &value,
                format!("`{counts}` stands beside it and counts"),
            );
        }
        if self.read.entry.contains_key("command") {
            self.read.entry.shift_remove("type");
        }
        if !self.kept.is_empty() {
            let kept = std::mem::take(&mut self.kept);
            self.set(&kept_key(self.client), json!(kept));
        }
        self.read.entry = ordered(self.read.entry);
        self.read
    }
}

/// The keys in the order in which people write them.
fn ordered(mut entry: Entry) -> Entry {
    let mut ordered = Entry::new();
    for key in ["type", "command", "args", "env", "cwd", "url", "headers"] {
        if let Some(value) = entry.shift_remove(key) {
            ordered.insert(key.to_owned(), value);
        }
    }
    ordered.extend(entry);
    ordered
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn is_off(value: &Value) -> bool {
    let is_disabled = value.get("enabled") == Some(&Value::Bool(false));
    value == &Value::Bool(false) || value.as_object().is_some_and(Map::is_empty) || is_disabled
}

/// A number without `.0` where it is whole.
pub(crate) fn whole(number: f64) -> Value {
    let is_whole = number.fract() == 0.0 && number.abs() < 1e15;
    if is_whole {
        json!(number as i64)
    } else {
        json!(number)
    }
}

/// Neither absolute on any system, nor of the home folder, nor behind a placeholder.
fn is_relative(path: &str) -> bool {
    let has_drive = path.as_bytes().get(1) == Some(&b':');
    !path.is_empty() && !path.starts_with(['/', '\\', '~', '$', '%']) && !has_drive
}
