//! Servers that fail to start, or start slowly, do not delay other servers (invariant 7, C6, C14,
//! Y12).

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, initialize},
    gateway::{Gateway, found, soon},
    rest_client::never_retry,
};

/// The time limit of what should be immediate. It is far below the 30 s of a handshake.
const IMMEDIATE_LIMIT: Duration = Duration::from_secs(10);

/// The error of a call to a server that has never connected.
async fn refusal(client: &Http, server: &str) -> Value {
    let name = format!("{server}__echo");
    client
        .error("tools/call", json!({"name": name, "arguments": {}}))
        .await
}

/// A gateway with the working server `calm` and the server `trouble`. Also returns a client that
/// has called `calm`.
async fn with_calm_server(trouble: &Backend) -> (Gateway, Backend, Http) {
    let calm_backend = Backend::http().await;
    let servers = [("trouble", trouble), ("calm", &calm_backend)];
    let gateway = Gateway::with_settings(&servers, json!({"startup": {"waitMs": 300}})).await;
    let start = Instant::now();
    let client = gateway.client().await;
    assert!(client.tools().await.contains(&"calm__echo".to_owned()));
    client.assert_echo("calm__echo").await;
    assert!(start.elapsed() < IMMEDIATE_LIMIT, "{:?}", start.elapsed());
    (gateway, calm_backend, client)
}

/// Waits until the error of a call contains all of these texts. Returns the error.
async fn until_refused_with(client: &Http, texts: &[&str]) -> Value {
    found(&format!("an error with {texts:?}"), async || {
        let error = refusal(client, "trouble").await;
        let text = error.to_string();
        texts
            .iter()
            .all(|expected_text| text.contains(expected_text))
            .then_some(error)
    })
    .await
}

over_every_transport! {
    /// A hanging server must not delay the start of Mainstay (cline#13639, docker#336).
    async fn a_server_that_hangs_at_start_delays_nobody(kind) {
        // A call to the hanging server waits until the call's own deadline.
        let hanging_backend = Backend::start(kind, &["--hang-at-start"]).await.option("timeout_s", 1);
        let (_gateway, _calm, client) = with_calm_server(&hanging_backend).await;
        let error = refusal(&client, "trouble").await;
        assert_eq!(error["data"]["kind"], "call_timeout", "{error}");
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("'trouble' is connecting"), "{message}");
    }

    /// The time limit of a start can be configured, because some servers start slowly
    /// (mcpproxy#760: a fixed limit kills them).
    async fn a_slow_handshake_has_the_time_that_it_is_given(kind) {
        let slow_backend = Backend::start(kind, &["--handshake-delay", "1500"]).await.option("connectTimeoutMs", 10_000);
        let (gateway, _calm, client) = with_calm_server(&slow_backend).await;
        gateway.rest().until("trouble", "listed", |server| server["toolsReady"] == true).await;
        client.assert_echo("trouble__echo").await;
        assert_eq!(slow_backend.count("initialize"), 1);
    }

    /// An attempt to connect has a time limit. The error contains the limit (E7).
    async fn a_handshake_has_a_time_limit(kind) {
        let hanging_backend = Backend::start(kind, &["--hang-at-start"]).await.option("connectTimeoutMs", 400);
        let (gateway, _calm, client) = with_calm_server(&hanging_backend).await;
        until_refused_with(&client, &["no handshake within 400 ms"]).await;
        let start = Instant::now();
        let direct = gateway.stranger("/servers/trouble/mcp").post(initialize(LATEST)).await;
        assert!(direct.json()["error"].is_object(), "{}", direct.text);
        assert!(start.elapsed() < IMMEDIATE_LIMIT, "{:?}", start.elapsed());
        client.assert_echo("calm__echo").await;
    }
}

/// If a server crashes during `initialize`, a call fails with the reason and the last lines of
/// stderr (supergateway#139: the client waits for 60 s).
#[tokio::test]
async fn a_server_that_crashes_at_start_says_why() {
    let crashing_backend = Backend::start(
        BackendKind::Stdio,
        &["--crash-at-start", "7", "--stderr", "no licence found"],
    )
    .await;
    let (gateway, _calm, client) = with_calm_server(&crashing_backend).await;
    let error = until_refused_with(&client, &["code 7"]).await;
    assert_eq!(error["data"]["server"], "trouble", "{error}");
    let stderr = error["data"]["stderr"].to_string();
    assert!(
        stderr.contains("no licence found") && stderr.contains("with code 7"),
        "{error}"
    );
    let direct = gateway
        .stranger("/servers/trouble/mcp")
        .post(initialize(LATEST))
        .await;
    assert!(direct.text.contains("no licence found"), "{}", direct.text);
    client.assert_echo("calm__echo").await;
}

/// If the program is missing, the error says so, and Mainstay tries again (C6).
#[tokio::test]
async fn a_command_that_is_not_there_says_so() {
    let mut missing_backend = Backend::stdio().await;
    missing_backend.entry = json!({"command": "no-such-command-anywhere"});
    let (gateway, _calm, client) = with_calm_server(&missing_backend).await;
    let expected_texts = [
        "'trouble' is reconnecting",
        "command not found: no-such-command-anywhere",
    ];
    until_refused_with(&client, &expected_texts).await;
    let direct = gateway
        .stranger("/servers/trouble/mcp")
        .post(initialize(LATEST))
        .await;
    assert!(direct.text.contains("command not found"), "{}", direct.text);

    let mut homeless = Backend::stdio().await.option("cwd", "/no/such/folder");
    homeless.entry["command"] = fake_server::binary().to_str().expect("UTF-8").into();
    let (_gateway, _calm, client) = with_calm_server(&homeless).await;
    until_refused_with(&client, &["/no/such/folder"]).await;
}

/// A server that refuses connections is connected when it has started.
#[tokio::test]
async fn a_server_that_refuses_connections_says_so() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        backend.fake().refuse(true).await.expect("the fake runs");
        let (_gateway, _calm, client) = with_calm_server(&backend).await;
        until_refused_with(&client, &["refused"]).await;
        backend.fake().refuse(false).await.expect("the fake runs");
        let restored_list =
            async { while !client.tools().await.contains(&"trouble__echo".to_owned()) {} };
        soon("the server to come back", restored_list).await;
        client.assert_echo("trouble__echo").await;
    }
}

#[tokio::test]
async fn a_server_that_answers_with_an_error_page_says_so() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &["--status", "500"]).await;
        let (_gateway, _calm, client) = with_calm_server(&backend).await;
        until_refused_with(&client, &["HTTP 500"]).await;
    }
}

/// If a process exits right after the handshake, the session counts as lost (Y12).
#[tokio::test]
async fn a_server_that_exits_after_the_handshake_is_lost() {
    let backend = Backend::start(BackendKind::Stdio, &["--exit-after-initialize"]).await;
    let (_gateway, _calm, client) = with_calm_server(&backend).await;
    until_refused_with(&client, &["exited unexpectedly"]).await;
    client.assert_echo("calm__echo").await;
}

/// The first list request waits for a slow server, at most `startup.waitMs`.
#[tokio::test]
async fn the_first_list_waits_for_a_slow_starter() {
    let slow_backend = Backend::start(BackendKind::Stdio, &["--slow-start", "700"]).await;
    let calm_backend = Backend::http().await;
    let servers = [("slow", &slow_backend), ("calm", &calm_backend)];
    let gateway = Gateway::with_settings(&servers, json!({"startup": {"waitMs": 12000}})).await;
    let mut pipe = gateway.pipe().await;
    let tools = pipe.result("tools/list", json!({})).await.to_string();
    assert!(tools.contains("slow__echo") && tools.contains("calm__echo"));
    pipe.assert_echo("slow__echo").await;
}

/// When that time has passed, list requests no longer wait.
#[tokio::test]
async fn later_lists_wait_for_nobody() {
    let hanging_backend = Backend::start(BackendKind::Http, &["--hang-at-start"]).await;
    let (gateway, _calm, client) = with_calm_server(&hanging_backend).await;
    let start = Instant::now();
    // If each request waited for 300 ms, these would take 18 s.
    for _ in 0..60 {
        client.tools().await;
    }
    gateway.client().await.assert_echo("calm__echo").await;
    assert!(start.elapsed() < IMMEDIATE_LIMIT, "{:?}", start.elapsed());
}

/// Output during the start delays nothing (E17).
#[tokio::test]
async fn floods_at_start_hold_nobody_up() {
    let flags = ["--flood-stdout", "3000000", "--flood-stderr", "3000000"];
    let backend = Backend::start(BackendKind::Stdio, &flags).await;
    let (_gateway, _calm, client) = with_calm_server(&backend).await;
    let restored_list =
        async { while !client.tools().await.contains(&"trouble__echo".to_owned()) {} };
    soon("the server behind the flood", restored_list).await;
    client.assert_echo("trouble__echo").await;
}

/// A disabled server is not started and not listed. Calls of its tools fail.
#[tokio::test]
async fn a_disabled_server_is_left_alone() {
    let disabled_backend = Backend::stdio().await.option("disabled", true);
    let manual = Backend::http().await.option("autoStart", false);
    let calm_backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[
        ("off", &disabled_backend),
        ("manual", &manual),
        ("calm", &calm_backend),
    ])
    .await;
    let client = gateway.client().await;
    assert!(
        client
            .tools()
            .await
            .iter()
            .all(|tool| tool.starts_with("calm__"))
    );
    for (server, expected_text) in [
        ("off", "Server 'off' is disabled"),
        ("manual", "Server 'manual' is disconnected: it is stopped"),
    ] {
        let error = refusal(&client, server).await;
        assert!(error.to_string().contains(expected_text), "{error}");
    }
    let direct = gateway
        .stranger("/servers/off/mcp")
        .post(initialize(LATEST))
        .await;
    assert!(direct.json()["error"].is_object(), "{}", direct.text);
    assert_eq!(
        (disabled_backend.received().len(), manual.received().len()),
        (0, 0)
    );
}

/// `/readyz` succeeds when every server has made its first attempt.
#[tokio::test]
async fn readiness_holds_for_hundreds_of_servers() {
    // A refused connection ends the first attempt at once.
    let entry = json!({"url": "http://127.0.0.1:1/mcp", "reconnect": never_retry()});
    let servers: serde_json::Map<String, Value> = (0..300)
        .map(|number| (format!("s{number}"), entry.clone()))
        .collect();
    let config = json!({"mcpServers": servers, "startup": {"waitMs": 600_000}});
    let gateway = Gateway::start(&config).await;
    let client = gateway.stranger("/readyz");
    found("readiness", async || {
        let answer = client.send(Method::GET, client.headers("*/*"), "").await;
        (answer.status == StatusCode::OK).then_some(())
    })
    .await;
}
