//! Servers that were down when Mainstay started. A call through any door leads to an attempt to
//! connect. If the attempt fails, the call fails with its reason.

use std::path::PathBuf;

use http::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::{Backend, BackendKind},
    client::text,
    gateway::Gateway,
    rest_client::never_retry,
};

/// A server that is down. The next scheduled attempt is only in an hour.
struct Absent {
    backend: Backend,
    program: Option<(TempDir, PathBuf)>,
}

impl Absent {
    async fn start(kind: BackendKind) -> Self {
        let mut backend = Backend::start(kind, &[])
            .await
            .option("reconnect", never_retry());
        let mut program = None;
        if kind == BackendKind::Stdio {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = folder.path().join("program");
            backend.entry["command"] = path.to_str().expect("UTF-8").into();
            program = Some((folder, path));
        } else {
            backend.fake().refuse(true).await.expect("the fake runs");
        }
        Self { backend, program }
    }

    /// Makes the server available. Mainstay does not notice this by itself.
    async fn arrive(&self) {
        match &self.program {
            Some((_, path)) => {
                std::os::unix::fs::symlink(fake_server::binary(), path).expect("a new link");
            }
            None => {
                let fake = self.backend.fake();
                fake.refuse(false).await.expect("the fake runs");
            }
        }
    }

    async fn until_tried(gateway: &Gateway) {
        let has_failed = |server: &Value| server["nextRetryMs"].as_u64() > Some(3_000_000);
        gateway.rest().until("x", "tried", has_failed).await;
    }
}

over_every_transport! {
    /// The catalog is empty, so Mainstay finds the server by the prefix of the tool's name.
    async fn the_only_server_is_asked_for_by_a_call_at_mcp(kind) {
        let absent_server = Absent::start(kind).await;
        let gateway = Gateway::with_servers(&[("x", &absent_server.backend)]).await;
        Absent::until_tried(&gateway).await;
        let client = gateway.client().await;
        let error = client.error("tools/call", json!({"name": "x__echo"})).await;
        assert_eq!(error["data"]["server"], "x", "{error}");
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("Server 'x' is reconnecting: "), "{error}");
        absent_server.arrive().await;
        client.assert_echo("x__echo").await;
    }

    async fn a_server_is_asked_for_by_a_call_over_rest(kind) {
        let absent_server = Absent::start(kind).await;
        let other_backend = Backend::http().await;
        let gateway = Gateway::with_servers(&[("x", &absent_server.backend), ("other", &other_backend)]).await;
        Absent::until_tried(&gateway).await;
        let call = json!({"tool": "x/echo", "arguments": {"text": "hello"}});
        let (status, answer) = gateway.rest().post("/api/mcp-tools/call", call.clone()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
        absent_server.arrive().await;
        let (status, answer) = gateway.rest().post("/api/mcp-tools/call", call).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }

    async fn a_server_is_asked_for_by_execute_tool(kind) {
        let absent_server = Absent::start(kind).await;
        let other_backend = Backend::http().await;
        let servers = [("x", &absent_server.backend), ("other", &other_backend)];
        let settings = json!({"profiles": {"meta": {"expose": "meta"}}});
        let gateway = Gateway::with_settings(&servers, settings).await;
        Absent::until_tried(&gateway).await;
        absent_server.arrive().await;
        let client = gateway.client_at("/mcp/meta").await;
        let call = json!({"server": "x", "name": "echo", "arguments": {"text": "hello"}});
        let result = client.call("execute_tool", call).await;
        assert_eq!(text(&result), "hello", "{result}");
    }
}

/// If a server refuses all clients, calls try it only once a minute. The error has the reason.
#[tokio::test]
async fn a_server_that_lets_nobody_in_is_not_asked_by_every_call() {
    let backend = Backend::start(BackendKind::Http, &["--status", "401"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let server = gateway.rest().until_status("x", "error").await;
    assert_eq!(server["nextAction"], "set_credentials", "{server}");
    assert_eq!(server["retried"], true, "{server}");
    assert_eq!(
        server["nextStep"], "set its credentials, then \"mainstay start x\"",
        "{server}"
    );
    let client = gateway.client().await;
    for _ in 0..3 {
        let error = client.error("tools/call", json!({"name": "x__echo"})).await;
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("unauthorized: "), "{error}");
    }
    let posts = backend.fake().received();
    let post_times = posts.iter().filter(|request| request.verb == "POST");
    let post_times: Vec<_> = post_times
        .filter_map(fake_server::Received::method)
        .collect();
    assert_eq!(post_times, ["server/discover", "initialize"]);
}

/// The reason is a text of Mainstay and not the output of the program.
#[cfg(unix)]
#[tokio::test]
async fn a_program_that_repeats_its_input_is_told_to_be_no_server() {
    let mut backend = Backend::start(BackendKind::Stdio, &[]).await;
    backend.entry["command"] = "cat".into();
    backend.entry["args"] = json!([]);
    for protocol in ["auto", "legacy", "modern"] {
        backend.entry["protocol"] = protocol.into();
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let is_told = |server: &Value| server["lastError"].is_string();
        let server = gateway.rest().until("x", "a reason", is_told).await;
        let reason = server["lastError"].as_str().expect("a reason");
        assert!(
            reason.contains("only repeats its input"),
            "{protocol}: {reason}"
        );
        assert!(!reason.contains("not supported"), "{protocol}: {reason}");
        gateway.stop().await;
    }
}
