//! Requests of 2026-07-28 on stdio, where all of them share one stream with an older client's session.
//! A notification cancels them.

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
    answer::{admit, answer, close, refusal},
    call::Call,
    context::Stateless,
};
use crate::mcp::{
    reply::{Reply, id},
    sessions::session::Scope,
};

/// Whether a message comes from a client without a session: there are no headers to tell.
pub fn is_modern(frame: &Frame) -> bool {
    modern::is_modern(frame.envelope(), None)
        || matches!(frame.method(), Some(Method::Discover | Method::Listen))
}

/// What is in flight, by the client's own ids (JSON text).
#[derive(Debug, Default)]
pub struct Requests(Arc<Mutex<InFlight>>);

/// `None` where the request has been cancelled and has not ended yet: its id is not free before.
type InFlight = HashMap<Box<str>, Option<oneshot::Sender<String>>>;

fn lock(requests: &Mutex<InFlight>) -> MutexGuard<'_, InFlight> {
    // Held for a map operation, never across an await.
    requests.lock()
}

impl Requests {
    /// Begins to answer a request; its reply says so where it was cancelled.
    pub fn begin(
        &self,
        stateless: &Arc<Stateless>,
        scope: &Scope,
        door: Door,
        principal: &Principal,
        frame: Frame,
    ) -> Call {
        let id: Box<str> = id(&frame).into();
        let refuse = |reply, frame| {
            let (shared, scope, principal) = (
                Arc::clone(&stateless.shared),
                scope.clone(),
                principal.clone(),
            );
            Call::silent(async move {
                let origin = || Arc::new(scope.origin(door, &Caller::default(), &principal));
                close(&shared, &scope, origin, &frame, Receipt::new(), reply).await
            })
        };
        let caller = match admit(&frame, None) {
            Ok(caller) => caller,
            Err(refused) => return refuse(refusal(&id, &refused), frame),
        };
        let (cancel, cancelled) = oneshot::channel();
        {
            let mut in_flight = lock(&self.0);
            if in_flight.contains_key(&id) {
                let reason = format!("a request with id {id} is in flight already");
                return refuse(Reply::error(&id, code::INVALID_REQUEST, &reason), frame);
            }
            in_flight.insert(id.clone(), Some(cancel));
        }
        let Call { reply, messages } = answer(
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
                // The call itself goes on to its end, and is on record.
                Ok(reason) = cancelled => {
                    Closed::of_the_same_call(Reply::cancelled(&entry.id, &reason))
                }
            }
        };
        Call::joining(until_cancelled, messages)
    }

    /// Takes a `notifications/cancelled`; `false` if the message is none, or is about none of these.
    pub fn cancel(&self, frame: &Frame) -> bool {
        if frame.method() != Some(Method::Cancelled) {
            return false;
        }
        let cancel = frame
            .param("requestId")
            .and_then(|id| lock(&self.0).get_mut(id)?.take());
        let reason = frame.text_param("reason").unwrap_or_default();
        // It may have ended this moment.
        cancel.map(|cancel| cancel.send(reason)).is_some()
    }

    /// Cancels everything: the client has gone.
    pub fn end(&self, reason: &str) {
        for cancel in lock(&self.0).values_mut().filter_map(Option::take) {
            cancel.send(reason.to_owned()).ok();
        }
    }
}

/// A request in flight; it leaves when dropped.
struct Entry {
    requests: Arc<Mutex<InFlight>>,
    id: Box<str>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.requests).remove(&self.id);
    }
}
