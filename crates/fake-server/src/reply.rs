//! Answers over HTTP in each form.

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;

use crate::bend::Bend;
use crate::events::{Cut, EventBody};
use crate::script::{AnswerForm, Script};
use crate::session::{FakeSession, Outgoing};

pub(crate) type HttpReply = Response<BoxBody<Bytes, Cut>>;

/// Sends the answers in the scripted form. Without one, the first message decides the form.
pub(crate) async fn respond(
    script: &Script,
    session: &FakeSession,
    mut answers: mpsc::UnboundedReceiver<Outgoing>,
) -> HttpReply {
    let first = match script.answer {
        Some(AnswerForm::Sse) => None,
        Some(AnswerForm::Json) => loop {
            match answers.recv().await {
                Some(Outgoing::Message { text, last: false }) => session.publish(text),
                other => break other,
            }
        },
        None => answers.recv().await,
    };
    match first {
        Some(Outgoing::Message { text, last: true }) if script.bends(Bend::EarlyEnd) => {
            broken(text)
        }
        Some(Outgoing::Message { text, last: true }) => json(StatusCode::OK, text),
        Some(Outgoing::Half(text)) => broken(text),
        first => stream(
            EventBody::new(answers)
                .starting_with(first)
                .unfinished(script.bends(Bend::NoBlankLine))
                .coalesced(script.coalesce),
        ),
    }
}

pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

pub(crate) fn plain(status: StatusCode, text: &str) -> HttpReply {
    reply(status, "text/plain", full(text.to_owned()))
}

pub(crate) fn json(status: StatusCode, text: String) -> HttpReply {
    reply(status, "application/json", full(text))
}

/// A JSON answer that breaks off after its first half.
pub(crate) fn broken(half_text: String) -> HttpReply {
    reply(
        StatusCode::OK,
        "application/json",
        EventBody::broken_json(half_text).boxed(),
    )
}

pub(crate) fn stream(events: EventBody) -> HttpReply {
    reply(StatusCode::OK, "text/event-stream", events.boxed())
}

pub(crate) fn not_allowed(allowed_methods: &'static str) -> HttpReply {
    let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
    let allowed_methods = HeaderValue::from_static(allowed_methods);
    reply.headers_mut().insert(ALLOW, allowed_methods);
    reply
}

pub(crate) fn full(text: String) -> BoxBody<Bytes, Cut> {
    Full::from(text)
        .map_err(|infallible| match infallible {})
        .boxed()
}

fn reply(status: StatusCode, kind: &'static str, body: BoxBody<Bytes, Cut>) -> HttpReply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}
