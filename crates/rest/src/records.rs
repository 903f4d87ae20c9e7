//! Call records, and the stored objects to which they refer.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::header;
use mainstay_api::{self as api, Raw};
use mainstay_core::{
    failure::{Failure, FailureKind},
    record::{Cid, Payload, RecordId},
};
use mainstay_journal::{Journal, JournalError, RecordPage};
use mainstay_platform::utc;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    RestDoor,
    address::{Path, Query},
    filter::RecordsQuery,
    refusal::Refusal,
};
use mainstay_doorway::json_views::{
    history,
    records::{failure, journal},
};

/// Number of records in the answer: the default and the maximum.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// Maximum size of arguments or a result in the answer for one record, in bytes.
const MAX_INLINE: u64 = 1024 * 1024;

/// The parameters `?offset=&length=`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Slice {
    offset: Option<u64>,
    length: Option<usize>,
}

/// Answers `GET /api/call-records`.
pub async fn records(
    State(door): State<RestDoor>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Json<api::CallRecords>, Refusal> {
    let query = RecordsQuery::read(query)?;
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let journal = journal(&door.gateway.calls)?;
    let found = journal.records(query.filter, limit).await;
    Ok(Json(page(&found.map_err(failure)?)))
}

/// Answers `GET /api/call-records/{id}`.
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

/// Answers `GET /api/objects/{cid}`. An object is JSON. A slice of an object is raw bytes.
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
        .object_slice(cid, offset, length.min(door.bodies.body_bytes))
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

/// The arguments or the result of a record. `None` if they are not stored or exceed [`MAX_INLINE`].
async fn payload(journal: &Journal, payload: Option<Payload>) -> Result<Option<Raw>, Failure> {
    let Some(cid) = payload
        .filter(|payload| payload.size <= MAX_INLINE)
        .and_then(|payload| payload.cid)
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

fn page(page: &RecordPage) -> api::CallRecords {
    api::CallRecords {
        calls: page.calls.iter().map(api::CallRecord::from).collect(),
        total_count: page.total_count,
        truncated: page.truncated,
        next: page.next.map(|id| id.to_string()),
        searched_back_to: page.searched_back_to.map(utc::rfc3339),
        gaps: page.gaps.iter().map(history::gap).collect(),
    }
}
