//! REST types of client sessions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::RecordedClient;

/// [`Sessions`]
pub const SESSIONS: &str = "/api/sessions";
/// [`StatelessClients`]
pub const STATELESS_CLIENTS: &str = "/api/clients/stateless";
/// DELETE ends a session: [`EndedSession`].
pub const SESSION: &str = "/api/sessions/{id}";

/// `GET /api/sessions`, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Sessions {
    pub sessions: Vec<Session>,
    /// Number of open sessions, or of those of the requested server.
    pub total: usize,
    /// True if older sessions were left out.
    pub truncated: bool,
    /// The value of `before` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A client session. Clients of 2026-07-28 have no session; their calls are in the records.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The id of the session in records.
    pub id: String,
    /// The name and version that the client declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<RecordedClient>,
    pub protocol_version: String,
    /// `streamable_http`, `sse` or `stdio`.
    pub transport: String,
    /// `mcp_http`, `mcp_sse` or `mcp_stdio`, as in records.
    pub door: String,
    /// Absent for the default profile, and for a session of a single server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The server, for a session at `/servers/NAME/mcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// `operator` or `client:NAME`. Absent if the client has no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// RFC 3339, UTC. A session of an earlier run is reopened when its client returns.
    pub opened_at: String,
    /// Time at which a call or a stream of the session last began or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<String>,
    pub streams: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_in_flight: Option<usize>,
    /// Number of servers and tools that are switched off for the client. Absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched_off: Option<usize>,
}

/// `GET /api/clients/stateless`: clients of 2026-07-28, which have no session. At most 200 clients
/// of the last hour, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct StatelessClients {
    pub clients: Vec<StatelessClient>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatelessClient {
    /// The name and version that the client declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<RecordedClient>,
    /// `operator` or `client:NAME`. Absent if the client has no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Absent for the default profile, and for a client of a single server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub protocol_version: String,
    /// `streamable_http` or `stdio`.
    pub transport: String,
    /// Time of its last request of any kind; RFC 3339, UTC.
    pub last_seen_at: String,
    /// Its calls since its first request.
    pub calls: u64,
}

/// `DELETE /api/sessions/{id}`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EndedSession {
    pub success: bool,
    pub id: String,
}
