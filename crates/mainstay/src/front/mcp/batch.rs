//! Batches, which revision 2025-03-26 alone requires to be received.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use mainstay_core::message::{self, Kind};

use super::{dispatch, hub::Hub, session::ClientSession};
use crate::{
    calls::Outlet,
    transport::{Frame, Unreadable},
};

/// Messages in one batch; more are refused as a whole.
const MAX_MESSAGES: usize = 100;

/// Answers the requests of a batch, all at once. `None` if it held none.
pub async fn answer(
    hub: Arc<Hub>,
    session: Arc<ClientSession>,
    body: Bytes,
    outlet: Outlet,
) -> Option<String> {
    let items = match items(&body) {
        Ok(items) => items,
        Err(error) => return Some(error),
    };
    let mut replies = Vec::new();
    for item in items {
        match Frame::read(item) {
            Ok(frame) if matches!(frame.envelope().kind, Kind::Request { .. }) => {
                let call = dispatch::answer(
                    Arc::clone(&hub),
                    Arc::clone(&session),
                    frame,
                    outlet.clone(),
                );
                replies.push(futures_util::future::Either::Left(async move {
                    call.await.text
                }));
            }
            Ok(frame) => dispatch::take(&hub, &session, frame),
            Err(error) => replies.push(futures_util::future::Either::Right(std::future::ready(
                unreadable(&error),
            ))),
        }
    }
    if replies.is_empty() {
        return None;
    }
    Some(format!("[{}]", join_all(replies).await.join(",")))
}

/// The messages of a batch, or the error that answers it.
fn items(body: &Bytes) -> Result<Vec<Bytes>, String> {
    let refused = |reason: &str| message::error_response(None, -32600, reason, None);
    let text = std::str::from_utf8(body).map_err(|_| unreadable(&Unreadable::Utf8))?;
    let items = message::batch(text).map_err(|error| unreadable(&Unreadable::Malformed(error)))?;
    if items.len() > MAX_MESSAGES {
        return Err(refused(&format!(
            "a batch may hold {MAX_MESSAGES} messages"
        )));
    }
    Ok(items
        .into_iter()
        .map(|item| body.slice_ref(item.as_bytes()))
        .collect())
}

/// The JSON-RPC error that answers what could not be read.
pub fn unreadable(error: &Unreadable) -> String {
    let (code, id) = match error {
        Unreadable::Utf8 => (-32700, None),
        Unreadable::Malformed(malformed) => (malformed.code(), malformed.id()),
    };
    message::error_response(id, code, &error.to_string(), None)
}
