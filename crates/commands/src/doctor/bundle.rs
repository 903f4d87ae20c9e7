//! The report for an issue: one JSON file, without secrets.

use std::{collections::BTreeSet, env, path::Path};

use mainstay_api::{Client, Server};
use mainstay_command_line::CommandError;
use mainstay_config::{Syntax, edit::Document, masking::masked};
use mainstay_core::{
    config::{Config, Launch},
    redact::{self, HIDDEN, Secrets},
};
use mainstay_platform::state::{self, StateDir};
use serde_json::{Map, Value, json};

use super::finding::DoctorFinding;

/// The maximum number of lines from each server's log.
const MAX_LOG_LINES: usize = 100;

/// Variables whose values the report holds.
const SHOWN_VARIABLES: [&str; 12] = [
    "LANG",
    "LC_ALL",
    "MAINSTAY_CONFIG",
    "MAINSTAY_HOME",
    "MAINSTAY_LOG",
    "MAINSTAY_WORKERS",
    "PATH",
    "SHELL",
    "TERM",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// Prefixes of variables whose names the report holds, without their values.
const NAMED_PREFIXES: [&str; 3] = ["MAINSTAY_", "XDG_", "npm_config_"];

/// The minimum length of a variable's value that is hidden in all texts. A shorter value may be a common
/// word.
const MIN_SECRET: usize = 6;

/// The maximum length of a quoted text from an invalid configuration. A longer text may be a secret. Keys of
/// the configuration are shorter.
const LONGEST_WORD: usize = 10;

/// Words in the names of variables whose values are secret.
const SECRET_WORDS: [&str; 8] = [
    "AUTH",
    "COOKIE",
    "CREDENTIAL",
    "KEY",
    "PASS",
    "PWD",
    "SECRET",
    "TOKEN",
];

/// URL paths that are common and therefore not secret.
const PLAIN_PATHS: [&str; 5] = ["", "/", "/mcp", "/mcp/", "/sse"];

/// The sources of the report.
pub struct Material<'a> {
    pub findings: &'a [DoctorFinding],
    pub config: Option<&'a Config>,
    pub path: Option<&'a Path>,
    /// The text of the configuration's file.
    pub text: Option<&'a str>,
    pub state: Option<&'a StateDir>,
    pub client: Option<&'a Client>,
    pub servers: &'a [Server],
}

/// Writes the report. Only its owner can read it.
pub async fn write(file: &Path, material: &Material<'_>) -> Result<(), CommandError> {
    let report = clean(report(material).await, &HiddenTexts::collect(material));
    let text = format!("{report:#}\n");
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    state::write_private(&file, text.as_bytes()).map_err(|source| CommandError::Cannot {
        code: "cannot_write",
        message: format!("cannot write {}: {source}", file.display()),
        hint: None,
    })
}

async fn report(material: &Material<'_>) -> Value {
    let configuration = material.path.zip(material.text).map(|(path, text)| {
        let document = Document::read(text, Syntax::of_path(path));
        match document.and_then(|document| document.value()) {
            Ok(value) => masked(&value, ""),
            // Leave out the text if it is not JSON, because a secret may be anywhere in it.
            Err(_) => Value::String("cannot be read as JSON".to_owned()),
        }
    });
    json!({
        "about": "a report of `mainstay doctor`; secrets are taken out, but look through it before you pass it on",
        "mainstay": env!("CARGO_PKG_VERSION"),
        "system": {"os": env::consts::OS, "arch": env::consts::ARCH, "kernel": kernel()},
        "time": chrono::Utc::now().to_rfc3339(),
        "variables": variables(own_variables()),
        "stateDirectory": material.state.map(StateDir::path),
        "configurationFile": material.path,
        "configuration": configuration,
        "findings": material.findings,
        "servers": material.servers,
        "logs": logs(material).await,
    })
}

#[cfg(unix)]
fn kernel() -> String {
    let uname = rustix::system::uname();
    uname.release().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn kernel() -> String {
    String::new()
}

/// The variables of this process whose names and values are UTF-8.
fn own_variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn variables(all: impl Iterator<Item = (String, String)>) -> Map<String, Value> {
    let listed = all.filter_map(|(name, value)| {
        if SHOWN_VARIABLES.contains(&name.as_str()) {
            Some((name, Value::String(value)))
        } else if NAMED_PREFIXES.iter().any(|start| name.starts_with(start)) {
            Some((name, Value::String(HIDDEN.to_owned())))
        } else {
            None
        }
    });
    listed.collect()
}

async fn logs(material: &Material<'_>) -> Map<String, Value> {
    let mut logs = Map::new();
    for server in material.servers {
        let entries = match (material.client, material.state) {
            (Some(client), _) => client
                .logs(&server.name, MAX_LOG_LINES)
                .await
                .ok()
                .map(|logs| {
                    logs.lines
                        .into_iter()
                        .map(|line| format!("{} {} {}", line.time, line.source, line.text))
                        .collect()
                }),
            (None, Some(state)) => stored_log(state, &server.name),
            (None, None) => None,
        };
        if let Some(entries) = entries {
            logs.insert(server.name.clone(), Value::from(entries as Vec<String>));
        }
    }
    logs
}

/// The end of the log file of a server whose daemon has stopped.
fn stored_log(state: &StateDir, server: &str) -> Option<Vec<String>> {
    state.check().ok()?;
    let path = state.path().join("logs").join(format!("mcp-{server}.log"));
    let text = state::read_private(&path).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let lines = &lines[lines.len().saturating_sub(MAX_LOG_LINES)..];
    Some(lines.iter().map(ToString::to_string).collect())
}

/// The secrets that the report must not hold.
#[derive(Default)]
struct HiddenTexts {
    /// The secrets of each server's entry.
    secrets: Vec<Secrets>,
    /// Exact texts with their replacements, the longest first.
    texts: Vec<(String, String)>,
}

impl HiddenTexts {
    fn collect(material: &Material<'_>) -> Self {
        let servers = material.config.map(|config| &config.servers[..]);
        let servers = servers.unwrap_or_default();
        let secrets = servers.iter().filter_map(Secrets::from_config).collect();
        let mut texts = BTreeSet::new();
        for server in servers {
            match &server.launch {
                Launch::Stdio(launch) => {
                    texts.extend(launch.env.values().map(|value| value.expose().to_owned()));
                }
                Launch::Http(http) => {
                    texts.extend(
                        http.headers
                            .iter()
                            .map(|(_, value)| value.expose().to_owned()),
                    );
                    texts.extend(path_of(&http.url));
                }
                Launch::Broken(_) | Launch::Unapproved => {}
            }
        }
        if material.config.is_none() {
            texts.extend(material.text.map(quoted).unwrap_or_default());
        }
        for (name, value) in own_variables() {
            let name = name.to_ascii_uppercase();
            if SECRET_WORDS.iter().any(|word| name.contains(word))
                && name != "PWD"
                && name != "OLDPWD"
            {
                texts.insert(value);
            }
        }
        if let Some(state) = material.state {
            texts.extend(
                state::read_token(&state.path().join("token"))
                    .ok()
                    .map(|token| token.expose().to_owned()),
            );
        }
        Self {
            secrets,
            texts: replacements(texts),
        }
    }

    fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (hidden, replacement) in &self.texts {
            if text.contains(hidden.as_str()) {
                text = text.replace(hidden.as_str(), replacement);
            }
        }
        for secrets in &self.secrets {
            text = secrets.hide(&text).into_owned();
        }
        redact::redact(&text).into_owned()
    }
}

/// The long quoted texts of an invalid configuration. Any of them may be a secret. Short texts are keys.
fn quoted(text: &str) -> Vec<String> {
    let parts = text.split(['"', '\'']).skip(1);
    let is_text = |part: &&str| part.len() > LONGEST_WORD && !part.contains(['\n', '{', '}']);
    parts.filter(is_text).map(str::to_owned).collect()
}

/// The path of a server's URL, unless it is a common path. Some providers put a key into the path.
fn path_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let path = &rest[rest.find('/')?..];
    let path = path.split(['?', '#']).next().unwrap_or_default();
    (!PLAIN_PATHS.contains(&path)).then(|| path.to_owned())
}

fn replacements(texts: BTreeSet<String>) -> Vec<(String, String)> {
    let is_plain = |text: &str| {
        text.len() < MIN_SECRET || matches!(text, "true" | "false") || text.parse::<f64>().is_ok()
    };
    let secrets = texts.into_iter().filter(|text| !is_plain(text));
    let mut texts: Vec<_> = secrets.map(|text| (text, HIDDEN.to_owned())).collect();
    // The name of the home folder is often the person's name.
    let home = env::home_dir().and_then(|home| home.into_os_string().into_string().ok());
    let home = home.filter(|home| home.len() > 1);
    texts.extend(home.map(|home| (home, "~".to_owned())));
    texts.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    texts
}

/// Hides the secrets in all texts and keys of a value.
fn clean(value: Value, hidden: &HiddenTexts) -> Value {
    match value {
        Value::String(text) => Value::String(hidden.hide(&text)),
        Value::Array(elements) => elements
            .into_iter()
            .map(|element| clean(element, hidden))
            .collect(),
        Value::Object(members) => {
            let cleaned = members
                .into_iter()
                .map(|(key, value)| (hidden.hide(&key), clean(value, hidden)));
            Value::Object(cleaned.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_shown_where_they_are_known_to_be_harmless() {
        let all = [
            ("PATH", "/bin"),
            ("MAINSTAY_TOKEN", "canary"),
            ("HOME_SECRET", "canary"),
        ];
        let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let listed = variables(all.into_iter());
        assert_eq!(
            Value::Object(listed),
            json!({"PATH": "/bin", "MAINSTAY_TOKEN": HIDDEN})
        );
    }

    #[test]
    fn a_path_with_a_key_is_found() {
        assert_eq!(
            path_of("https://h/api/s/KEY/mcp?x=y").as_deref(),
            Some("/api/s/KEY/mcp")
        );
        assert_eq!(path_of("https://h/mcp"), None);
        assert_eq!(path_of("https://h"), None);
    }
}
