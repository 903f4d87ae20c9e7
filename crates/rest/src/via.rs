//! Properties of a request: its sender (a command or another program) for records, its trace, and
//! whether its caller follows the call.

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

/// The sender of a request over REST.
#[derive(Clone, Debug)]
pub struct Via {
    door: Door,
    principal: Principal,
    /// True if the caller accepts events instead of a single answer.
    follows: bool,
    /// `None` if the headers contain no valid trace context.
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

/// The principal of a request, which [`authorize`](crate::authorize) has stored. A request without
/// one is anonymous.
fn principal(parts: &Parts) -> Principal {
    let stored = parts.extensions.get::<Principal>();
    stored.cloned().unwrap_or_default()
}

/// The sender's view of all servers.
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

/// The author of a configuration change that the request makes.
#[derive(Clone, Copy, Debug)]
pub struct Author(pub ChangedBy);

impl<S: Send + Sync> FromRequestParts<S> for Author {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // A request with the web page's cookie has its session as an extension.
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
