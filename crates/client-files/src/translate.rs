//! Translates one entry of a client into the form of our configuration, key by key.

mod clients;
mod launch;
mod limits;
mod reach;

use std::path::Path;

use mainstay_config::{
    ALLOWED_TOOLS, DISABLED_TOOLS, KEPT_KEYS, UNUSED_KEYS, edit::Entry, is_own_key,
};
use serde_json::{Map, Value, json};

use crate::{
    client::ClientKind,
    placeholders,
    places::Section,
    read::{ImportNote, KeyFate, LeftOut, kept_key},
};

pub(crate) use limits::{Unit, counts_seconds, unit};

/// The note about a key that Mainstay does not know.
pub(crate) const UNKNOWN: &str = "not known to Mainstay, which ignores it";

/// An entry in the form of our configuration.
#[derive(Debug, Default)]
pub(crate) struct TranslatedEntry {
    pub entry: Entry,
    pub notes: Vec<ImportNote>,
    pub left_out: Option<LeftOut>,
}

struct Reading<'a> {
    client: ClientKind,
    project: Option<&'a Path>,
    /// The folder that contains the client's file.
    folder: &'a Path,
    read: TranslatedEntry,
    /// Members that only the client understands.
    kept_members: Map<String, Value>,
    /// Parts of the entry that decide how the server runs, and that cannot be read.
    unread: Vec<String>,
    /// True if another server of the file has a `timeout` that must be in seconds, although the client
    /// uses milliseconds.
    counts_seconds: bool,
}

pub(crate) fn read(
    client: ClientKind,
    members: &Map<String, Value>,
    whole: &Value,
    section: &Section,
    counts_seconds: bool,
    folder: &Path,
) -> TranslatedEntry {
    let mut reading = Reading {
        client,
        project: section.project.as_deref(),
        folder,
        read: TranslatedEntry::default(),
        kept_members: Map::new(),
        unread: Vec::new(),
        counts_seconds,
    };
    for (key, value) in members {
        if section.is_list && key == "name" {
            reading.honoured(key);
        } else {
            reading.take(key, value, members);
        }
    }
    if client.is_of_opencode() {
        reading.section_timeout(whole, section);
    }
    reading.inputs(whole, section);
    reading.look_for_places();
    reading.finish(members)
}

impl Reading<'_> {
    fn note(&mut self, key: &str, fate: KeyFate, text: impl Into<String>) {
        self.read.notes.push(ImportNote {
            key: key.to_owned(),
            fate,
            text: text.into(),
        });
    }

    fn honoured(&mut self, key: &str) {
        self.note(key, KeyFate::Honoured, "");
    }

    fn report(&mut self, key: &str, text: impl Into<String>) {
        self.note(key, KeyFate::Reported, text);
    }

    fn keep(&mut self, key: &str, value: &Value) {
        self.kept_members.insert(key.to_owned(), value.clone());
        self.note(key, KeyFate::Kept, format!("kept for {}", self.client));
    }

    /// Keeps a member, and reports it to a person.
    fn keep_and_report(&mut self, key: &str, value: &Value, text: impl Into<String>) {
        self.kept_members.insert(key.to_owned(), value.clone());
        self.report(key, text);
    }

    /// Keeps a member that the server needs, and that Mainstay has no equivalent for.
    fn unsupported(&mut self, key: &str, value: &Value, text: impl Into<String>) {
        self.kept_members.insert(key.to_owned(), value.clone());
        self.note(key, KeyFate::Unsupported, text);
    }

    /// Like [`Self::unsupported`]. Also disables the server, because it is safe or useful only with the
    /// member.
    fn unsupported_and_disabled(&mut self, key: &str, value: &Value, text: impl Into<String>) {
        self.unsupported(key, value, text);
        if self.read.entry.get("enabled") != Some(&Value::Bool(false)) {
            self.disable();
            self.report(key, "the server is disabled until you enable it");
        }
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.read.entry.insert(key.to_owned(), value.into());
    }

    fn disable(&mut self) {
        self.set("enabled", false);
    }

    fn take(&mut self, key: &str, value: &Value, members: &Map<String, Value>) {
        if value.is_null() {
            return self.note(
                key,
                KeyFate::Honoured,
                "it is null, as if it were not there",
            );
        }
        if key.starts_with(['$', '_']) || key.starts_with("//") {
            return self.keep(key, value);
        }
        if !self.take_client_key(key, value, members) {
            self.take_common_key(key, value, members);
        }
    }

    /// Reads a key that has the same meaning in all clients.
    fn take_common_key(&mut self, key: &str, value: &Value, members: &Map<String, Value>) {
        match key {
            "start_on_launch" => self.flag(key, "autoStart", value),
            "type" | "transport" | "transportType" | "serverType" => self.transport(key, value),
            "command" => self.command(key, value),
            "args" => self.args(key, value),
            "env" | "envs" => self.env(key, value),
            "cwd" | "working_directory" | "workingDirectory" => self.cwd(key, value),
            "url" | "serverUrl" | "httpUrl" | "uri" | "remoteUrl" => self.url(key, value, members),
            "headers" => self.headers(key, value),
            "requestInit" => self.request_options(key, value),
            "bearerToken" => self.text(key, "bearerToken", value),
            "envFile" => self.env_file(key, value),
            // `isActive` and `active` are keys of Cherry Studio and others.
            "enabled" | "isActive" | "active" => self.flag(key, "enabled", value),
            "disabled" => match value.as_bool() {
                Some(disabled) => {
                    self.honoured(key);
                    if disabled {
                        self.disable();
                    }
                }
                None => self.unread(key, value, "true or false"),
            },
            "timeout" => self.timeout(key, value, unit(self.client)),
            key if DISABLED_TOOLS.contains(&key) => self.tools(key, "disabledTools", value),
            key if ALLOWED_TOOLS.contains(&key) => self.tools(key, "allowedTools", value),
            "sandboxEnabled" | "sandbox" => self.sandbox(key, value),
            "disabled_prompts"
            | "disabled_resources"
            | "disabled_resourceTemplates"
            | "include_tags"
            | "exclude_tags" => {
                let text = "Mainstay hides tools only, by their names";
                self.unsupported_and_disabled(key, value, text);
            }
            "headersHelper" => self.headers_helper(key, value),
            key if reach::SIGN_IN.contains(&key) => self.sign_in(key, value),
            key if key == "dev" || KEPT_KEYS.contains(&key) || UNUSED_KEYS.contains(&key) => {
                self.keep(key, value);
            }
            key if is_own_key(key) => self.copy(key, value),
            _ => self.take_unknown_key(key, value, members),
        }
    }

    fn take_unknown_key(&mut self, key: &str, value: &Value, members: &Map<String, Value>) {
        match meant_switch(key) {
            Some(switch) => {
                self.report(key, format!("taken as `{switch}`"));
                self.take(switch, value, members);
            }
            None if may_restrict_tools(key) && !is_off(value) && !is_empty(value) => {
                let text =
                    "it may restrict the server's tools, in words that Mainstay does not know";
                self.unsupported_and_disabled(key, value, text);
            }
            None => self.keep_and_report(key, value, UNKNOWN),
        }
    }

    /// Copies a key that exists only in Mainstay.
    fn copy(&mut self, key: &str, value: &Value) {
        self.honoured(key);
        self.set(key, value.clone());
    }

    /// Records a value of the wrong type that decides what runs and how. Mainstay must not run the server
    /// without it.
    fn unread(&mut self, key: &str, value: &Value, expected: &str) {
        self.kept_members.insert(key.to_owned(), value.clone());
        self.report(key, format!("expected {expected}"));
        self.unread.push(format!("`{key}`: expected {expected}"));
    }

    /// Translates a text into the form of our configuration. Notes are reported for `key`.
    fn ours(&mut self, key: &str, text: &str) -> String {
        if self.client == ClientKind::Crush && text.contains("$(") {
            let text = "Crush runs a command for a part of it, `$(…)`, and Mainstay runs none";
            self.note(key, KeyFate::Unsupported, text);
        }
        let translated = placeholders::ours(self.client, text, self.project, self.folder);
        for note in translated.notes {
            self.report(key, note);
        }
        translated.text
    }

    /// Reads a text, which clients may also write as a number or a boolean.
    fn scalar(&mut self, key: &str, value: &Value) -> Option<String> {
        match value {
            Value::String(text) => Some(self.ours(key, text)),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    fn text(&mut self, key: &str, our_key: &str, value: &Value) {
        match value.as_str() {
            Some(text) => {
                self.honoured(key);
                let text = self.ours(key, text);
                self.set(our_key, text);
            }
            None => self.unread(key, value, "a text"),
        }
    }

    fn flag(&mut self, key: &str, our_key: &str, value: &Value) {
        match value.as_bool() {
            Some(flag) => {
                self.honoured(key);
                if !flag {
                    self.set(our_key, false);
                }
            }
            None => self.unread(key, value, "true or false"),
        }
    }

    fn finish(mut self, members: &Map<String, Value>) -> TranslatedEntry {
        if !self.unread.is_empty() && self.read.left_out.is_none() {
            self.read.left_out = Some(LeftOut::NotUnderstood(self.unread.join("; ")));
        }
        if self.has_credentials() {
            self.needs_no_sign_in();
        }
        let has = |key: &str| self.read.entry.contains_key(key);
        if !has("command") && !has("url") && self.read.left_out.is_none() {
            let reason = if self.client == ClientKind::Zed && members.contains_key("settings") {
                "an extension of Zed starts it"
            } else {
                "it has neither a command nor a URL"
            };
            self.read.left_out = Some(LeftOut::NoServer(reason.to_owned()));
        }
        if has("command") && has("url") {
            let counts = match self.client {
                client if client.is_of_gemini() => "url",
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
        if !self.kept_members.is_empty() {
            let members = std::mem::take(&mut self.kept_members);
            self.set(&kept_key(self.client), json!(members));
        }
        self.read.entry = ordered(self.read.entry);
        self.read
    }
}

/// Sorts the keys into the order that people use.
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

/// True if the entry has a key of a client that counts `timeout` in seconds.
fn has_seconds(members: &Map<String, Value>) -> bool {
    members.contains_key("alwaysAllow") || members.contains_key("watchPaths")
}

/// The letters of a key in lower case, to compare spellings: `disabled_tools` and `DisabledTools` are
/// equal.
fn letters(key: &str) -> String {
    let letters = key
        .chars()
        .filter(|letter| !matches!(letter, '-' | '_' | ' '));
    letters.collect::<String>().to_lowercase()
}

/// The switch or list of tools for which a key is probably a misspelling.
fn meant_switch(key: &str) -> Option<&'static str> {
    const SWITCHES: [&str; 8] = [
        "enabled",
        "disabled",
        "isActive",
        "active",
        "disabledTools",
        "excludeTools",
        "allowedTools",
        "includeTools",
    ];
    let spelt = letters(key);
    let mut switches = SWITCHES.into_iter();
    switches.find(|switch| *switch != key && letters(switch) == spelt)
}

/// True if the name of an unknown key suggests that the key restricts tools.
fn may_restrict_tools(key: &str) -> bool {
    const WORDS: [&str; 13] = [
        "filter",
        "block",
        "deny",
        "denied",
        "exclude",
        "hide",
        "hidden",
        "allow",
        "include",
        "only",
        "disable",
        "whitelist",
        "blacklist",
    ];
    let spelt = letters(key);
    let has = |word: &str| spelt.contains(word);
    // A list of tools that need no confirmation does not restrict the tools.
    has("tool") && WORDS.into_iter().any(has) && !has("always") && !has("auto")
}

/// Writes an integer without `.0`.
pub(crate) fn whole(number: f64) -> Value {
    let is_whole = number.fract() == 0.0 && number.abs() < 1e15;
    if is_whole {
        json!(number as i64)
    } else {
        json!(number)
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn is_off(value: &Value) -> bool {
    let is_disabled = value.get("enabled") == Some(&Value::Bool(false));
    value == &Value::Bool(false) || value.as_object().is_some_and(Map::is_empty) || is_disabled
}
