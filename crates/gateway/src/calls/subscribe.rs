//! Subscribes a legacy client to a resource of a modern server. The modern era has no
//! `resources/subscribe`. Instead, the session opens a listen stream for the resource (2026-07-28,
//! "Subscriptions").

use std::pin::Pin;

use mainstay_core::{
    era::{Era, code},
    message::{self, Method},
};
use mainstay_transport::{Declined, Frame, UpstreamSession};

use super::{
    call::{ActiveCall, AttemptError},
    request::CallAnswer,
};

/// True if a call of this method changes the subscriptions of its session.
fn changes_subscriptions(method: Option<Method>) -> bool {
    matches!(
        method,
        Some(Method::ResourcesSubscribe | Method::ResourcesUnsubscribe)
    )
}

impl ActiveCall<'_> {
    /// The era of the server's session for this call: that of the client. Subscriptions always use
    /// the modern era, because the shared session listens for all clients.
    pub(super) fn era(&self) -> Era {
        if changes_subscriptions(self.request.frame.method()) {
            return Era::Modern;
        }
        self.sink.client.caller.era()
    }

    /// True if the call changes a subscription of a legacy client on a modern session.
    pub(super) fn is_translated_subscription(&self, session: &UpstreamSession) -> bool {
        self.sink.client.caller.era() == Era::Legacy
            && session.era() == Era::Modern
            && changes_subscriptions(self.request.frame.method())
    }

    pub(super) async fn subscribe(
        &self,
        session: &UpstreamSession,
        cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<CallAnswer, AttemptError> {
        let changing = async {
            let Some(uri) = self.request.subject() else {
                return Ok(Err("\"uri\" is missing".to_owned()));
            };
            let changed = if self.request.frame.method() == Some(Method::ResourcesSubscribe) {
                session.subscribe(&uri).await
            } else {
                session.unsubscribe(&uri).await
            };
            match changed {
                Ok(()) => Ok(Ok(())),
                Err(Declined::Interrupted(interruption)) => Err(self.interrupted(interruption)),
                Err(refused) => Ok(Err(refused.to_string())),
            }
        };
        let changed = self.wait_for(changing, cancel).await;
        let changed = changed.map_err(AttemptError::Final)??;
        let id = self.request.id();
        let text = match changed {
            Ok(()) => message::response(id, "{}"),
            Err(reason) => message::error_response(Some(id), code::INVALID_PARAMS, &reason, None),
        };
        let frame = Frame::read(text.into());
        let frame =
            frame.map_err(|error| AttemptError::Final(self.unusable(&error.to_string())))?;
        Ok(CallAnswer {
            frame,
            streamed: false,
        })
    }
}
