//! REST types of the history of servers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::RecordGap;

/// What all servers did: [`History`].
pub const HISTORY: &str = "/api/history";
/// What one server did: [`History`].
pub const SERVER_HISTORY: &str = "/api/servers/{name}/history";

/// Changes of servers' statuses in a period, the oldest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// By name.
    pub servers: Vec<ServerHistory>,
    /// When Mainstay itself was started and stopped. What servers did meanwhile is not known.
    pub daemon: Vec<DaemonMark>,
    /// Times of which calls are not on record, the oldest first.
    #[serde(default)]
    pub gaps: Vec<RecordGap>,
    /// Whether some were left out.
    pub truncated: bool,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ServerHistory {
    pub server: String,
    /// What was so when the period began comes first, at an earlier time.
    pub transitions: Vec<Transition>,
    /// Whether older ones of the period were left out.
    pub truncated: bool,
}

/// A server's status from a time on.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// RFC 3339, UTC.
    pub at: String,
    /// The canonical word; `pending` while the server waits for approval, `removed` when it is there no more.
    pub status: String,
    /// It is connected, and not well; left out where it is well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub degraded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason is that the server accepts no credentials of its entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unauthorized: bool,
    /// How its process ended, where that is what led here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<i32>,
    /// The number of the attempt that follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// How long after `at` that attempt was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_ms: Option<u64>,
    /// Its last lines of stderr.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// What happened to Mainstay itself.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DaemonMark {
    /// RFC 3339, UTC.
    pub at: String,
    /// `started`, `stopped`, or `lost`: it ended without a word at this time or later, and before the next start.
    pub event: String,
}
