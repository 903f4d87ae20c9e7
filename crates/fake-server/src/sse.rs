//! HTTP+SSE of revision 2024-11-05: `GET /sse` opens the stream and names the
//! endpoint; messages are posted there and answered on the stream.

use std::sync::Arc;

use hyper::StatusCode;
use tokio::sync::mpsc;

use crate::action::Action;
use crate::bend::Bend;
use crate::bent;
use crate::events::Events;
use crate::legacy;
use crate::message::{self, Message, RpcError};
use crate::reply::{Reply, json, not_allowed, plain, stream};
use crate::run::run;
use crate::service::{Received, Service, Turn};

const ENDPOINT: &str = "/messages?sessionId=";

pub(crate) fn answer(service: &Arc<Service>, received: &Received, turn: Turn) -> Reply {
    match (received.verb.as_str(), received.path.as_str()) {
        ("GET", "/sse" | "/sse/") => open(service),
        (_, "/sse" | "/sse/") => not_allowed("GET"),
        ("POST", path) => match path.strip_prefix(ENDPOINT) {
            Some(id) => post(service, id, received, turn),
            None => plain(StatusCode::NOT_FOUND, "not found"),
        },
        _ => plain(StatusCode::NOT_FOUND, "not found"),
    }
}

fn open(service: &Service) -> Reply {
    let session = service.open_session();
    let (outlet, messages) = mpsc::unbounded_channel();
    service.track(&outlet);
    session.attach(outlet);
    stream(Events::new(messages).with_endpoint(&format!("{ENDPOINT}{}", session.id)))
}

/// A session lives as long as its stream.
fn post(service: &Arc<Service>, id: &str, received: &Received, turn: Turn) -> Reply {
    let Some(session) = service.session(id).filter(|session| session.is_attached()) else {
        service.close_session(id);
        return bent::lost_session(&service.script(), received);
    };
    let message = match Message::parse(received.body.as_bytes()) {
        Ok(message) => message,
        Err(invalid) => {
            let error = message::error("null", &RpcError::from(invalid));
            return json(StatusCode::BAD_REQUEST, error);
        }
    };
    let call = match message {
        Message::Request { id, .. } => Some(id),
        Message::Notification { .. } | Message::Response { .. } => None,
    };
    let call = call.map(str::to_owned);
    let mut actions = legacy::receive(service, &session, message);
    if service.script().bends(Bend::AnswerInPost)
        && let [.., Action::Send(_)] = &actions[..]
        && let Some(Action::Send(answer)) = actions.pop()
    {
        return json(StatusCode::OK, answer);
    }
    run(service, &session, call.as_deref(), actions, None, turn);
    plain(StatusCode::ACCEPTED, "Accepted")
}
