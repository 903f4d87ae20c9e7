//! A daemon with a configuration file.

use std::{fs, path::PathBuf};

use axum::{Router, body::Body};
use fake_server::binary;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use mainstay::daemon::Daemon;
use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::{environment::ConfigurationSource, state::StateDir};
use mainstay_testkit::{limits::PROGRAMS, within};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower_service::Service as _;

use crate::TOKEN;

pub struct RestDaemon {
    pub daemon: Daemon,
    pub router: Router,
    pub folder: TempDir,
    pub file: PathBuf,
}

/// The path of the fake server's program.
pub fn fake() -> String {
    binary().to_str().expect("UTF-8").to_owned()
}

/// An entry that starts the fake with these flags.
pub fn fake_entry(flags: &[&str]) -> Value {
    json!({"command": fake(), "args": flags})
}

impl RestDaemon {
    /// Starts a daemon with these servers.
    pub async fn with_servers(servers: Value) -> Self {
        Self::with_file(
            "servers.json",
            &format!("{:#}\n", json!({"mcpServers": servers})),
        )
        .await
    }

    pub async fn with_file(name: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join(name);
        fs::write(&file, text).expect("written");
        let origin = ConfigurationSource {
            flag: Some(file.clone()),
            ..ConfigurationSource::default()
        };
        let config = origin.load().expect("a configuration").config;
        let options = GatewayOptions {
            origin: Some(origin),
            config_history: Some(StateDir::new(folder.path().join("state"))),
            ..GatewayOptions::default()
        };
        let daemon = Daemon::start(&config, options);
        let router = daemon.rest(Secret::new(TOKEN));
        within(daemon.gateway.registry.settled()).await;
        Self {
            daemon,
            router,
            folder,
            file,
        }
    }

    pub fn text(&self) -> String {
        fs::read_to_string(&self.file).expect("there")
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, Value) {
        let request = request(method, path, body);
        let response = within(self.router.clone().call(request)).await;
        let (head, body) = response.expect("infallible").into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let json = serde_json::from_slice(&bytes)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)));
        (head.status, json)
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.send(Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer
    }

    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.send(Method::POST, path, Some(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.send(Method::PUT, path, Some(body)).await
    }

    pub async fn end(self) {
        within(self.daemon.stop(None)).await;
    }
}

pub fn request(method: Method, path: &str, body: Option<&Value>) -> Request<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
    match body {
        Some(body) => request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    }
    .expect("a request")
}

/// Waits until the condition is true. Polls it, because no event announces it.
pub async fn until(description: &str, condition: impl Fn() -> bool) {
    mainstay_testkit::until(PROGRAMS, description, condition).await;
}
