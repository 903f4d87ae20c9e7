//! One server's entry: how it is reached, and how its sessions and calls are kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    time::Duration,
};

use crate::{era::Revision, ids::ServerName, lifecycle::Policy, words::words};

use super::{ConfigError, Secret, Withheld, defaults};

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
    pub(super) fn keep_launch(&mut self, known: &Self) -> Vec<ConfigError> {
        if !self.enabled || matches!(known.launch, Launch::Broken(_)) || !self.awaits_files() {
            return Vec::new();
        }
        let problems = self.problems().cloned().collect();
        self.launch = known.launch.clone();
        self.further_problems.clear();
        problems
    }

    /// Forgets where its problems stand.
    pub fn unplace(&mut self) {
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
            .field("url", &without_query(url))
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

words!(Isolation { "shared" => Shared, "session" => Session });

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

/// A URL without its query and fragment, in which people put keys.
pub fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

words!(ListChanged { "propagate" => Propagate, "ignore" => Ignore });
words!(ServerRequests { "forward" => Forward, "queue" => Queue, "reject" => Reject });
