//! Properties of a request: its sender for records, its trace context, and whether its caller
//! follows the call.

use std::{convert::Infallible, sync::Arc};

use axum::extract::{FromRef, FromRequestParts};
use http::{header, request::Parts};
use mainstay_api as api;
use mainstay_core::{era::Caller, principal::Principal, record::Door};
use mainstay_doorway::{browser::SignedIn, trace::TraceHeaders};
use mainstay_gateway::{
    View,
    calls::{CallClient, origin},
    reload::ChangedBy,
};

use crate::RestDoor;

/// The sender of a REST request: a command, the web page or another program.
#[derive(Clone, Debug)]
pub struct Via {
    door: Door,
    principal: Principal,
    /// True if the caller accepts a stream of events instead of one answer.
    follows: bool,
    /// The trace context in the headers, if it is valid.
    pub trace: Option<TraceHeaders>,
}

impl<S: Send + Sync> FromRequestParts<S> for Via {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let is_ours = is_a_command(parts);
        let accepted = parts.headers.get_all(header::ACCEPT).into_iter();
        let mut accepted = accepted
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        Ok(Self {
            door: if is_ours { Door::Cli } else { Door::Rest },
            principal: principal(parts),
            follows: accepted.any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream")),
            trace: TraceHeaders::from_headers(&parts.headers),
        })
    }
}

/// The principal that [`authorize`](crate::authorize) has stored for a request. Without it, the
/// request is anonymous.
fn principal(parts: &Parts) -> Principal {
    let stored = parts.extensions.get::<Principal>();
    stored.cloned().unwrap_or_default()
}

/// The view that the sender has of all servers.
#[derive(Clone, Debug)]
pub struct RequestView(pub View);

impl<S: Send + Sync> FromRequestParts<S> for RequestView
where
    RestDoor: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let door = RestDoor::from_ref(state);
        Ok(Self(door.gateway.view_of_all(&principal(parts))))
    }
}

fn is_a_command(parts: &Parts) -> bool {
    let agent = parts.headers.get(header::USER_AGENT);
    agent.is_some_and(|agent| agent.as_bytes() == api::USER_AGENT.as_bytes())
}

/// The author of a configuration change, for the file's history.
#[derive(Clone, Copy, Debug)]
pub struct Author(pub ChangedBy);

impl<S: Send + Sync> FromRequestParts<S> for Author {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // `authorize` stores the browser session of a request with a cookie.
        Ok(Self(if parts.extensions.get::<SignedIn>().is_some() {
            ChangedBy::Page
        } else if is_a_command(parts) {
            ChangedBy::Command
        } else {
            ChangedBy::Rest
        }))
    }
}

impl Via {
    pub const fn follows(&self) -> bool {
        self.follows
    }

    pub fn client(&self) -> Arc<CallClient> {
        let (caller, principal) = (Caller::default(), self.principal.clone());
        let origin = origin(self.door, &caller, &principal);
        Arc::new(CallClient::without_questions(caller, principal, origin))
    }
}
