//! REST types of servers, of operations on them, and of their requests.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Raw;

/// `GET /api/servers`, in the order of the configuration.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Servers {
    pub servers: Vec<Server>,
    /// Problems that do not concern a single server, such as a configuration that cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Counts of failing calls to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailingCalls {
    /// Failed calls since the last call that was answered.
    pub failed: u32,
    /// Calls that ended since the session was opened, answered or not.
    pub of: u32,
    /// Time at which the first of these failures became known; RFC 3339.
    pub since: String,
}

/// A server and its status.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    pub name: String,
    pub transport: String,
    /// The program, without its arguments, which may be secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The URL without its query, which may be secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    pub enabled: bool,
    pub auto_start: bool,
    /// True if a restart removes the server.
    #[serde(default)]
    pub ephemeral: bool,
    /// The target that an MCP client asks to start. Mainstay starts nothing before a person
    /// approves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// True if the server should be running.
    pub wanted: bool,
    /// The status word.
    pub status: String,
    pub connected: bool,
    /// RFC 3339
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptime_ms: Option<u64>,
    /// Start of the current downtime: the time at which the last session was lost or ended, or the
    /// time at which Mainstay learned of the server. Failed attempts do not change it. Absent while
    /// the server is connected. RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_since: Option<String>,
    /// Time since which its health is `degraded`; RFC 3339. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded_since: Option<String>,
    /// Duration of the handshake of its session, including the start of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_health_failures: Option<u32>,
    /// The calls that make the server degraded, even if it answers pings. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_calls: Option<FailingCalls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ping_ms: Option<u64>,
    /// Time of the last message from the server; RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<String>,
    /// The reason that it is not connected or is degraded. For a healthy server, a note about its
    /// lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// State of the stream on which the server announces changes. Absent where every connection has
    /// one (stdio, HTTP+SSE), and while the server is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listening: Option<Listening>,
    /// A change of its entry that Mainstay recommends, although the server is connected: Mainstay
    /// had to depart from its usual procedure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The current step of starting its process, and the last line of stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting: Option<String>,
    /// Advice for a person while the server is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    /// The next step as a code. `wait` has no text, because Mainstay tries again
    /// by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<NextAction>,
    /// True if it is not connected, and another attempt follows by itself or is in progress.
    #[serde(default)]
    pub retried: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconnect_attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_ms: Option<u64>,
    /// Crashes of its processes since Mainstay started.
    pub crash_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_crash_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    pub calls_in_flight: u32,
    /// Time since which a call or a health probe waits for an answer while the server has sent no
    /// message, in milliseconds since 1970. Absent if nothing waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<u64>,
    /// Its oldest open question. Absent if none is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_question: Option<OpenQuestion>,
    /// True if the lists of the server are available.
    pub tools_ready: bool,
    /// True if the lists are from an earlier run, because the server has not answered yet.
    pub lists_stale: bool,
    /// Number of tools that clients can see.
    pub tool_count: usize,
    /// Tools that `strictToolNames` hides from clients, by their original names: at most 100, each
    /// cut at 256 characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_tools: Vec<String>,
    #[serde(default)]
    pub hidden_tool_count: usize,
    /// Names in `disabledTools` and `allowedTools` that match none of its tools, one per line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmatched_tools: Vec<String>,
    pub resource_count: usize,
    pub prompt_count: usize,
    /// The last lines of stderr. While the server is restarted, the line of the previous process
    /// that explains its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
    /// The last line of stray output: stdout that is not a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
}

/// State of the stream on which a server announces changes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Listening {
    pub open: bool,
    /// The reason that the stream is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An open question of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    pub server: String,
    /// `sampling/createMessage`, `elicitation/create`, …
    pub method: String,
    /// RFC 3339
    pub asked_at: String,
    /// True if a person has to answer it with `mainstay requests`, because no client can.
    #[serde(default)]
    pub by_hand: bool,
    /// The declared name of the client that was asked. Visible only to the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// `operator` or `client:NAME`. Absent if the client has no token. Visible only to the
    /// operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Number of open questions of this server, if this is the oldest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// The step that a person can take for a server that is not connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    Approve,
    Enable,
    Start,
    /// Its log contains the reason. Mainstay tries again by itself.
    SeeLog,
    /// Its log contains the reason. The server stays down until a person starts it.
    SeeLogAndStart,
    /// The entry is invalid.
    CorrectEntry,
    /// The server accepts no credentials of the entry.
    SetCredentials,
    /// The server requires a login: `POST /api/servers/NAME/login`.
    LogIn,
    Wait,
}

/// The target that a person has to approve, unchanged, with unexpanded references. A client that
/// cannot approve it sees only the program, because the rest may be secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Pending {
    /// A digest of the whole entry. An approval repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The environment variables of the entry. They may change which program runs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub env: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The whole entry, including members such as `inheritEnv` and `headers`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub entry: Map<String, Value>,
    /// The previous target of the name, if it was a different one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formerly: Option<Formerly>,
    /// The client that asked for the server. Visible only to the operator.
    #[serde(
        default,
        rename = "requestedBy",
        skip_serializing_if = "Option::is_none"
    )]
    pub requested_by: Option<RequestedBy>,
    /// Time of the client's request, in milliseconds since 1970.
    #[serde(
        default,
        rename = "requestedAt",
        skip_serializing_if = "Option::is_none"
    )]
    pub requested_at: Option<u64>,
}

/// The MCP client that asked for a server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestedBy {
    /// The name that the client declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// `mcp_http`, `mcp_sse` or `mcp_stdio`, as in records.
    pub door: String,
    /// `operator` or `client:NAME`. Absent if the client has no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// The former target of a server's name, without secrets. Empty if it is unknown.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Formerly {
    /// The program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The names of its environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The names of its headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
}

/// `GET /api/servers/{name}`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ServerDetails {
    pub server: Server,
    /// The entry from the file or from the request that added the server. Placeholders stand for
    /// secrets. Absent for a server without an entry, such as one from the command line.
    #[schema(value_type = Option<Object>)]
    pub entry: Option<Map<String, Value>>,
    /// Identifies the entry, including secrets (SHA-256 in hexadecimal). A PUT with this digest
    /// fails if the entry has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// Options beside the entry in the body of `POST /api/servers`, `PUT /api/servers/{name}` and `POST
/// /api/mcp-clients/connect`. For `enable` and `disable` they are the whole body.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Keeping {
    /// True to write the change to the file, so that it survives a restart.
    #[serde(default)]
    pub persist: bool,
    /// True to replace the entry of a server that has this name.
    #[serde(default)]
    pub replace: bool,
}

/// The body of `POST /api/servers/{name}/approve`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// [`Pending::digest`] of the entry that was displayed. Without it, nothing is approved.
    #[serde(default)]
    #[schema(required = true)]
    pub digest: Option<String>,
    /// True to write the server to the file, so that it survives a restart.
    #[serde(default)]
    pub persist: bool,
}

/// `POST /api/servers/{name}/{start,stop,restart,reconnect,enable,disable,approve}` and
/// `POST /api/servers`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Operated {
    pub success: bool,
    pub name: String,
    /// The status word.
    pub status: String,
    /// The reason that the server is not connected although it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `server/tool`
    pub tools: Vec<String>,
    /// Warnings about the entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// `DELETE /api/servers/{name}`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    pub success: bool,
    pub name: String,
}

/// `GET /api/server-requests`: open requests of servers that no client can answer.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ServerRequests {
    /// Oldest first.
    pub requests: Vec<ServerRequest>,
    /// Open questions to clients, oldest first. Only these clients can answer them.
    #[serde(default)]
    pub clients: Vec<OpenQuestion>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerRequest {
    pub id: u64,
    pub server: String,
    /// `sampling/createMessage`, `elicitation/create`, …
    pub method: String,
    /// The parameters as the server sent them.
    #[schema(value_type = Object)]
    pub params: Raw,
    /// RFC 3339. The request expires after ten minutes.
    pub asked_at: String,
    /// Absent if more than one client may have caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<RequestCause>,
}

/// The client that caused a request, and its call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RequestCause {
    /// The original name of the tool or prompt, or the URI of the resource. Absent if no call of
    /// the client is known to have caused the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name that the client declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// `operator` or `client:NAME`. Absent if the client has no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// `POST /api/server-requests/{id}`: `result` or `error`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Reply {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub result: Option<Raw>,
    /// The reason for refusing the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub error: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Replied {
    pub success: bool,
    pub id: u64,
}

/// `GET /api/health`: the answers to probes that this request started.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HealthReport {
    pub servers: Vec<ServerHealth>,
    /// The warnings of `GET /api/servers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerHealth {
    pub name: String,
    pub status: HealthStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping_ms: Option<u64>,
    /// Time since the last message from the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_ms: Option<u64>,
    #[serde(default)]
    pub consecutive_failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The words of `mainstay health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthStatus {
    Healthy,
    Unhealthy,
    Timeout,
    Error,
}
