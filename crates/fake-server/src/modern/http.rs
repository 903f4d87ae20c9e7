//! The modern era over Streamable HTTP. One POST is one request, which ends with its stream.

use std::sync::Arc;

use hyper::{HeaderMap, StatusCode};
use tokio::sync::mpsc;

use super::{admit, answer, headers, meta};
use crate::message::{self, RpcError, RpcMessage};
use crate::reply::{HttpReply, header, json, plain, respond};
use crate::request::ReceivedRequest;
use crate::revision::REVISIONS;
use crate::run::run;
use crate::script::Script;
use crate::service::{Service, Turn};
use crate::session::FakeSession;

/// Returns true if a POST belongs to this era.
pub(crate) fn claims(script: &Script, message: &RpcMessage, headers: &HeaderMap) -> bool {
    let is_by_header = || {
        let version = header(headers, "mcp-protocol-version");
        version.is_some_and(|version| !REVISIONS.contains(&version))
    };
    let is_by_body = || match message {
        RpcMessage::Request { params, .. } => meta::is_modern(params),
        RpcMessage::Notification { .. } | RpcMessage::Response { .. } => false,
    };
    script.is_modern() && (!script.is_legacy() || is_by_header() || is_by_body())
}

pub(crate) async fn post(
    service: &Arc<Service>,
    script: &Script,
    message: RpcMessage<'_>,
    headers: &HeaderMap,
    turn: Turn,
) -> HttpReply {
    let (id, method, params) = match message {
        RpcMessage::Request { id, method, params } => (id, method, params),
        // Every notification is accepted.
        RpcMessage::Notification { .. } => return plain(StatusCode::ACCEPTED, ""),
        RpcMessage::Response { .. } => return plain(StatusCode::BAD_REQUEST, "no responses"),
    };
    let refuse = |status, error| json(status, message::error(id, &error));
    let client = match admit(script, &method, params, Some(headers)) {
        Ok(client) => client,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, error),
    };
    let session = FakeSession::of_request();
    let request = ReceivedRequest {
        service,
        session: &session,
        script,
        id,
        method: &method,
        params,
        client: &client,
    };
    let check_result = match request.method {
        "tools/call" => headers::check_call(headers, &request.tools(), params),
        _ => Ok(()),
    };
    let actions = match check_result.and_then(|()| answer(&request)) {
        Ok(actions) => actions,
        Err(error) => return refuse(status(&error), error),
    };
    let (outlet, answers) = mpsc::unbounded_channel();
    service.track(&outlet);
    run(service, &session, Some(id), actions, Some(outlet), turn);
    respond(script, &session, answers).await
}

/// Returns the HTTP status of an error. Only errors of the request itself have their own status.
fn status(error: &RpcError) -> StatusCode {
    match error.code {
        -32601 => StatusCode::NOT_FOUND,
        -32022..=-32020 => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
