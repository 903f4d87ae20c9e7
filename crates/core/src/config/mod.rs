//! The types of a valid configuration. The package `mainstay-config` reads them from a file's text, shows,
//! compares and edits them.

mod alerts;
pub mod defaults;
mod error;
mod glob;
mod journal;
mod oauth;
mod profiles;
mod secret;
mod server;
mod telemetry;
mod withheld;

use std::time::Duration;

use crate::{ids::ServerName, words::words};

pub use alerts::{Alert, AlertCommand, AlertKind, Flapping, Receiver, Webhook};
pub use error::{ConfigError, ConfigErrors, Located};
pub use glob::Glob;
pub use journal::{Durability, Journal, Payloads, Redact, redact_pattern};
pub use oauth::{Grant, OAuth};
pub use profiles::{Expose, Profile, ToolEdit, ToolFilter};
pub use secret::Secret;
pub use server::{
    Broken, HttpLaunch, HttpTransport, InheritEnv, Isolation, Launch, ListChanged, PathOrder,
    Protocol, Root, ServerConfig, ServerRequests, StdioLaunch, without_query,
};
pub use telemetry::Telemetry;
pub use withheld::{ALL_TOOLS, NO_PATTERNS, Withheld};

/// A valid configuration; servers stand in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub servers: Vec<ServerConfig>,
    pub naming: Naming,
    /// Longest exposed tool name, in characters (`maxNameLength`, default 48).
    pub max_name_length: usize,
    /// How long lists and `/readyz` wait for a server's first attempt (`startup.waitMs`, default 5 s).
    pub startup_wait: Duration,
    /// How long calls at work may take when Mainstay stops (`shutdown.graceMs`, default 5 s).
    pub shutdown_grace: Duration,
    /// Items per page of our own lists; `None` = one page (`pageSize`).
    pub page_size: Option<usize>,
    /// Largest request body a client may send, in bytes (`http.maxBodyBytes`, default 64 MiB).
    pub max_body_bytes: usize,
    /// Bytes of all request bodies that are being read or answered (`http.maxBodiesBytes`, default
    /// 256 MiB).
    pub max_bodies_bytes: usize,
    /// Bytes of all answers that clients do not read (`http.maxUnreadBytes`, default 256 MiB).
    pub max_unread_bytes: usize,
    /// How long a request body may take (`http.bodyTimeoutMs`, default 5 minutes).
    pub body_timeout: Duration,
    /// Sessions of all clients (`http.maxSessions`, default 20,000).
    pub max_sessions: usize,
    /// Sessions of one token or, without one, of one address (`http.maxSessionsPerClient`, default
    /// 10,000).
    pub max_sessions_per_client: usize,
    /// Connections of all clients (`http.maxConnections`, default 4096).
    pub max_connections: usize,
    /// Connections from one address (`http.maxConnectionsPerAddress`, default 3072).
    pub max_connections_per_address: usize,
    /// Host header values accepted beside loopback names and the listen address (`http.allowedHosts`).
    pub allowed_hosts: Vec<String>,
    /// Origins accepted beside loopback ones (`http.allowedOrigins`).
    pub allowed_origins: Vec<String>,
    /// Whether the MCP paths ask for a token (`http.requireToken`); `None` asks where there are clients'
    /// tokens, or others can reach the address.
    pub require_token: Option<bool>,
    /// Whether the web page is served, and people can sign in on it (`http.page`, default true).
    pub page: bool,
    /// Whether the web page shows tools of servers (`ui.externalTools`, default true).
    pub external_tools: bool,
    /// Attempts of the whole fleet to reach servers over the network, per second
    /// (`maxAttemptsPerSecond`, default 50).
    pub max_attempts_per_second: u32,
    /// Processes that may be starting at once (`startup.maxConcurrent`); `None` follows the load.
    pub max_concurrent_starts: Option<usize>,
    /// Alerts and their receivers (`alerts`).
    pub alerts: Vec<Alert>,
    /// How calls are recorded (`journal`).
    pub journal: Journal,
    /// Where traces of calls are sent (`telemetry`); `None` sends none.
    pub telemetry: Option<Telemetry>,
    /// The MCP registry that `mainstay add` and `search` ask; `None` is the official one.
    pub registry_url: Option<String>,
    /// What each endpoint shows (`profiles`): the one at `/mcp` first, `meta`, and the file's own.
    pub profiles: Vec<Profile>,
}

impl Config {
    /// Takes the launches of these servers where only a file that an entry refers to cannot be read.
    /// Returns the servers that keep their launches, with what is wrong.
    pub fn keep_launches(&mut self, in_force: &Self) -> Vec<(ServerName, Vec<ConfigError>)> {
        let mut kept = Vec::new();
        for server in &mut self.servers {
            let known = in_force.servers.iter().find(|it| it.name == server.name);
            let problems = known.map(|known| server.keep_launch(known));
            let problems = problems.filter(|problems| !problems.is_empty());
            kept.extend(problems.map(|problems| (server.name.clone(), problems)));
        }
        kept
    }

    /// Whether a server waits for a file that its entry refers to.
    pub fn awaits_files(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| server.enabled && server.awaits_files())
    }

    /// Everything that keeps a server from being launched, in the order of the file.
    pub fn problems(&self) -> impl Iterator<Item = (&ServerName, &ConfigError)> {
        self.servers.iter().flat_map(|server| {
            server
                .problems()
                .map(move |problem| (&server.name, problem))
        })
    }

    /// Adds servers given on the command line; one with a name of the file takes its place.
    #[must_use]
    pub fn with_inline(mut self, servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        for server in servers {
            match self
                .servers
                .iter_mut()
                .find(|known| known.name == server.name)
            {
                Some(known) => *known = server,
                None => self.servers.push(server),
            }
        }
        self
    }

    /// How often servers are asked where the file does not say; `None` is never
    /// (`--health-interval`). A preset alone does not say it.
    #[must_use]
    pub fn with_health_interval(mut self, interval: Option<Duration>) -> Self {
        for server in &mut self.servers {
            if !server.health_interval_stated {
                server.policy.health.interval = interval;
            }
        }
        self
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            naming: Naming::default(),
            max_name_length: defaults::MAX_NAME_LENGTH,
            startup_wait: defaults::STARTUP_WAIT,
            shutdown_grace: defaults::SHUTDOWN_GRACE,
            page_size: None,
            max_body_bytes: defaults::MAX_BODY_BYTES,
            max_bodies_bytes: defaults::MAX_BODIES_BYTES,
            max_unread_bytes: defaults::MAX_UNREAD_BYTES,
            body_timeout: defaults::BODY_TIMEOUT,
            max_sessions: defaults::MAX_CLIENT_SESSIONS,
            max_sessions_per_client: defaults::MAX_SESSIONS_PER_CLIENT,
            max_connections: defaults::MAX_CONNECTIONS,
            max_connections_per_address: defaults::MAX_CONNECTIONS_PER_ADDRESS,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            require_token: None,
            page: true,
            external_tools: true,
            max_attempts_per_second: defaults::MAX_ATTEMPTS_PER_SECOND,
            max_concurrent_starts: None,
            alerts: Vec::new(),
            journal: Journal::default(),
            telemetry: None,
            registry_url: None,
            profiles: Profile::built_in(),
        }
    }
}

/// How tools and prompts are named on `/mcp`, where a profile does not say otherwise.
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

words!(Naming {
    "double_underscore" => DoubleUnderscore,
    "slash" => Slash,
    "none" => None,
    "mcp_prefix" => McpPrefix,
});
