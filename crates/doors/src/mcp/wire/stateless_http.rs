//! Streamable HTTP of 2026-07-28: POST only, and headers that repeat the body.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};
use mainstay_core::{
    catalog::ListKind,
    era::{
        Caller,
        headers::{self as mirrored, HeaderMismatch, Inbound},
        modern::{self, RequestRefusal},
    },
    message::{self, Kind},
    principal::Principal,
};
use mainstay_gateway::{Gateway, View, calls::Closed};
use mainstay_transport::Frame;

use super::{
    answer::{Answer, Refusal, events, json},
    headers::{self, Accepts, HEAD_HOLD, PROTOCOL_VERSION, SESSION_ID},
    sse_body::Events,
};
use crate::mcp::{
    reply::{ClosedReply as _, Reply, id},
    sessions::session::Scope,
    stateless::{Call, admit, refusal_text},
};

/// Whether a message comes from a client without a session.
pub fn is_modern(headers: &HeaderMap, frame: &Frame) -> bool {
    let version = headers.get(PROTOCOL_VERSION);
    // One that is no text is no revision's name either.
    let version = version.map(|version| version.to_str().unwrap_or_default());
    modern::is_modern(frame.envelope(), version)
}

/// Whether a client without a session asks for what only a session has.
pub fn is_misplaced(method: &Method, headers: &HeaderMap) -> bool {
    let version = || headers.get(PROTOCOL_VERSION)?.to_str().ok();
    [Method::GET, Method::DELETE].contains(method)
        && !headers.contains_key(SESSION_ID)
        && version().is_some_and(modern::is_spoken)
}

/// The client of this request, if it may be served; `None` for a notification.
pub async fn check(
    gateway: &Gateway,
    scope: &Scope,
    principal: &Principal,
    headers: &HeaderMap,
    frame: &Frame,
    accepts: Accepts,
) -> Result<Option<Caller>, Refusal> {
    match frame.envelope().kind {
        Kind::Request { .. } => {}
        Kind::Notification { .. } => return Ok(None),
        Kind::Response { .. } => {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                "clients send no responses",
            ));
        }
    }
    let inbound = Inbound::of(
        headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes())),
    );
    let caller = admit(frame, Some(&inbound)).map_err(|refused| refuse(frame, &refused))?;
    headers::admit(&gateway.lineage, headers, Some(id(frame)))?;
    if frame.method() == Some(message::Method::Listen) && !accepts.events {
        return Err(Refusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must name text/event-stream",
        ));
    }
    if !headers.contains_key(mirrored::FRONT) {
        let view = match scope {
            Scope::One(server) => gateway.view_of_server(server, principal),
            Scope::Profile(profile) => gateway.view(profile, principal, &caller),
        };
        let checked = check_params(gateway, scope, &view, frame, &inbound).await;
        checked.map_err(|mismatch| refuse(frame, &mismatch.into()))?;
    }
    Ok(Some(caller))
}

fn refuse(frame: &Frame, refused: &RequestRefusal) -> Refusal {
    let status = StatusCode::from_u16(refused.http_status()).unwrap_or(StatusCode::BAD_REQUEST);
    Refusal::saying(status, refusal_text(id(frame), refused))
}

/// Answers as JSON or as a stream, whichever turns out right.
pub async fn respond(call: Call, accepts: Accepts) -> Answer {
    let Call {
        mut reply,
        messages,
    } = call;
    if !accepts.events {
        return whole(reply.await);
    }
    tokio::select! {
        biased;
        reply = &mut reply => {
            let plain = accepts.json && !reply.streamed || status_of(&reply).is_some();
            if plain && messages.is_empty() {
                return whole(reply);
            }
            let reply = Box::pin(std::future::ready(reply));
            return events(Events::of_call(messages, reply));
        }
        () = messages.readable() => {}
        () = tokio::time::sleep(HEAD_HOLD) => {}
    }
    events(Events::of_call(messages, reply))
}

fn whole(reply: Closed<Reply>) -> Answer {
    json(
        status_of(&reply).unwrap_or(StatusCode::OK),
        reply.into_text(),
    )
}

/// The status that the specification has for an error, if it has one.
fn status_of(reply: &Reply) -> Option<StatusCode> {
    let status = modern::http_status(reply.error?)?;
    StatusCode::from_u16(status).ok()
}

/// Compares `Mcp-Param-*` with the arguments of a call, as the tool's schema says. A call of an unknown
/// tool waits for the list.
async fn check_params(
    gateway: &Gateway,
    scope: &Scope,
    view: &View,
    frame: &Frame,
    inbound: &Inbound<'_>,
) -> Result<(), HeaderMismatch> {
    if frame.method() != Some(message::Method::ToolsCall) {
        return Ok(());
    }
    let Some(name) = frame.text_param("name") else {
        return Ok(());
    };
    let (server, original) = match scope {
        // Nobody learns from a mismatch that there is such a tool.
        Scope::One(server) if view.hides_item(ListKind::Tools, &server.name, &name) => {
            return Ok(());
        }
        Scope::One(server) => (Arc::clone(server), name),
        Scope::Profile(profile) => {
            let target = || view.tool(&name).ok();
            let mut found = target();
            if found.is_none() {
                gateway.registry.profile_settled(profile).await;
                found = target();
            }
            let server = found
                .as_ref()
                .and_then(|target| gateway.registry.named(&target.server));
            match (found, server) {
                (Some(target), Some(server)) => (server, target.original.to_string()),
                // No server has it, which is reported elsewhere.
                _ => return Ok(()),
            }
        }
    };
    if server.catalog().is_none() {
        gateway.registry.listed(&server).await;
    }
    let catalog = server.catalog();
    let tool = catalog
        .as_deref()
        .and_then(|catalog| catalog.item(ListKind::Tools, &original));
    let Some(schema) = tool
        .filter(|tool| tool.raw.contains(mirrored::ANNOTATION))
        .and_then(|tool| tool.member("inputSchema"))
    else {
        return Ok(());
    };
    // A tool whose headers are invalid has none.
    let Ok(params) = mirrored::param_headers(schema) else {
        return Ok(());
    };
    inbound.check_params(&params, frame.param("arguments"))
}

/// What is not spoken here any more, or is not yet.
pub fn misplaced() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this revision knows POST only",
    )
}
