//! Handles one message of a client in a session. All doors with sessions use it.

use std::sync::Arc;

use mainstay_core::{
    era::code,
    message::{self, MessageKind, Method, Span},
    record::Door,
};
use mainstay_gateway::{
    calls::{CallClient, CallSink, Closed, Receipt, RequestedCall, Upstream},
    registry::PublishedProfile,
};
use mainstay_transport::{Frame, UpstreamSession};

use super::{
    aggregate, isolation::SessionSource, request::RequestContext, session_requests, transparent,
};
use crate::mcp::{
    reply::RpcReply,
    sessions::session::{Backend, CallEntry, ClientSession},
    shared::SharedState,
};

/// Answers a request. Messages of the server about the request go to `sink` before the answer. The
/// call is registered before this function returns, so that a later cancellation finds it.
pub fn answer(
    shared_state: Arc<SharedState>,
    session: Arc<ClientSession>,
    frame: Frame,
    sink: CallSink,
) -> impl Future<Output = Closed<RpcReply>> + Send + 'static {
    let receipt = Receipt::new();
    let entry_result = enter(&session, &frame);
    async move {
        let reply = match entry_result {
            Ok((id, entry)) => {
                forward(&shared_state, &session, &frame, id, entry, sink, &receipt).await
            }
            Err(reply) => reply,
        };
        close(&shared_state, &session, &frame, receipt, reply).await
    }
}

/// Closes the receipt of a message in a session, which records a refused call.
pub async fn close(
    shared_state: &SharedState,
    session: &ClientSession,
    frame: &Frame,
    receipt: Receipt,
    reply: RpcReply,
) -> Closed<RpcReply> {
    let origin = || Arc::clone(&session.client.origin);
    let requested_call = || Some(RequestedCall::from_frame(frame)?.at(session.scope.server()));
    receipt
        .close(&shared_state.gateway.calls, reply, origin, requested_call)
        .await
}

/// Registers a call under its id. Returns the reply to a request that is not a call.
fn enter(session: &Arc<ClientSession>, frame: &Frame) -> Result<(Span, CallEntry), RpcReply> {
    let MessageKind::Request { id: span, method } = frame.envelope().kind else {
        return Err(RpcReply::error(
            "null",
            code::INVALID_REQUEST,
            "a request is expected",
        ));
    };
    let id = frame.get(span);
    match method {
        // Answer the ping here: the client checks its connection to Mainstay, not to a server.
        Method::Ping => return Err(RpcReply::result(id, "{}")),
        Method::Initialize => {
            // Doors handle `initialize` themselves. In a batch it is invalid (specification
            // 2025-03-26, "Lifecycle").
            let reason = "initialize stands in no batch: send it alone";
            return Err(RpcReply::error(id, code::INVALID_REQUEST, reason));
        }
        _ => {}
    }
    let entry = session
        .enter(id)
        .map_err(|error| RpcReply::error(id, code::INVALID_REQUEST, &error.to_string()))?;
    Ok((span, entry))
}

async fn forward(
    shared_state: &SharedState,
    session: &Arc<ClientSession>,
    frame: &Frame,
    id: Span,
    mut entry: CallEntry,
    sink: CallSink,
    receipt: &Receipt,
) -> RpcReply {
    let id = frame.get(id);
    let address = match message::address(frame.text(), frame.envelope()) {
        Ok(address) => address,
        Err(error) => return RpcReply::error(id, code::INVALID_PARAMS, &error.to_string()),
    };
    // The call is registered until `entry` is dropped.
    let cancel_signal = entry.cancelled();
    let CallClient {
        principal, caller, ..
    } = &*session.client;
    let gateway = &shared_state.gateway;
    let context = RequestContext {
        shared: shared_state,
        view: match &session.backend {
            Backend::Aggregate(profile) => gateway.view(profile, principal, caller),
            Backend::Shared(server) => gateway.view_of_server(server, principal),
            Backend::Transparent(session) => gateway.view_of_server(&session.server, principal),
        },
        frame,
        address: &address,
        cancelled: cancel_signal,
        sink,
        receipt,
        state_server: None,
        session_source: SessionSource::Session(session),
    };
    match &session.backend {
        Backend::Aggregate(_) => {
            match frame
                .method()
                .and_then(session_requests::SessionRequest::from_method)
            {
                Some(request) => {
                    Box::pin(session_requests::answer(session, context, request)).await
                }
                None => aggregate::answer(context).await,
            }
        }
        Backend::Shared(server) => transparent::share(session, server, context).await,
        Backend::Transparent(isolated_session) => {
            let upstream = Upstream::IsolatedSession(Arc::clone(isolated_session));
            transparent::answer(upstream, context).await
        }
    }
}

/// The error for a call without an id.
pub const MISSING_ID: &str = "a call needs an id";

/// True for a notification with the method of a call. A server might run it.
pub fn is_call_without_id(frame: &Frame) -> bool {
    matches!(
        frame.envelope().kind,
        MessageKind::Notification {
            method: Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet
        }
    )
}

/// Handles a notification or a response of a client. Neither has an answer.
pub async fn take(shared_state: &SharedState, session: &ClientSession, frame: Frame) {
    if is_call_without_id(&frame) {
        let reply = RpcReply::error("null", code::INVALID_REQUEST, MISSING_ID);
        drop(close(shared_state, session, &frame, Receipt::new(), reply).await);
        return;
    }
    let bound = session.client.bound.as_ref();
    let frame = bound
        .and_then(|bound| bound.client_message(&frame))
        .unwrap_or(frame);
    if frame.method() == Some(Method::RootsChanged) {
        session.questions.roots_changed();
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
        // Mainstay has already sent its own to the server.
        Some(Method::Initialized) => {}
        Some(_) => match &session.backend {
            Backend::Transparent(isolated_session) => {
                let isolated_session = Arc::clone(isolated_session);
                shared_state.gateway.calls.in_background(async move {
                    transparent::notify(&isolated_session, frame).await
                });
            }
            Backend::Aggregate(profile) if frame.method() == Some(Method::RootsChanged) => {
                let sessions = roots_readers(shared_state, session, profile);
                shared_state.gateway.calls.in_background(async move {
                    for upstream in sessions {
                        upstream.notify(frame.one_line()).await;
                    }
                });
            }
            // The upstream session is shared, so other clients' notifications do not belong there.
            Backend::Aggregate(_) | Backend::Shared(_) => tracing::debug!(
                method = frame.method_name(),
                "a notification was not passed on"
            ),
        },
        None => {
            if let MessageKind::Response { id, .. } = frame.envelope().kind
                && !session.questions.answer(frame.get(id), &frame)
            {
                tracing::debug!("a response to no request was dropped");
            }
        }
    }
}

/// The upstream sessions whose handshake declared this client's roots.
fn roots_readers(
    shared_state: &SharedState,
    session: &ClientSession,
    profile: &PublishedProfile,
) -> Vec<Arc<UpstreamSession>> {
    let is_sole = session.client.origin.door == Door::McpStdio;
    if shared_state.gateway.registry.sole().is_none() || !is_sole {
        return session.own_sessions.live();
    }
    let servers = shared_state
        .gateway
        .registry
        .servers_of(profile)
        .into_iter();
    servers.filter_map(|server| server.view().session).collect()
}
