//! The REST API. All paths under `/api` require the control token, or the cookie of a signed-in
//! browser. A body must be declared as JSON. A web page of another origin can send neither the
//! token nor such a body without permission. `mainstay_doorway::browser` describes the other
//! conditions for a request with a cookie.

pub mod about;
mod access;
mod address;
mod body;
mod call;
mod calls;
mod client_files;
mod code;
mod config;
mod config_history;
mod config_text;
mod entries;
mod event_stream;
mod events;
mod execute;
mod export;
mod figures;
mod filter;
mod followed;
mod hand_over;
mod health;
mod history;
mod lists;
mod logins;
mod logs;
mod metrics;
mod openapi;
mod operation;
mod pasted;
mod profiles;
mod records;
mod refusal;
mod reload;
mod requests;
mod routes;
mod routing;
mod schema;
mod servers;
mod sessions;
mod sign_in;
mod statistics;
mod switches;
mod tokens;
mod trial;
mod via;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::header,
    middleware::{self, Next},
    response::Response,
    routing::any,
};
use http::StatusCode;
use http_body::Body as _;
use mainstay_api as api;
use mainstay_client_files::OwnEntry;
use mainstay_core::{
    failure::{Failure, FailureKind},
    principal::Principal,
};
use mainstay_gateway::{Gateway, calls::Closing};
use mainstay_login::logins::Logins;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::routing::get;
pub use self::{client_files::McpEndpoint, refusal::Refusal, sign_in::link};
use mainstay_doorway::{authenticator::bearer, bodies::BodyLimits, browser};
use mainstay_tokens::{Pass, Tokens};

/// The shared state of the routes.
#[derive(Clone, Debug)]
pub struct RestDoor {
    pub gateway: Arc<Gateway>,
    /// The tokens. Only the control token opens the REST API.
    pub tokens: Tokens,
    /// The logins to remote servers. `None` if this daemon keeps no logins.
    pub logins: Option<Arc<Logins>>,
    /// Limits for request bodies.
    pub bodies: BodyLimits,
    /// Cancelled when the listener closes. Streams then end, and unanswered requests are refused.
    pub stop: CancellationToken,
    /// The own entry by which clients start `mainstay connect`. `None` uses the program in the
    /// PATH.
    pub connect: Option<OwnEntry>,
    /// The MCP endpoint of this listener. `None` if the listener has no endpoint.
    pub endpoint: Option<McpEndpoint>,
    /// Receives handover requests of other Mainstays. `None` if this daemon does not hand over.
    pub hand_over: Option<mpsc::Sender<api::HandOver>>,
    /// True if the web page is served. Requests with its cookie are then accepted, too.
    pub page: bool,
    /// Facts about the daemon.
    pub daemon: about::DaemonFacts,
}

impl RestDoor {
    fn has_page(&self, route: &str) -> Result<(), Refusal> {
        if self.page {
            Ok(())
        } else {
            Err(Refusal::UnknownRoute(route.to_owned()))
        }
    }
}

pub fn router(door: RestDoor) -> Router {
    let operations = routes::operations().into_iter();
    let api = operations.fold(Router::new(), |router, operation| {
        router.route(operation.path, operation.into_handler(&door))
    });
    let api = api
        // `/api/servers/try` is also the path of a server named `try`, so add its operations here.
        // The table has no rows for them: the document lists them under `/api/servers/{name}`.
        .route(api::TRY, trial::routes_of_server_try())
        .method_not_allowed_fallback(wrong_method)
        .route("/api", any(unknown))
        .route("/api/{*rest}", any(unknown))
        .layer(middleware::from_fn_with_state(door.clone(), authorize));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics::scrape))
        .route(api::LOGIN_CALLBACK, get(logins::callback))
        .method_not_allowed_fallback(wrong_method)
        .merge(api)
        .fallback(unknown)
        .with_state(door)
}

async fn ready(State(door): State<RestDoor>) -> (StatusCode, &'static str) {
    if door.gateway.calls.closing().has_begun() {
        (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n")
    } else if door.gateway.registry.startup_is_over() {
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
    State(door): State<RestDoor>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    if !sign_in::is_sign_in(request.method(), request.uri().path()) {
        match request.headers().get(header::AUTHORIZATION).map(bearer) {
            Some(token) => match token.and_then(|token| door.tokens.bearer(token)) {
                Some(Pass {
                    principal: Principal::Operator,
                    ..
                }) => {}
                Some(_) => return Err(Refusal::NotForClients),
                None => return Err(Refusal::Unauthorized),
            },
            None if door.page => {
                let (method, headers) = (request.method(), request.headers());
                let mut uri = request.uri().clone();
                let session = browser::admit(&door.tokens, method, &mut uri, headers)?;
                *request.uri_mut() = uri;
                request.extensions_mut().insert(session);
            }
            None => return Err(Refusal::Unauthorized),
        }
    }
    // Both the control token and the web page's session stand for the operator.
    request.extensions_mut().insert(Principal::Operator);
    if !request.body().is_end_stream() && !body::is_json(request.headers()) {
        return Err(Refusal::WrongContentType);
    }
    tokio::select! {
        biased;
        response = next.run(request) => Ok(response),
        // Refuse requests that are still running at shutdown, instead of dropping them.
        () = door.stop.cancelled() => Err(Closing::refusal().into()),
    }
}

/// Refuses requests while there is neither a configuration nor a server.
async fn configured(
    State(door): State<RestDoor>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    if door.gateway.registry.is_configured() {
        return Ok(next.run(request).await);
    }
    Err(not_configured().into())
}

fn not_configured() -> Failure {
    let message = "there is neither a configuration nor a server";
    Failure::new(FailureKind::NotConfigured, message)
}
