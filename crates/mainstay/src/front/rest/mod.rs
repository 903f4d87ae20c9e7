//! The REST door (requirements, section M). Everything under `/api` needs the token.

mod body;
mod calls;
mod events;
mod health;
mod lists;
mod logs;
mod refusal;
mod reload;
mod requests;
mod servers;
mod switches;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::header,
    middleware::{self, Next},
    response::Response,
    routing::{any, get, post, put},
};
use http::StatusCode;
use mainstay_core::{
    config::Secret,
    failure::{Failure, FailureKind},
};
use tokio_util::sync::CancellationToken;

use self::refusal::Refusal;
use super::mcp::Hub;
use crate::{api, reload::Reloader};

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Door {
    pub hub: Arc<Hub>,
    /// Reads the configuration again, where it can be.
    pub reloader: Option<Arc<Reloader>>,
    /// Opens the door.
    pub token: Secret,
    /// The longest body of a request, in bytes.
    pub max_body: usize,
    /// Cancelled when the door closes: streams end, and what is not answered yet is refused.
    pub stop: CancellationToken,
}

pub fn router(door: Door) -> Router {
    let api = Router::new()
        .route(api::CLIENTS, get(servers::clients))
        .route(api::RECONNECT_CLIENT, post(servers::reconnect_client))
        .route(api::DISCONNECT_CLIENT, post(servers::disconnect_client))
        .route(api::SERVERS, get(servers::servers))
        .route(api::OPERATE, post(servers::operate))
        .route(api::HEALTH, get(health::report))
        .route(api::RELOAD, post(reload::reload))
        .route(api::SERVER_REQUESTS, get(requests::list))
        .route(api::REPLY, post(requests::answer))
        .route(
            api::SWITCHES,
            get(switches::list).delete(switches::clear_all),
        )
        .route(api::SWITCH, put(switches::set).delete(switches::clear))
        .route(api::LOGS, get(logs::logs))
        .route(api::TOOLS, get(lists::tools))
        .route(api::CALL, post(calls::call_tool))
        .route(api::RESOURCES, get(lists::resources))
        .route(api::TEMPLATES, get(lists::templates))
        .route(api::READ, post(calls::read))
        .route(api::READ_WHOLE, post(calls::read_whole))
        .route(api::PROMPTS, get(lists::prompts))
        .route(api::GET_PROMPT, post(calls::get_prompt))
        .route(
            api::EVENTS,
            get(events::stream).with_state(events::Streams::new(&door)),
        )
        .route(api::RECENT_EVENTS, get(events::recent))
        .method_not_allowed_fallback(wrong_method)
        .route("/api", any(unknown))
        .route("/api/{*rest}", any(unknown))
        .layer(middleware::from_fn_with_state(door.clone(), authorize));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .method_not_allowed_fallback(wrong_method)
        .merge(api)
        .fallback(unknown)
        .with_state(door)
}

async fn ready(State(door): State<Door>) -> (StatusCode, &'static str) {
    if door.hub.registry.is_settled() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "servers are starting\n")
    }
}

async fn unknown(request: Request) -> Refusal {
    Refusal::UnknownRoute(request.uri().path().to_owned())
}

async fn wrong_method(request: Request) -> Refusal {
    Refusal::WrongMethod(request.method().clone())
}

async fn authorize(
    State(door): State<Door>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| bearer(value.as_bytes()));
    if !given.is_some_and(|token| same(token, door.token.expose().as_bytes())) {
        return Err(Refusal::Unauthorized);
    }
    tokio::select! {
        biased;
        response = next.run(request) => Ok(response),
        // What takes longer than the door stays open is answered all the same.
        () = door.stop.cancelled() => Err(shutting_down().into()),
    }
}

fn shutting_down() -> Failure {
    Failure::new(FailureKind::ShuttingDown, "Mainstay is shutting down")
}

/// The token of an `Authorization: Bearer` header; the scheme is case-insensitive (RFC 9110).
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(b"Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then_some(token.trim_ascii())
}

/// Takes as long for a near miss as for nonsense of the same length, so that the token cannot be
/// guessed byte by byte.
fn same(given: &[u8], token: &[u8]) -> bool {
    given.len() == token.len()
        && std::hint::black_box(
            given
                .iter()
                .zip(token)
                .fold(0, |differing, (a, b)| differing | (a ^ b)),
        ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_same() {
        for (header, expected) in [
            ("Bearer secret", true),
            ("bearer  secret ", true),
            ("Bearer secre", false),
            ("Bearer secrets", false),
            ("Bearer ", false),
            ("Bearer", false),
            ("Basic secret", false),
            ("secret", false),
        ] {
            let found = bearer(header.as_bytes()).is_some_and(|token| same(token, b"secret"));
            assert_eq!(found, expected, "{header:?}");
        }
    }
}
