//! Subscribes a legacy client to a resource of a modern server. There is no such request, so the
//! subscription becomes part of what the session listens to (2026-07-28, "Subscriptions").

use std::pin::Pin;

use mainstay_core::{
    era::{Era, code},
    message::{self, Method},
};
use mainstay_transport::{Declined, Frame, Session};

use super::{
    call::{AttemptError, Call},
    request::Answer,
};

/// Whether a call changes what its session listens to.
fn of_subscriptions(method: Option<Method>) -> bool {
    matches!(
        method,
        Some(Method::ResourcesSubscribe | Method::ResourcesUnsubscribe)
    )
}

impl Call<'_> {
    /// The era in which the server is asked. It is the client's own, except for subscriptions: the shared session
    /// listens in its own era.
    pub(super) fn era(&self) -> Era {
        if of_subscriptions(self.request.frame.method()) {
            return Era::Modern;
        }
        self.sink.client.caller.era()
    }

    /// Whether the session has this call made in its own way.
    pub(super) fn is_heard_by(&self, session: &Session) -> bool {
        self.sink.client.caller.era() == Era::Legacy
            && session.era() == Era::Modern
            && of_subscriptions(self.request.frame.method())
    }

    pub(super) async fn subscribe(
        &self,
        session: &Session,
        cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Answer, AttemptError> {
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
                Err(Declined::Interrupted(why)) => Err(self.interrupted(why)),
                Err(refused) => Ok(Err(refused.to_string())),
            }
        };
        let changed = self.meanwhile(changing, cancel).await;
        let changed = changed.map_err(AttemptError::Final)??;
        let id = self.request.id();
        let text = match changed {
            Ok(()) => message::response(id, "{}"),
            Err(reason) => message::error_response(Some(id), code::INVALID_PARAMS, &reason, None),
        };
        let frame = Frame::read(text.into());
        let frame =
            frame.map_err(|error| AttemptError::Final(self.unusable(&error.to_string())))?;
        Ok(Answer {
            frame,
            streamed: false,
        })
    }
}
