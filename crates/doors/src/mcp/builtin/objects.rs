//! Stored arguments and results of calls. A client reads them in parts by `read_object`, or as
//! resources (`mainstay://objects/CID`) with the same parameters. A client could compute the
//! identifier of content that it guesses. It may therefore read only objects of its own calls
//! ([`Reach`]).

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
    outcome::{ToolOutcome, ToolOutput, here},
    reach::Reach,
    refusal::ToolRefusal,
};
use crate::mcp::{
    kept_objects::{Reading, bare},
    reply::RpcReply,
    shared::SharedState,
};

/// The resource template of stored objects.
pub const TEMPLATE: &str = r#"{"uriTemplate":"mainstay://objects/{cid}{?offset,length,lines,pattern,path,raw}","name":"objects","title":"Whole results","description":"Results of which only the beginning was given, read in parts: offset and length in characters, lines as 10-40, pattern as a regular expression, path as a JSON path, raw=true for JSON as it is kept.","mimeType":"text/plain"}"#;

pub fn is_one(uri: &str) -> bool {
    uri.starts_with(OBJECTS)
}

/// Answers `resources/read` of a stored object. `reach` is `None` if the profile has no access to
/// objects.
pub async fn read(
    shared_state: &SharedState,
    reach: Option<Reach>,
    id: &str,
    uri: &str,
    client: Era,
    cancel_signal: oneshot::Receiver<String>,
) -> RpcReply {
    let part = match here(cancel_signal, part(shared_state, reach, uri)).await {
        Ok(part) => part,
        // This is not a request to a server, so its refusal is not recorded.
        Err(refusal) => return RpcReply::failure(id, &failed(refusal, uri)).refused_as(None),
    };
    let mut meta = json!({"mainstay/offset": part.offset, "mainstay/total": part.total});
    if let Some(next_start) = part.next_offset {
        meta["mainstay/nextOffset"] = next_start.into();
    }
    let contents =
        json!([{"uri": uri, "mimeType": "text/plain", "text": part.text, "_meta": meta}]);
    let result = json!({ "contents": contents }).to_string();
    match client {
        Era::Legacy => RpcReply::result(id, &result),
        Era::Modern => RpcReply::result(id, &result::to_modern(Method::ResourcesRead, &result)),
    }
}

async fn part(
    shared_state: &SharedState,
    reach: Option<Reach>,
    uri: &str,
) -> Result<Excerpt, ToolRefusal> {
    let (cid, query) = bare(uri).split_once('?').unwrap_or((bare(uri), ""));
    let invalid_uri =
        |reason: &dyn std::fmt::Display| ToolRefusal::Arguments(format!("{uri}: {reason}"));
    // A parsed identifier has no characters that could change the query.
    let cid: Cid = cid
        .parse()
        .map_err(|_| ToolRefusal::CidNotFound(cid.to_owned()))?;
    let query_uri: Uri = format!("/?cid={cid}&{query}")
        .parse()
        .map_err(|error| invalid_uri(&error))?;
    let Query(excerpt_query) =
        Query::<ExcerptQuery>::try_from_uri(&query_uri).map_err(|error| invalid_uri(&error))?;
    let reach = reach.ok_or_else(|| ToolRefusal::CidNotFound(cid.to_string()))?;
    excerpt(shared_state, reach, excerpt_query).await
}

fn failed(refusal: ToolRefusal, uri: &str) -> Failure {
    match refusal {
        ToolRefusal::Failed(failure) => failure,
        ToolRefusal::CidNotFound(_) => {
            Failure::new(FailureKind::ResourceNotFound, "Resource not found").with("uri", uri)
        }
        other => Failure::new(FailureKind::InvalidRequest, other.to_string()),
    }
}

/// Answers `read_object`.
pub async fn read_part(context: &Context<'_>) -> ToolOutcome {
    let excerpt_query: ExcerptQuery = context.arguments()?;
    let cid = bare(&excerpt_query.cid).to_owned();
    let Excerpt {
        text,
        offset,
        total,
        next_offset,
    } = excerpt(context.shared, context.reach(), excerpt_query).await?;
    let mut output = json!({"cid": cid, "text": text, "offset": offset, "total": total});
    if let Some(next_start) = next_offset {
        output["next_offset"] = next_start.into();
    }
    Ok(ToolOutput::json(&output))
}

async fn excerpt(
    shared_state: &SharedState,
    reach: Reach,
    excerpt_query: ExcerptQuery,
) -> Result<Excerpt, ToolRefusal> {
    let cid = excerpt_query.cid.clone();
    let reading = if excerpt_query.has_path() {
        Reading::AsValues
    } else {
        Reading::AsText
    };
    let excerpt = shared_state.objects.read(
        &shared_state.gateway.calls,
        reach,
        &cid,
        reading,
        move |object, budget| excerpt_query.excerpt(object, budget),
    );
    excerpt
        .await?
        .map_err(|error| ToolRefusal::Arguments(error.to_string()))
}
