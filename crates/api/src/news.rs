//! Logs and events.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// `GET /api/servers/NAME/logs`: the last lines, the oldest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Logs {
    pub lines: Vec<LogLine>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// RFC 3339
    pub time: String,
    /// `stderr`, `stdout`, or `mainstay` for what Mainstay says about the server.
    pub source: String,
    pub text: String,
}

/// With `?follow=true`: an event's name, and its data.
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

/// The lines that were there end here. What follows was written since.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct TailEnd {
    /// Whether nothing older was left out.
    pub complete: bool,
}

/// Lines that came too fast for this client.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Missed {
    pub lines: u64,
}

/// What happened.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Sorts as text.
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// RFC 3339
    pub created_at: String,
    /// With the server's `name`.
    #[schema(value_type = Object)]
    pub data: Map<String, Value>,
}

/// `GET /api/events/recent`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Events {
    pub events: Vec<Event>,
    /// Whether some are gone that came after the place asked for.
    pub missed: bool,
    /// Whether `limit` left older ones out; left out if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The place to go on from.
    pub last: String,
}
