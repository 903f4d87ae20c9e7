//! REST types of entries before they are saved (trials, pasted text, files of other clients), of
//! the configuration as text, and of profiles.

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

/// `POST /api/servers/try`: the result of starting a server once and stopping it again.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialRun {
    /// True if the server started and its lists were read.
    pub success: bool,
    pub name: String,
    #[serde(rename = "shown")]
    pub target: ShownTarget,
    /// Duration of the handshake, including the start of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_ms: Option<u64>,
    /// The name and version that the server declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerInfo>,
    /// The revision of MCP that was negotiated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// The tools that clients would see.
    pub tools: Vec<TrialTool>,
    /// Number of resources and resource templates.
    pub resource_count: usize,
    pub prompt_count: usize,
    /// The reason that the server did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Advice for a person after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    /// The last lines of stderr.
    pub stderr: Vec<String>,
    /// Warnings about the entry.
    pub warnings: Vec<String>,
}

/// The target of an entry. Secrets are `***`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShownTarget {
    /// The program and its arguments. Empty for a server with a URL.
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The names of its environment variables.
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
    /// The format that was recognised, as text for people.
    pub format: String,
    /// Parts of the text that were changed or ignored.
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PreviewedServer {
    pub name: String,
    /// The entry for the configuration.
    #[schema(value_type = Object)]
    pub entry: Map<String, Value>,
    pub notes: Vec<String>,
    /// True if the configuration has a server with this name.
    pub exists: bool,
}

/// `GET /api/client-files`: the servers in the files of other MCP clients of this user.
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
    /// True if the client has a file on this machine.
    pub installed: bool,
    /// The file to which the client adds servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The names of its servers. Mainstay's own entry and entries that are not servers are left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
    /// The targets of these servers, in the order of `servers`. Secrets are `***`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<ClientFileEntry>>,
    /// True if one of its files has an entry for Mainstay.
    pub mainstay: bool,
    /// The reason that its files cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub snippet: ClientSnippet,
}

/// A server in the file of another client. Secrets are `***`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientFileEntry {
    /// Its name in the client's file.
    pub name: String,
    /// The program, without its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The entry that connects a client to this Mainstay.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientSnippet {
    pub language: SnippetLanguage,
    pub text: String,
    /// The file for the entry.
    #[serde(rename = "where")]
    pub place: String,
    /// The entry by URL, with `mst_TOKEN` in place of a token. Absent for clients that do not
    /// support URLs.
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
    /// The names of the servers in the client's files. Without it, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
    /// True to write the servers to the configuration file, so that they survive a restart.
    #[serde(default)]
    pub persist: bool,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ImportedFromClient {
    /// The names of the servers in Mainstay.
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

/// `POST /api/config/check`: `text` or `config`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct CheckConfig {
    /// The content of the file. Placeholders stand for secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Map<String, Value>>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CheckedConfig {
    /// True if a PUT would be accepted.
    pub valid: bool,
    pub findings: Vec<ConfigFinding>,
    /// The effect of a PUT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigFinding {
    pub severity: FindingSeverity,
    /// The path of the value, such as `mcpServers.fs.args[1]`. Empty for the file as a whole.
    pub path: String,
    /// Counted from 1, in the text of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Counted from 1, in characters.
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
    /// The file, including its comments. Placeholders stand for secrets.
    pub text: String,
    pub path: String,
    /// The digest of the file. A PUT repeats it.
    pub digest: String,
}

/// `PUT /api/config/text`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SetConfigText {
    /// The new content, with placeholders or with secrets.
    pub text: String,
    /// [`ConfigText::digest`] of the text that was edited.
    pub digest: String,
}

/// `GET /api/profiles`, the default profile first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Profiles {
    pub profiles: Vec<Profile>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Profile {
    pub name: String,
    /// The path of its endpoint: `/mcp/NAME`, or `/mcp` for the default profile.
    pub path: String,
    pub default: bool,
    /// The naming scheme of its tools.
    pub naming: String,
    /// Its servers at present.
    pub servers: Vec<String>,
    /// Number of tools of servers in the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// Its groups of Mainstay's own tools.
    pub builtin: Vec<String>,
    /// The entry in the file. Absent if the file has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub entry: Option<Value>,
}
