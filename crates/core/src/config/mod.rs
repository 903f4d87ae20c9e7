//! The types of a valid configuration. The package `mainstay-config` reads them from the text of a
//! file, and shows, compares and edits them.

mod alerts;
pub mod defaults;
mod error;
mod glob;
mod issuers;
mod journal;
mod listener;
mod network;
mod oauth;
mod profiles;
mod secret;
mod server;
mod telemetry;
mod withheld;

use std::{sync::Arc, time::Duration};

use crate::{access::AccessPolicy, ids::ServerName, words::words};

pub use alerts::{Alert, AlertCommand, AlertKind, Flapping, Receiver, Webhook};
pub use error::{ConfigError, ConfigErrors, Located};
pub use glob::Glob;
pub use issuers::{
    IntrospectionSettings, IssuerFault, MAX_ISSUERS, MAX_LEEWAY, MAX_REQUIRED_SCOPES,
    SignatureAlgorithm, TrustedIssuer, check_issuers, is_secure_url,
};
pub use journal::{Durability, Journal, Payloads, Redact, redact_pattern};
pub use listener::{AddressRange, InvalidRange, ListenerTls};
pub use network::{NetworkSettings, ProxyChoice};
pub use oauth::{Grant, HeadersHelper, OAuth, SignIn};
pub use profiles::{Expose, ProfileConfig, ToolEdit, ToolFilter};
pub use secret::Secret;
pub use server::{
    Broken, HttpLaunch, HttpTransport, InheritEnv, Isolation, Launch, ListChanged, PathOrder,
    Protocol, Root, ServerConfig, ServerRequests, StdioLaunch, without_query,
};
pub use telemetry::Telemetry;
pub use withheld::{ALL_TOOLS, NO_PATTERNS, Withheld};

/// A valid configuration. Servers are in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub servers: Vec<ServerConfig>,
    pub naming: Naming,
    /// Maximum length of an exposed tool name, in characters (`maxNameLength`, default 48).
    pub max_name_length: usize,
    /// Time that lists and `/readyz` wait for a server's first attempt (`startup.waitMs`, default 5
    /// s).
    pub startup_wait: Duration,
    /// Time that calls in flight get to finish when Mainstay stops (`shutdown.graceMs`, default 5
    /// s).
    pub shutdown_grace: Duration,
    /// Items per page of Mainstay's own lists (`pageSize`). `None` puts all items on one page.
    pub page_size: Option<usize>,
    /// Maximum size of a request body, in bytes (`http.maxBodyBytes`, default 64 MiB).
    pub max_body_bytes: usize,
    /// Maximum size of all request bodies in progress, in bytes (`http.maxBodiesBytes`, default 256
    /// MiB).
    pub max_bodies_bytes: usize,
    /// Maximum size of all answers that clients have not read, in bytes (`http.maxUnreadBytes`,
    /// default 256 MiB).
    pub max_unread_bytes: usize,
    /// Time limit for reading a request body (`http.bodyTimeoutMs`, default 5 minutes).
    pub body_timeout: Duration,
    /// Maximum number of sessions of all clients (`http.maxSessions`, default 20,000).
    pub max_sessions: usize,
    /// Maximum number of sessions of one token or, without a token, of one address
    /// (`http.maxSessionsPerClient`, default 10,000).
    pub max_sessions_per_client: usize,
    /// Maximum number of connections of all clients (`http.maxConnections`, default 4096).
    pub max_connections: usize,
    /// Maximum number of connections from one address (`http.maxConnectionsPerAddress`, default
    /// 3072).
    pub max_connections_per_address: usize,
    /// Accepted values of the Host header, besides loopback names and the listen address
    /// (`http.allowedHosts`).
    pub allowed_hosts: Vec<String>,
    /// Accepted origins, besides loopback origins (`http.allowedOrigins`).
    pub allowed_origins: Vec<String>,
    /// The URL at which browsers reach Mainstay, if it is not the listen address
    /// (`http.publicUrl`).
    pub public_url: Option<String>,
    /// The certificate of the listener (`http.tls`). `None` serves plain HTTP.
    pub tls: Option<ListenerTls>,
    /// Proxies whose forwarding headers are believed (`http.trustedProxies`).
    pub trusted_proxies: Vec<AddressRange>,
    /// True if the MCP paths require a token (`http.requireToken`). `None` requires one if there
    /// are client tokens, or if other machines can reach the address.
    pub require_token: Option<bool>,
    /// True if the web page is served, so that people can sign in on it (`http.page`, default
    /// true).
    pub page: bool,
    /// True if the web page shows tools of servers (`ui.externalTools`, default true).
    pub external_tools: bool,
    /// Maximum number of attempts per second to reach remote servers, for all servers together
    /// (`maxAttemptsPerSecond`, default 50).
    pub max_attempts_per_second: u32,
    /// Maximum number of processes that start at the same time (`startup.maxConcurrent`). `None`
    /// limits starts by the load of the processors.
    pub max_concurrent_starts: Option<usize>,
    /// The rules of access (`access`). `None` allows everything.
    pub access: Option<Arc<AccessPolicy>>,
    /// Alerts and their receivers (`alerts`).
    pub alerts: Vec<Alert>,
    /// The settings for records of calls (`journal`).
    pub journal: Journal,
    /// The collector for traces of calls (`telemetry`). `None` sends no traces.
    pub telemetry: Option<Telemetry>,
    /// The MCP registry for `mainstay add` and `search`. `None` is the official one.
    pub registry_url: Option<String>,
    /// The profiles (`profiles`): the profile of `/mcp`, then `meta`, then the profiles of the
    /// file.
    pub profiles: Vec<ProfileConfig>,
}

impl Config {
    /// Keeps the current launch of each server whose new entry fails only because a file or secret
    /// cannot be read. Returns these servers with their problems.
    pub fn keep_launches(&mut self, in_force: &Self) -> Vec<(ServerName, Vec<ConfigError>)> {
        let mut kept_launches = Vec::new();
        for server in &mut self.servers {
            let mut servers_in_force = in_force.servers.iter();
            let running_server =
                servers_in_force.find(|running_server| running_server.name == server.name);
            let problems = running_server.map(|running_server| server.keep_launch(running_server));
            let problems = problems.filter(|problems| !problems.is_empty());
            kept_launches.extend(problems.map(|problems| (server.name.clone(), problems)));
        }
        kept_launches
    }

    /// True if an enabled server has no problem except a file or secret that cannot be read now.
    pub fn awaits_files(&self) -> bool {
        self.servers
            .iter()
            .any(|server| server.enabled && server.awaits_files())
    }

    /// All problems that prevent the launch of a server, in the order of the file.
    pub fn problems(&self) -> impl Iterator<Item = (&ServerName, &ConfigError)> {
        self.servers.iter().flat_map(|server| {
            server
                .problems()
                .map(move |problem| (&server.name, problem))
        })
    }

    /// Adds servers from the command line. They replace servers of the file with the same name.
    #[must_use]
    pub fn with_inline(mut self, servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        for server in servers {
            match self
                .servers
                .iter_mut()
                .find(|existing_server| existing_server.name == server.name)
            {
                Some(existing_server) => *existing_server = server,
                None => self.servers.push(server),
            }
        }
        self
    }

    /// Sets the probe interval of each server whose entry sets none (`--health-interval`). It
    /// overrides the interval of a preset. `None` disables probes.
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
            access: None,
            alerts: Vec::new(),
            journal: Journal::default(),
            telemetry: None,
            registry_url: None,
            public_url: None,
            tls: None,
            trusted_proxies: Vec::new(),
            profiles: ProfileConfig::built_in(),
        }
    }
}

/// The names of tools and prompts on `/mcp`, unless a profile has its own setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Naming {
    /// `server__tool`
    #[default]
    DoubleUnderscore,
    /// `server/tool`
    Slash,
    /// `tool`. If two servers claim the same name, a prefix tells the tools apart.
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
