//! REST types of call records, of the objects that they name, and of statistics.

use std::time::Duration;

use mainstay_core::record::{CallAttempt, Payload, Record, RecordError, SOURCE};
use mainstay_platform::utc;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Raw;

/// Call records, newest first: [`CallRecords`].
pub const CALL_RECORDS: &str = "/api/call-records";
/// One call record with its arguments and its result: [`WholeCallRecord`].
pub const CALL_RECORD: &str = "/api/call-records/{id}";
/// The bytes of an object, or a range of them.
pub const OBJECT: &str = "/api/objects/{cid}";
/// Calls over time: [`Statistics`].
pub const STATISTICS: &str = "/api/statistics";

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CallRecords {
    pub calls: Vec<CallRecord>,
    /// Number of matching records on all pages. A search by `text` or `trace_id` ends with its page,
    /// and counts what it found.
    pub total_count: u64,
    /// True if older records were left out.
    pub truncated: bool,
    /// The value of `before` for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Present if a search by `text` or `trace_id` reached its time limit before the end of the
    /// records: the start time of the last call that it examined. The next page continues from
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched_back_to: Option<String>,
    /// Periods in which calls were not recorded, oldest first. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<RecordGap>,
}

/// A period in which calls were not recorded (docs/rest.md, "Records").
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RecordGap {
    /// RFC 3339, UTC.
    pub since: String,
    /// RFC 3339, UTC. Absent while the gap continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Number of calls that were not recorded.
    pub calls: u64,
    /// The error of the disk or the journal, or a note that too many calls waited.
    pub reason: String,
}

/// The record of one call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CallRecord {
    pub id: String,
    /// `mcp_client`.
    pub source: String,
    /// `mcp_http`, `mcp_stdio`, `mcp_sse`, `rest`, `cli`, `bridge`, `own`.
    pub door: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<RecordedClient>,
    /// `operator` or `client:NAME`. Absent if the request had no token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Absent if no server has an item with the requested name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The original name of a tool or prompt, or the URI of a resource. If the name is unknown, the
    /// name that the client sent.
    pub tool: String,
    /// `server/tool`.
    pub name: String,
    pub method: String,
    /// The recorded arguments, if they have at most 1 KiB. Longer arguments have a CID only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments_cid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_cid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// RFC 3339, UTC.
    pub started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// Time that the call waited for the server to be ready.
    pub queue_ms: f64,
    /// Time that the server worked on the call.
    pub upstream_ms: f64,
    /// Number of attempts. 0 for a refused call.
    pub attempt: u32,
    /// The attempts before the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_attempts: Vec<EarlierAttempt>,
    /// `not_sent`, `sent`, `answered`.
    pub state: String,
    /// `open`, `ok`, `error`, `timeout`, `cancelled`, `unknown`, `refused`.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RecordedError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RecordedClient {
    pub name: String,
    pub version: String,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RecordedError {
    /// The code of a failure, or `tool_error` if the result has `isError`.
    pub kind: String,
    pub message: String,
}

/// An attempt at a call that failed and was followed by another attempt.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EarlierAttempt {
    /// Time from the arrival of the call to the end of the attempt.
    pub ended_ms: f64,
    /// `not_sent`, or `sent` if the call may have run twice.
    pub state: String,
    pub error: RecordedError,
}

/// A call record with its arguments and its result, if they are stored and not too long.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WholeCallRecord {
    pub call: CallRecord,
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Raw>,
    #[schema(value_type = Option<Object>)]
    pub result: Option<Raw>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Statistics {
    /// One series for each server, method and tool. With `by`, series are merged; a field in which
    /// the merged calls differ is an empty text.
    pub tools: Vec<ToolStatistics>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ToolStatistics {
    pub server: String,
    pub method: String,
    pub tool: String,
    pub total: CallStatistics,
    /// Ordered by time. Buckets without calls are absent.
    pub buckets: Vec<CallStatistics>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CallStatistics {
    /// RFC 3339, UTC.
    pub start: String,
    pub calls: u64,
    /// Calls whose status is not `ok`.
    pub errors: u64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub argument_bytes: u64,
    pub result_bytes: u64,
}

impl From<&Record> for CallRecord {
    fn from(record: &Record) -> Self {
        let (origin, target) = (&record.origin, &record.target);
        let ended = record.duration.map(|span| record.started_at + span);
        let cid = |payload: Option<Payload>| {
            payload
                .and_then(|payload| payload.cid)
                .map(|cid| cid.to_string())
        };
        Self {
            id: record.id.to_string(),
            source: SOURCE.to_owned(),
            door: origin.door.to_string(),
            profile: origin.profile.clone(),
            client: origin.client.as_ref().map(|client| RecordedClient {
                name: client.name.clone(),
                version: client.version.clone(),
            }),
            principal: origin.principal.clone(),
            session: origin.session.clone(),
            server: target.server.as_ref().map(ToString::to_string),
            tool: target.tool.to_string(),
            name: target.name(),
            method: target.method.to_string(),
            arguments: record
                .arguments_text
                .clone()
                .and_then(|text| RawValue::from_string(text).ok()),
            arguments_cid: cid(record.arguments),
            arguments_bytes: record.arguments.map(|payload| payload.size),
            result_cid: cid(record.result),
            result_bytes: record.result.map(|payload| payload.size),
            started_at: utc::rfc3339(record.started_at),
            completed_at: ended.map(utc::rfc3339),
            duration_ms: record.duration.map(millis),
            queue_ms: millis(record.queue),
            upstream_ms: millis(record.upstream),
            attempt: record.attempts,
            earlier_attempts: record.earlier.iter().map(EarlierAttempt::from).collect(),
            state: record.state.to_string(),
            status: record.status.to_string(),
            error: record.error.as_ref().map(RecordedError::from),
            trace_id: record.trace.map(|trace| trace.to_string()),
        }
    }
}

impl From<&CallAttempt> for EarlierAttempt {
    fn from(attempt: &CallAttempt) -> Self {
        Self {
            ended_ms: millis(attempt.ended),
            state: attempt.state.to_string(),
            error: RecordedError::from(&attempt.error),
        }
    }
}

impl From<&RecordError> for RecordedError {
    fn from(error: &RecordError) -> Self {
        Self {
            kind: error.kind.to_string(),
            message: error.text.clone(),
        }
    }
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}
