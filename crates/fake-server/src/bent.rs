//! Applies bends ([`Bend`]) to requests before the transport and the era handle them.

use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION, SET_COOKIE};

use crate::action::ServiceAction;
use crate::bend::Bend;
use crate::message::{self, RpcError, RpcMessage};
use crate::reply::{HttpReply, header, json, plain};
use crate::script::Script;
use crate::service::{Received, Service};

/// The only revision of a fake with a revision bend.
const REVISION: &str = "2025-03-26";

/// The cookie of [`Bend::StickyCookie`].
const COOKIE: &str = "node=a1";

/// The suffixes that [`Bend::SessionRedirect`] adds to paths.
const MOVED_PATHS: [(&str, &str); 2] = [("/mcp", "/moved"), ("/messages", "&moved")];

/// Returns the answer of a bend in place of the fake's answer, or changes the request.
pub(crate) fn answer(script: &Script, received_request: &mut Received) -> Option<HttpReply> {
    let method = received_request.method();
    let method = method.as_deref();
    if script.bends(Bend::Discover401) && method == Some("server/discover") {
        return Some(plain(StatusCode::UNAUTHORIZED, "unauthorized"));
    }
    if script.bends(Bend::RevisionText)
        && method == Some("initialize")
        && !received_request.body.contains(REVISION)
    {
        let text = format!("Bad Request: Unsupported protocol version (supported: {REVISION})");
        return Some(plain(StatusCode::BAD_REQUEST, &text));
    }
    if script.bends(Bend::StickyCookie) && !opens(received_request) {
        let sent_cookie = header(&received_request.headers, "cookie").unwrap_or_default();
        if !sent_cookie.split("; ").any(|cookie| cookie == COOKIE) {
            return Some(plain(StatusCode::NOT_FOUND, "session not found"));
        }
    }
    let redirects_streams = script.bends(Bend::StreamRedirect) && received_request.verb == "GET";
    if redirects_streams || script.bends(Bend::SessionRedirect) && !opens(received_request) {
        return redirect(received_request);
    }
    None
}

/// True if a request opens a session.
fn opens(received_request: &Received) -> bool {
    match received_request.verb.as_str() {
        "GET" => received_request.path.starts_with("/sse"),
        _ => matches!(
            received_request.method().as_deref(),
            Some("initialize" | "server/discover")
        ),
    }
}

/// Redirects a request, or restores one that was redirected.
fn redirect(received_request: &mut Received) -> Option<HttpReply> {
    let (_, moved_path) = MOVED_PATHS
        .into_iter()
        .find(|(path, _)| received_request.path.starts_with(path))?;
    if let Some(path) = received_request.path.strip_suffix(moved_path) {
        received_request.path = path.to_owned();
        return None;
    }
    let mut reply = plain(StatusCode::TEMPORARY_REDIRECT, "moved");
    let location = HeaderValue::from_str(&format!("{}{moved_path}", received_request.path));
    let location = location.expect("a path is a header value");
    reply.headers_mut().insert(LOCATION, location);
    Some(reply)
}

/// Returns the refusal of an unknown session: 404, or the answer of a bend.
pub(crate) fn lost_session(script: &Script, received_request: &Received) -> HttpReply {
    let error = |id: &str| {
        let error = RpcError::new(-32000, "Bad Request: No valid session ID provided");
        message::error(id, &error)
    };
    let lost_session_reply = script.bends.iter().find_map(|bend| match bend {
        Bend::LostSession400 => Some(json(StatusCode::BAD_REQUEST, error("null"))),
        Bend::LostSession400Text => Some(plain(
            StatusCode::BAD_REQUEST,
            "Invalid or missing session ID",
        )),
        Bend::LostSession410 => Some(plain(StatusCode::GONE, "session terminated")),
        Bend::LostSession500 => Some(plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Cannot read properties of undefined (reading 'handleRequest')",
        )),
        Bend::LostSession200 => {
            let id = match RpcMessage::parse(received_request.body.as_bytes()) {
                Ok(RpcMessage::Request { id, .. }) => id,
                Ok(RpcMessage::Notification { .. } | RpcMessage::Response { .. }) | Err(_) => {
                    "null"
                }
            };
            Some(json(StatusCode::OK, error(id)))
        }
        Bend::LostSession200Null => Some(json(StatusCode::OK, error("null"))),
        _ => None,
    });
    lost_session_reply.unwrap_or_else(|| plain(StatusCode::NOT_FOUND, "session not found"))
}

/// Changes the fake's own reply.
pub(crate) fn change(script: &Script, received_request: &Received, reply: &mut HttpReply) {
    if script.bends(Bend::StickyCookie) && opens(received_request) {
        let cookie = HeaderValue::from_static("node=a1; Path=/; HttpOnly");
        reply.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Returns the actions of a bend for a legacy request, in place of its answer.
pub(crate) fn act(
    service: &Service,
    script: &Script,
    message: &RpcMessage,
) -> Option<Result<Vec<ServiceAction>, RpcError>> {
    let RpcMessage::Request { method, params, .. } = message else {
        return None;
    };
    let is_probed = service.shared().probed;
    match &**method {
        "server/discover" => {
            service.shared().probed = true;
            None
        }
        _ if is_probed && script.bends(Bend::SpoiledAnswers) => Some(Ok(vec![ServiceAction::Hang])),
        "initialize" if is_probed && script.bends(Bend::SpoiledInitialize) => {
            // A process stays spoiled until its end. A server over HTTP recovers.
            service.shared().probed = false;
            Some(Err(RpcError::new(
                -32600,
                "the session is in a wrong state",
            )))
        }
        "initialize" if !params.contains(REVISION) => refuse_revision(script),
        "tools/call" if script.bends(Bend::Uninitialized) => {
            Some(Err(RpcError::new(-32002, "Server not initialized")))
        }
        "tools/list" if script.bends(Bend::ListError) => {
            Some(Err(RpcError::new(-32603, "the disk is full")))
        }
        "ping" if script.bends(Bend::RefusedPing) => {
            Some(Err(RpcError::new(-32600, "no such request")))
        }
        _ => None,
    }
}

fn refuse_revision(script: &Script) -> Option<Result<Vec<ServiceAction>, RpcError>> {
    let refusal = |message: &str| RpcError::new(-32602, message);
    if script.bends(Bend::RevisionSupported) {
        let supported_revisions = serde_json::json!({"supported": [REVISION, "2024-11-05"]});
        return Some(Err(RpcError {
            data: Some(supported_revisions),
            ..refusal("Unsupported protocol version")
        }));
    }
    if script.bends(Bend::RevisionError) {
        return Some(Err(refusal("Unsupported protocol version")));
    }
    if script.bends(Bend::RevisionExit) {
        crate::flood::complain("Error: unsupported protocol version");
        return Some(Ok(vec![ServiceAction::Exit(1)]));
    }
    None
}
