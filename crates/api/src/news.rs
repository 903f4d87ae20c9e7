//! REST types of logs and events.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// `GET /api/servers/NAME/logs`: the last lines, oldest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Logs {
    pub lines: Vec<LogLine>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// RFC 3339
    pub time: String,
    /// `stderr`, `stdout`, or `mainstay` for lines of Mainstay about the server.
    pub source: String,
    pub text: String,
}

/// An event of `?follow=true`, with its data.
#[derive(Debug)]
pub enum LogEvent {
    Line(LogLine),
    TailEnd(TailEnd),
    Missed(Missed),
}

impl LogEvent {
    pub const LINE: &str = "line";
    pub const TAIL_END: &str = "tail_end";
    pub const MISSED: &str = "missed";
}

/// The end of the lines that existed before the request. Newer lines follow.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct TailEnd {
    /// True if no older line was left out.
    pub complete: bool,
}

/// The number of lines that this client missed because it read too slowly.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Missed {
    pub lines: u64,
}

/// An event of a server or of Mainstay.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Ids sort as text, in the order of events.
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// RFC 3339
    pub created_at: String,
    /// It includes the server's `name`.
    #[schema(value_type = Object)]
    pub data: Map<String, Value>,
}

/// `GET /api/events/recent`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Events {
    pub events: Vec<Event>,
    /// True if events after the requested id are no longer available.
    pub missed: bool,
    /// True if `limit` left out older events. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The id to continue after.
    pub last: String,
}
