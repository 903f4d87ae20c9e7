//! Streamable HTTP at `/mcp`: sessions, forms of answers, the GET stream.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use tokio::sync::mpsc;

use crate::bend::Bend;
use crate::bent;
use crate::events::EventBody;
use crate::legacy;
use crate::message::{self, Invalid, RpcError, RpcMessage};
use crate::modern;
use crate::reply::{HttpReply, header, json, not_allowed, plain, respond, stream};
use crate::run::run;
use crate::script::Script;
use crate::service::{Received, Service, Turn};
use crate::session::FakeSession;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// The first revision whose clients must send [`VERSION`].
const VERSION_SINCE: &str = "2025-06-18";

/// A refusal before a session is found.
enum Refusal {
    Plain(StatusCode, String),
    Message(Invalid),
    /// The refusal of a bend.
    Bent(Box<HttpReply>),
    /// The allowed methods.
    Method(&'static str),
}

impl Refusal {
    fn plain(status: StatusCode, text: impl Into<String>) -> Self {
        Self::Plain(status, text.into())
    }
}

impl From<Refusal> for HttpReply {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Plain(status, text) => plain(status, &text),
            Refusal::Message(invalid) => {
                let error = message::error("null", &RpcError::from(invalid));
                json(StatusCode::BAD_REQUEST, error)
            }
            Refusal::Bent(reply) => *reply,
            Refusal::Method(allowed) => not_allowed(allowed),
        }
    }
}

pub(crate) async fn answer(
    service: &Arc<Service>,
    script: &Script,
    received_request: &Received,
    turn: Turn,
) -> HttpReply {
    if received_request.path != "/mcp" {
        return plain(StatusCode::NOT_FOUND, "not found");
    }
    let outcome = match received_request.verb.as_str() {
        "POST" => post(service, script, received_request, turn).await,
        "GET" if script.is_legacy() && !script.no_get => {
            get(service, script, received_request).await
        }
        "DELETE" if script.is_legacy() && !script.stateless => {
            delete(service, script, received_request)
        }
        _ if !script.is_legacy() => Err(Refusal::Method("POST")),
        _ if script.no_get => Err(Refusal::Method("POST, DELETE")),
        _ => Err(Refusal::Method("GET, POST, DELETE")),
    };
    outcome.unwrap_or_else(HttpReply::from)
}

async fn post(
    service: &Arc<Service>,
    script: &Script,
    received_request: &Received,
    turn: Turn,
) -> Result<HttpReply, Refusal> {
    accepts(received_request, &["application/json", "text/event-stream"])?;
    if !header(&received_request.headers, "content-type")
        .is_some_and(|kind| kind.starts_with("application/json"))
    {
        return Err(Refusal::plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send JSON",
        ));
    }
    let message = RpcMessage::parse(received_request.body.as_bytes()).map_err(Refusal::Message)?;
    if modern::http::claims(script, &message, &received_request.headers) {
        return Ok(
            modern::http::post(service, script, message, &received_request.headers, turn).await,
        );
    }

    if matches!(&message, RpcMessage::Request { method, .. } if method == "server/discover") {
        service.shared().probed = true;
    }
    let opens_session =
        matches!(&message, RpcMessage::Request { method, .. } if method == "initialize");
    let session = match opens_session {
        true if !script.stateless => service.open_session(),
        true => service.only_session(),
        false => find(service, script, received_request)?,
    };
    if !opens_session {
        count(service, script, received_request, &session)?;
    }
    let is_call = matches!(&message, RpcMessage::Request { method, .. } if method == "tools/call");
    if is_call && script.bends(Bend::CallsRefused) && session.is_first() {
        let error = message::error("null", &RpcError::new(-32000, "go away"));
        return Ok(json(StatusCode::BAD_REQUEST, error));
    }
    let RpcMessage::Request { id, .. } = message else {
        let actions = legacy::receive(service, &session, message);
        run(service, &session, None, actions, None, turn);
        return Ok(plain(StatusCode::ACCEPTED, ""));
    };
    let actions = legacy::receive(service, &session, message);
    let (outlet, answers) = mpsc::unbounded_channel();
    service.track(&outlet);
    run(service, &session, Some(id), actions, Some(outlet), turn);
    let mut reply = respond(script, &session, answers).await;
    if opens_session && !script.stateless {
        let id = HeaderValue::from_str(&session.id).expect("session ids are ASCII");
        reply.headers_mut().insert(SESSION, id);
    }
    Ok(reply)
}

async fn get(
    service: &Arc<Service>,
    script: &Script,
    received_request: &Received,
) -> Result<HttpReply, Refusal> {
    accepts(received_request, &["text/event-stream"])?;
    let session = find(service, script, received_request)?;
    session.state().gets += 1;
    if script.bends(Bend::StreamRefused) && session.state().gets == 1 {
        return Err(Refusal::plain(StatusCode::CONFLICT, "one stream at a time"));
    }
    if script.bends(Bend::StreamEnds) {
        return Ok(stream(EventBody::ended("retry: 0\n\n")));
    }
    if let Some(delay) = script.get_delay {
        tokio::time::sleep(Duration::from_millis(delay)).await;
        session.forget();
    }
    let (outlet, messages) = mpsc::unbounded_channel();
    service.track(&outlet);
    session.attach(outlet);
    Ok(stream(EventBody::new(messages)))
}

fn delete(
    service: &Service,
    script: &Script,
    received_request: &Received,
) -> Result<HttpReply, Refusal> {
    let session = find(service, script, received_request)?;
    service.close_session(&session.id);
    Ok(plain(StatusCode::OK, ""))
}

/// Finds the session of a request. Refuses with 400 without an id, and with 404 for an unknown id.
fn find(
    service: &Service,
    script: &Script,
    received_request: &Received,
) -> Result<Arc<FakeSession>, Refusal> {
    if script.stateless {
        return Ok(service.only_session());
    }
    let id = header(&received_request.headers, SESSION)
        .ok_or_else(|| Refusal::plain(StatusCode::BAD_REQUEST, "missing Mcp-Session-Id"))?;
    let session = service
        .session(id)
        .ok_or_else(|| Refusal::Bent(Box::new(bent::lost_session(script, received_request))))?;
    if script.check_protocol_header {
        let state = session.state();
        let revision = state.revision.as_deref().unwrap_or_default();
        let has_right_version = match header(&received_request.headers, VERSION) {
            Some(version) => version == revision,
            None => revision < VERSION_SINCE,
        };
        if !has_right_version {
            let text = format!("MCP-Protocol-Version must be {revision}");
            return Err(Refusal::plain(StatusCode::BAD_REQUEST, text));
        }
    }
    Ok(session)
}

/// Counts a message of the session, up to the scripted limit.
fn count(
    service: &Service,
    script: &Script,
    received_request: &Received,
    session: &FakeSession,
) -> Result<(), Refusal> {
    let mut state = session.state();
    state.messages += 1;
    let is_expired = script
        .expire_sessions_after
        .is_some_and(|limit| state.messages > limit);
    drop(state);
    if is_expired {
        service.close_session(&session.id);
        return Err(Refusal::Bent(Box::new(bent::lost_session(
            script,
            received_request,
        ))));
    }
    Ok(())
}

fn accepts(received_request: &Received, kinds: &[&str]) -> Result<(), Refusal> {
    let accept = header(&received_request.headers, "accept").unwrap_or_default();
    if kinds.iter().all(|kind| accept.contains(kind)) {
        Ok(())
    } else {
        let text = format!("Accept must name {}", kinds.join(" and "));
        Err(Refusal::plain(StatusCode::NOT_ACCEPTABLE, text))
    }
}
