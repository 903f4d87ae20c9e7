//! HTTP+SSE of revision 2024-11-05. `GET /sse` opens the stream with the URL for POST. Answers are
//! sent on the stream.

use std::sync::Arc;

use hyper::StatusCode;
use tokio::sync::mpsc;

use crate::action::ServiceAction;
use crate::bend::Bend;
use crate::bent;
use crate::events::EventBody;
use crate::legacy;
use crate::message::{self, RpcError, RpcMessage};
use crate::reply::{HttpReply, json, not_allowed, plain, stream};
use crate::run::run;
use crate::service::{Received, Service, Turn};

const ENDPOINT: &str = "/messages?sessionId=";

pub(crate) fn answer(service: &Arc<Service>, received_request: &Received, turn: Turn) -> HttpReply {
    match (
        received_request.verb.as_str(),
        received_request.path.as_str(),
    ) {
        ("GET", "/sse" | "/sse/") => open(service),
        (_, "/sse" | "/sse/") => not_allowed("GET"),
        ("POST", path) => match path.strip_prefix(ENDPOINT) {
            Some(id) => post(service, id, received_request, turn),
            None => plain(StatusCode::NOT_FOUND, "not found"),
        },
        _ => plain(StatusCode::NOT_FOUND, "not found"),
    }
}

fn open(service: &Service) -> HttpReply {
    let session = service.open_session();
    let (outlet, messages) = mpsc::unbounded_channel();
    service.track(&outlet);
    session.attach(outlet);
    stream(EventBody::new(messages).with_endpoint(&format!("{ENDPOINT}{}", session.id)))
}

/// Handles a POST. A session ends with its stream, so a session without a stream is unknown.
fn post(service: &Arc<Service>, id: &str, received_request: &Received, turn: Turn) -> HttpReply {
    let Some(session) = service.session(id).filter(|session| session.is_attached()) else {
        service.close_session(id);
        return bent::lost_session(&service.script(), received_request);
    };
    let message = match RpcMessage::parse(received_request.body.as_bytes()) {
        Ok(message) => message,
        Err(invalid) => {
            let error = message::error("null", &RpcError::from(invalid));
            return json(StatusCode::BAD_REQUEST, error);
        }
    };
    let call = match message {
        RpcMessage::Request { id, .. } => Some(id),
        RpcMessage::Notification { .. } | RpcMessage::Response { .. } => None,
    };
    let call = call.map(str::to_owned);
    let mut actions = legacy::receive(service, &session, message);
    if service.script().bends(Bend::AnswerInPost)
        && let [.., ServiceAction::Send(_)] = &actions[..]
        && let Some(ServiceAction::Send(answer)) = actions.pop()
    {
        return json(StatusCode::OK, answer);
    }
    run(service, &session, call.as_deref(), actions, None, turn);
    plain(StatusCode::ACCEPTED, "Accepted")
}
