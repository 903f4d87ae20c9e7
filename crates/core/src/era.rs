//! What differs between protocol revisions, as data. No other room asks which revision it is; it
//! asks what the revision can do.

use serde::Serialize;
use serde_json::Value;

/// The revisions that open with `initialize` (specification, "Versioning").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    #[default]
    V2025_11_25,
}

impl Revision {
    pub const ALL: [Self; 4] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
    ];
    pub const LATEST: Self = Self::V2025_11_25;
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// What an HTTP request without `MCP-Protocol-Version` and without a session is taken for.
    pub const ASSUMED: Self = Self::V2025_03_26;

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|revision| revision.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    /// What a server answers to a client that asks for `requested`: the same if it knows it, else
    /// its latest (specification, "Lifecycle").
    pub fn negotiate(requested: &str) -> Self {
        Self::parse(requested).unwrap_or(Self::LATEST)
    }

    /// JSON-RPC batches: 2025-03-26 must receive them, later revisions removed them.
    pub const fn accepts_batches(self) -> bool {
        matches!(self, Self::V2025_03_26)
    }

    /// Whether HTTP requests carry `MCP-Protocol-Version`.
    pub const fn sends_version_header(self) -> bool {
        matches!(self, Self::V2025_06_18 | Self::V2025_11_25)
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a server declared that a gateway must know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Capabilities {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    pub subscribe: bool,
    pub logging: bool,
    pub completions: bool,
}

/// What matters of a server's answer to `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    pub revision: Revision,
    pub capabilities: Capabilities,
    pub instructions: Option<String>,
    /// `serverInfo.name` and `serverInfo.version`, for people.
    pub server_info: Option<(String, String)>,
}

/// Why an answer to `initialize` opens no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwelcome {
    #[error("the answer to initialize is not an object with \"protocolVersion\"")]
    Shape,
    #[error("the server speaks protocol revision {0:?}, which Mainstay does not know")]
    Revision(String),
}

impl Greeting {
    /// Reads the result of `initialize`.
    pub fn read(result: &str) -> Result<Self, Unwelcome> {
        let value: Value = serde_json::from_str(result).map_err(|_| Unwelcome::Shape)?;
        let version = value["protocolVersion"].as_str().ok_or(Unwelcome::Shape)?;
        let revision =
            Revision::parse(version).ok_or_else(|| Unwelcome::Revision(version.to_owned()))?;
        let declared = &value["capabilities"];
        let has = |name: &str| declared.get(name).is_some_and(Value::is_object);
        let info = &value["serverInfo"];
        Ok(Self {
            revision,
            capabilities: Capabilities {
                tools: has("tools"),
                prompts: has("prompts"),
                resources: has("resources"),
                subscribe: declared["resources"]["subscribe"] == Value::Bool(true),
                logging: has("logging"),
                // Before 2025-03-26 there was no such capability: whoever had prompts or
                // resources could complete.
                completions: has("completions")
                    || revision == Revision::V2024_11_05 && (has("prompts") || has("resources")),
            },
            instructions: value["instructions"].as_str().map(str::to_owned),
            server_info: info["name"].as_str().map(|name| {
                (
                    name.to_owned(),
                    info["version"].as_str().unwrap_or_default().to_owned(),
                )
            }),
        })
    }
}

/// What a client declared, as far as servers may ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCapabilities {
    raw: Box<str>,
    sampling: bool,
    elicitation: bool,
    elicitation_url: bool,
    roots: bool,
}

impl ClientCapabilities {
    pub fn read(raw: &str) -> Self {
        let value: Value = serde_json::from_str(raw).unwrap_or_default();
        let has = |name: &str| value.get(name).is_some_and(Value::is_object);
        let elicitation = &value["elicitation"];
        let url = elicitation.get("url").is_some_and(Value::is_object);
        Self {
            raw: raw.into(),
            sampling: has("sampling"),
            elicitation: has("elicitation") && (!url || elicitation.get("form").is_some()),
            elicitation_url: url,
            roots: has("roots"),
        }
    }

    pub fn none() -> Self {
        Self::read("{}")
    }

    pub fn all() -> Self {
        Self::read(r#"{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}"#)
    }

    pub fn roots_only() -> Self {
        Self::read(r#"{"roots":{}}"#)
    }

    pub fn raw(&self) -> &str {
        &self.raw
    }

    pub fn allows(&self, question: crate::message::Method, params: &str) -> bool {
        use crate::message::Method;
        match question {
            Method::CreateMessage => self.sampling,
            Method::Elicit => {
                if crate::message::text_member(params, "mode").as_deref() == Some("url") {
                    self.elicitation_url
                } else {
                    self.elicitation
                }
            }
            Method::RootsList => self.roots,
            _ => true,
        }
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    pub revision: Revision,
    pub capabilities: std::sync::Arc<ClientCapabilities>,
    pub client_info: Option<Box<str>>,
    pub log_level: Option<LogLevel>,
}

impl Caller {
    pub fn at(revision: Revision) -> Self {
        Self {
            revision,
            capabilities: std::sync::Arc::new(ClientCapabilities::none()),
            client_info: None,
            log_level: None,
        }
    }

    pub fn of_initialize(params: &str) -> Self {
        let requested = crate::message::text_member(params, "protocolVersion").unwrap_or_default();
        let capabilities = crate::message::member(params, "capabilities").unwrap_or("{}");
        Self {
            revision: Revision::negotiate(&requested),
            capabilities: std::sync::Arc::new(ClientCapabilities::read(capabilities)),
            client_info: crate::message::member(params, "clientInfo").map(Into::into),
            log_level: None,
        }
    }
}

impl Default for Caller {
    fn default() -> Self {
        Self::at(Revision::LATEST_LEGACY)
    }
}

/// The result of `roots/list`.
pub fn roots(roots: &[crate::config::Root]) -> String {
    let roots: Vec<Value> = roots
        .iter()
        .map(|root| match &root.name {
            Some(name) => serde_json::json!({"uri": root.uri, "name": name}),
            None => serde_json::json!({"uri": root.uri}),
        })
        .collect();
    serde_json::json!({ "roots": roots }).to_string()
}

/// RFC 5424 severities, most verbose first (specification, "Logging").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    const ALL: [(&'static str, Self); 8] = [
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("notice", Self::Notice),
        ("warning", Self::Warning),
        ("error", Self::Error),
        ("critical", Self::Critical),
        ("alert", Self::Alert),
        ("emergency", Self::Emergency),
    ];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, level)| *level)
    }

    pub fn as_str(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, level)| *level == self)
            .map_or("", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_revision_is_mirrored_and_an_unknown_one_gets_the_latest() {
        for revision in Revision::ALL {
            assert_eq!(Revision::negotiate(revision.as_str()), revision);
        }
        assert_eq!(Revision::negotiate("1999-01-01"), Revision::LATEST);
    }

    #[test]
    fn a_greeting_says_what_the_server_offers() {
        let greeting = Greeting::read(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{"subscribe":true}},
                "serverInfo":{"name":"x","version":"1"},"instructions":"be kind"}"#,
        )
        .expect("a greeting");
        assert_eq!(greeting.revision, Revision::V2025_06_18);
        assert!(
            greeting.capabilities.tools
                && greeting.capabilities.subscribe
                && !greeting.capabilities.prompts
        );
        assert_eq!(greeting.instructions.as_deref(), Some("be kind"));
    }

    #[test]
    fn an_unknown_revision_and_a_foreign_answer_are_told_apart() {
        assert_eq!(Greeting::read("{}"), Err(Unwelcome::Shape));
        assert_eq!(
            Greeting::read(r#"{"protocolVersion":"1.0"}"#),
            Err(Unwelcome::Revision("1.0".to_owned()))
        );
    }
}
