//! Questions about how servers and tools fare over time.

use std::time::{Duration, SystemTime};

/// Which calls, and how finely they are told apart in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub server: Option<String>,
    pub tool: Option<String>,
    /// Calls by their start, to the minute, or to the hour for what is older.
    pub since: SystemTime,
    pub until: SystemTime,
    /// The length of a bucket, rounded up to minutes or hours.
    pub bucket: Duration,
    pub by: By,
    /// Which series come first; by name without an order.
    pub order: Option<Order>,
    /// Series at most.
    pub limit: Option<usize>,
}

/// What makes a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Server, method and tool.
    #[default]
    Tool,
    Server,
    /// There is one series.
    All,
}

/// The greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Calls,
    Errors,
    /// The 95th percentile of the whole range.
    P95,
}

/// One tool of a server, or one prompt; or with an empty name the rest of what is asked of the server. What
/// several calls of a series do not have in common is empty, too ([`By`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    pub server: String,
    pub method: String,
    pub tool: String,
    /// Over the whole range.
    pub total: Bucket,
    /// In the order of time; those without calls are left out.
    pub buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub start: SystemTime,
    pub calls: u64,
    /// Whatever is not `ok`.
    pub errors: u64,
    /// To within 6 %.
    pub p50: Duration,
    pub p95: Duration,
    pub p99: Duration,
    pub argument_bytes: u64,
    pub result_bytes: u64,
}
