//! Reloads while calls are in flight (invariant 11, W4). `tests/cli` covers signals, file changes
//! and the command.

use http::StatusCode;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::environment::ConfigurationSource;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::{Backend, BackendKind},
    client::failure,
    gateway::{Gateway, config, until},
    rest_client::{never_retry, prompt_retry},
};

/// A configuration file for the tests of reloads.
pub struct File(TempDir);

impl File {
    pub fn with_servers(servers: &[(&str, &Backend)]) -> Self {
        let file = Self(tempfile::tempdir().expect("a temporary folder"));
        file.write(servers);
        file
    }

    fn write(&self, servers: &[(&str, &Backend)]) {
        self.write_with(servers, json!({}));
    }

    /// Writes a configuration with these servers and these top-level settings.
    pub fn write_with(&self, servers: &[(&str, &Backend)], settings: Value) {
        self.write_text(&config(servers, settings).to_string());
    }

    fn write_text(&self, text: &str) {
        std::fs::write(self.0.path().join("servers.json"), text).expect("written");
    }

    pub async fn run(&self) -> Gateway {
        let path = self.0.path().join("servers.json");
        let text = std::fs::read_to_string(&path).expect("it was written");
        let origin = ConfigurationSource {
            flag: Some(path),
            ..ConfigurationSource::default()
        };
        let options = GatewayOptions {
            origin: Some(origin),
            ..GatewayOptions::default()
        };
        Gateway::with_options(&crate::client::value(&text), options).await
    }
}

pub async fn reload(gateway: &Gateway) -> Value {
    let (status, answer) = gateway.rest().post("/api/reload", json!({})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["applied"], true, "{answer}");
    answer
}

over_every_transport! {
    /// A reload adds, removes and changes servers. The other servers keep their sessions and their
    /// calls.
    async fn unchanged_servers_keep_their_connections_and_calls(kind) {
        let (unchanged_backend, removed_backend, new_backend) = (
            Backend::start(kind, &[]).await,
            Backend::start(kind, &[]).await,
            Backend::start(kind, &[]).await,
        );
        let changes = Backend::start(kind, &[]).await;
        let file = File::with_servers(&[("stays", &unchanged_backend), ("goes", &removed_backend), ("changes", &changes)]);
        let gateway = file.run().await;
        let client = gateway.client().await;
        let mut stream = client.listen().await;
        client.assert_echo("changes__echo").await;
        let other_backend = Backend::start(kind, &[]).await;
        let (text, lost_result, ()) = tokio::join!(
            client.call_text("stays__sleep", json!({"ms": 1500})),
            client.call("goes__hang", json!({})),
            async {
                unchanged_backend.until_called("sleep").await;
                removed_backend.until_called("hang").await;
                file.write(&[("comes", &new_backend), ("stays", &unchanged_backend), ("changes", &other_backend)]);
                reload(&gateway).await;
            }
        );
        assert_eq!(text, "slept 1500 ms");
        assert_eq!(lost_result["isError"], true, "{lost_result}");
        assert_eq!((unchanged_backend.count("initialize"), unchanged_backend.runs("sleep")), (1, 1));
        while stream.message().await["method"] != "notifications/tools/list_changed" {}
        client.assert_echo("stays__echo").await;
        client.assert_echo("comes__echo").await;
        client.assert_echo("changes__echo").await;
        assert_eq!((other_backend.count("initialize"), other_backend.runs("echo")), (1, 1));
        let tools = client.tools().await;
        assert!(tools[0].starts_with("comes__"), "the file's order: {tools:?}");
        assert!(!tools.iter().any(|tool| tool.starts_with("goes__")), "{tools:?}");
    }
}

/// A reload applies new limits without a new session.
#[tokio::test]
async fn new_limits_hold_without_a_new_session() {
    let backend = Backend::http().await;
    let file = File::with_servers(&[("x", &backend)]);
    let gateway = file.run().await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    let backend = backend
        .option("timeout_s", 1)
        .option("disabledTools", json!(["count"]));
    file.write(&[("x", &backend)]);
    reload(&gateway).await;
    let result = client.call("x__hang", json!({})).await;
    assert_eq!(failure(&result)["kind"], "call_timeout", "{result}");
    assert!(!client.tools().await.contains(&"x__count".to_owned()));
    assert_eq!(backend.count("initialize"), 1);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let file = File::with_servers(&[("one", &first_backend)]);
    let gateway = file.run().await;
    gateway.client().await.assert_echo("one__echo").await;
    file.write(&[("two", &second_backend)]);
    let rest = gateway.rest();
    let (status, answer) = rest.post("/api/reload", json!({"dryRun": true})).await;
    assert_eq!(
        (status, &answer["applied"]),
        (StatusCode::OK, &json!(false))
    );
    let summary = answer["summary"].as_str().expect("words");
    assert!(
        summary.contains("one") && summary.contains("two"),
        "{summary}"
    );
    assert_eq!(first_backend.count("initialize"), 1);
    assert_eq!(second_backend.received(), Vec::<Value>::new());
    gateway.client().await.assert_echo("one__echo").await;
    // The dry run has changed nothing, so the plan is the same.
    assert_eq!(reload(&gateway).await["plan"], answer["plan"]);
    gateway.client().await.assert_echo("two__echo").await;
    assert_eq!(first_backend.fake().sessions(), 0);
}

/// An invalid file changes nothing (invariant 11).
#[tokio::test]
async fn a_bad_file_changes_nothing_and_says_why() {
    let backend = Backend::http().await;
    let file = File::with_servers(&[("x", &backend)]);
    let gateway = file.run().await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    file.write_text("{\n  \"mcpServers\": {\n");
    for dry_run in [true, false] {
        let (status, answer) = gateway
            .rest()
            .post("/api/reload", json!({"dryRun": dry_run}))
            .await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(answer["error"], "invalid_config", "{answer}");
        let finding = &answer["findings"][0];
        assert_eq!(
            (&finding["severity"], &finding["line"]),
            (&json!("error"), &json!(2)),
            "{answer}"
        );
        let message = answer["message"].as_str().expect("words");
        assert!(message.contains("servers.json:2:"), "{message}");
    }
    client.assert_echo("x__echo").await;
    assert_eq!(backend.count("initialize"), 1);
    file.write(&[("x", &backend)]);
    reload(&gateway).await;
    client.assert_echo("x__echo").await;
    assert_eq!(backend.count("initialize"), 1);
}

/// Concurrent reloads run one after the other. They start an added server only once.
#[tokio::test]
async fn two_reloads_at_once_are_one_after_the_other() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let file = File::with_servers(&[("one", &first_backend)]);
    let gateway = file.run().await;
    gateway.client().await.assert_echo("one__echo").await;
    file.write(&[("one", &first_backend), ("two", &second_backend)]);
    let answers = tokio::join!(reload(&gateway), reload(&gateway), reload(&gateway));
    let plans = [answers.0, answers.1, answers.2].map(|answer| answer["plan"].to_string());
    let additions = plans.iter().filter(|plan| plan.contains("added"));
    assert_eq!(additions.count(), 1, "{plans:?}");
    let client = gateway.client().await;
    client.assert_echo("one__echo").await;
    client.assert_echo("two__echo").await;
    assert_eq!(
        (
            first_backend.count("initialize"),
            second_backend.count("initialize")
        ),
        (1, 1)
    );
}

/// If a server is removed while it reconnects, its attempts end (W4).
#[tokio::test]
async fn a_server_may_be_removed_while_it_reconnects() {
    for (kind, schedule) in [
        (BackendKind::Http, prompt_retry()),
        (BackendKind::Sse, prompt_retry()),
        (BackendKind::Http, never_retry()),
    ] {
        let backend = Backend::start(kind, &[])
            .await
            .option("reconnect", schedule);
        let calm_backend = Backend::http().await;
        let file = File::with_servers(&[("x", &backend), ("calm", &calm_backend)]);
        let gateway = file.run().await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        backend.leave(&client).await;
        client.call("x__echo", json!({})).await;
        gateway.rest().until_status("x", "reconnecting").await;
        file.write(&[("calm", &calm_backend)]);
        reload(&gateway).await;
        backend.come_back().await;
        let servers = gateway.rest().get("/api/servers").await["servers"].clone();
        assert_eq!(servers.as_array().map(Vec::len), Some(1), "{servers}");
        assert_eq!(
            client.error("tools/call", json!({"name": "x__echo"})).await["code"],
            -32602
        );
        client.assert_echo("calm__echo").await;
        until("nobody to come", || backend.fake().sessions() == 0).await;
        assert_eq!(backend.count("initialize"), 1);
    }
}
