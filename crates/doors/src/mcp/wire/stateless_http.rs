//! Streamable HTTP of 2026-07-28: only POST. Headers repeat parts of the body.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};
use mainstay_core::{
    catalog::ListKind,
    era::{
        Caller,
        headers::{self as mirrored, HeaderMismatch, InboundHeaders},
        modern::{self, RequestRefusal},
    },
    message::{self, MessageKind},
    principal::Principal,
};
use mainstay_gateway::{Gateway, View, calls::Closed};
use mainstay_transport::Frame;

use super::{
    answer::{HttpAnswer, HttpRefusal, events, json},
    headers::{self, Accepts, HEAD_HOLD, PROTOCOL_VERSION, SESSION_ID},
    sse_body::EventStreamBody,
};
use crate::mcp::{
    reply::{ClosedReply as _, RpcReply, id},
    sessions::session::EndpointScope,
    stateless::{StatelessCall, admit, refusal_text},
};

/// True if a client without a session sent this message.
pub fn is_modern(headers: &HeaderMap, frame: &Frame) -> bool {
    let version = headers.get(PROTOCOL_VERSION);
    // A value that is not text names no revision.
    let version = version.map(|version| version.to_str().unwrap_or_default());
    modern::is_modern(frame.envelope(), version)
}

/// True if a client without a session uses GET or DELETE, which only sessions have.
pub fn is_misplaced(method: &Method, headers: &HeaderMap) -> bool {
    let version = || headers.get(PROTOCOL_VERSION)?.to_str().ok();
    [Method::GET, Method::DELETE].contains(method)
        && !headers.contains_key(SESSION_ID)
        && version().is_some_and(modern::is_spoken)
}

/// Checks a request, and returns the client that it describes; `None` for a notification.
pub async fn check(
    gateway: &Gateway,
    scope: &EndpointScope,
    principal: &Principal,
    headers: &HeaderMap,
    frame: &Frame,
    accepts: Accepts,
) -> Result<Option<Caller>, HttpRefusal> {
    match frame.envelope().kind {
        MessageKind::Request { .. } => {}
        MessageKind::Notification { .. } => return Ok(None),
        MessageKind::Response { .. } => {
            return Err(HttpRefusal::new(
                StatusCode::BAD_REQUEST,
                "clients send no responses",
            ));
        }
    }
    let inbound_headers = InboundHeaders::from_headers(
        headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes())),
    );
    let caller = admit(frame, Some(&inbound_headers))
        .map_err(|request_refusal| refuse(frame, &request_refusal))?;
    headers::admit(&gateway.lineage, headers, Some(id(frame)))?;
    if frame.method() == Some(message::Method::Listen) && !accepts.events {
        return Err(HttpRefusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must name text/event-stream",
        ));
    }
    if !headers.contains_key(mirrored::FRONT) {
        let view = match scope {
            EndpointScope::One(server) => gateway.view_of_server(server, principal),
            EndpointScope::Profile(profile) => gateway.view(profile, principal, &caller),
        };
        let check_result = check_params(gateway, scope, &view, frame, &inbound_headers).await;
        check_result.map_err(|mismatch| refuse(frame, &mismatch.into()))?;
    }
    Ok(Some(caller))
}

fn refuse(frame: &Frame, request_refusal: &RequestRefusal) -> HttpRefusal {
    let status =
        StatusCode::from_u16(request_refusal.http_status()).unwrap_or(StatusCode::BAD_REQUEST);
    HttpRefusal::with_body(status, refusal_text(id(frame), request_refusal))
}

/// Answers with JSON if the reply comes first and soon, else with a stream.
pub async fn respond(call: StatelessCall, accepts: Accepts) -> HttpAnswer {
    let StatelessCall {
        mut reply,
        messages,
    } = call;
    if !accepts.events {
        return whole(reply.await);
    }
    tokio::select! {
        biased;
        reply = &mut reply => {
            let is_json = accepts.json && !reply.streamed || status_of(&reply).is_some();
            if is_json && messages.is_empty() {
                return whole(reply);
            }
            let reply = Box::pin(std::future::ready(reply));
            return events(EventStreamBody::for_call(messages, reply));
        }
        () = messages.readable() => {}
        () = tokio::time::sleep(HEAD_HOLD) => {}
    }
    events(EventStreamBody::for_call(messages, reply))
}

fn whole(reply: Closed<RpcReply>) -> HttpAnswer {
    json(
        status_of(&reply).unwrap_or(StatusCode::OK),
        reply.into_text(),
    )
}

/// The HTTP status that the specification requires for an error; `None` if it requires none.
fn status_of(reply: &RpcReply) -> Option<StatusCode> {
    let status = modern::http_status(reply.error?)?;
    StatusCode::from_u16(status).ok()
}

/// Compares `Mcp-Param-*` headers with the arguments of a call, by the tool's schema. For an
/// unknown tool, waits for its server's list.
async fn check_params(
    gateway: &Gateway,
    scope: &EndpointScope,
    view: &View,
    frame: &Frame,
    inbound_headers: &InboundHeaders<'_>,
) -> Result<(), HeaderMismatch> {
    if frame.method() != Some(message::Method::ToolsCall) {
        return Ok(());
    }
    let Some(name) = frame.text_param("name") else {
        return Ok(());
    };
    let (server, original) = match scope {
        // A mismatch would reveal that a hidden tool exists.
        EndpointScope::One(server) if view.hides_item(ListKind::Tools, &server.name, &name) => {
            return Ok(());
        }
        EndpointScope::One(server) => (Arc::clone(server), name),
        EndpointScope::Profile(profile) => {
            let target = || view.tool(&name).ok();
            let mut tool_target = target();
            if tool_target.is_none() {
                gateway.registry.profile_settled(profile).await;
                tool_target = target();
            }
            let server = tool_target
                .as_ref()
                .and_then(|target| gateway.registry.named(&target.server));
            match (tool_target, server) {
                (Some(target), Some(server)) => (server, target.original.to_string()),
                // Skip an unknown tool. The call itself fails with that error.
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
    // Annotations that are invalid define no headers.
    let Ok(params) = mirrored::param_headers(schema) else {
        return Ok(());
    };
    inbound_headers.check_params(&params, frame.param("arguments"))
}

/// The refusal of GET and DELETE, which this revision does not have.
pub fn misplaced() -> HttpRefusal {
    HttpRefusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this revision knows POST only",
    )
}
