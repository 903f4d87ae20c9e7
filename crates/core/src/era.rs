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
