//! Servers that need a login. If a token is refused, Mainstay refreshes it and sends the call again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use futures_util::future::join_all;
use mainstay::daemon::DaemonOptions;
use mainstay_login::{logins::Logins, web_client::Network};
use mainstay_platform::vault::{NoKeyStore, Vault};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, config},
};

/// The way in which the token endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenAnswer {
    Grant,
    Revoked,
}

/// An authorization server that needs no person. It issues the tokens `access-1`, `access-2` and so on.
#[derive(Debug)]
struct Issuer {
    origin: String,
    answer: Mutex<TokenAnswer>,
    tokens: AtomicU64,
    refreshes: AtomicUsize,
}

impl Issuer {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let issuer = Arc::new(Self {
            origin: format!("http://{address}"),
            answer: Mutex::new(TokenAnswer::Grant),
            tokens: AtomicU64::new(0),
            refreshes: AtomicUsize::new(0),
        });
        let router = Router::new()
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&issuer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        issuer
    }

    fn set(&self, answer: TokenAnswer) {
        *self.answer.lock() = answer;
    }

    fn refreshes(&self) -> usize {
        self.refreshes.load(Ordering::SeqCst)
    }
}

async fn metadata(State(issuer): State<Arc<Issuer>>) -> Json<Value> {
    let origin = &issuer.origin;
    Json(json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "code_challenge_methods_supported": ["S256"],
    }))
}

async fn register(Json(mut client): Json<Value>) -> (StatusCode, Json<Value>) {
    client["client_id"] = json!("registered");
    (StatusCode::CREATED, Json(client))
}

#[derive(serde::Deserialize)]
struct Authorization {
    redirect_uri: String,
    state: String,
}

async fn authorize(Query(authorization): Query<Authorization>) -> Redirect {
    let Authorization {
        redirect_uri,
        state,
    } = authorization;
    Redirect::to(&format!("{redirect_uri}?code=c0de&state={state}"))
}

async fn token(State(issuer): State<Arc<Issuer>>, form: String) -> Response {
    if form.contains("grant_type=refresh_token") {
        issuer.refreshes.fetch_add(1, Ordering::SeqCst);
    }
    let answer = *issuer.answer.lock();
    match answer {
        TokenAnswer::Grant => {
            let number = issuer.tokens.fetch_add(1, Ordering::SeqCst) + 1;
            let tokens = json!({
                "access_token": format!("access-{number}"),
                "refresh_token": format!("refresh-{number}"),
                "token_type": "Bearer",
                "expires_in": 3600,
            });
            Json(tokens).into_response()
        }
        TokenAnswer::Revoked => {
            let error = json!({"error": "invalid_grant"});
            (StatusCode::BAD_REQUEST, Json(error)).into_response()
        }
    }
}

/// A gateway that is logged in to the server `x`. The server accepts the token `access-1`.
struct LoggedIn {
    gateway: Gateway,
    backend: Backend,
    issuer: Arc<Issuer>,
    /// The number of seconds by which the logins' clock is ahead.
    elapsed_seconds: Arc<AtomicU64>,
    _state: tempfile::TempDir,
}

impl LoggedIn {
    async fn new() -> Self {
        let issuer = Issuer::start().await;
        let flags = ["--require-header", "authorization=Bearer access-1"];
        let backend = Backend::start(BackendKind::Http, &flags)
            .await
            .option("oauth", json!({"issuer": issuer.origin}));
        let state = tempfile::tempdir().expect("a folder");
        let vault = Vault::new(state.path().join("vault"), Box::new(NoKeyStore));
        let elapsed_seconds = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&elapsed_seconds);
        let clock = move || SystemTime::now() + Duration::from_secs(clock.load(Ordering::SeqCst));
        let logins = Logins::with_clock(Arc::new(vault), Arc::new(Network), Arc::new(clock));
        let options = DaemonOptions {
            logins: Some(Arc::new(logins)),
            ..DaemonOptions::default()
        };
        let gateway = Gateway::with_options(&config(&[("x", &backend)], json!({})), options).await;
        let rest = gateway.rest();
        rest.until_status("x", "error").await;
        let (_, begun_login) = rest.post("/api/servers/x/login", json!({})).await;
        let url = begun_login["authorizationUrl"].as_str().expect("a URL");
        let query = url.split_once('?').expect("a query").1;
        let state_value = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("state="))
            .expect("a state");
        let address = format!("?code=c0de&state={state_value}");
        let answer = json!({"address": address});
        let (_, login) = rest.post("/api/servers/x/login/answer", answer).await;
        assert_eq!(login["status"], "valid", "{login}");
        rest.until_status("x", "connected").await;
        Self {
            gateway,
            backend,
            issuer,
            elapsed_seconds,
            _state: state,
        }
    }

    /// Changes the token that the server accepts.
    fn accept(&self, token: &str) {
        let header = format!("authorization=Bearer {token}");
        let header = header.parse().expect("a header");
        self.backend
            .fake()
            .edit(|script| script.require_header = Some(header));
        // Advance the clock, because a token that was just issued is not refreshed.
        self.elapsed_seconds.fetch_add(60, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_meet_a_401_at_once_wait_for_one_refresh() {
    let world = LoggedIn::new().await;
    world.accept("access-2");
    let client = world.gateway.client().await;
    let calls = (0..10).map(|number| {
        let client = &client;
        async move {
            client
                .call("x__echo", json!({"text": number.to_string()}))
                .await
        }
    });
    for result in join_all(calls).await {
        assert_ne!(result["isError"], true, "{result}");
    }
    assert_eq!(world.issuer.refreshes(), 1);
    assert_eq!(world.backend.runs("echo"), 10);
    let login = world.gateway.rest().get("/api/servers/x/login").await;
    assert_eq!(login["status"], "valid", "{login}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_grant_is_one_event_and_no_further_attempt() {
    let world = LoggedIn::new().await;
    world.issuer.set(TokenAnswer::Revoked);
    world.accept("access-2");
    let (client, rest) = (world.gateway.client().await, world.gateway.rest());
    let parameters = json!({"name": "x__echo", "arguments": {"text": "a"}});
    // Accept any failed answer: a probe may notice the end of the login before the call.
    let answer = client.request("tools/call", parameters).await.to_string();
    for text in ["invalid_grant", "mainstay auth login x"] {
        assert!(answer.contains(text), "{answer}");
    }
    let server = rest.until_status("x", "error").await;
    let reason = server["lastError"].as_str().unwrap_or_default();
    assert!(reason.contains("mainstay auth login x"), "{server}");
    assert_eq!(server["nextAction"], "log_in", "{server}");
    let events = rest.get("/api/events/recent").await;
    let events = events["events"].as_array().expect("events");
    let failures: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "server_failed")
        .filter(|event| event.to_string().contains("invalid_grant"))
        .collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    rest.operate("x", "reconnect").await;
    assert_eq!(world.issuer.refreshes(), 1);
    let login = rest.get("/api/servers/x/login").await;
    assert_eq!(login["status"], "ended", "{login}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logout_ends_the_session() {
    let world = LoggedIn::new().await;
    let rest = world.gateway.rest();
    let (_, logged_out) = rest.delete("/api/servers/x/login").await;
    assert_eq!(logged_out["revocation"], "unsupported", "{logged_out}");
    rest.until_status("x", "error").await;
    let login = rest.get("/api/servers/x/login").await;
    assert_eq!(login["status"], "none", "{login}");
}
