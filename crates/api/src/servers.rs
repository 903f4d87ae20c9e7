//! Servers: how they are, and what is done to them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Raw;

/// `GET /api/servers`, in the order of the configuration.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Servers {
    pub servers: Vec<Server>,
    /// What is wrong beside the servers, such as a configuration that cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Calls of a server that fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailingCalls {
    /// How many failed since one was answered.
    pub failed: u32,
    /// How many ended since its session was opened, answered or not.
    pub of: u32,
    /// When the first of the failed ones was known; RFC 3339.
    pub since: String,
}

/// A server and its status.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    pub name: String,
    pub transport: String,
    /// The program, without its arguments: they may be secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Without its query: that may be secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    pub enabled: bool,
    pub auto_start: bool,
    /// Whether it is gone after a restart.
    #[serde(default)]
    pub ephemeral: bool,
    /// What an MCP client wants started. Nothing is started before a person approves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// Whether its operator wants it up.
    pub wanted: bool,
    /// The canonical word.
    pub status: String,
    pub connected: bool,
    /// RFC 3339
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptime_ms: Option<u64>,
    /// Since when it is not connected: since its session was lost or ended, or since Mainstay knows of it. Attempts
    /// that fail do not change it; left out while it is connected. RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_since: Option<String>,
    /// Since when its health is `degraded`; left out while it is not. RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded_since: Option<String>,
    /// How long the handshake of its session took, with the start of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_health_failures: Option<u32>,
    /// The calls because of which it is degraded, whatever it answers to pings; left out where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_calls: Option<FailingCalls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ping_ms: Option<u64>,
    /// When the server was last heard; RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<String>,
    /// Why it is not connected, or not well; where it is well, what is to be noted of its lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Whether the stream is open on which it tells of changes. Left out where every connection has one (stdio,
    /// HTTP+SSE), and while it is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listening: Option<Listening>,
    /// What to set in its entry, though it is connected: Mainstay had to depart from its usual way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// What the start of its process does that is under way, and the last line of its stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting: Option<String>,
    /// What a person can do about it where it is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    /// The same as a code. `wait` has no words: Mainstay tries again by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<NextAction>,
    /// It is not connected, and another attempt comes by itself or is under way.
    #[serde(default)]
    pub retried: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconnect_attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_ms: Option<u64>,
    /// Crashes of its processes since Mainstay started, and how the last one ended.
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
    /// Since when a call or a health probe waits for an answer and the server has said nothing, in
    /// milliseconds since 1970; left out where none waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<u64>,
    /// Its oldest question that waits for an answer; left out where none waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_question: Option<OpenQuestion>,
    /// Whether its lists are known.
    pub tools_ready: bool,
    /// Whether they are an earlier run's, until the server answers.
    pub lists_stale: bool,
    /// Those that clients can have.
    pub tool_count: usize,
    /// Tools that `strictToolNames` keeps from clients, by the server's own names: the first hundred of
    /// them, each cut at 256 characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_tools: Vec<String>,
    #[serde(default)]
    pub hidden_tool_count: usize,
    /// Names in `disabledTools` and `allowedTools` that fit none of its tools, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmatched_tools: Vec<String>,
    pub resource_count: usize,
    pub prompt_count: usize,
    /// The last lines of its stderr; while it is started again, the line of the process before that tells why that one
    /// ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
    /// The last line of its stdout that is no message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
}

/// Whether the stream is open on which a server tells of changes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Listening {
    pub open: bool,
    /// Why it is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A question of a server that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    pub server: String,
    /// `sampling/createMessage`, `elicitation/create`, …
    pub method: String,
    /// RFC 3339
    pub asked_at: String,
    /// Whether a person answers it by `mainstay requests`, and no client.
    #[serde(default)]
    pub by_hand: bool,
    /// The name that the client declared which is asked; told to the operator only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// `operator` or `client:NAME`, where there was a token; told to the operator only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// How many questions of this server are open, where this is the oldest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// What a person can do about a server that is not connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    Approve,
    Enable,
    Start,
    /// Its log says why it is down. Mainstay tries again by itself.
    SeeLog,
    /// Its log says why it is down. It stays down until it is started.
    SeeLogAndStart,
    /// The entry cannot be used.
    CorrectEntry,
    /// The server accepts no credentials of the entry.
    SetCredentials,
    Wait,
}

/// What a person approves, or does not: to the letter, references unexpanded. A client that cannot
/// approve it sees the program only, because the rest may be secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Pending {
    /// A digest of everything that was given: an approval repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The variables that are set, which may change what runs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub env: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// All that was given, these and everything else (`inheritEnv`, `headers`, …).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub entry: Map<String, Value>,
    /// What this name led to before, where that was something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formerly: Option<Formerly>,
    /// The client that wants it; told to the operator only.
    #[serde(
        default,
        rename = "requestedBy",
        skip_serializing_if = "Option::is_none"
    )]
    pub requested_by: Option<RequestedBy>,
    /// When the client asked, in milliseconds since 1970.
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
    /// As records have it: `mcp_http`, `mcp_sse` or `mcp_stdio`.
    pub door: String,
    /// `operator` or `client:NAME`, where there was a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// The former target of a server's name, without secrets. Empty if it is not known.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Formerly {
    /// The program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The names of its variables.
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
    /// The entry as the file has it, or as it was given; secrets are placeholders. `None` if there is
    /// none, as for a server from the command line.
    #[schema(value_type = Option<Object>)]
    pub entry: Option<Map<String, Value>>,
    /// Identifies the entry, secrets included (SHA-256 in hexadecimal). A PUT that repeats it replaces no other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What may stand beside the entry in the body of `POST /api/servers`, `PUT /api/servers/{name}` and
/// `POST /api/mcp-clients/connect`. For `enable` and `disable` it is the whole body.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Keeping {
    /// Whether it is written into the file, and outlives a restart.
    #[serde(default)]
    pub persist: bool,
    /// Whether a server of that name gets this entry.
    #[serde(default)]
    pub replace: bool,
}

/// The body of `POST /api/servers/{name}/approve`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// [`Pending::digest`], as it was shown; without it nothing is approved.
    #[serde(default)]
    #[schema(required = true)]
    pub digest: Option<String>,
    /// Whether it is written into the file, and outlives a restart.
    #[serde(default)]
    pub persist: bool,
}

/// `POST /api/servers/{name}/{start,stop,restart,reconnect,enable,disable,approve}` and
/// `POST /api/servers`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Operated {
    pub success: bool,
    pub name: String,
    /// The canonical word.
    pub status: String,
    /// Why it is not connected, although it is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `server/tool`
    pub tools: Vec<String>,
    /// What is odd about its entry without being wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// `DELETE /api/servers/{name}`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    pub success: bool,
    pub name: String,
}

/// `GET /api/server-requests`: what servers ask and no client could be asked.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ServerRequests {
    /// Oldest first.
    pub requests: Vec<ServerRequest>,
    /// What clients are asked and have not answered, oldest first. Nobody can answer it for them.
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
    /// As the server wrote them.
    #[schema(value_type = Object)]
    pub params: Raw,
    /// RFC 3339; it waits for ten minutes.
    pub asked_at: String,
    /// Left out where several clients can have caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<RequestCause>,
}

/// The client that caused a request, and its call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RequestCause {
    /// The server's own name of the tool or prompt, or the URI of the resource. Left out where none of the client's
    /// calls is known to have caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name that the client declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// `operator` or `client:NAME`, where there was a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// `POST /api/server-requests/{id}`: either of the two.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Reply {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub result: Option<Raw>,
    /// Why it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub error: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Replied {
    pub success: bool,
    pub id: u64,
}

/// `GET /api/health`: every server was asked just now.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HealthReport {
    pub servers: Vec<ServerHealth>,
    /// As in `GET /api/servers`.
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
    /// How long ago the server was last heard.
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
