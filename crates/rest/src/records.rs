//! Records of calls, and the objects that they name.

use std::time::{Duration, SystemTime};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::header;
use mainstay_api::{self as api, Raw};
use mainstay_core::{
    failure::{Failure, FailureKind},
    record::{Cid, Payload, RecordId, Status},
};
use mainstay_journal::{Bucket, Filter, Journal, JournalError, Page, Range, Series, Whose};
use mainstay_platform::utc;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    RestDoor,
    address::{Path, Query},
    refusal::Refusal,
};
use mainstay_doorway::json_views::records::{failure, journal};

/// Records in an answer: the default, and the most.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// Payloads up to here are part of a record's answer.
const MAX_INLINE: u64 = 1024 * 1024;

/// The time span of statistics by default.
const LAST_DAY: Duration = Duration::from_hours(24);

/// A bucket that holds whatever is kept.
const LONGEST_BUCKET: Duration = Duration::from_hours(24 * 366 * 100);

/// `?limit=&tool=&server=&status=&door=&client=&session=&since=&until=&text=&before=&count=`
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RecordsQuery {
    limit: Option<usize>,
    server: Option<String>,
    tool: Option<String>,
    status: Option<String>,
    door: Option<String>,
    client: Option<String>,
    session: Option<String>,
    since: Option<String>,
    until: Option<String>,
    text: Option<String>,
    before: Option<String>,
    count: Option<bool>,
}

/// `?server=&tool=&since=&until=&bucketMs=`
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Span {
    server: Option<String>,
    tool: Option<String>,
    since: Option<String>,
    until: Option<String>,
    bucket_ms: Option<u64>,
}

/// `?offset=&length=`
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Slice {
    offset: Option<u64>,
    length: Option<usize>,
}

/// `GET /api/call-records`
pub async fn records(
    State(door): State<RestDoor>,
    Query(wanted): Query<RecordsQuery>,
) -> Result<Json<api::CallRecords>, Refusal> {
    let limit = wanted.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let filter = filter(wanted)?;
    let found = journal(&door.gateway.calls)?.records(filter, limit).await;
    Ok(Json(page(&found.map_err(failure)?)))
}

/// `GET /api/call-records/{id}`
pub async fn record(
    State(door): State<RestDoor>,
    Path(id): Path<String>,
) -> Result<Json<api::WholeCallRecord>, Refusal> {
    let journal = journal(&door.gateway.calls)?;
    let found = match id.parse::<RecordId>() {
        Ok(id) => journal.record(id).await.map_err(failure)?,
        Err(_) => None,
    };
    let record = found.ok_or_else(|| {
        Failure::new(
            FailureKind::RecordNotFound,
            format!("there is no record {id}"),
        )
        .with("id", id)
    })?;
    Ok(Json(api::WholeCallRecord {
        call: api::CallRecord::from(&record),
        arguments: payload(journal, record.arguments).await?,
        result: payload(journal, record.result).await?,
    }))
}

/// `GET /api/objects/{cid}`: arguments and results are JSON texts. A slice of one is none.
pub async fn object(
    State(door): State<RestDoor>,
    Path(name): Path<String>,
    Query(slice): Query<Slice>,
) -> Result<Response, Refusal> {
    let journal = journal(&door.gateway.calls)?;
    let cid: Cid = name
        .parse()
        .map_err(|error: mainstay_core::record::InvalidCid| {
            Failure::new(FailureKind::CidNotFound, error.to_string()).with("cid", name)
        })?;
    if slice.offset.is_none() && slice.length.is_none() {
        let bytes = journal.object(cid).await.map_err(failure)?;
        return Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response());
    }
    let (offset, length) = (
        slice.offset.unwrap_or(0),
        slice.length.unwrap_or(usize::MAX),
    );
    let (bytes, size) = journal
        .object_slice(cid, offset, length.min(door.bodies.of_body))
        .await
        .map_err(failure)?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (
            header::HeaderName::from_static("mainstay-object-size"),
            size.to_string(),
        ),
    ];
    Ok((headers, bytes).into_response())
}

/// `GET /api/statistics`
pub async fn statistics(
    State(door): State<RestDoor>,
    Query(span): Query<Span>,
) -> Result<Json<api::Statistics>, Refusal> {
    let now = SystemTime::now();
    let until = time("until", span.until.as_deref())?.unwrap_or(now);
    let since = time("since", span.since.as_deref())?;
    let since = since.unwrap_or_else(|| until.checked_sub(LAST_DAY).unwrap_or(until));
    let range = Range {
        server: span.server,
        tool: span.tool,
        since,
        until,
        bucket: Duration::from_millis(span.bucket_ms.unwrap_or(3_600_000)).min(LONGEST_BUCKET),
    };
    let series = journal(&door.gateway.calls)?
        .statistics(range)
        .await
        .map_err(failure)?;
    Ok(Json(api::Statistics {
        tools: series.into_iter().map(of_tool).collect(),
    }))
}

fn filter(wanted: RecordsQuery) -> Result<Filter, Refusal> {
    let unknown =
        |what: &str, word: &str| Refusal::Malformed(format!("there is no {what} {word:?}"));
    let status = wanted
        .status
        .as_deref()
        .map(|word| Status::parse(word).ok_or_else(|| unknown("status", word)));
    let door = wanted
        .door
        .as_deref()
        .map(|word| mainstay_core::record::Door::parse(word).ok_or_else(|| unknown("door", word)));
    let before = wanted.before.as_deref().map(|id| {
        id.parse()
            .map_err(|_| Refusal::Malformed(format!("{id:?} is no record's id")))
    });
    Ok(Filter {
        server: wanted.server,
        tool: wanted.tool,
        status: status.transpose()?,
        door: door.transpose()?,
        client: wanted.client,
        session: wanted.session,
        whose: Whose::Anybodys,
        since: time("since", wanted.since.as_deref())?,
        until: time("until", wanted.until.as_deref())?,
        text: wanted.text,
        before: before.transpose()?,
        uncounted: wanted.count == Some(false),
    })
}

/// A time in RFC 3339, or in seconds since 1970.
fn time(name: &str, said: Option<&str>) -> Result<Option<SystemTime>, Refusal> {
    said.map(|text| {
        utc::parse(text).ok_or_else(|| {
            let expected = "expected a time such as 2026-11-25T14:03:00Z, or seconds since 1970";
            Refusal::Malformed(format!("{name}: {expected}"))
        })
    })
    .transpose()
}

/// What a record names, where it is kept and can be part of an answer.
async fn payload(journal: &Journal, payload: Option<Payload>) -> Result<Option<Raw>, Failure> {
    let Some(cid) = payload
        .filter(|it| it.size <= MAX_INLINE)
        .and_then(|it| it.cid)
    else {
        return Ok(None);
    };
    match journal.object(cid).await {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).ok();
            Ok(text.and_then(|text| RawValue::from_string(text).ok()))
        }
        Err(JournalError::NotKept(_) | JournalError::NoSuchObject(_)) => Ok(None),
        Err(error) => Err(failure(error)),
    }
}

fn page(page: &Page) -> api::CallRecords {
    api::CallRecords {
        calls: page.calls.iter().map(api::CallRecord::from).collect(),
        total_count: page.total_count,
        truncated: page.truncated,
        next: page.next.map(|id| id.to_string()),
    }
}

fn of_tool(series: Series) -> api::ToolStatistics {
    api::ToolStatistics {
        server: series.server,
        method: series.method,
        tool: series.tool,
        total: calls(series.total),
        buckets: series.buckets.into_iter().map(calls).collect(),
    }
}

fn calls(bucket: Bucket) -> api::CallStatistics {
    let millis = |span: Duration| span.as_secs_f64() * 1000.0;
    api::CallStatistics {
        start: utc::rfc3339(bucket.start),
        calls: bucket.calls,
        errors: bucket.errors,
        p50_ms: millis(bucket.p50),
        p95_ms: millis(bucket.p95),
        p99_ms: millis(bucket.p99),
        argument_bytes: bucket.argument_bytes,
        result_bytes: bucket.result_bytes,
    }
}
