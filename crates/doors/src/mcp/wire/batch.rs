//! Batches, which revision 2025-03-26 alone requires to be received.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use mainstay_core::{
    era::code,
    message::{self, Kind},
    record::Origin,
};
use mainstay_gateway::calls::{Answering, CallSink, Closed, Receipt, RequestedCall};
use mainstay_transport::{Frame, Unreadable};

use crate::mcp::{
    endpoint::dispatch,
    reply::{ClosedReply as _, Reply},
    sessions::session::{ClientSession, Scope},
    shared::Shared,
};

/// Messages in one batch; more are refused as a whole.
const MAX_MESSAGES: usize = 100;

/// Answers the requests of a batch, all at once. `None` if it held none.
pub async fn answer(
    shared: Arc<Shared>,
    session: Arc<ClientSession>,
    body: Bytes,
    sink: CallSink,
) -> Option<String> {
    let items = match items(&body) {
        Ok(items) => items,
        Err(error) => {
            let (scope, origin) = (&session.scope, &session.client.origin);
            return Some(
                refuse(&shared, scope, origin, &body, error)
                    .await
                    .into_text(),
            );
        }
    };
    let mut replies = Vec::new();
    for item in items {
        match Frame::read(item) {
            Ok(frame) if matches!(frame.envelope().kind, Kind::Request { .. }) => {
                let call = dispatch::answer(
                    Arc::clone(&shared),
                    Arc::clone(&session),
                    frame,
                    sink.clone(),
                );
                replies.push(futures_util::future::Either::Left(async move {
                    call.await.into_text()
                }));
            }
            Ok(frame) => dispatch::take(&shared, &session, frame).await,
            Err(error) => {
                let refused = refuse_one(Arc::clone(&shared), Arc::clone(&session), error);
                replies.push(futures_util::future::Either::Right(refused));
            }
        }
    }
    if replies.is_empty() {
        return None;
    }
    Some(format!("[{}]", join_all(replies).await.join(",")))
}

/// The answer to a message of a batch that cannot be read.
async fn refuse_one(shared: Arc<Shared>, session: Arc<ClientSession>, error: Unreadable) -> String {
    let origin = || Arc::clone(&session.client.origin);
    let wanted = || Some(RequestedCall::of_unreadable(&error)?.at(session.scope.server()));
    let reply = Receipt::new().close(
        &shared.gateway.calls,
        Reply::unreadable(&error),
        origin,
        wanted,
    );
    reply.await.into_text()
}

/// The messages of a batch, or the error that answers it.
fn items(body: &Bytes) -> Result<Vec<Bytes>, Reply> {
    let items = messages(body).map_err(|error| Reply::unreadable(&error))?;
    if items.len() > MAX_MESSAGES {
        let reason = format!("a batch may hold {MAX_MESSAGES} messages");
        return Err(Reply::error("null", code::INVALID_REQUEST, &reason));
    }
    Ok(items)
}

fn messages(body: &Bytes) -> Result<Vec<Bytes>, Unreadable> {
    let text = std::str::from_utf8(body).map_err(|_| Unreadable::Utf8)?;
    let items = message::batch(text).map_err(Unreadable::Malformed)?;
    let items = items.into_iter();
    Ok(items.map(|item| body.slice_ref(item.as_bytes())).collect())
}

/// Closes the receipts of the calls in a batch that is refused as a whole: of the first ones, up to as many
/// as a batch may hold.
pub async fn refuse<A: Answering>(
    shared: &Shared,
    scope: &Scope,
    origin: &Arc<Origin>,
    body: &Bytes,
    answer: A,
) -> Closed<A> {
    let items = messages(body).unwrap_or_default();
    for item in items.into_iter().take(MAX_MESSAGES) {
        let Ok(frame) = Frame::read(item) else {
            continue;
        };
        let wanted = || Some(RequestedCall::of(&frame)?.at(scope.server()));
        let origin = || Arc::clone(origin);
        let closing = Receipt::new().close(&shared.gateway.calls, &answer, origin, wanted);
        closing.await.into_inner();
    }
    Receipt::new().no_call(answer)
}
