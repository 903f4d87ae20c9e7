//! Entries before they are saved: trial runs, pasted text, the files of other clients; the configuration
//! as text; profiles.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Plan;

/// Takes an entry, answers [`TrialRun`].
pub const TRY: &str = "/api/servers/try";
/// Takes a [`PastedText`], answers [`ImportPreview`].
pub const IMPORT_PREVIEW: &str = "/api/import/preview";
/// [`ClientFiles`]
pub const CLIENT_FILES: &str = "/api/client-files";
/// Takes an [`ImportFromClient`], answers [`ImportedFromClient`].
pub const IMPORT_FROM_CLIENT: &str = "/api/client-files/import";
/// Takes a [`CheckConfig`], answers [`CheckedConfig`].
pub const CHECK_CONFIG: &str = "/api/config/check";
/// [`ConfigText`]; PUT takes a [`SetConfigText`].
pub const CONFIG_TEXT: &str = "/api/config/text";
/// [`Profiles`]
pub const PROFILES: &str = "/api/profiles";

/// `POST /api/servers/try`: what a server does that was started once and is gone again.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialRun {
    /// Whether it was up, and its lists could be read.
    pub success: bool,
    pub name: String,
    pub shown: ShownTarget,
    /// How long the handshake took, with the start of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_ms: Option<u64>,
    /// What the server calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerInfo>,
    /// The revision of MCP that is spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// Those that clients would have.
    pub tools: Vec<TrialTool>,
    /// Resources and templates.
    pub resource_count: usize,
    pub prompt_count: usize,
    /// Why it was not up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What a person can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    /// The last lines of its stderr.
    pub stderr: Vec<String>,
    /// What is odd about the entry without being wrong.
    pub warnings: Vec<String>,
}

/// What an entry starts or asks. Secrets are `***`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShownTarget {
    /// The program and its arguments; empty for a server with a URL.
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The names of its variables.
    pub env: Vec<String>,
    /// The names of its headers.
    pub headers: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ServerInfo {
    pub name: String,
    pub version: String,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct TrialTool {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// `POST /api/import/preview`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PastedText {
    /// At most 1 MiB.
    pub text: String,
}

/// The servers in a pasted text.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ImportPreview {
    pub servers: Vec<PreviewedServer>,
    /// What the text was read as, in words.
    pub format: String,
    /// What is not read as it stands there.
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PreviewedServer {
    pub name: String,
    /// As the configuration would have it.
    #[schema(value_type = Object)]
    pub entry: Map<String, Value>,
    pub notes: Vec<String>,
    /// Whether there is a server of this name.
    pub exists: bool,
}

/// `GET /api/client-files`: what other MCP clients of this user have.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientFiles {
    pub clients: Vec<ClientOnMachine>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientOnMachine {
    /// `cursor`
    pub id: String,
    /// `Cursor`
    pub title: String,
    /// Whether it has a file here.
    pub installed: bool,
    /// The file to which it adds servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The names of its servers; without Mainstay, and without what is no server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
    /// What these servers run or ask, in the same order; secrets are `***`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<ClientFileEntry>>,
    /// Whether one of its files leads to Mainstay.
    pub mainstay: bool,
    /// Why its files cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub snippet: ClientSnippet,
}

/// A server in the file of another client. Secrets are `***`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientFileEntry {
    /// Its name in the client's file.
    pub name: String,
    /// The program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The entry that has a client use this Mainstay.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientSnippet {
    pub language: SnippetLanguage,
    pub text: String,
    /// The file that it goes into.
    #[serde(rename = "where")]
    pub place: String,
    /// The entry by URL, with `mst_TOKEN` in the place of a token. Left out for clients that take no URL.
    #[serde(default, rename = "withToken", skip_serializing_if = "Option::is_none")]
    pub with_token: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SnippetLanguage {
    Json,
    Toml,
    Yaml,
    Shell,
}

/// `POST /api/client-files/import`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ImportFromClient {
    /// `cursor`
    pub client: String,
    /// By their names in the client's files; without it all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
    /// Whether they are written into the configuration's file, and outlive a restart.
    #[serde(default)]
    pub persist: bool,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ImportedFromClient {
    /// By their names here.
    pub added: Vec<String>,
    pub skipped: Vec<SkippedServer>,
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SkippedServer {
    /// Its name in the client's file.
    pub name: String,
    pub reason: String,
}

/// `POST /api/config/check`: either of the two.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct CheckConfig {
    /// As the file would have it; placeholders stand for secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Map<String, Value>>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CheckedConfig {
    /// Whether a PUT would be taken.
    pub valid: bool,
    pub findings: Vec<ConfigFinding>,
    /// What a PUT would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigFinding {
    pub severity: FindingSeverity,
    /// `mcpServers.fs.args[1]`, or empty for the file as a whole.
    pub path: String,
    /// From 1, of the text that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// From 1, in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A line for people: `warning: LINE:COLUMN: PATH: MESSAGE (HINT)`.
impl fmt::Display for ConfigFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.severity == FindingSeverity::Warning {
            f.write_str("warning: ")?;
        }
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    Error,
    Warning,
}

/// `GET /api/config/text`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigText {
    /// The file as it is, comments included; secrets are placeholders.
    pub text: String,
    pub path: String,
    /// Of the file as it is. A PUT repeats it.
    pub digest: String,
}

/// `PUT /api/config/text`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SetConfigText {
    /// With placeholders or secrets.
    pub text: String,
    /// [`ConfigText::digest`], as it was when the text was read.
    pub digest: String,
}

/// `GET /api/profiles`, the one at `/mcp` first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Profiles {
    pub profiles: Vec<Profile>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Profile {
    pub name: String,
    /// Where clients reach it: `/mcp/NAME`, and `/mcp` for the default.
    pub path: String,
    pub default: bool,
    /// How its tools are named.
    pub naming: String,
    /// The servers that it has now.
    pub servers: Vec<String>,
    /// How many tools of servers it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// The groups of Mainstay's own tools that it has.
    pub builtin: Vec<String>,
    /// As the file has it; nothing for one that the file says nothing of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub entry: Option<Value>,
}
