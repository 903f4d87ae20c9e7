//! The entry of one server: its launch, and the settings of its sessions and calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    time::Duration,
};

use crate::{
    era::Revision,
    ids::ServerName,
    lifecycle::Policy,
    principal::{ClientName, Principal},
    words::words,
};

use super::{ConfigError, NetworkSettings, OAuth, Secret, SignIn, Withheld, defaults};

/// The entry of one server. Missing settings have their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    pub name: ServerName,
    pub launch: Launch,
    /// More problems of a [`Launch::Broken`] entry; see [`ServerConfig::problems`].
    pub further_problems: Vec<ConfigError>,
    /// `enabled` (default true; `disabled: true` is its opposite).
    pub enabled: bool,
    /// `autoStart` (default true).
    pub auto_start: bool,
    /// The deadline of a call (`timeout` in ms or `timeout_s`, default 30 s).
    pub call_timeout: Duration,
    /// Time limit to which progress may extend a call (`maxTimeoutMs`, default 10 × `call_timeout`,
    /// at least 10 min).
    pub max_call_timeout: Duration,
    /// The session policy: the preset with the entry's changes. It includes `connectTimeoutMs`,
    /// `autoReconnect` and the other keys of `policies`.
    pub policy: Policy,
    /// True if the file states the interval of probes, so that `--health-interval` does not apply.
    pub health_interval_stated: bool,
    /// True to make a call with an unknown outcome once more if the tool has `idempotentHint`
    /// (`callRetry`, invariant 6).
    pub call_retry: bool,
    /// The reaction to `list_changed` of the server (`listChanged`).
    pub list_changed: ListChanged,
    /// Maximum size of a message that the server may send, in bytes (`maxMessageBytes`, default 64
    /// MiB).
    pub max_message_bytes: usize,
    /// Size above which a tool result is cut, in bytes (`result.maxInlineBytes`). The client gets
    /// the beginning and a link to the whole result. `None` never cuts.
    pub max_inline_bytes: Option<usize>,
    /// The tools that are neither listed nor callable (`disabledTools`, `strictToolNames`).
    pub withheld: Withheld,
    /// Maximum number of isolated sessions (`maxSessions`, 8 stdio, 64 HTTP).
    pub max_sessions: usize,
    /// The clients that share an upstream session (`isolation`). `None` leaves it to the endpoint:
    /// one session for all clients of profiles, and one for each client at `/servers/<name>/mcp`.
    pub isolation: Option<Isolation>,
    /// The revision to use with the server (`protocol`).
    pub protocol: Protocol,
    /// The treatment of requests that the server makes of its clients (`serverRequests`). `None`
    /// forwards them if a session has one client, and declares no capability if it has many.
    pub server_requests: Option<ServerRequests>,
    /// The answer to `roots/list` outside a call (`roots`).
    pub roots: Vec<Root>,
    /// `healthCheckUrl`, checked like `url`. Its query may hold a secret.
    pub health_check_url: Option<Secret>,
    /// True if values of the entry are read from files (`${file:…}`, `envFile`) or from the vault
    /// (`${keyring:…}`), which may change at any time.
    pub reads_files: bool,
    /// The entry's values from the vault. Mainstay masks them in every text about the server.
    pub vault_secrets: Vec<Secret>,
}

impl ServerConfig {
    /// Returns the client whose own login the principal's sessions use. `None` for the login of
    /// Mainstay, which the operator and anonymous clients always use.
    pub fn login_owner<'p>(&self, principal: &'p Principal) -> Option<&'p ClientName> {
        let Launch::Http(launch) = &self.launch else {
            return None;
        };
        match principal {
            Principal::Client(client) if launch.oauth()?.per_principal => Some(client),
            Principal::Client(_) | Principal::Anonymous | Principal::Operator => None,
        }
    }

    /// An entry with defaults for all settings but the launch.
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
            vault_secrets: Vec::new(),
        }
    }

    /// Time limit of an attempt with all extensions. Only a process can extend an attempt, by signs
    /// of work.
    pub fn longest_start(&self) -> Duration {
        match self.launch {
            Launch::Stdio(_) => self.policy.longest_start(),
            Launch::Http(_) | Launch::Broken(_) | Launch::Unapproved => self.policy.connect_timeout,
        }
    }

    /// True if the server is connected at start, before any request.
    pub fn connects_at_start(&self) -> bool {
        self.enabled && self.auto_start
    }

    /// `stdio`, `http` or `sse`. `unknown` if the entry does not tell the transport.
    pub fn transport(&self) -> &'static str {
        match &self.launch {
            Launch::Stdio(_) => "stdio",
            Launch::Http(http) if http.transport == HttpTransport::Sse => "sse",
            Launch::Http(_) => "http",
            Launch::Broken(broken_entry) => broken_entry.transport,
            Launch::Unapproved => "unknown",
        }
    }

    /// True if a session that was opened with this entry cannot serve `other`.
    pub fn is_reached_otherwise(&self, other: &Self) -> bool {
        self.launch != other.launch || self.protocol != other.protocol
    }

    /// Returns this entry with the values of `new_entry` that can come from files or the vault.
    #[must_use]
    pub fn refreshed(&self, new_entry: Self) -> Self {
        Self {
            launch: new_entry.launch,
            further_problems: new_entry.further_problems,
            health_check_url: new_entry.health_check_url,
            vault_secrets: new_entry.vault_secrets,
            ..self.clone()
        }
    }

    /// Replaces the vault's secrets of this entry in `text` by `***`.
    pub fn without_vault_secrets(&self, text: &str) -> String {
        let secrets = self.vault_secrets.iter().map(Secret::expose);
        let full = secrets.filter(|secret| !secret.is_empty());
        full.fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }

    /// True if the only problems of the entry are files that cannot be read now.
    pub fn awaits_files(&self) -> bool {
        let mut problems = self.problems().peekable();
        problems.peek().is_some() && problems.all(|problem| problem.awaits_file)
    }

    /// Keeps the launch of `running` if the new entry fails only because a file cannot be read. So
    /// a reload does not stop a running server. Returns the problems if the launch was kept.
    pub(super) fn keep_launch(&mut self, running: &Self) -> Vec<ConfigError> {
        if !self.enabled || matches!(running.launch, Launch::Broken(_)) || !self.awaits_files() {
            return Vec::new();
        }
        let problems = self.problems().cloned().collect();
        self.launch = running.launch.clone();
        self.vault_secrets.clone_from(&running.vault_secrets);
        self.further_problems.clear();
        problems
    }

    /// Removes line and column of the problems, for an entry that was not read from a file.
    pub fn unplace(&mut self) {
        if let Launch::Broken(broken_entry) = &mut self.launch {
            broken_entry.problem.position = None;
        }
        for problem in &mut self.further_problems {
            problem.position = None;
        }
    }

    /// The problems of the entry. Only a [`Launch::Broken`] entry has any.
    pub fn problems(&self) -> impl Iterator<Item = &ConfigError> {
        let first_problem = match &self.launch {
            Launch::Broken(broken_entry) => Some(&broken_entry.problem),
            Launch::Stdio(_) | Launch::Http(_) | Launch::Unapproved => None,
        };
        first_problem.into_iter().chain(&self.further_problems)
    }
}

/// The way to start or reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    Stdio(StdioLaunch),
    Http(HttpLaunch),
    /// The entry is invalid. `validate` and the server's status show the reason.
    Broken(Broken),
    /// An MCP client added the server, and no person has approved it yet.
    Unapproved,
}

/// An entry that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub problem: ConfigError,
    /// The transport, if the entry shows it: `stdio`, `http`, `sse` or `unknown`.
    pub transport: &'static str,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct StdioLaunch {
    pub command: String,
    /// Expanded arguments, which may hold secrets. `Debug` shows only their number.
    pub args: Vec<String>,
    /// Variables that are set in the child, over inherited ones. Values may be secrets.
    pub env: BTreeMap<String, Secret>,
    /// Variables that the child does not inherit (`null` in `env`).
    pub unset: BTreeSet<String>,
    /// An absolute path. A relative path is already joined to the folder of the configuration file.
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

/// The position of the standard directories in a child's PATH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PathOrder {
    /// After the inherited ones, so that a virtual environment or a version manager takes
    /// precedence.
    #[default]
    InheritedFirst,
    /// Before the inherited ones (preset `desktop`), because a program started from a desktop
    /// inherits a short PATH.
    StandardFirst,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct HttpLaunch {
    /// A checked `http://` or `https://` URL. Its query may hold a secret, which `Debug` leaves
    /// out.
    pub url: String,
    /// Names are valid and in lower case. Values have no line breaks. `bearerToken` becomes
    /// `authorization`.
    pub headers: Vec<(String, Secret)>,
    pub transport: HttpTransport,
    pub sign_in: SignIn,
    pub network: NetworkSettings,
}

impl HttpLaunch {
    /// The settings of the login. `None` if the entry uses other credentials.
    pub fn oauth(&self) -> Option<&OAuth> {
        match &self.sign_in {
            SignIn::OAuth(oauth) if !self.has_authorization() => Some(oauth),
            SignIn::OAuth(_) | SignIn::Helper(_) | SignIn::HeadersOnly => None,
        }
    }

    /// True if the entry sets the `authorization` header.
    pub fn has_authorization(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == "authorization")
    }
}

impl fmt::Debug for HttpLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            url,
            headers,
            transport,
            sign_in,
            network,
        } = self;
        f.debug_struct("HttpLaunch")
            .field("url", &without_query(url))
            .field("headers", headers)
            .field("transport", transport)
            .field("sign_in", sign_in)
            .field("network", network)
            .finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HttpTransport {
    /// Try Streamable HTTP, then HTTP+SSE.
    #[default]
    Detect,
    StreamableHttp,
    Sse,
}

/// The reaction to `list_changed` of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListChanged {
    /// Read the list again and notify clients.
    #[default]
    Propagate,
    /// Do nothing. Lists are read when a session opens.
    Ignore,
}

/// The number of clients that share an upstream session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// One upstream session for all clients.
    Shared,
    /// One upstream session per client session.
    Session,
}

words!(Isolation { "shared" => Shared, "session" => Session });

/// The choice of the protocol revision for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// The revision that the server supports.
    #[default]
    Auto,
    /// This revision, without probing.
    At(Revision),
}

/// The treatment of a server's requests to its client: sampling, elicitation, roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerRequests {
    /// Forward the request to the client whose call caused it.
    Forward,
    /// Like `Forward`, but a request that no client can answer waits for the operator.
    Queue,
    /// Refuse the request. Mainstay declares no capability for such requests.
    Reject,
}

/// A root that Mainstay offers to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub uri: String,
    pub name: Option<String>,
}

/// Returns a URL without its query and fragment, because they often contain keys.
pub fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

words!(ListChanged { "propagate" => Propagate, "ignore" => Ignore });
words!(ServerRequests { "forward" => Forward, "queue" => Queue, "reject" => Reject });
