//! The REST door. Everything under `/api` takes the control token, or the cookie of a browser that is signed in,
//! and a body must be declared as JSON. No web page can send the token or such a body to a server of another
//! origin unasked; what a cookie needs beside it, `mainstay_doorway::browser` says.

pub mod about;
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
    Extension, Router,
    extract::{Request, State},
    http::header,
    middleware::{self, Next},
    response::Response,
    routing::any,
};
use http::StatusCode;
use http_body::Body as _;
use mainstay_api as api;
use mainstay_client_files::Front;
use mainstay_core::{
    failure::{Failure, FailureKind},
    principal::Principal,
};
use mainstay_gateway::{Gateway, calls::Closing};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::routing::{delete, get, post, put};
pub use self::{client_files::Endpoint, refusal::Refusal, sign_in::link};
use mainstay_doorway::{authenticator::bearer, bodies::Limits as BodyLimits, browser};
use mainstay_tokens::{Pass, Tokens};

/// What the routes need.
#[derive(Clone, Debug)]
pub struct RestDoor {
    pub gateway: Arc<Gateway>,
    /// The control token among them opens the door.
    pub tokens: Tokens,
    /// What the bodies of requests may take.
    pub bodies: BodyLimits,
    /// Cancelled when the door closes: streams end, and what is not answered yet is refused.
    pub stop: CancellationToken,
    /// How clients start `mainstay connect`; `None` takes the program in the PATH.
    pub connect: Option<Front>,
    /// Where this listener serves MCP; `None` where it does not.
    pub endpoint: Option<Endpoint>,
    /// Gets the wish of another Mainstay for the state directory; `None` where the directory is kept.
    pub hand_over: Option<mpsc::Sender<api::HandOver>>,
    /// Whether there is the web page, so that cookies open the door, too.
    pub page: bool,
    /// What the daemon knows of itself.
    pub daemon: about::Daemon,
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
    // Routes that need a server or a configuration; a server can be connected where there is none yet.
    let clients = Router::new()
        .route(api::CLIENTS, get(servers::clients))
        .route(api::CLIENT, delete(entries::delete_client))
        .route(api::RECONNECT_CLIENT, post(servers::reconnect_client))
        .route(api::DISCONNECT_CLIENT, post(servers::disconnect_client))
        .route(api::CALL_RECORDS, get(records::records))
        .route(api::EXPORT_CALL_RECORDS, get(export::export))
        .route(api::CALL_RECORD, get(records::record))
        .route(api::OBJECT, get(records::object))
        .route(api::STATISTICS, get(statistics::statistics))
        .route(api::TOOLS, get(lists::tools))
        .route(api::RESOURCES, get(lists::resources))
        .route_layer(middleware::from_fn_with_state(door.clone(), configured))
        .route(api::CONNECT_CLIENT, post(entries::connect_client));
    let api = clients
        .route(api::CALL, post(calls::call_tool))
        .route(api::READ, post(calls::read))
        .route(api::OPENAPI, get(openapi::document))
        .route(
            api::SERVERS,
            get(servers::servers).merge(post(entries::add)),
        )
        .route(
            api::TRY,
            post(trial::run)
                .merge(trial::of_a_server_called_try())
                .layer(Extension(trial::Trials::default())),
        )
        .route(
            api::SERVER,
            get(entries::get)
                .merge(put(entries::put))
                .merge(delete(entries::delete)),
        )
        .route(api::ENABLE, post(entries::enable))
        .route(api::DISABLE, post(entries::disable))
        .route(api::APPROVE, post(entries::approve))
        .route(api::EXECUTE, post(execute::execute))
        .route(api::CLIENT_FILES, get(client_files::list))
        .route(api::IMPORT_FROM_CLIENT, post(client_files::import))
        .route(api::IMPORT_PREVIEW, post(pasted::preview))
        .route(api::CONFIG, get(config::get).merge(put(config::put)))
        .route(
            api::CONFIG_TEXT,
            get(config_text::get).merge(put(config_text::put)),
        )
        .route(api::CONFIG_HISTORY, get(config_history::list))
        .route(api::CONFIG_VERSION, get(config_history::show))
        .route(api::UNDO_CONFIG, post(config_history::undo))
        .route(api::CHECK_CONFIG, post(config_text::check))
        .route(api::PROFILES, get(profiles::list))
        .route(api::CONFIG_SCHEMA, get(config::schema))
        .route(api::OPERATE, post(servers::operate))
        .route(api::HEALTH, get(health::report))
        .route(api::RELOAD, post(reload::reload))
        .route(api::HAND_OVER, post(hand_over::hand_over))
        .route(api::SERVER_REQUESTS, get(requests::list))
        .route(api::REPLY, post(requests::answer))
        .route(
            api::SWITCHES,
            get(switches::list).merge(delete(switches::clear_all)),
        )
        .route(
            api::SWITCH,
            put(switches::set).merge(delete(switches::clear)),
        )
        .route(api::LOGS, get(logs::logs))
        .route(api::TEMPLATES, get(lists::templates))
        .route(api::READ_WHOLE, post(calls::read_whole))
        .route(api::PROMPTS, get(lists::prompts))
        .route(api::GET_PROMPT, post(calls::get_prompt))
        .route(
            api::EVENTS,
            axum::routing::get(events::stream).with_state(events::Streams::new(&door)),
        )
        .route(api::RECENT_EVENTS, get(events::recent))
        .route(
            api::FIGURES,
            axum::routing::get(figures::figures).with_state(figures::FiguresRoute::new(&door)),
        )
        .route(
            api::BROWSER_SESSION,
            get(sign_in::show)
                .merge(post(sign_in::sign_in))
                .merge(delete(sign_in::sign_out)),
        )
        .route(api::SESSION_LINKS, post(sign_in::make_link))
        .route(api::SESSION_DOWNLOADS, post(sign_in::make_ticket))
        .route(api::ABOUT, get(about::about))
        .route(api::SESSIONS, get(sessions::list))
        .route(api::STATELESS_CLIENTS, get(sessions::stateless))
        .route(api::SESSION, delete(sessions::end))
        .route(api::HISTORY, get(history::of_all))
        .route(api::SERVER_HISTORY, get(history::of_server))
        .route(api::TOKENS, get(tokens::list).merge(post(tokens::add)))
        .route(api::TOKEN, delete(tokens::remove))
        .route(api::ROTATE, post(tokens::rotate))
        .method_not_allowed_fallback(wrong_method)
        .route("/api", any(unknown))
        .route("/api/{*rest}", any(unknown))
        .layer(middleware::from_fn_with_state(door.clone(), authorize));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics::scrape))
        .method_not_allowed_fallback(wrong_method)
        .merge(api)
        .fallback(unknown)
        .with_state(door)
}

async fn ready(State(door): State<RestDoor>) -> (StatusCode, &'static str) {
    if door.gateway.calls.closing().has_begun() {
        (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n")
    } else if door.gateway.registry.is_tried() {
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
    // The page's session and the control token are the operator's.
    request.extensions_mut().insert(Principal::Operator);
    if !request.body().is_end_stream() && !body::is_json(request.headers()) {
        return Err(Refusal::WrongContentType);
    }
    tokio::select! {
        biased;
        response = next.run(request) => Ok(response),
        // Requests that take longer than the door stays open are still answered.
        () = door.stop.cancelled() => Err(Closing::refusal().into()),
    }
}

/// Without a configuration and without a server there is nothing that could answer.
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
