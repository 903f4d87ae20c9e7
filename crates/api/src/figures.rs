//! REST types of what servers do, and of what their processes hold.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// [`Figures`]
pub const FIGURES: &str = "/api/figures";

/// `GET /api/figures`, in the order of the configuration.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    pub servers: Vec<ServerFigures>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerFigures {
    pub name: String,
    /// Calls that have ended since the server is there.
    pub calls: u64,
    /// Those that have failed, or whose result says so.
    pub errors: u64,
    /// Calls that have not been sent.
    pub calls_waiting: u64,
    pub calls_in_flight: u64,
    pub recent: RecentCalls,
    /// Processes of all its sessions, and everything below them. Left out where it has none, or the
    /// system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Their resident memory; what they share counts once for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// Calls that have ended in the last minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecentCalls {
    /// How much of the minute is known: what happened since the first request for figures, or since the
    /// last one if that is more than a minute ago.
    pub span_ms: u64,
    pub calls: u64,
    pub errors: u64,
    /// Of the last five to ten seconds.
    pub calls_per_second: f64,
    /// Estimates from a histogram; left out where there was no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
}
