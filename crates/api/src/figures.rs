//! REST types of what servers do, and of what their processes hold.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// [`Figures`]
pub const FIGURES: &str = "/api/figures";

/// `GET /api/figures`, in the order of the configuration.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub servers: Vec<ServerFigures>,
    /// How long a step of a `series` is.
    #[serde(default)]
    pub series_step_ms: u64,
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
    /// When the server was last heard, in milliseconds since 1970. Of a server whose clients have sessions of their
    /// own, this is up to five seconds older than its last answer. Left out where it was not heard yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<u64>,
    /// Left out where there was no call in the last five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<CallSeries>,
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
    /// A minute and up to five seconds; less for a server that is not there for so long.
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

/// Calls of the last five minutes in steps of `seriesStepMs`, from the first step with calls on. The newest is the last;
/// the step under way is not among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallSeries {
    /// Calls that ended in each step.
    pub calls: Vec<u32>,
    /// The 95th percentile of their durations; `null` where there was no call.
    pub p95_ms: Vec<Option<f64>>,
}
