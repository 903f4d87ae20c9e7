//! REST types of the history of servers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::RecordGap;

/// The history of all servers: [`History`].
pub const HISTORY: &str = "/api/history";
/// The history of one server: [`History`].
pub const SERVER_HISTORY: &str = "/api/servers/{name}/history";

/// Changes of server status in a period, oldest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Sorted by name.
    pub servers: Vec<ServerHistory>,
    /// Starts and stops of Mainstay. The status of servers while Mainstay did not run is unknown.
    pub daemon: Vec<DaemonMark>,
    /// Periods in which calls were not recorded, oldest first.
    #[serde(default)]
    pub gaps: Vec<RecordGap>,
    /// True if some entries were left out.
    pub truncated: bool,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ServerHistory {
    pub server: String,
    /// The status at the beginning of the period comes first, with its earlier time.
    pub transitions: Vec<Transition>,
    /// True if older changes in the period were left out.
    pub truncated: bool,
}

/// The status of a server from a time on.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// RFC 3339, UTC.
    pub at: String,
    /// The status word. `pending` while the server waits for approval, `removed` after the server
    /// was removed.
    pub status: String,
    /// True if the server is connected and degraded. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub degraded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True if the reason is that the server accepts no credentials of its entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unauthorized: bool,
    /// The exit code of its process, if the exit of the process caused the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<i32>,
    /// The number of the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Time from `at` until the next attempt was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_ms: Option<u64>,
    /// The last lines of stderr.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// A start or an end of Mainstay.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DaemonMark {
    /// RFC 3339, UTC.
    pub at: String,
    /// `started`, `stopped` or `lost`. `lost`: Mainstay ended without recording it, at this time or
    /// later, and before the next start.
    pub event: String,
}
