//! One message of a client in, what it is answered with out; the same for every door.

use std::sync::Arc;

use mainstay_core::message::{self, Kind, Method};

use super::{
    aggregate,
    hub::Hub,
    reply::Reply,
    session::{Backend, ClientSession},
    transparent,
};
use crate::{calls::Outlet, transport::Frame};

const INVALID_REQUEST: i64 = -32600;
const INVALID_PARAMS: i64 = -32602;

/// Answers a request; what the server says about it first goes to `outlet`.
pub async fn answer(
    hub: Arc<Hub>,
    session: Arc<ClientSession>,
    frame: Frame,
    outlet: Outlet,
) -> Reply {
    let Kind::Request { id, method } = frame.envelope().kind else {
        return Reply::error("null", INVALID_REQUEST, "a request is expected");
    };
    let id = frame.get(id);
    match method {
        // Answered locally: it asks whether we are there.
        Method::Ping => return Reply::result(id, "{}"),
        Method::Initialize => {
            return Reply::error(id, INVALID_REQUEST, "this session is initialized already");
        }
        _ => {}
    }
    // One id, one call: an answer must have one reader (specification, base protocol).
    let Some(entry) = session.enter(id) else {
        return Reply::error(
            id,
            INVALID_REQUEST,
            &format!("a request with id {id} is in flight already"),
        );
    };
    let address = match message::address(frame.text(), frame.envelope()) {
        Ok(address) => address,
        Err(error) => return Reply::error(id, INVALID_PARAMS, &error.to_string()),
    };
    match &session.backend {
        Backend::Aggregate => {
            aggregate::answer(&hub, &session, &frame, &address, entry, outlet).await
        }
        Backend::Transparent(private) => {
            transparent::answer(&hub.calls, private, &frame, id, &address, entry, outlet).await
        }
    }
}

/// Takes a notification or a response of a client; neither is answered.
pub fn take(hub: &Hub, session: &ClientSession, frame: Frame) {
    match frame.method() {
        Some(Method::Cancelled) => {
            let reason = frame
                .text_param("reason")
                .unwrap_or_else(|| "the client cancelled".to_owned());
            if let Some(id) = frame.param("requestId") {
                session.cancel(id, &reason);
            }
        }
        // Our own handshake upstream has said so already.
        Some(Method::Initialized) => {}
        Some(_) => match &session.backend {
            Backend::Transparent(private) => {
                let private = Arc::clone(private);
                hub.calls
                    .in_background(async move { transparent::notify(&private, frame).await });
            }
            // A shared session speaks for many: what one client notifies is not its to pass on.
            Backend::Aggregate => tracing::debug!(
                method = frame.method_name(),
                "a notification was not passed on"
            ),
        },
        // No request of a server is forwarded yet, so nothing can be answered.
        None => tracing::debug!("a response to no request was dropped"),
    }
}
