//! The configuration: a file's text in, valid types out.
//!
//! Everything is decided here, before a port is bound (invariant 11). What one server's entry gets
//! wrong makes that server [`Launch::Broken`] and leaves the others alone; what the file gets wrong
//! is an error of the file. Every finding says where it stands: line, column and key path.
//!
//! [`parse`] is pure: the environment, the home folder and other files reach it through
//! [`Environment`].

mod alerts;
mod change_words;
mod choice;
pub mod defaults;
mod dialect;
pub mod edit;
mod entry;
mod env_file;
mod error;
mod expand;
mod fields;
mod foreign;
mod glob;
mod http;
mod inline;
mod journal;
pub mod lines;
mod location;
pub mod masked_text;
pub mod masking;
mod node;
mod numbers;
mod options;
mod overlay;
mod parse;
pub mod plan;
mod policies;
mod profiles;
mod reach;
mod report;
mod schema;
mod secret;
mod server_name;
mod settings;
mod shapes;
mod shown;
mod shown_values;
mod syntax;
mod target;
mod telemetry;
mod unreadable;
mod withheld;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    time::Duration,
};

use crate::{era::Revision, ids::ServerName, lifecycle::Policy};

pub use alerts::{Alert, AlertCommand, AlertKind, Flapping, Receiver, Webhook};
pub use change_words::change_words;
pub use error::{ConfigError, ConfigErrors, Located};
pub use expand::{Environment, MAX_EXPANDED, References};
pub use glob::Glob;
pub use inline::{Inline, InvalidInline};
pub use journal::{Durability, Journal, Payloads, Redact, redact_pattern};
pub use location::{Location, NamedBy, locate, locate_clients, named_by};
pub use overlay::{Approval, Overlay, Requested, Runtime, Standing, Word, digest_of_entry};
pub use parse::{Parsed, ParsedEntry, Source, parse, parse_as, parse_entry};
pub use plan::Plan;
pub use profiles::{Expose, Profile, ToolEdit, ToolFilter};
pub use secret::Secret;
pub use server_name::adopt;
pub use shapes::{schema, schema_text};
pub use shown::{Defaults, shown};
pub use syntax::Syntax;
pub use target::{Target, folded};
pub use telemetry::Telemetry;
pub use unreadable::Unreadable;
pub use withheld::{ALLOWED_TOOLS, DISABLED_TOOLS, Withheld};

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

settings::words!(Naming {
    "double_underscore" => DoubleUnderscore,
    "slash" => Slash,
    "none" => None,
    "mcp_prefix" => McpPrefix,
});

/// One server's entry, complete with defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    pub name: ServerName,
    pub launch: Launch,
    /// What else is wrong with a [`Launch::Broken`] entry; see [`ServerConfig::problems`].
    pub further_problems: Vec<ConfigError>,
    /// `enabled` (default true; `disabled: true` is its opposite).
    pub enabled: bool,
    /// `autoStart` (default true).
    pub auto_start: bool,
    /// A call's deadline (`timeout` in ms or `timeout_s`, default 30 s).
    pub call_timeout: Duration,
    /// How far progress may extend a call (`maxTimeoutMs`, default 10 × `call_timeout`, at least 10 min).
    pub max_call_timeout: Duration,
    /// How its sessions are kept: the preset, and what the entry says otherwise.
    /// `connectTimeoutMs`, `autoReconnect` and the other keys of `policies` are part of it.
    pub policy: Policy,
    /// Whether the file says how often the server is asked, so that `--health-interval` does not.
    pub health_interval_stated: bool,
    /// Whether a call is tried again where only the server's `idempotentHint` says that it may be
    /// (`callRetry`, invariant 6).
    pub call_retry: bool,
    /// Whether a server may say that its lists have changed (`listChanged`).
    pub list_changed: ListChanged,
    /// Largest message a server may send, in bytes (`maxMessageBytes`, default 64 MiB).
    pub max_message_bytes: usize,
    /// Beyond this a tool's result reaches clients as its head and a link to the whole
    /// (`result.maxInlineBytes`); `None` never cuts.
    pub max_inline_bytes: Option<usize>,
    /// Which of its tools are neither listed nor callable (`disabledTools`, `strictToolNames`).
    pub withheld: Withheld,
    /// How many upstream sessions clients may have for themselves (`maxSessions`, 8 stdio, 64 HTTP).
    pub max_sessions: usize,
    /// Which clients share an upstream session (`isolation`). `None` leaves it to the endpoint: one for
    /// all on profiles, one for each client at `/servers/<name>/mcp`.
    pub isolation: Option<Isolation>,
    /// Which revision is spoken with the server (`protocol`).
    pub protocol: Protocol,
    /// What becomes of requests that the server makes of its clients (`serverRequests`);
    /// `None` forwards them where a session has one client, and declares nothing where it has many.
    pub server_requests: Option<ServerRequests>,
    /// What answers `roots/list` outside any call (`roots`).
    pub roots: Vec<Root>,
    /// `healthCheckUrl`, checked like `url`. May hold a secret in its query.
    pub health_check_url: Option<Secret>,
    /// Whether its values stand in files (`${file:…}`, `envFile`), which may be replaced at any time.
    pub reads_files: bool,
}

impl ServerConfig {
    /// An entry that says no more than how its server is reached.
    pub fn new(name: ServerName, launch: Launch) -> Self {
        let max_sessions = match launch {
            Launch::Http(_) => defaults::MAX_SESSIONS_HTTP,
            Launch::Stdio(_) | Launch::Broken(_) | Launch::Unapproved => {
                defaults::MAX_SESSIONS_STDIO
            }
        };
        Self {
            name,
            launch,
            further_problems: Vec::new(),
            enabled: true,
            auto_start: true,
            call_timeout: defaults::CALL_TIMEOUT,
            max_call_timeout: defaults::max_call_timeout(defaults::CALL_TIMEOUT),
            policy: Policy::default(),
            health_interval_stated: false,
            call_retry: false,
            list_changed: ListChanged::default(),
            max_message_bytes: defaults::MAX_MESSAGE_BYTES,
            max_inline_bytes: None,
            withheld: Withheld::default(),
            max_sessions,
            isolation: None,
            protocol: Protocol::default(),
            server_requests: None,
            roots: Vec::new(),
            health_check_url: None,
            reads_files: false,
        }
    }

    /// What an attempt may take in all: only that of a process can be seen at work.
    pub fn longest_start(&self) -> Duration {
        match self.launch {
            Launch::Stdio(_) => self.policy.longest_start(),
            Launch::Http(_) | Launch::Broken(_) | Launch::Unapproved => self.policy.connect_timeout,
        }
    }

    /// Whether the server is connected without being asked for.
    pub fn connects_at_start(&self) -> bool {
        self.enabled && self.auto_start
    }

    /// `stdio`, `http` or `sse`; `unknown` where not even that can be read from the entry.
    pub fn transport(&self) -> &'static str {
        match &self.launch {
            Launch::Stdio(_) => "stdio",
            Launch::Http(http) if http.transport == HttpTransport::Sse => "sse",
            Launch::Http(_) => "http",
            Launch::Broken(broken) => broken.transport,
            Launch::Unapproved => "unknown",
        }
    }

    /// Whether a session opened by this entry is no session of the other.
    pub fn is_reached_otherwise(&self, other: &Self) -> bool {
        self.launch != other.launch || self.protocol != other.protocol
    }

    /// This with the values that were read again of the files that its entry names.
    #[must_use]
    pub fn refreshed(&self, read: Self) -> Self {
        Self {
            launch: read.launch,
            further_problems: read.further_problems,
            health_check_url: read.health_check_url,
            ..self.clone()
        }
    }

    /// Whether nothing is wrong with the entry but files that cannot be read now.
    pub fn awaits_files(&self) -> bool {
        let mut problems = self.problems().peekable();
        problems.peek().is_some() && problems.all(|problem| problem.awaits_file)
    }

    /// Takes the launch that is in force in place of one that only lacks a file: what runs goes on.
    /// Returns what is wrong nevertheless.
    fn keep_launch(&mut self, known: &Self) -> Vec<ConfigError> {
        if !self.enabled || matches!(known.launch, Launch::Broken(_)) || !self.awaits_files() {
            return Vec::new();
        }
        let problems = self.problems().cloned().collect();
        self.launch = known.launch.clone();
        self.further_problems.clear();
        problems
    }

    /// Forgets where its problems stand.
    fn unplace(&mut self) {
        if let Launch::Broken(broken) = &mut self.launch {
            broken.problem.position = None;
        }
        for problem in &mut self.further_problems {
            problem.position = None;
        }
    }

    /// What is wrong with the entry: nothing, unless it is [`Launch::Broken`].
    pub fn problems(&self) -> impl Iterator<Item = &ConfigError> {
        let first = match &self.launch {
            Launch::Broken(broken) => Some(&broken.problem),
            Launch::Stdio(_) | Launch::Http(_) | Launch::Unapproved => None,
        };
        first.into_iter().chain(&self.further_problems)
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    Stdio(StdioLaunch),
    Http(HttpLaunch),
    /// The entry is wrong; the reason is shown in `validate` and in the server's status.
    Broken(Broken),
    /// An MCP client added the server, and no person has approved it yet.
    Unapproved,
}

/// An entry that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub problem: ConfigError,
    /// The transport as far as the entry says it: `stdio`, `http`, `sse` or `unknown`.
    pub transport: &'static str,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct StdioLaunch {
    pub command: String,
    /// Expanded, and so maybe secret: `Debug` shows their number only.
    pub args: Vec<String>,
    /// Set in the child, over what is inherited. Values may be secrets.
    pub env: BTreeMap<String, Secret>,
    /// Variables that the child does not inherit (`null` in `env`).
    pub unset: BTreeSet<String>,
    /// Absolute, or relative to the configuration file's folder and already joined to it.
    pub cwd: Option<PathBuf>,
    pub inherit_env: InheritEnv,
    pub path_order: PathOrder,
}

impl fmt::Debug for StdioLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            command,
            args,
            env,
            unset,
            cwd,
            inherit_env,
            path_order,
        } = self;
        f.debug_struct("StdioLaunch")
            .field("command", command)
            .field("args", &format_args!("[{} ***]", args.len()))
            .field("env", env)
            .field("unset", unset)
            .field("cwd", cwd)
            .field("inherit_env", inherit_env)
            .field("path_order", path_order)
            .finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InheritEnv {
    #[default]
    Process,
    LoginShell,
    None,
}

/// Where the usual places stand in a child's PATH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PathOrder {
    /// Behind what is inherited, so that a virtual environment or a version manager wins.
    #[default]
    InheritedFirst,
    /// Before it (preset `desktop`): a program started from a desktop inherits a short PATH.
    StandardFirst,
}

#[derive(Clone, PartialEq, Eq)]
pub struct HttpLaunch {
    /// `http://` or `https://`, checked. Its query may hold a secret, which `Debug` leaves out.
    pub url: String,
    /// Names lower-case and valid, values without line breaks; `bearerToken` becomes `authorization`.
    pub headers: Vec<(String, Secret)>,
    pub transport: HttpTransport,
}

impl fmt::Debug for HttpLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            url,
            headers,
            transport,
        } = self;
        f.debug_struct("HttpLaunch")
            .field("url", &http::shown(url))
            .field("headers", headers)
            .field("transport", transport)
            .finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HttpTransport {
    /// Streamable HTTP first, then HTTP+SSE.
    #[default]
    Detect,
    StreamableHttp,
    Sse,
}

/// What a server's `list_changed` leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListChanged {
    /// The list is read again, and clients are told.
    #[default]
    Propagate,
    /// Nothing: lists are read when a session opens.
    Ignore,
}

/// Which clients share an upstream session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// One upstream session for all clients.
    Shared,
    /// One upstream session per client session.
    Session,
}

settings::words!(Isolation { "shared" => Shared, "session" => Session });

/// Which protocol revision is spoken with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Whatever the server turns out to speak.
    #[default]
    Auto,
    /// This one, without asking first.
    At(Revision),
}

/// What becomes of a request that a server makes of its client: sampling, elicitation, roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerRequests {
    /// It goes to the client whose call caused it.
    Forward,
    /// Like `Forward`, and what no client can take waits to be answered by hand.
    Queue,
    /// It is refused, and no capability that invites it is declared.
    Reject,
}

/// A root offered to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub uri: String,
    pub name: Option<String>,
}
