//! REST types of the current load of servers and their processes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// [`Figures`]
pub const FIGURES: &str = "/api/figures";

/// `GET /api/figures`, in the order of the configuration.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub servers: Vec<ServerFigures>,
    /// Duration of one step of a `series`.
    #[serde(default)]
    pub series_step_ms: u64,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerFigures {
    pub name: String,
    /// Ended calls since the server was added or Mainstay started.
    pub calls: u64,
    /// Ended calls that failed, or whose result has `isError`.
    pub errors: u64,
    /// Calls that wait to be sent.
    pub calls_waiting: u64,
    pub calls_in_flight: u64,
    pub recent: RecentCalls,
    /// Time of the last message from the server, in milliseconds since 1970. For a server with
    /// isolated sessions, it lags the last answer by up to five seconds. Absent if the server has
    /// not sent a message yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<u64>,
    /// Absent if no call ended in the last five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<CallSeries>,
    /// Number of processes of all its sessions, including their descendants. Absent if the server
    /// has no process, or if the operating system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Resident memory of these processes. Shared memory counts once for each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// Calls that have ended in the last minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecentCalls {
    /// One minute plus up to five seconds. Shorter for a server that was added recently.
    pub span_ms: u64,
    pub calls: u64,
    pub errors: u64,
    /// The rate in the last five to ten seconds.
    pub calls_per_second: f64,
    /// An estimate from a histogram. Absent if no call ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
}

/// Calls of the last five minutes in steps of `seriesStepMs`, starting with the first step that has
/// calls. The newest step is the last one. The current step is not included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallSeries {
    /// Calls that ended in each step.
    pub calls: Vec<u32>,
    /// The 95th percentile of the durations in each step; `null` for a step without calls.
    pub p95_ms: Vec<Option<f64>>,
}
