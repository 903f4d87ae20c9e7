//! Batches of messages. Only revision 2025-03-26 has them.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use mainstay_core::{
    era::code,
    message::{self, MessageKind},
    record::CallOrigin,
};
use mainstay_gateway::calls::{Answering, CallSink, Closed, Receipt, RequestedCall};
use mainstay_transport::{Frame, UnreadableMessage};

use crate::mcp::{
    endpoint::dispatch,
    reply::{ClosedReply as _, RpcReply},
    sessions::session::{ClientSession, EndpointScope},
    shared::SharedState,
};

/// Maximum number of messages in a batch.
const MAX_MESSAGES: usize = 100;

/// Answers the requests of a batch concurrently; `None` if the batch has no request.
pub async fn answer(
    shared_state: Arc<SharedState>,
    session: Arc<ClientSession>,
    body: Bytes,
    sink: CallSink,
) -> Option<String> {
    let items = match items(&body) {
        Ok(items) => items,
        Err(error) => {
            let (scope, origin) = (&session.scope, &session.client.origin);
            return Some(
                refuse(&shared_state, scope, origin, &body, error)
                    .await
                    .into_text(),
            );
        }
    };
    let mut replies = Vec::new();
    for item in items {
        match Frame::read(item) {
            Ok(frame) if matches!(frame.envelope().kind, MessageKind::Request { .. }) => {
                let call = dispatch::answer(
                    Arc::clone(&shared_state),
                    Arc::clone(&session),
                    frame,
                    sink.clone(),
                );
                replies.push(futures_util::future::Either::Left(async move {
                    call.await.into_text()
                }));
            }
            Ok(frame) => dispatch::take(&shared_state, &session, frame).await,
            Err(error) => {
                let refusal_reply =
                    refuse_one(Arc::clone(&shared_state), Arc::clone(&session), error);
                replies.push(futures_util::future::Either::Right(refusal_reply));
            }
        }
    }
    if replies.is_empty() {
        return None;
    }
    Some(format!("[{}]", join_all(replies).await.join(",")))
}

/// The error response to an unreadable message of a batch.
async fn refuse_one(
    shared_state: Arc<SharedState>,
    session: Arc<ClientSession>,
    error: UnreadableMessage,
) -> String {
    let origin = || Arc::clone(&session.client.origin);
    let requested_call =
        || Some(RequestedCall::from_unreadable(&error)?.at(session.scope.server()));
    let reply = Receipt::new().close(
        &shared_state.gateway.calls,
        RpcReply::unreadable(&error),
        origin,
        requested_call,
    );
    reply.await.into_text()
}

/// The messages of a batch, or the error reply to the whole batch.
fn items(body: &Bytes) -> Result<Vec<Bytes>, RpcReply> {
    let items = messages(body).map_err(|error| RpcReply::unreadable(&error))?;
    if items.len() > MAX_MESSAGES {
        let reason = format!("a batch may hold {MAX_MESSAGES} messages");
        return Err(RpcReply::error("null", code::INVALID_REQUEST, &reason));
    }
    Ok(items)
}

fn messages(body: &Bytes) -> Result<Vec<Bytes>, UnreadableMessage> {
    let text = std::str::from_utf8(body).map_err(|_| UnreadableMessage::Utf8)?;
    let items = message::batch(text).map_err(UnreadableMessage::Malformed)?;
    Ok(items
        .into_iter()
        .map(|item| body.slice_ref(item.as_bytes()))
        .collect())
}

/// Refuses a batch. Records up to `MAX_MESSAGES` of its calls as refused.
pub async fn refuse<A: Answering>(
    shared_state: &SharedState,
    scope: &EndpointScope,
    origin: &Arc<CallOrigin>,
    body: &Bytes,
    answer: A,
) -> Closed<A> {
    let items = messages(body).unwrap_or_default();
    for item in items.into_iter().take(MAX_MESSAGES) {
        let Ok(frame) = Frame::read(item) else {
            continue;
        };
        let requested_call = || Some(RequestedCall::from_frame(&frame)?.at(scope.server()));
        let origin = || Arc::clone(origin);
        let closed_answer =
            Receipt::new().close(&shared_state.gateway.calls, &answer, origin, requested_call);
        closed_answer.await.into_inner();
    }
    Receipt::new().no_call(answer)
}
