//! Streamable HTTP, revisions 2025-03-26 to 2025-11-25 (specification, "Transports"): POST for
//! messages, GET for a stream of what belongs to no call, DELETE to end a session.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use mainstay_core::{
    era::{Caller, Revision, headers},
    failure::{Failure, FailureKind},
    message::{self, Kind},
    record::Door,
};
use mainstay_gateway::calls::{
    self, Answering, CallRefusal, Closed, Closing, Receipt, RequestedCall,
};
use mainstay_platform::lineage::CHAIN_HEADER;
use mainstay_transport::Frame;

use super::reply::ClosedReply as _;
use super::{
    batch, dispatch,
    hub::{Hub, NoSession, Visitor},
    modern,
    replay::Gone,
    session::{ClientSession, Scope},
    sse_body::{Events, ResponseBody},
    trace,
};
use crate::RETRY_AFTER;

// Made once: a name that is looked for as text is parsed each time.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const CHAIN: HeaderName = HeaderName::from_static(CHAIN_HEADER);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(headers::VERSION);

/// How long the response head is held back for the result: then the answer becomes a stream, with
/// keep-alive comments, so that no intermediary's time limit ends a silent call.
pub(super) const HEAD_HOLD: Duration = Duration::from_secs(1);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

pub(super) type Answer = Response<ResponseBody>;

/// Serves one request to an MCP endpoint.
pub async fn serve(
    hub: &Arc<Hub>,
    scope: Scope,
    visitor: Visitor,
    request: Request<Incoming>,
) -> Answer {
    let (head, body) = request.into_parts();
    let served = match head.method {
        method if modern::http::is_misplaced(&method, &head.headers) => {
            Err(modern::http::misplaced())
        }
        Method::POST => return post(hub, scope, visitor, &head.headers, body).await,
        Method::GET => get(hub, &scope, &visitor, &head.headers),
        Method::DELETE => delete(hub, &scope, &visitor, &head.headers).await,
        _ => Err(Refusal::method("POST, GET, DELETE")),
    };
    served.unwrap_or_else(|refusal| Receipt::new().no_call(refusal).into_response())
}

/// A request that is refused by its headers or its form, as a JSON-RPC error.
pub(super) struct Refusal {
    status: StatusCode,
    body: String,
    kind: FailureKind,
    /// The methods that would be served.
    allow: Option<&'static str>,
}

impl Refusal {
    pub fn new(status: StatusCode, message: &str) -> Self {
        let body = message::error_response(None, -32600, message, None);
        Self::saying(status, body)
    }

    /// Whether it would be served at another time, or if it were smaller.
    pub fn is_about_room(&self) -> bool {
        matches!(
            self.status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::PAYLOAD_TOO_LARGE
        )
    }

    /// With this JSON-RPC error.
    pub fn saying(status: StatusCode, body: String) -> Self {
        Self {
            status,
            body,
            kind: FailureKind::InvalidRequest,
            allow: None,
        }
    }

    /// The refusal of work that begins while Mainstay stops.
    fn closing(frame: &Frame) -> Self {
        let failure = Closing::refusal();
        let id = match frame.envelope().kind {
            Kind::Request { id, .. } => Some(frame.get(id)),
            Kind::Notification { .. } | Kind::Response { .. } => None,
        };
        let body = message::error_response(id, failure.kind.rpc_code(), &failure.message, None);
        Self {
            kind: failure.kind,
            ..Self::saying(StatusCode::SERVICE_UNAVAILABLE, body)
        }
    }

    /// The refusal of any other method.
    pub fn method(allow: &'static str) -> Self {
        let message = format!("{allow} is expected");
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, &message)
        }
    }
}

impl Answering for Refusal {
    fn refused(&self) -> Option<Cow<'_, CallRefusal>> {
        let error = message::member(&self.body, "error").unwrap_or_default();
        let why = message::text_member(error, "message").unwrap_or_default();
        let failure = Failure::new(self.kind, why);
        Some(Cow::Owned(failure.into()))
    }
}

/// The response of a refusal, once the receipt of its request is closed.
pub(super) trait ClosedRefusal {
    fn into_response(self) -> Answer;
}

impl ClosedRefusal for Closed<Refusal> {
    fn into_response(self) -> Answer {
        let Refusal {
            status,
            body,
            allow,
            ..
        } = self.into_inner();
        let mut response = json(status, body);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if let Some(allow) = allow {
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

/// Which forms of an answer a client takes.
#[derive(Clone, Copy)]
pub(super) struct Accepts {
    pub json: bool,
    pub events: bool,
}

impl Accepts {
    pub fn of(headers: &HeaderMap) -> Self {
        // What every client sends.
        if headers
            .get(header::ACCEPT)
            .is_some_and(|value| value == "application/json, text/event-stream")
        {
            return Self {
                json: true,
                events: true,
            };
        }
        let mut accepts = Self {
            json: false,
            events: false,
        };
        let mut any = false;
        for value in headers.get_all(header::ACCEPT) {
            any = true;
            for range in value.to_str().unwrap_or_default().split(',') {
                match range.split(';').next().unwrap_or_default().trim() {
                    "*/*" => {
                        accepts = Self {
                            json: true,
                            events: true,
                        }
                    }
                    "application/json" | "application/*" => accepts.json = true,
                    "text/event-stream" | "text/*" => accepts.events = true,
                    _ => {}
                }
            }
        }
        // No header accepts everything (RFC 9110), but a client that says nothing expects no stream.
        if any {
            accepts
        } else {
            Self {
                json: true,
                events: false,
            }
        }
    }
}

/// Refuses a request to an endpoint that there is not.
pub async fn nowhere(
    hub: &Arc<Hub>,
    visitor: Visitor,
    request: Request<Incoming>,
    reason: &str,
) -> Answer {
    let refusal = Refusal::new(StatusCode::NOT_FOUND, reason);
    let (head, body) = request.into_parts();
    if head.method != Method::POST {
        return Receipt::new().no_call(refusal).into_response();
    }
    let frame = match receive(hub, &visitor, &head.headers, body).await {
        Ok((_, body)) => Frame::read(body).ok(),
        Err(refusal) => return Receipt::new().no_call(refusal).into_response(),
    };
    let origin = || calls::origin(Door::McpHttp, &Caller::default(), &visitor.principal).into();
    let wanted = || RequestedCall::of(frame.as_ref()?);
    let closing = Receipt::new().close(&hub.calls, refusal, origin, wanted);
    closing.await.into_response()
}

async fn post(
    hub: &Arc<Hub>,
    scope: Scope,
    visitor: Visitor,
    headers: &HeaderMap,
    body: Incoming,
) -> Answer {
    let (accepts, body) = match receive(hub, &visitor, headers, body).await {
        Ok(received) => received,
        Err(refusal) => return Receipt::new().no_call(refusal).into_response(),
    };
    let origin = || {
        let origin = scope.origin(Door::McpHttp, &Caller::default(), &visitor.principal);
        Arc::new(origin)
    };
    if body.trim_ascii_start().first() == Some(&b'[') {
        let served = match session(hub, &scope, &visitor, headers) {
            Ok(session) => answer_batch(hub, session, body.clone()).await,
            Err(refusal) => Err(refusal),
        };
        return match served {
            Ok(answer) => answer,
            Err(refusal) => {
                let refusal = batch::refuse(hub, &scope, &origin(), &body, refusal).await;
                refusal.into_response()
            }
        };
    }
    let frame = match Frame::read(body) {
        Ok(frame) => trace::adopt(frame, headers),
        Err(error) => {
            let refusal = Refusal::saying(StatusCode::BAD_REQUEST, batch::unreadable(&error));
            let wanted = || Some(RequestedCall::of_unreadable(&error)?.at(scope.server()));
            let closing = Receipt::new().close(&hub.calls, refusal, origin, wanted);
            return closing.await.into_response();
        }
    };
    let route = if hub.calls.closing().has_begun() && is_work(&frame) {
        Err(Refusal::closing(&frame))
    } else {
        route(hub, &scope, &visitor, headers, &frame, accepts).await
    };
    let route = match route {
        Ok(route) => route,
        Err(refusal) => {
            let wanted = || Some(RequestedCall::of(&frame)?.at(scope.server()));
            let closing = Receipt::new().close(&hub.calls, refusal, origin, wanted);
            let refusal = closing.await;
            return refusal.into_response();
        }
    };
    match (route, frame.envelope().kind) {
        (Route::Modern(Some(caller)), _) => {
            let call = modern::answer(hub, scope, Door::McpHttp, visitor.principal, frame, caller);
            modern::http::respond(call, accepts).await
        }
        (Route::Initialize, _) => initialize(hub, scope, visitor, &frame).await,
        (Route::Session(session), Kind::Request { .. }) => {
            answer(hub, session, frame, accepts).await
        }
        (Route::Session(session), _) => {
            dispatch::take(hub, &session, frame).await;
            status(StatusCode::ACCEPTED)
        }
        // No notification of a modern client matters here: a client cancels by closing the stream.
        (Route::Modern(None), _) => status(StatusCode::ACCEPTED),
    }
}

/// Whether a message asks for something new, beside what is at work.
fn is_work(frame: &Frame) -> bool {
    use message::Method;
    matches!(frame.method(), Some(Method::Initialize | Method::Listen))
        || RequestedCall::of(frame).is_some()
}

/// How a message is served.
enum Route {
    /// Without a session: a request of this caller, or a notification.
    Modern(Option<Caller>),
    Initialize,
    Session(Arc<ClientSession>),
}

/// How a message is served, or why it is not.
async fn route(
    hub: &Arc<Hub>,
    scope: &Scope,
    visitor: &Visitor,
    headers: &HeaderMap,
    frame: &Frame,
    accepts: Accepts,
) -> Result<Route, Refusal> {
    if dispatch::is_call_without_id(frame) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, dispatch::NEEDS_AN_ID));
    }
    if modern::http::is_modern(headers, frame) {
        let caller = modern::http::check(hub, scope, headers, frame, accepts).await?;
        return Ok(Route::Modern(caller));
    }
    if frame.method() == Some(message::Method::Initialize) && !headers.contains_key(SESSION_ID) {
        let id = match frame.envelope().kind {
            Kind::Request { id, .. } => Some(frame.get(id)),
            Kind::Notification { .. } | Kind::Response { .. } => None,
        };
        admit(hub, headers, id)?;
        return Ok(Route::Initialize);
    }
    session(hub, scope, visitor, headers).map(Route::Session)
}

/// Reads the body of a request whose headers are as they should be.
async fn receive(
    hub: &Hub,
    visitor: &Visitor,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<(Accepts, Bytes), Refusal> {
    check_content_type(headers)?;
    let accepts = Accepts::of(headers);
    if !accepts.json && !accepts.events {
        return Err(Refusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must name application/json and text/event-stream",
        ));
    }
    Ok((accepts, hub.bodies.read(body, visitor).await?))
}

/// What is asked of every POST.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let media_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if !media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case("application/json")
    {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json",
        ));
    }
    Ok(())
}

/// What is asked of every request in a session.
pub(super) fn check_version(headers: &HeaderMap) -> Result<(), Refusal> {
    if let Some(version) = headers.get(PROTOCOL_VERSION)
        && version
            .to_str()
            .ok()
            .and_then(Revision::parse_legacy)
            .is_none()
    {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "MCP-Protocol-Version names no supported revision",
        ));
    }
    Ok(())
}

/// The session that a request names.
fn session(
    hub: &Hub,
    scope: &Scope,
    visitor: &Visitor,
    headers: &HeaderMap,
) -> Result<Arc<ClientSession>, Refusal> {
    let id = session_id(headers)?;
    hub.session(id)
        .or_else(|| hub.revive(id, scope, visitor))
        .filter(|session| session.serves(scope, &visitor.principal))
        .ok_or_else(unknown_session)
}

fn session_id(headers: &HeaderMap) -> Result<&str, Refusal> {
    check_version(headers)?;
    let Some(id) = headers.get(SESSION_ID) else {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "Mcp-Session-Id is missing: initialize first",
        ));
    };
    id.to_str().map_err(|_| unknown_session())
}

fn unknown_session() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "unknown session: initialize anew")
}

/// The loop guard: a client that has come through us is one of our own servers.
/// `id` is what the refusal answers.
pub(super) fn admit(hub: &Hub, headers: &HeaderMap, id: Option<&str>) -> Result<(), Refusal> {
    let chain = headers.get(CHAIN).and_then(|chain| chain.to_str().ok());
    hub.lineage
        .admit(chain.unwrap_or_default())
        .map_err(|error| {
            let body = message::error_response(id, -32600, &error.to_string(), None);
            Refusal::saying(StatusCode::LOOP_DETECTED, body)
        })
}

async fn initialize(hub: &Arc<Hub>, scope: Scope, visitor: Visitor, frame: &Frame) -> Answer {
    let Kind::Request { id, .. } = frame.envelope().kind else {
        let refusal = Refusal::new(StatusCode::BAD_REQUEST, "initialize must be a request");
        return Receipt::new().no_call(refusal).into_response();
    };
    let id = frame.get(id);
    let params = frame.params().unwrap_or("{}");
    match hub.open(scope, Door::McpHttp, visitor, params).await {
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

/// Answers a request as JSON or as a stream, whichever turns out right: decided as late as possible.
async fn answer(
    hub: &Arc<Hub>,
    session: Arc<ClientSession>,
    frame: Frame,
    accepts: Accepts,
) -> Answer {
    let (sink, messages) = session.sink();
    let mut call = hub.calls.detachable(dispatch::answer(
        Arc::clone(hub),
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
            return events(Events::of_call_in(&hub.calls, session, messages, call));
        }
        () = messages.readable() => {}
        () = tokio::time::sleep(HEAD_HOLD) => {}
    }
    let call = Box::pin(call);
    events(Events::of_call_in(&hub.calls, session, messages, call))
}

async fn answer_batch(
    hub: &Arc<Hub>,
    session: Arc<ClientSession>,
    body: Bytes,
) -> Result<Answer, Refusal> {
    if !session.revision.accepts_batches() {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            &format!("revision {} knows no batches", session.revision),
        ));
    }
    let (sink, messages) = session.sink();
    // A batch is answered in one piece; messages before it are dropped.
    drop(messages);
    let call = hub
        .calls
        .detachable(batch::answer(Arc::clone(hub), session, body, sink));
    Ok(match call.await {
        Some(text) => json(StatusCode::OK, text),
        None => status(StatusCode::ACCEPTED),
    })
}

fn get(
    hub: &Hub,
    scope: &Scope,
    visitor: &Visitor,
    headers: &HeaderMap,
) -> Result<Answer, Refusal> {
    if !Accepts::of(headers).events {
        return Err(Refusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must name text/event-stream",
        ));
    }
    let session = session(hub, scope, visitor, headers)?;
    let last_event = headers
        .get(LAST_EVENT_ID)
        .and_then(|id| id.to_str().ok())
        .filter(|_| session.revision.resumes_streams());
    match last_event.map(|id| session.replay.resume(id)) {
        Some(Ok(place)) => Ok(events(Events::at(session, place))),
        Some(Err(gone @ Gone::Forgotten)) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, &gone.to_string()))
        }
        Some(Err(Gone::Unknown)) | None => Ok(events(Events::of_session(session))),
    }
}

async fn delete(
    hub: &Hub,
    scope: &Scope,
    visitor: &Visitor,
    headers: &HeaderMap,
) -> Result<Answer, Refusal> {
    let id = session_id(headers)?;
    if hub.delete(id, scope, &visitor.principal).await {
        Ok(status(StatusCode::NO_CONTENT))
    } else {
        Err(unknown_session())
    }
}

pub(super) fn json(status: StatusCode, body: String) -> Answer {
    let mut response = Response::new(ResponseBody::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

pub(super) fn events(events: Events) -> Answer {
    let mut response = Response::new(ResponseBody::Events(Box::new(events)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that buffer would hold back what is meant to arrive at once.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

pub(super) fn status(status: StatusCode) -> Answer {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = status;
    response
}
