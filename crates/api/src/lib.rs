//! The REST wire types, shared by the door that answers and the commands that ask
//! (docs/dev/requirements.md, section M).
//!
//! Schemas, arguments and results are raw JSON: the bytes that came (invariant 5).

mod client;
mod figures;
mod records;
mod stream;
mod tokens;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use utoipa::ToSchema;

pub use self::client::{Client, ClientError};
pub use self::figures::*;
pub use self::records::*;
pub use self::stream::{CallNews, EventStream, LogEvents, Told};
pub use self::tokens::*;

pub type Raw = Box<RawValue>;

/// What the commands call themselves.
pub const USER_AGENT: &str = concat!("mainstay-cli/", env!("CARGO_PKG_VERSION"));

/// What this door offers, as OpenAPI 3.1.
pub const OPENAPI: &str = "/api/openapi.json";
pub const CLIENTS: &str = "/api/mcp-clients";
pub const SERVERS: &str = "/api/servers";
/// One server: [`ServerDetails`]; PUT takes its entry, DELETE forgets it.
pub const SERVER: &str = "/api/servers/{name}";
pub const OPERATE: &str = "/api/servers/{name}/{operation}";
pub const ENABLE: &str = "/api/servers/{name}/enable";
pub const DISABLE: &str = "/api/servers/{name}/disable";
pub const APPROVE: &str = "/api/servers/{name}/approve";
/// Takes an [`Execute`], answers [`Executed`].
pub const EXECUTE: &str = "/api/servers/{name}/tools/{tool}/call";
/// The configuration as its file has it.
pub const CONFIG: &str = "/api/config";
/// The JSON Schema of the configuration.
pub const CONFIG_SCHEMA: &str = "/api/config/schema";
/// Takes a server's name beside its entry.
pub const CONNECT_CLIENT: &str = "/api/mcp-clients/connect";
pub const CLIENT: &str = "/api/mcp-clients/{name}";
pub const RECONNECT_CLIENT: &str = "/api/mcp-clients/{name}/reconnect";
pub const DISCONNECT_CLIENT: &str = "/api/mcp-clients/{name}/disconnect";
pub const HEALTH: &str = "/api/health";
pub const RELOAD: &str = "/api/reload";
/// Takes a [`HandOver`].
pub const HAND_OVER: &str = "/api/hand-over";
/// [`ServerRequests`]
pub const SERVER_REQUESTS: &str = "/api/server-requests";
/// Takes a [`Reply`].
pub const REPLY: &str = "/api/server-requests/{id}";
/// [`Switches`]; DELETE clears them all.
pub const SWITCHES: &str = "/api/switches";
/// PUT takes a [`SetSwitch`], DELETE switches everything on for this client.
pub const SWITCH: &str = "/api/switches/{client}";
/// Has the server's name in place of `{name}`.
pub const LOGS: &str = "/api/servers/{name}/logs";
pub const TOOLS: &str = "/api/mcp-tools";
pub const CALL: &str = "/api/mcp-tools/call";
pub const RESOURCES: &str = "/api/mcp-resources";
pub const TEMPLATES: &str = "/api/mcp-resource-templates";
pub const READ: &str = "/api/mcp-resources/read";
/// Like [`READ`], but the server may be left out, and the result comes whole.
pub const READ_WHOLE: &str = "/api/resources/read";
pub const PROMPTS: &str = "/api/mcp-prompts";
pub const GET_PROMPT: &str = "/api/mcp-prompts/get";

/// Server-sent events: [`SNAPSHOT`] first, unless a place is given to go on from (`Last-Event-ID`,
/// or `?after=`), then an [`Event`] each.
pub const EVENTS: &str = "/api/events";
/// [`Events`], for those who poll; with `?after=`.
pub const RECENT_EVENTS: &str = "/api/events/recent";
/// The event whose data is [`Servers`]: how things are.
pub const SNAPSHOT: &str = "snapshot";
/// The event that says that others were missed; a [`SNAPSHOT`] follows.
pub const MISSED: &str = "missed";

/// The events of a call that is followed (`Accept: text/event-stream`): [`Progress`] and log messages of its
/// server, as often as the server sends them, then the [`ANSWER`].
pub const PROGRESS: &str = "progress";
/// The event whose data is the `params` of a log message.
pub const LOG_MESSAGE: &str = "log";
/// The last event: `{"status", "body"}` of the answer that a caller gets that does not follow.
pub const ANSWER: &str = "answer";

/// The data of an [`ANSWER`].
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FollowedAnswer {
    /// The HTTP status of the answer.
    pub status: u16,
    /// Its body.
    pub body: serde_json::Value,
}

/// How far a call has come, in the words of its server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    pub progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// `GET /api/mcp-clients`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Clients {
    pub clients: BTreeMap<String, ClientEntry>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientEntry {
    /// The state, in the words of this route.
    pub status: String,
    pub transport: String,
    /// `server/tool`
    pub tools: Vec<String>,
    /// Seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_at: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `GET /api/switches`: clients with everything on are not named.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Switches {
    /// By the name of the client's token, or else the name that it gives itself.
    pub clients: BTreeMap<String, SwitchedOff>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SwitchedOff {
    pub servers: Vec<String>,
    /// `server/tool`
    pub tools: Vec<String>,
}

/// `PUT /api/switches/{client}`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SetSwitch {
    pub server: String,
    /// As the server calls it; without one the switch is the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub enabled: bool,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Switched {
    pub success: bool,
    pub client: String,
    pub server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub enabled: bool,
}

/// `DELETE /api/switches`, and of one client.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Cleared {
    pub success: bool,
}

/// `GET /api/servers`, in the order of the configuration.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Servers {
    pub servers: Vec<Server>,
    /// What is wrong beside the servers, such as a configuration that cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
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
    /// How long the handshake of its session took, with the start of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_health_failures: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ping_ms: Option<u64>,
    /// When the server was last heard; RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<String>,
    /// Why it is not connected, or not well; where it is well, what is to be noted of its lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What the start of its process does that is under way, and the last line of its stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting: Option<String>,
    /// What a person can do about it where it is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
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
    /// The last lines of its stderr.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
    /// The last line of its stdout that is no message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
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

/// `POST /api/servers/{name}/tools/{tool}/call`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Execute {
    #[serde(default, alias = "args", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Raw>,
}

/// The result of a tool, or why there is none.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Executed {
    pub success: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `POST /api/mcp-clients/{name}/reconnect`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Reconnect {
    #[serde(default)]
    pub force: bool,
}

/// The answer to `connect` and `reconnect`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientOperated {
    /// `ok`
    pub status: String,
    pub name: String,
    /// `server/tool`
    pub tools: Vec<String>,
}

/// The answer to `disconnect` and to DELETE.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientLeft {
    /// `ok`
    pub status: String,
    pub name: String,
}

/// `POST /api/reload`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reload {
    #[serde(default)]
    pub dry_run: bool,
}

/// `POST /api/hand-over`: another Mainstay wants the state directory.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandOver {
    /// The configuration that it serves, with nothing given beside it on its command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

/// The directory will be free in a while.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandedOver {
    /// The process that has it.
    pub pid: u32,
}

/// `PUT /api/config`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigUpdated {
    pub success: bool,
    /// For people, of several lines.
    pub summary: String,
    /// `mainstay_core::config::Plan`
    pub plan: serde_json::Value,
}

/// What differs, and whether it is in force now.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    pub applied: bool,
    /// For people, of several lines.
    pub summary: String,
    /// `mainstay_core::config::Plan`
    pub plan: serde_json::Value,
}

/// `GET /api/server-requests`: what servers ask and no client could be asked.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ServerRequests {
    /// Oldest first.
    pub requests: Vec<ServerRequest>,
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

/// `GET /api/servers/NAME/logs`: the last lines, the oldest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Logs {
    pub lines: Vec<LogLine>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// RFC 3339
    pub time: String,
    /// `stderr`, `stdout`, or `mainstay` for what Mainstay says about the server.
    pub source: String,
    pub text: String,
}

/// With `?follow=true`: an event's name, and its data.
#[derive(Debug)]
pub enum LogEvent {
    Line(LogLine),
    Missed(Missed),
}

impl LogEvent {
    pub const LINE: &str = "line";
    pub const MISSED: &str = "missed";
}

/// Lines that came too fast for this client.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Missed {
    pub lines: u64,
}

/// `GET /api/mcp-tools`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Tools {
    pub tools: Vec<Tool>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Tool {
    /// `server/tool`
    pub name: String,
    pub server: String,
    pub original_name: String,
    pub description: String,
    #[schema(value_type = Object)]
    pub input_schema: Raw,
}

/// `POST /api/mcp-tools/call`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Call {
    /// `server/tool`
    #[schema(required = true, value_type = String, pattern = "^[^/]+/.+$")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Raw>,
}

/// The answer to [`Call`] and [`GetPrompt`].
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Answer {
    #[schema(value_type = Object)]
    pub result: Raw,
}

/// `GET /api/mcp-resources`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Resources {
    pub resources: Vec<Resource>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Resource {
    pub uri: String,
    pub server: String,
    pub name: String,
    pub description: String,
    pub mime_type: Option<String>,
}

/// `GET /api/mcp-resource-templates`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Templates {
    pub resource_templates: Vec<Template>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Template {
    pub uri_template: String,
    pub server: String,
    pub name: String,
    pub description: String,
    pub mime_type: Option<String>,
}

/// `POST /api/mcp-resources/read` and `POST /api/resources/read`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Read {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[schema(required = true, value_type = String)]
    pub uri: Option<String>,
}

/// The first of the contents: text as it is, anything else in base64.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Content {
    #[schema(value_type = String)]
    pub content: Raw,
    #[schema(value_type = Option<String>)]
    pub mime_type: Option<Raw>,
}

/// A resource's contents as the server gave them, and whose they are.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WholeRead {
    pub server: String,
    #[schema(value_type = Object)]
    pub result: Raw,
}

/// `GET /api/mcp-prompts`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Prompts {
    pub prompts: Vec<Prompt>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Prompt {
    /// `server/prompt`
    pub name: String,
    pub server: String,
    pub original_name: String,
    pub description: String,
    /// MCP's own list of arguments.
    #[schema(value_type = Vec<Object>)]
    pub arguments: Raw,
}

/// `POST /api/mcp-prompts/get`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct GetPrompt {
    /// `server/prompt`
    #[schema(required = true, value_type = String)]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Raw>,
}

/// What happened.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Sorts as text.
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// RFC 3339
    pub created_at: String,
    /// With the server's `name`.
    #[schema(value_type = Object)]
    pub data: Map<String, Value>,
}

/// `GET /api/events/recent`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Events {
    pub events: Vec<Event>,
    /// Whether some are gone that came after the place asked for.
    pub missed: bool,
    /// The place to go on from.
    pub last: String,
}
