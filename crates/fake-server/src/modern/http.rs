//! The modern era over Streamable HTTP: one POST is one request, and its stream is its life.

use std::sync::Arc;

use hyper::{HeaderMap, StatusCode};
use tokio::sync::mpsc;

use super::{admit, answer, headers, meta};
use crate::message::{self, Message, RpcError};
use crate::reply::{Reply, header, json, plain, respond};
use crate::request::Request;
use crate::revision::REVISIONS;
use crate::run::run;
use crate::script::Script;
use crate::service::{Service, Turn};
use crate::session::Session;

/// Returns true if a POST belongs to this era.
pub(crate) fn claims(script: &Script, message: &Message, headers: &HeaderMap) -> bool {
    let by_header = || {
        let version = header(headers, "mcp-protocol-version");
        version.is_some_and(|version| !REVISIONS.contains(&version))
    };
    let by_body = || match message {
        Message::Request { params, .. } => meta::is_modern(params),
        Message::Notification { .. } | Message::Response { .. } => false,
    };
    script.is_modern() && (!script.is_legacy() || by_header() || by_body())
}

pub(crate) async fn post(
    service: &Arc<Service>,
    script: &Script,
    message: Message<'_>,
    headers: &HeaderMap,
    turn: Turn,
) -> Reply {
    let (id, method, params) = match message {
        Message::Request { id, method, params } => (id, method, params),
        // None is defined, none is refused.
        Message::Notification { .. } => return plain(StatusCode::ACCEPTED, ""),
        Message::Response { .. } => return plain(StatusCode::BAD_REQUEST, "no responses"),
    };
    let refuse = |status, error| json(status, message::error(id, &error));
    let client = match admit(script, &method, params, Some(headers)) {
        Ok(client) => client,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, error),
    };
    let session = Session::of_request();
    let request = Request {
        service,
        session: &session,
        script,
        id,
        method: &method,
        params,
        client: &client,
    };
    let checked = match request.method {
        "tools/call" => headers::check_call(headers, &request.tools(), params),
        _ => Ok(()),
    };
    let actions = match checked.and_then(|()| answer(&request)) {
        Ok(actions) => actions,
        Err(error) => return refuse(status(&error), error),
    };
    let (outlet, answers) = mpsc::unbounded_channel();
    service.track(&outlet);
    run(service, &session, Some(id), actions, Some(outlet), turn);
    respond(script, &session, answers).await
}

/// Codes that say what is wrong with the request as such have a status of their own.
fn status(error: &RpcError) -> StatusCode {
    match error.code {
        -32601 => StatusCode::NOT_FOUND,
        -32022..=-32020 => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
