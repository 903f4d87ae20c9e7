//! Arguments and results that the journal keeps: read in parts by a tool (`read_object`) and as
//! resources (`mainstay://objects/CID`), whose queries say the same as the tool's arguments.

use axum::{extract::Query, http::Uri};
use mainstay_core::{
    era::{Era, result},
    failure::{Failure, FailureKind},
    message::Method,
    record::{Cid, OBJECTS},
};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::{
    Outcome, Refusal, Said,
    context::Context,
    excerpt::{Excerpt, Wanted},
};
use crate::{
    calls::Calls,
    front::{
        mcp::reply::Reply,
        plain::records::{failure, journal},
    },
    journal::JournalError,
};

/// What clients are told of these resources.
pub const TEMPLATE: &str = r#"{"uriTemplate":"mainstay://objects/{cid}{?offset,length,lines,pattern,path}","name":"objects","title":"Whole results","description":"Results of which only the beginning was given, read in parts: offset and length in characters, lines as 10-40, pattern as a regular expression, path as a JSON path.","mimeType":"text/plain"}"#;

pub fn is_one(uri: &str) -> bool {
    uri.starts_with(OBJECTS)
}

/// Answers `resources/read`.
pub async fn read(calls: &Calls, id: &str, uri: &str, client: Era) -> Reply {
    let part = match part(calls, uri).await {
        Ok(part) => part,
        Err(refusal) => return Reply::failure(id, &failed(refusal, uri)),
    };
    let mut meta = json!({"mainstay/offset": part.offset, "mainstay/total": part.total});
    if let Some(next) = part.next_offset {
        meta["mainstay/nextOffset"] = next.into();
    }
    let contents =
        json!([{"uri": uri, "mimeType": "text/plain", "text": part.text, "_meta": meta}]);
    let result = json!({ "contents": contents }).to_string();
    match client {
        Era::Legacy => Reply::result(id, &result),
        Era::Modern => Reply::result(id, &result::to_modern(Method::ResourcesRead, &result)),
    }
}

async fn part(calls: &Calls, uri: &str) -> Result<Excerpt, Refusal> {
    let (cid, query) = bare(uri).split_once('?').unwrap_or((bare(uri), ""));
    let unclear = |why: &dyn std::fmt::Display| Refusal::Arguments(format!("{uri}: {why}"));
    // Anything but letters and digits would say something else in the query.
    let cid: Cid = cid
        .parse()
        .map_err(|_| Refusal::CidNotFound(cid.to_owned()))?;
    let asked: Uri = format!("/?cid={cid}&{query}")
        .parse()
        .map_err(|why| unclear(&why))?;
    let Query(wanted) = Query::<Wanted>::try_from_uri(&asked).map_err(|why| unclear(&why))?;
    excerpt(calls, wanted).await
}

fn failed(refusal: Refusal, uri: &str) -> Failure {
    match refusal {
        Refusal::Failed(failure) => failure,
        Refusal::CidNotFound(_) => {
            Failure::new(FailureKind::ResourceNotFound, "Resource not found").with("uri", uri)
        }
        other => Failure::new(FailureKind::InvalidRequest, other.to_string()),
    }
}

/// Part of an object (`read_object`).
pub(super) async fn read_part(context: &Context<'_>) -> Outcome {
    let wanted: Wanted = context.arguments()?;
    let cid = bare(&wanted.cid).to_owned();
    let Excerpt {
        text,
        offset,
        total,
        next_offset,
    } = excerpt(&context.hub.calls, wanted).await?;
    let mut said = json!({"cid": cid, "text": text, "offset": offset, "total": total});
    if let Some(next) = next_offset {
        said["next_offset"] = next.into();
    }
    Ok(Said::json(&said))
}

async fn excerpt(calls: &Calls, wanted: Wanted) -> Result<Excerpt, Refusal> {
    let object = whole(calls, &wanted.cid).await?;
    // A large one takes a while.
    let read = spawn_blocking(move || wanted.of(&object)).await;
    let read =
        read.map_err(|error| Failure::new(FailureKind::JournalUnreadable, error.to_string()))?;
    read.map_err(|error| Refusal::Arguments(error.to_string()))
}

/// The identifier, which may be given as the URI of the resource.
pub fn bare(cid: &str) -> &str {
    cid.strip_prefix(OBJECTS).unwrap_or(cid)
}

pub async fn whole(calls: &Calls, cid: &str) -> Result<Vec<u8>, Refusal> {
    let unknown = || Refusal::CidNotFound(bare(cid).to_owned());
    let known: Cid = bare(cid).parse().map_err(|_| unknown())?;
    match journal(calls)?.object(known).await {
        Err(JournalError::NoSuchObject(_) | JournalError::NotKept(_)) => Err(unknown()),
        read => Ok(read.map_err(failure)?),
    }
}
