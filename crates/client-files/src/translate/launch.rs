//! Translates the keys for the start of a server: its command, variables, folder, and their placeholders.

use serde_json::{Map, Value};

use super::{Reading, UNKNOWN, is_empty};
use crate::{places::Section, read::LeftOut};

impl Reading<'_> {
    pub(super) fn command(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(_) => self.text(key, "command", value),
            // opencode has an array of words.
            Value::Array(words) => {
                let words: Option<Vec<String>> =
                    words.iter().map(|word| self.scalar(key, word)).collect();
                let Some((program, args)) = words.as_deref().and_then(<[String]>::split_first)
                else {
                    return self.unread(key, value, "the words of a command");
                };
                self.honoured(key);
                self.set("command", program.clone());
                if !args.is_empty() {
                    self.set("args", args.to_vec());
                }
            }
            // Zed had an object before it had `args`.
            Value::Object(members) => {
                self.honoured(key);
                for (inner, value) in members {
                    match inner.as_str() {
                        "path" | "command" => self.text("command.path", "command", value),
                        "args" => self.args("command.args", value),
                        "env" => self.env("command.env", value),
                        _ => {
                            let key = format!("command.{inner}");
                            self.keep_and_report(&key, value, UNKNOWN);
                        }
                    }
                }
            }
            _ => self.unread(key, value, "a command"),
        }
    }

    pub(super) fn args(&mut self, key: &str, value: &Value) {
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
            None => self.unread(key, value, "a list of texts"),
        }
    }

    /// Reads an object of names and texts, for variables or headers.
    pub(super) fn pairs(&mut self, key: &str, our_key: &str, value: &Value) {
        let Value::Object(members) = value else {
            return self.unread(key, value, "names with texts");
        };
        self.honoured(key);
        let mut pairs = Map::new();
        for (name, value) in members {
            match (self.scalar(key, value), value) {
                (Some(text), _) => {
                    pairs.insert(name.clone(), text.into());
                }
                (None, Value::Null) if our_key == "env" => {
                    pairs.insert(name.clone(), Value::Null);
                }
                (None, _) => self.unread(&format!("{key}.{name}"), value, "a text"),
            }
        }
        if pairs.is_empty() {
            return;
        }
        match self
            .read
            .entry
            .get_mut(our_key)
            .and_then(Value::as_object_mut)
        {
            Some(present) => present.extend(pairs),
            None => self.set(our_key, pairs),
        }
    }

    pub(super) fn env(&mut self, key: &str, value: &Value) {
        self.pairs(key, "env", value);
    }

    pub(super) fn env_keys(&mut self, value: &Value) {
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
        self.unsupported("env_keys", value, text);
    }

    /// Reads variables that the client passes to the server. Mainstay passes all of its own variables.
    pub(super) fn inherited(&mut self, key: &str, value: &Value) {
        let from_elsewhere = |element: &Value| {
            let source = element.get("source").and_then(Value::as_str);
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

    pub(super) fn cwd(&mut self, key: &str, value: &Value) {
        let Some(text) = value.as_str() else {
            return self.unread(key, value, "a path");
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

    pub(super) fn env_file(&mut self, key: &str, value: &Value) {
        let Some(text) = value.as_str() else {
            return self.unread(key, value, "a path");
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

    pub(super) fn goose_type(&mut self, value: &Value) {
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
            None => self.unread("type", value, "a word"),
        }
    }

    pub(super) fn source(&mut self, value: &Value) {
        if value == "extension" {
            let reason = "an extension of Zed starts it".to_owned();
            self.read.left_out = Some(LeftOut::NoServer(reason));
        }
        self.keep("source", value);
    }

    /// Keeps the settings of a Zed extension. Such an entry has no command to start.
    pub(super) fn extension_settings(&mut self, value: &Value) {
        self.keep("settings", value);
    }

    /// Reads the VS Code inputs that the entry refers to. Only their defaults are known.
    pub(super) fn inputs(&mut self, whole: &Value, place: &Section) {
        let holder = match place.keys.as_slice() {
            [first, _] => whole.get(first),
            _ => Some(whole),
        };
        let inputs = holder
            .and_then(|members| members.get("inputs"))
            .and_then(Value::as_array);
        let text = Value::Object(self.read.entry.clone()).to_string();
        let mut params = Map::new();
        let mut open_questions: Vec<String> = Vec::new();
        let mut rest = text.as_str();
        while let Some((_, from)) = rest.split_once("${input:") {
            let Some((id, after)) = from.split_once('}') else {
                break;
            };
            rest = after;
            if params.contains_key(id) || open_questions.iter().any(|question| question == id) {
                continue;
            }
            let input = inputs
                .into_iter()
                .flatten()
                .find(|input| input.get("id").is_some_and(|value| value == id));
            let default = input
                .and_then(|input| input.get("default"))
                .and_then(Value::as_str);
            match default.filter(|default| !default.is_empty()) {
                Some(default) => {
                    params.insert(id.to_owned(), default.into());
                }
                None => open_questions.push(id.to_owned()),
            }
        }
        for id in open_questions {
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

    /// Reports relative paths. The client resolves them from the folder that it has open.
    pub(super) fn look_for_places(&mut self) {
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
        let in_args = args
            .iter()
            .flatten()
            .filter_map(text)
            .any(|arg| is_dotted(&arg));
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
}

/// True if a path is relative. Paths that are absolute on any system, in the home folder, or begin with a
/// placeholder are not.
fn is_relative(path: &str) -> bool {
    let has_drive = path.as_bytes().get(1) == Some(&b':');
    !path.is_empty() && !path.starts_with(['/', '\\', '~', '$', '%']) && !has_drive
}
