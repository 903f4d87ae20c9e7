//! Queries about servers and tools over time.

use std::time::{Duration, SystemTime};

/// A query for statistics: the calls to count, and the grouping, bucket length and order of the
/// series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub server: Option<String>,
    pub tool: Option<String>,
    /// Earliest start of a call, rounded to the minute, or to the hour for older calls.
    pub since: SystemTime,
    pub until: SystemTime,
    /// The length of a bucket, rounded up to minutes or hours.
    pub bucket: Duration,
    pub by: By,
    /// The order of the series. `None` orders by name.
    pub order: Option<Order>,
    /// Maximum number of series.
    pub limit: Option<usize>,
}

/// The grouping of calls into series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By server, method and tool.
    #[default]
    Tool,
    Server,
    /// One series for all calls.
    All,
}

/// The order of series, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Calls,
    Errors,
    /// The 95th percentile of the whole range.
    P95,
}

/// The statistics of one tool of a server, or of one prompt. An empty `tool` stands for all other
/// requests to the server. A field is also empty if its value differs between the calls of the
/// series ([`By`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    pub server: String,
    pub method: String,
    pub tool: String,
    /// The sum over the whole range.
    pub total: Bucket,
    /// In ascending order of time, without empty buckets.
    pub buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub start: SystemTime,
    pub calls: u64,
    /// Calls whose status is not `ok`.
    pub errors: u64,
    /// The median latency. The percentiles have a precision of 6 %.
    pub p50: Duration,
    pub p95: Duration,
    pub p99: Duration,
    pub argument_bytes: u64,
    pub result_bytes: u64,
}
