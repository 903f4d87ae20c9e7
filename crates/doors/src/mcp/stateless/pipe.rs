//! Requests of 2026-07-28 on an ordered stream, which may also have a legacy session. A
//! notification cancels such a request.

use std::{collections::HashMap, sync::Arc};

use mainstay_core::{
    era::{Caller, code, modern},
    message::Method,
    principal::Principal,
    record::Door,
};
use mainstay_gateway::calls::{Closed, Receipt};
use mainstay_transport::Frame;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{
    answer::{admit, answer, refusal},
    call::StatelessCall,
    context::Stateless,
    request::close,
};
use crate::mcp::{
    reply::{RpcReply, id},
    sessions::session::EndpointScope,
};

/// True if a client without a session sent this message. There are no headers, so only the body
/// shows it.
pub fn is_modern(frame: &Frame) -> bool {
    modern::is_modern(frame.envelope(), None)
        || matches!(frame.method(), Some(Method::Discover | Method::Listen))
}

/// The requests in flight, by the client's id (JSON text).
#[derive(Debug, Default)]
pub struct Requests(Arc<Mutex<InFlight>>);

/// `None` for a cancelled request. Its id becomes free when the request ends.
type InFlight = HashMap<Box<str>, Option<oneshot::Sender<String>>>;

fn lock(requests: &Mutex<InFlight>) -> MutexGuard<'_, InFlight> {
    // Locked for a map operation, never across an await.
    requests.lock()
}

impl Requests {
    /// Starts a request. If the client cancels it, the reply is marked as cancelled.
    pub fn begin(
        &self,
        stateless: &Arc<Stateless>,
        scope: &EndpointScope,
        door: Door,
        principal: &Principal,
        frame: Frame,
    ) -> StatelessCall {
        let id: Box<str> = id(&frame).into();
        let refuse = |reply, frame| {
            let (shared_state, scope, principal) = (
                Arc::clone(&stateless.shared),
                scope.clone(),
                principal.clone(),
            );
            StatelessCall::silent(async move {
                let origin = || Arc::new(scope.origin(door, &Caller::default(), &principal));
                close(&shared_state, &scope, origin, &frame, Receipt::new(), reply).await
            })
        };
        let caller = match admit(&frame, None) {
            Ok(caller) => caller,
            Err(refused) => return refuse(refusal(&id, &refused), frame),
        };
        let (cancel, cancel_signal) = oneshot::channel();
        {
            let mut requests_in_flight = lock(&self.0);
            if requests_in_flight.contains_key(&id) {
                let reason = format!("a request with id {id} is in flight already");
                return refuse(RpcReply::error(&id, code::INVALID_REQUEST, &reason), frame);
            }
            requests_in_flight.insert(id.clone(), Some(cancel));
        }
        let StatelessCall { reply, messages } = answer(
            stateless,
            scope.clone(),
            door,
            principal.clone(),
            frame,
            caller,
        );
        let entry = Entry {
            requests: Arc::clone(&self.0),
            id,
        };
        let until_cancelled = async move {
            tokio::select! {
                reply = reply => reply,
                // The call is cancelled in the background, where it is recorded.
                Ok(reason) = cancel_signal => {
                    Closed::of_the_same_call(RpcReply::cancelled(&entry.id, &reason))
                }
            }
        };
        StatelessCall::joining(until_cancelled, messages)
    }

    /// Handles `notifications/cancelled`. Returns false for any other message, and if the request
    /// is unknown.
    pub fn cancel(&self, frame: &Frame) -> bool {
        if frame.method() != Some(Method::Cancelled) {
            return false;
        }
        let cancel = frame
            .param("requestId")
            .and_then(|id| lock(&self.0).get_mut(id)?.take());
        let reason = frame.text_param("reason").unwrap_or_default();
        // An error means that the request has already ended.
        cancel.map(|cancel| cancel.send(reason)).is_some()
    }

    /// Cancels all requests, because the client has gone.
    pub fn end(&self, reason: &str) {
        for cancel in lock(&self.0).values_mut().filter_map(Option::take) {
            cancel.send(reason.to_owned()).ok();
        }
    }
}

/// A request in flight. Dropping the entry removes the request.
struct Entry {
    requests: Arc<Mutex<InFlight>>,
    id: Box<str>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.requests).remove(&self.id);
    }
}
