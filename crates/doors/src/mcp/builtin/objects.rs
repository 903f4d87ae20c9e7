//! Arguments and results that the journal keeps, read in parts by a tool (`read_object`) and as
//! resources (`mainstay://objects/CID`). The query of such a URI has the tool's arguments.
//!
//! An identifier can be computed from a guess of the content. So a client reads only the objects of its
//! own calls ([`Reach`]). Objects of others are answered as unknown.

use axum::{extract::Query, http::Uri};
use mainstay_core::{
    era::{Era, result},
    failure::{Failure, FailureKind},
    message::Method,
    record::{Cid, OBJECTS},
};
use serde_json::json;
use tokio::sync::oneshot;

use super::{
    context::Context,
    excerpt::{Excerpt, ExcerptQuery},
    outcome::{Outcome, ToolOutput, here},
    reach::Reach,
    refusal::Refusal,
};
use crate::mcp::{
    kept_objects::{Reading, bare},
    reply::Reply,
    shared::Shared,
};

/// What clients are told of these resources.
pub const TEMPLATE: &str = r#"{"uriTemplate":"mainstay://objects/{cid}{?offset,length,lines,pattern,path,raw}","name":"objects","title":"Whole results","description":"Results of which only the beginning was given, read in parts: offset and length in characters, lines as 10-40, pattern as a regular expression, path as a JSON path, raw=true for JSON as it is kept.","mimeType":"text/plain"}"#;

pub fn is_one(uri: &str) -> bool {
    uri.starts_with(OBJECTS)
}

/// Answers `resources/read`; `reach` is `None` where objects cannot be read at all.
pub async fn read(
    shared: &Shared,
    reach: Option<Reach>,
    id: &str,
    uri: &str,
    client: Era,
    cancelled: oneshot::Receiver<String>,
) -> Reply {
    let part = match here(cancelled, part(shared, reach, uri)).await {
        Ok(part) => part,
        // Like the tools that read objects, this is no call of a server.
        Err(refusal) => return Reply::failure(id, &failed(refusal, uri)).refused_as(None),
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

async fn part(shared: &Shared, reach: Option<Reach>, uri: &str) -> Result<Excerpt, Refusal> {
    let (cid, query) = bare(uri).split_once('?').unwrap_or((bare(uri), ""));
    let unclear = |why: &dyn std::fmt::Display| Refusal::Arguments(format!("{uri}: {why}"));
    // Anything but letters and digits would say something else in the query.
    let cid: Cid = cid
        .parse()
        .map_err(|_| Refusal::CidNotFound(cid.to_owned()))?;
    let asked: Uri = format!("/?cid={cid}&{query}")
        .parse()
        .map_err(|why| unclear(&why))?;
    let Query(wanted) = Query::<ExcerptQuery>::try_from_uri(&asked).map_err(|why| unclear(&why))?;
    let reach = reach.ok_or_else(|| Refusal::CidNotFound(cid.to_string()))?;
    excerpt(shared, reach, wanted).await
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
pub async fn read_part(context: &Context<'_>) -> Outcome {
    let wanted: ExcerptQuery = context.arguments()?;
    let cid = bare(&wanted.cid).to_owned();
    let Excerpt {
        text,
        offset,
        total,
        next_offset,
    } = excerpt(context.shared, context.reach(), wanted).await?;
    let mut said = json!({"cid": cid, "text": text, "offset": offset, "total": total});
    if let Some(next) = next_offset {
        said["next_offset"] = next.into();
    }
    Ok(ToolOutput::json(&said))
}

async fn excerpt(shared: &Shared, reach: Reach, wanted: ExcerptQuery) -> Result<Excerpt, Refusal> {
    let cid = wanted.cid.clone();
    let reading = if wanted.has_path() {
        Reading::AsValues
    } else {
        Reading::AsText
    };
    let read = shared.objects.read(
        &shared.gateway.calls,
        reach,
        &cid,
        reading,
        move |object, budget| wanted.of(object, budget),
    );
    read.await?
        .map_err(|error| Refusal::Arguments(error.to_string()))
}
