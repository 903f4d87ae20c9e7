//! The configuration: a file's text in, valid types out.
//!
//! Everything is decided here, before a port is bound (invariant 11). What one server's entry gets
//! wrong makes that server [`Launch::Broken`] and leaves the others alone; what the file gets wrong
//! is an error of the file.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use crate::ids::ServerName;

/// A valid configuration; servers stand in the order of the file.
#[derive(Clone, Debug)]
pub struct Config {
    pub servers: Vec<ServerConfig>,
    pub naming: Naming,
    /// Longest exposed tool name, in characters (`maxNameLength`, default 48).
    pub max_name_length: usize,
    /// How long lists and `/readyz` wait for a server's first attempt (`startup.waitMs`, default 5 s).
    pub startup_wait: Duration,
    /// Items per page of our own lists; `None` = one page (`pageSize`).
    pub page_size: Option<usize>,
    /// Largest request body a client may send, in bytes (`http.maxBodyBytes`, default 64 MiB).
    pub max_body_bytes: usize,
    /// Host header values accepted beside loopback names and the listen address (`http.allowedHosts`).
    pub allowed_hosts: Vec<String>,
    /// Origins accepted beside loopback ones (`http.allowedOrigins`).
    pub allowed_origins: Vec<String>,
}

/// How tools and prompts are named on `/mcp` (design section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Naming {
    /// `server__tool`
    #[default]
    DoubleUnderscore,
    /// `server/tool`
    Slash,
    /// `tool`; names that two servers claim appear prefixed.
    None,
    /// `mcp__server__tool`
    McpPrefix,
}

/// One server's entry, complete with defaults.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub name: ServerName,
    pub launch: Launch,
    /// `enabled` (default true; `disabled: true` is its opposite).
    pub enabled: bool,
    /// `autoStart` (default true).
    pub auto_start: bool,
    /// `auto_reconnect` / `autoReconnect` (default true).
    pub auto_reconnect: bool,
    /// A call's deadline (`timeout` in ms or `timeout_s`, default 30 s).
    pub call_timeout: Duration,
    /// How far progress may extend a call (`maxTimeoutMs`, default 10 × `call_timeout`, at least 10 min).
    pub max_call_timeout: Duration,
    /// Spawn or connect, and handshake (`connectTimeoutMs`, default 30 s).
    pub connect_timeout: Duration,
    /// Largest message a server may send, in bytes (`maxMessageBytes`, default 64 MiB).
    pub max_message_bytes: usize,
    /// Original tool names that are neither listed nor callable (`disabledTools`).
    pub disabled_tools: Vec<String>,
    /// How many upstream sessions `/servers/<name>/mcp` may hold (`maxSessions`, 8 stdio, 64 HTTP).
    pub max_sessions: usize,
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub enum Launch {
    Stdio(StdioLaunch),
    Http(HttpLaunch),
    /// The entry is wrong; the reason is shown in `validate` and in the server's status.
    Broken(ConfigError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdioLaunch {
    pub command: String,
    pub args: Vec<String>,
    /// Set in the child, over what is inherited. Values may be secrets.
    pub env: BTreeMap<String, Secret>,
    pub cwd: Option<PathBuf>,
    pub inherit_env: InheritEnv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InheritEnv {
    #[default]
    Process,
    LoginShell,
    None,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLaunch {
    /// `http://` or `https://`, checked.
    pub url: String,
    /// Names lower-case and valid, values without line breaks; `bearerToken` becomes `authorization`.
    pub headers: Vec<(String, Secret)>,
    pub transport: HttpTransport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HttpTransport {
    /// Streamable HTTP first, then HTTP+SSE (requirement Y13).
    #[default]
    Detect,
    StreamableHttp,
    Sse,
}

/// A text that shows itself to nobody: `Debug` and `Display` print `***` (invariant 12).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that must send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// What is wrong, where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ConfigError {
    /// `mcpServers.fs.args[1]`, or empty for the file as a whole.
    pub path: String,
    pub message: String,
    /// 1-based line and column, where known.
    pub position: Option<(usize, usize)>,
}
