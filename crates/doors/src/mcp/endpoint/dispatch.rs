//! Answers one message of a client, for every door.

use std::sync::Arc;

use mainstay_core::{
    era::code,
    message::{self, Kind, Method, Span},
    record::Door,
};
use mainstay_gateway::{
    calls::{CallSink, Client, Closed, Receipt, RequestedCall, Upstream},
    registry::Profile,
};
use mainstay_transport::{Frame, Session};

use super::{
    aggregate,
    isolation::SessionSource,
    request::RequestContext,
    session_requests,
    transparent::{self, Forwarded},
};
use crate::mcp::{
    reply::Reply,
    sessions::session::{Backend, ClientSession, Entry},
    shared::Shared,
};

/// Answers a request; what the server says about it first goes to `sink`.
///
/// The call is entered before this returns, so that a cancellation that follows it finds it.
pub fn answer(
    shared: Arc<Shared>,
    session: Arc<ClientSession>,
    frame: Frame,
    sink: CallSink,
) -> impl Future<Output = Closed<Reply>> + Send + 'static {
    let receipt = Receipt::new();
    let entered = enter(&session, &frame);
    async move {
        let reply = match entered {
            Ok((id, entry)) => forward(&shared, &session, &frame, id, entry, sink, &receipt).await,
            Err(reply) => reply,
        };
        close(&shared, &session, &frame, receipt, reply).await
    }
}

/// Closes the receipt of a message in a session.
pub async fn close(
    shared: &Shared,
    session: &ClientSession,
    frame: &Frame,
    receipt: Receipt,
    reply: Reply,
) -> Closed<Reply> {
    let origin = || Arc::clone(&session.client.origin);
    let wanted = || Some(RequestedCall::of(frame)?.at(session.scope.server()));
    receipt
        .close(&shared.gateway.calls, reply, origin, wanted)
        .await
}

/// Enters a call under its id, or answers what needs no call.
fn enter(session: &Arc<ClientSession>, frame: &Frame) -> Result<(Span, Entry), Reply> {
    let Kind::Request { id: span, method } = frame.envelope().kind else {
        return Err(Reply::error(
            "null",
            code::INVALID_REQUEST,
            "a request is expected",
        ));
    };
    let id = frame.get(span);
    match method {
        // Answered locally: it asks whether we are there.
        Method::Ping => return Err(Reply::result(id, "{}")),
        Method::Initialize => {
            // Only a batch brings it here (specification 2025-03-26, "Lifecycle").
            let reason = "initialize stands in no batch: send it alone";
            return Err(Reply::error(id, code::INVALID_REQUEST, reason));
        }
        _ => {}
    }
    let entry = session
        .enter(id)
        .map_err(|why| Reply::error(id, code::INVALID_REQUEST, &why.to_string()))?;
    Ok((span, entry))
}

async fn forward(
    shared: &Shared,
    session: &Arc<ClientSession>,
    frame: &Frame,
    id: Span,
    mut entry: Entry,
    sink: CallSink,
    receipt: &Receipt,
) -> Reply {
    let id = frame.get(id);
    let address = match message::address(frame.text(), frame.envelope()) {
        Ok(address) => address,
        Err(error) => return Reply::error(id, code::INVALID_PARAMS, &error.to_string()),
    };
    // The entry stays until the call is over.
    let cancelled = entry.cancelled();
    let Client {
        principal, caller, ..
    } = &*session.client;
    match &session.backend {
        Backend::Aggregate(profile) => {
            let asked = RequestContext {
                shared,
                view: shared.gateway.view(profile, principal, caller),
                frame,
                address: &address,
                cancelled,
                sink,
                receipt,
                state_of: None,
                place: SessionSource::Session(session),
            };
            match frame.method().and_then(session_requests::Request::of) {
                Some(request) => Box::pin(session_requests::answer(session, asked, request)).await,
                None => aggregate::answer(asked).await,
            }
        }
        Backend::Shared(server) => {
            let asked = Forwarded {
                shared,
                view: shared.gateway.view_of_server(server, principal),
                frame,
                id,
                address: &address,
                cancelled,
                sink,
                receipt,
            };
            transparent::share(session, server, asked).await
        }
        Backend::Transparent(isolated_session) => {
            let upstream = Upstream::IsolatedSession(Arc::clone(isolated_session));
            let asked = Forwarded {
                shared,
                view: (shared.gateway).view_of_server(&isolated_session.server, principal),
                frame,
                id,
                address: &address,
                cancelled,
                sink,
                receipt,
            };
            transparent::answer(upstream, asked).await
        }
    }
}

/// Why a call without an id is refused.
pub const NEEDS_AN_ID: &str = "a call needs an id";

/// Whether a message is a notification under the name of a call. A server that takes it would run it, and
/// could not answer.
pub fn is_call_without_id(frame: &Frame) -> bool {
    matches!(
        frame.envelope().kind,
        Kind::Notification {
            method: Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet
        }
    )
}

/// Takes a notification or a response of a client; neither is answered.
pub async fn take(shared: &Shared, session: &ClientSession, frame: Frame) {
    if is_call_without_id(&frame) {
        let reply = Reply::error("null", code::INVALID_REQUEST, NEEDS_AN_ID);
        drop(close(shared, session, &frame, Receipt::new(), reply).await);
        return;
    }
    let bound = session.client.bound.as_ref();
    let frame = bound.and_then(|it| it.said(&frame)).unwrap_or(frame);
    if frame.method() == Some(Method::RootsChanged) {
        session.questions.hear_of_roots();
    }
    match frame.method() {
        Some(Method::Cancelled) => {
            let reason = frame
                .text_param("reason")
                .unwrap_or_else(|| "the client cancelled".to_owned());
            if let Some(id) = frame.param("requestId") {
                session.cancel(id, &reason);
            }
        }
        // Our own handshake upstream has said so already.
        Some(Method::Initialized) => {}
        Some(_) => match &session.backend {
            Backend::Transparent(isolated_session) => {
                let isolated_session = Arc::clone(isolated_session);
                shared.gateway.calls.in_background(async move {
                    transparent::notify(&isolated_session, frame).await
                });
            }
            Backend::Aggregate(profile) if frame.method() == Some(Method::RootsChanged) => {
                let sessions = roots_readers(shared, session, profile);
                shared.gateway.calls.in_background(async move {
                    for upstream in sessions {
                        upstream.notify(frame.one_line()).await;
                    }
                });
            }
            // A shared session speaks for many: what one client notifies is not its to pass on.
            Backend::Aggregate(_) | Backend::Shared(_) => tracing::debug!(
                method = frame.method_name(),
                "a notification was not passed on"
            ),
        },
        None => {
            if let Kind::Response { id, .. } = frame.envelope().kind
                && !session.questions.answer(frame.get(id), &frame)
            {
                tracing::debug!("a response to no request was dropped");
            }
        }
    }
}

/// The upstream sessions to which this client's roots were declared, beside those of other clients.
fn roots_readers(shared: &Shared, session: &ClientSession, profile: &Profile) -> Vec<Arc<Session>> {
    let is_sole = session.client.origin.door == Door::McpStdio;
    if shared.gateway.registry.sole().is_none() || !is_sole {
        return session.own.live();
    }
    let servers = shared.gateway.registry.servers_of(profile).into_iter();
    servers.filter_map(|server| server.view().session).collect()
}
