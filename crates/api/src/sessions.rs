//! REST types of the sessions that clients have.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::RecordedClient;

/// [`Sessions`]
pub const SESSIONS: &str = "/api/sessions";
/// [`StatelessClients`]
pub const STATELESS_CLIENTS: &str = "/api/clients/stateless";
/// DELETE ends one: [`EndedSession`].
pub const SESSION: &str = "/api/sessions/{id}";

/// `GET /api/sessions`, the newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Sessions {
    pub sessions: Vec<Session>,
    /// How many are open, of the server if one was named.
    pub total: usize,
    /// Whether older ones were left out.
    pub truncated: bool,
    /// `before` of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A session of a client. Clients of 2026-07-28 have none: what they call is in the records.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The name that records give the session.
    pub id: String,
    /// As the client declared itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<RecordedClient>,
    pub protocol_version: String,
    /// `streamable_http`, `sse` or `stdio`.
    pub transport: String,
    /// As records have it: `mcp_http`, `mcp_sse` or `mcp_stdio`.
    pub door: String,
    /// Left out for the default one, and where the session is of one server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The server of `/servers/NAME/mcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// `operator` or `client:NAME`, where there was a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// RFC 3339, UTC. A session of an earlier run was opened again when its client came back.
    pub opened_at: String,
    /// When a call or a stream of it was begun or ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<String>,
    pub streams: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_in_flight: Option<usize>,
    /// Servers and tools that are switched off for the client; left out where none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched_off: Option<usize>,
}

/// `GET /api/clients/stateless`: clients of 2026-07-28, which have no session, of the last hour; at most
/// 200, the newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct StatelessClients {
    pub clients: Vec<StatelessClient>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatelessClient {
    /// As the client declared itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<RecordedClient>,
    /// `operator` or `client:NAME`, where there was a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Left out for the default one, and where the client speaks to one server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub protocol_version: String,
    /// `streamable_http` or `stdio`.
    pub transport: String,
    /// When its latest request came, a call or not; RFC 3339, UTC.
    pub last_seen_at: String,
    /// Its calls since it was first seen.
    pub calls: u64,
}

/// `DELETE /api/sessions/{id}`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EndedSession {
    pub success: bool,
    pub id: String,
}
