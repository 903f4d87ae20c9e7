//! Streamable HTTP of revisions 2025-03-26 to 2025-11-25 (specification, "Transports"). POST sends
//! a message, GET opens a stream for messages that belong to no call, and DELETE ends a session.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use hyper::body::{Body as _, Incoming};
use mainstay_core::{
    era::Caller,
    message::{self, MessageKind},
    record::Door,
};
use mainstay_doorway::bodies::{FREE, discard};
use mainstay_gateway::calls::{self, Receipt, RequestedCall};
use mainstay_transport::Frame;

use super::{
    answer::{ClosedRefusal as _, HttpAnswer, HttpRefusal, events, json, status},
    batch,
    headers::{
        self, Accepts, HEAD_HOLD, LAST_EVENT_ID, SESSION_ID, check_content_type, check_version,
    },
    mcp::Mcp,
    sse_body::EventStreamBody,
    stateless_http,
};
use crate::mcp::{
    clients::NoSession,
    endpoint::dispatch,
    reply::{ClosedReply as _, unreadable},
    sessions::{
        replay::Gone,
        session::{ClientSession, EndpointScope},
    },
    stateless, trace,
};
use mainstay_doorway::peer::Visitor;

/// Answers one request at an MCP endpoint.
pub async fn serve(
    mcp: &Arc<Mcp>,
    scope: EndpointScope,
    visitor: Visitor,
    request: Request<Incoming>,
) -> HttpAnswer {
    let (head, body) = request.into_parts();
    let reply = match head.method {
        method if stateless_http::is_misplaced(&method, &head.headers) => {
            Err(stateless_http::misplaced())
        }
        Method::POST => return post(mcp, scope, visitor, &head.headers, body).await,
        Method::GET => get(mcp, &scope, &visitor, &head.headers),
        Method::DELETE => delete(mcp, &scope, &visitor, &head.headers).await,
        _ => Err(HttpRefusal::method("POST, GET, DELETE")),
    };
    reply.unwrap_or_else(|refusal| Receipt::new().no_call(refusal).into_response())
}

/// Refuses a request at an endpoint that does not exist.
pub async fn nowhere(
    mcp: &Arc<Mcp>,
    visitor: Visitor,
    request: Request<Incoming>,
    reason: &str,
) -> HttpAnswer {
    let refusal = HttpRefusal::new(StatusCode::NOT_FOUND, reason);
    refuse(mcp, visitor, request, refusal).await
}

/// Refuses a request on a reserved connection. Reads only a short body, to save memory.
pub async fn too_many_connections(
    mcp: &Arc<Mcp>,
    visitor: Visitor,
    request: Request<Incoming>,
) -> HttpAnswer {
    let refusal = HttpRefusal::too_many_connections();
    if request
        .body()
        .size_hint()
        .upper()
        .is_some_and(|limit| limit <= FREE as u64)
    {
        return refuse(mcp, visitor, request, refusal).await;
    }
    discard(request.into_body()).await;
    Receipt::new().no_call(refusal).into_response()
}

/// Refuses a request. If its body has a call, records the call as refused.
async fn refuse(
    mcp: &Arc<Mcp>,
    visitor: Visitor,
    request: Request<Incoming>,
    refusal: HttpRefusal,
) -> HttpAnswer {
    let (head, body) = request.into_parts();
    if head.method != Method::POST {
        return Receipt::new().no_call(refusal).into_response();
    }
    let frame = match receive(mcp, &visitor, &head.headers, body).await {
        Ok((_, body)) => Frame::read(body).ok(),
        Err(refusal) => return Receipt::new().no_call(refusal).into_response(),
    };
    let origin = || calls::origin(Door::McpHttp, &Caller::default(), &visitor.principal).into();
    let requested_call = || RequestedCall::from_frame(frame.as_ref()?);
    let closed_answer = Receipt::new().close(&mcp.gateway().calls, refusal, origin, requested_call);
    closed_answer.await.into_response()
}

async fn post(
    mcp: &Arc<Mcp>,
    scope: EndpointScope,
    visitor: Visitor,
    headers: &HeaderMap,
    body: Incoming,
) -> HttpAnswer {
    let (accepts, body) = match receive(mcp, &visitor, headers, body).await {
        Ok(received) => received,
        Err(refusal) => return Receipt::new().no_call(refusal).into_response(),
    };
    let origin = || {
        let origin = scope.origin(Door::McpHttp, &Caller::default(), &visitor.principal);
        Arc::new(origin)
    };
    if body.trim_ascii_start().first() == Some(&b'[') {
        let reply = match session(mcp, &scope, &visitor, headers) {
            Ok(session) => answer_batch(mcp, session, body.clone()).await,
            Err(refusal) => Err(refusal),
        };
        return match reply {
            Ok(answer) => answer,
            Err(refusal) => {
                let refusal =
                    batch::refuse(&mcp.clients.shared, &scope, &origin(), &body, refusal).await;
                refusal.into_response()
            }
        };
    }
    let frame = match Frame::read(body) {
        Ok(frame) => trace::adopt(frame, headers),
        Err(error) => {
            let refusal = HttpRefusal::with_body(StatusCode::BAD_REQUEST, unreadable(&error));
            let requested_call =
                || Some(RequestedCall::from_unreadable(&error)?.at(scope.server()));
            let closed_answer =
                Receipt::new().close(&mcp.gateway().calls, refusal, origin, requested_call);
            return closed_answer.await.into_response();
        }
    };
    let route = if mcp.gateway().calls.closing().has_begun() && is_work(&frame) {
        let is_initialize = frame.method() == Some(message::Method::Initialize);
        let has_session = !is_initialize && headers.contains_key(SESSION_ID);
        Err(HttpRefusal::closing(&frame, has_session))
    } else {
        route(mcp, &scope, &visitor, headers, &frame, accepts).await
    };
    let route = match route {
        Ok(route) => route,
        Err(refusal) => {
            let requested_call = || Some(RequestedCall::from_frame(&frame)?.at(scope.server()));
            let closed_answer =
                Receipt::new().close(&mcp.gateway().calls, refusal, origin, requested_call);
            let refusal = closed_answer.await;
            return refusal.into_response();
        }
    };
    match (route, frame.envelope().kind) {
        (Route::Modern(Some(caller)), _) => {
            let call = stateless::answer(
                &mcp.clients.stateless,
                scope,
                Door::McpHttp,
                visitor.principal,
                frame,
                caller,
            );
            stateless_http::respond(call, accepts).await
        }
        (Route::Initialize, _) => initialize(mcp, scope, visitor, &frame).await,
        (Route::Session(session), MessageKind::Request { .. }) => {
            answer(mcp, session, frame, accepts).await
        }
        (Route::Session(session), _) => {
            dispatch::take(&mcp.clients.shared, &session, frame).await;
            status(StatusCode::ACCEPTED)
        }
        // Notifications of modern clients have no effect. Such clients cancel by closing the
        // stream.
        (Route::Modern(None), _) => status(StatusCode::ACCEPTED),
    }
}

/// True for a message that starts work, which is refused at shutdown.
fn is_work(frame: &Frame) -> bool {
    use message::Method;
    matches!(frame.method(), Some(Method::Initialize | Method::Listen))
        || RequestedCall::from_frame(frame).is_some()
}

/// The way in which a message is answered.
enum Route {
    /// A request of a client without a session, or a notification of one (`None`).
    Modern(Option<Caller>),
    Initialize,
    Session(Arc<ClientSession>),
}

/// Selects the way in which a message is answered, or refuses it.
async fn route(
    mcp: &Arc<Mcp>,
    scope: &EndpointScope,
    visitor: &Visitor,
    headers: &HeaderMap,
    frame: &Frame,
    accepts: Accepts,
) -> Result<Route, HttpRefusal> {
    if dispatch::is_call_without_id(frame) {
        return Err(HttpRefusal::new(
            StatusCode::BAD_REQUEST,
            dispatch::MISSING_ID,
        ));
    }
    if stateless_http::is_modern(headers, frame) {
        let caller = stateless_http::check(
            mcp.gateway(),
            scope,
            &visitor.principal,
            headers,
            frame,
            accepts,
        )
        .await?;
        return Ok(Route::Modern(caller));
    }
    // `initialize` opens a new session even if it names one. The named session continues, because
    // another process may use it.
    if frame.method() == Some(message::Method::Initialize) {
        headers::admit(&mcp.gateway().lineage, headers, frame.id())?;
        return Ok(Route::Initialize);
    }
    session(mcp, scope, visitor, headers).map(Route::Session)
}

/// Checks a request's headers and reads its body.
async fn receive(
    mcp: &Mcp,
    visitor: &Visitor,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<(Accepts, Bytes), HttpRefusal> {
    check_content_type(headers)?;
    let accepts = Accepts::from_headers(headers);
    if !accepts.json && !accepts.events {
        return Err(HttpRefusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must name application/json and text/event-stream",
        ));
    }
    Ok((accepts, mcp.bodies.read(body, visitor).await?))
}

/// The session that a request names. Revives a session of an earlier run.
fn session(
    mcp: &Mcp,
    scope: &EndpointScope,
    visitor: &Visitor,
    headers: &HeaderMap,
) -> Result<Arc<ClientSession>, HttpRefusal> {
    let id = session_id(headers)?;
    mcp.clients
        .session(id)
        .or_else(|| mcp.clients.revive(id, scope, visitor))
        .filter(|session| session.serves(scope, &visitor.principal))
        .ok_or_else(unknown_session)
}

fn session_id(headers: &HeaderMap) -> Result<&str, HttpRefusal> {
    check_version(headers)?;
    let Some(id) = headers.get(SESSION_ID) else {
        return Err(HttpRefusal::new(
            StatusCode::BAD_REQUEST,
            "Mcp-Session-Id is missing: initialize first",
        ));
    };
    id.to_str().map_err(|_| unknown_session())
}

fn unknown_session() -> HttpRefusal {
    HttpRefusal::new(StatusCode::NOT_FOUND, "unknown session: initialize anew")
}

async fn initialize(
    mcp: &Arc<Mcp>,
    scope: EndpointScope,
    visitor: Visitor,
    frame: &Frame,
) -> HttpAnswer {
    let MessageKind::Request { id, .. } = frame.envelope().kind else {
        let refusal = HttpRefusal::new(StatusCode::BAD_REQUEST, "initialize must be a request");
        return Receipt::new().no_call(refusal).into_response();
    };
    let id = frame.get(id);
    let params = frame.params().unwrap_or("{}");
    match mcp
        .clients
        .open(scope, Door::McpHttp, visitor, params)
        .await
    {
        Ok(opened) => {
            let mut response = json(StatusCode::OK, message::response(id, &opened.result));
            if let Ok(id) = HeaderValue::from_str(&opened.session.id) {
                response.headers_mut().insert(SESSION_ID, id);
            }
            response
        }
        Err(error) => {
            let status = match error {
                NoSession::Backend(_) | NoSession::Excessive(_) => StatusCode::OK,
                NoSession::TooMany | NoSession::Random => StatusCode::SERVICE_UNAVAILABLE,
            };
            json(status, error.response(id))
        }
    }
}

/// Answers with JSON if the reply comes first and soon, else with a stream.
async fn answer(
    mcp: &Arc<Mcp>,
    session: Arc<ClientSession>,
    frame: Frame,
    accepts: Accepts,
) -> HttpAnswer {
    let (sink, messages) = session.sink();
    let mut call = mcp.gateway().calls.detachable(dispatch::answer(
        Arc::clone(&mcp.clients.shared),
        Arc::clone(&session),
        frame,
        sink,
    ));
    if !accepts.events {
        return json(StatusCode::OK, call.await.into_text());
    }
    tokio::select! {
        biased;
        reply = &mut call => {
            if accepts.json && !reply.streamed && messages.is_empty() {
                return json(StatusCode::OK, reply.into_text());
            }
            let call = Box::pin(std::future::ready(reply));
            return events(EventStreamBody::for_session_call(&mcp.gateway().calls, session, messages, call));
        }
        () = messages.readable() => {}
        () = tokio::time::sleep(HEAD_HOLD) => {}
    }
    let call = Box::pin(call);
    events(EventStreamBody::for_session_call(
        &mcp.gateway().calls,
        session,
        messages,
        call,
    ))
}

async fn answer_batch(
    mcp: &Arc<Mcp>,
    session: Arc<ClientSession>,
    body: Bytes,
) -> Result<HttpAnswer, HttpRefusal> {
    if !session.revision.accepts_batches() {
        return Err(HttpRefusal::new(
            StatusCode::BAD_REQUEST,
            &format!("revision {} knows no batches", session.revision),
        ));
    }
    let (sink, messages) = session.sink();
    // The answer to a batch is one body, so other messages of its calls are dropped.
    drop(messages);
    let call = mcp.gateway().calls.detachable(batch::answer(
        Arc::clone(&mcp.clients.shared),
        session,
        body,
        sink,
    ));
    Ok(match call.await {
        Some(text) => json(StatusCode::OK, text),
        None => status(StatusCode::ACCEPTED),
    })
}

fn get(
    mcp: &Mcp,
    scope: &EndpointScope,
    visitor: &Visitor,
    headers: &HeaderMap,
) -> Result<HttpAnswer, HttpRefusal> {
    if !Accepts::from_headers(headers).events {
        return Err(HttpRefusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must name text/event-stream",
        ));
    }
    let session = session(mcp, scope, visitor, headers)?;
    let last_event = headers
        .get(LAST_EVENT_ID)
        .and_then(|id| id.to_str().ok())
        .filter(|_| session.revision.resumes_streams());
    match last_event.map(|id| session.replay.resume(id)) {
        Some(Ok(cursor)) => Ok(events(EventStreamBody::at_cursor(session, cursor))),
        Some(Err(gone @ Gone::Forgotten)) => {
            Err(HttpRefusal::new(StatusCode::BAD_REQUEST, &gone.to_string()))
        }
        Some(Err(Gone::Unknown)) | None => Ok(events(EventStreamBody::for_session(session))),
    }
}

async fn delete(
    mcp: &Mcp,
    scope: &EndpointScope,
    visitor: &Visitor,
    headers: &HeaderMap,
) -> Result<HttpAnswer, HttpRefusal> {
    let id = session_id(headers)?;
    if mcp.clients.delete(id, scope, &visitor.principal).await {
        Ok(status(StatusCode::NO_CONTENT))
    } else {
        Err(unknown_session())
    }
}
