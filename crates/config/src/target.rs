//! The target of a server's name: its program or URL, with arguments, variables and headers. Traffic for one target
//! must not reach another target to which a client gave the same name.

use std::borrow::Cow;

use mainstay_core::{
    catalog::digest_of,
    config::{HttpLaunch, Launch, ServerConfig, StdioLaunch, without_query},
    display::shortened,
    ids::ServerName,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::masking;

/// The keys of an entry that decide where traffic goes, and what is sent with it.
const KEYS: [&str; 20] = [
    "args",
    "bearerToken",
    "caFile",
    "clientCert",
    "clientKey",
    "command",
    "cwd",
    "env",
    "envFile",
    "headers",
    "headersHelper",
    "healthCheckUrl",
    "httpUrl",
    "inheritEnv",
    "inputParams",
    "proxy",
    "remoteUrl",
    "requestInit",
    "serverUrl",
    "url",
];

/// Maximum number of command words, and of names of each kind, that a target keeps for display. One file holds
/// thousands of targets.
const MAX_SHOWN: usize = 16;

/// Maximum length of a text in a target, in characters.
const LONGEST_SHOWN: usize = 128;

/// A server's target without its secrets, for comparison and display.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTarget {
    /// A digest of the entry's [`KEYS`] with unexpanded references. `None` if the entry is not known. Such a target
    /// equals no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// The program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The names of its variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The names of its headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
}

impl ServerTarget {
    /// The target of an entry whose references are not expanded.
    pub fn of_entry(entry: &Map<String, Value>) -> Self {
        let is_set = |key: &&str| entry.get(*key).is_some_and(|value| !value.is_null());
        let parts: Vec<String> = KEYS
            .into_iter()
            .filter(is_set)
            .flat_map(|key| [key.to_owned(), entry[key].to_string()])
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let masked = masking::masked_entry(entry, "");
        let words = |key: &str| match &masked.get(key) {
            Some(Value::Array(words)) => words.iter().take(MAX_SHOWN).map(word).collect(),
            Some(Value::Null) | None => Vec::new(),
            Some(value) => vec![word(value)],
        };
        let names = |key: &str| match entry.get(key) {
            Some(Value::Object(members)) => members
                .keys()
                .take(MAX_SHOWN)
                .map(|name| cut(name))
                .collect(),
            _ => Vec::new(),
        };
        let url = ["url", "serverUrl", "httpUrl", "remoteUrl"];
        let url = url.into_iter().find_map(|key| entry.get(key)?.as_str());
        let mut headers: Vec<String> = names("headers");
        if entry.contains_key("bearerToken") {
            headers.push("authorization".to_owned());
        }
        Self {
            digest: Some(digest_of(&parts)),
            command: [words("command"), words("args")].concat(),
            url: url.map(|url| cut(&without_secrets(url))),
            env: names("env"),
            headers,
        }
    }

    /// The target of a server whose entry is not known. Its arguments are left out, because they may contain
    /// expanded secrets.
    pub fn of_config(config: &ServerConfig) -> Self {
        match &config.launch {
            Launch::Stdio(StdioLaunch { command, env, .. }) => Self {
                command: vec![cut(command)],
                env: env.keys().take(MAX_SHOWN).map(|name| cut(name)).collect(),
                ..Self::default()
            },
            Launch::Http(HttpLaunch { url, headers, .. }) => Self {
                url: Some(cut(&without_secrets(url))),
                headers: headers
                    .iter()
                    .take(MAX_SHOWN)
                    .map(|(name, _)| cut(name))
                    .collect(),
                ..Self::default()
            },
            Launch::Broken(_) | Launch::Unapproved => Self::default(),
        }
    }

    /// True if traffic goes to the same place, with the same arguments, variables and headers.
    pub fn is(&self, other: &Self) -> bool {
        self.digest.is_some() && self.digest == other.digest
    }
}

/// A word of a masked command. A placeholder becomes `***`, because its path means nothing to the reader.
fn word(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    match text.split_once(masking::START) {
        Some((before, _)) => cut(&format!("{before}***")),
        None => cut(&text),
    }
}

/// A URL without its query, user and password. An entry with a user or password in its URL is refused, but its
/// target is still shown.
fn without_secrets(url: &str) -> Cow<'_, str> {
    let url = without_query(url);
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}").into(),
        _ => url.into(),
    }
}

fn cut(text: &str) -> String {
    shortened(text, LONGEST_SHOWN)
}

/// A server's name without the differences that people and models overlook: case, hyphens and underscores.
pub fn folded(name: &ServerName) -> String {
    let letters = name.as_str().chars();
    let letters = letters.filter(|c| !matches!(c, '-' | '_'));
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(entry: Value) -> ServerTarget {
        let Value::Object(entry) = entry else {
            panic!("no entry: {entry}")
        };
        ServerTarget::of_entry(&entry)
    }

    /// A change of a key that decides where traffic goes makes another target. Other changes do not.
    #[test]
    fn what_makes_another_target() {
        let base = json!({"command": "npx", "args": ["-y", "a"], "env": {"A": "1"}, "url": "http://h", "headers": {"x": "1"}});
        let with = |key: &str, value: Value| {
            let mut entry = base.clone();
            entry[key] = value;
            target(entry)
        };
        let original = target(base.clone());
        for (key, value) in [
            ("command", json!("node")),
            ("args", json!(["-y", "b"])),
            ("args", json!(["-y a"])),
            ("env", json!({"A": "2"})),
            ("url", json!("http://i")),
            ("headers", json!({"x": "2"})),
            ("bearerToken", json!("t")),
            ("headersHelper", json!("./token")),
            ("cwd", json!("/tmp")),
            ("healthCheckUrl", json!("http://i")),
            ("httpUrl", json!("http://i")),
        ] {
            assert!(!with(key, value.clone()).is(&original), "{key}: {value}");
        }
        for (key, value) in [
            ("timeout", json!(5000)),
            ("enabled", json!(false)),
            ("cwd", json!(null)),
        ] {
            assert!(with(key, value.clone()).is(&original), "{key}: {value}");
        }
        assert!(
            !ServerTarget::default().is(&ServerTarget::default()),
            "nothing is known of either"
        );
    }

    #[test]
    fn no_secret_is_shown() {
        let shortened_target = target(json!({
            "command": "npx",
            "args": ["--token", "s3cret", "--key=${KEY}", "--api-key=s3cret", "sk-s3cret-s3cret"],
            "env": {"A": "s3cret"},
        }));
        let expected = [
            "npx",
            "--token",
            "***",
            "--key=${KEY}",
            "--api-key=***",
            "***",
        ];
        assert_eq!(shortened_target.command, expected);
        assert_eq!(shortened_target.env, ["A"]);
        let shortened_target = target(
            json!({"url": "http://h/mcp?key=s3cret", "headers": {"x": "s3cret"}, "bearerToken": "s3cret"}),
        );
        assert_eq!(shortened_target.url.as_deref(), Some("http://h/mcp"));
        assert_eq!(shortened_target.headers, ["x", "authorization"]);
        let text = serde_json::to_string(&shortened_target).expect("JSON");
        assert!(!text.contains("s3cret"), "{text}");
    }

    #[test]
    fn spellings_of_one_name() {
        let fold = |name: &str| folded(&ServerName::new(name).expect("a legal name"));
        for other in ["My-Server", "my_server", "MYSERVER", "my-s-erver"] {
            assert_eq!(fold(other), fold("my-server"), "{other}");
        }
        assert_ne!(fold("my-server2"), fold("my-server"));
    }
}
