//! Servers that were not there when Mainstay started. A call asks for an attempt, through every door, and
//! ends with the server's reason if that fails.

use std::path::PathBuf;

use http::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::{Backend, Kind},
    client::text,
    gateway::Gateway,
    rest_client::never,
};

/// A server that is away, and whose next attempt is an hour away.
struct Absent {
    backend: Backend,
    program: Option<(TempDir, PathBuf)>,
}

impl Absent {
    async fn start(kind: Kind) -> Self {
        let mut backend = Backend::start(kind, &[]).await.option("reconnect", never());
        let mut program = None;
        if kind == Kind::Stdio {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = folder.path().join("program");
            backend.entry["command"] = path.to_str().expect("UTF-8").into();
            program = Some((folder, path));
        } else {
            backend.fake().refuse(true).await.expect("the fake runs");
        }
        Self { backend, program }
    }

    /// It is there from now on, unannounced.
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
        let tried = |server: &Value| server["nextRetryMs"].as_u64() > Some(3_000_000);
        gateway.rest().until("x", "tried", tried).await;
    }
}

over_every_transport! {
    /// The catalog is empty: nothing but the name says which server is meant.
    async fn the_only_server_is_asked_for_by_a_call_at_mcp(kind) {
        let absent = Absent::start(kind).await;
        let gateway = Gateway::of(&[("x", &absent.backend)]).await;
        Absent::until_tried(&gateway).await;
        let client = gateway.client().await;
        let error = client.error("tools/call", json!({"name": "x__echo"})).await;
        assert_eq!(error["data"]["server"], "x", "{error}");
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("Server 'x' is reconnecting: "), "{error}");
        absent.arrive().await;
        client.hears("x__echo").await;
    }

    async fn a_server_is_asked_for_by_a_call_over_rest(kind) {
        let absent = Absent::start(kind).await;
        let other = Backend::http().await;
        let gateway = Gateway::of(&[("x", &absent.backend), ("other", &other)]).await;
        Absent::until_tried(&gateway).await;
        let call = json!({"tool": "x/echo", "arguments": {"text": "hello"}});
        let (status, answer) = gateway.rest().post("/api/mcp-tools/call", call.clone()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
        absent.arrive().await;
        let (status, answer) = gateway.rest().post("/api/mcp-tools/call", call).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }

    async fn a_server_is_asked_for_by_execute_tool(kind) {
        let absent = Absent::start(kind).await;
        let other = Backend::http().await;
        let servers = [("x", &absent.backend), ("other", &other)];
        let settings = json!({"profiles": {"meta": {"expose": "meta"}}});
        let gateway = Gateway::with(&servers, settings).await;
        Absent::until_tried(&gateway).await;
        absent.arrive().await;
        let client = gateway.client_at("/mcp/meta").await;
        let call = json!({"server": "x", "name": "echo", "arguments": {"text": "hello"}});
        let result = client.call("execute_tool", call).await;
        assert_eq!(text(&result), "hello", "{result}");
    }
}

/// A server that lets no client in is asked once a minute at most, and says why.
#[tokio::test]
async fn a_server_that_lets_nobody_in_is_not_asked_by_every_call() {
    let backend = Backend::start(Kind::Http, &["--status", "401"]).await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let shown = gateway.rest().until_status("x", "error").await;
    assert_eq!(shown["nextAction"], "set_credentials", "{shown}");
    assert_eq!(shown["retried"], true, "{shown}");
    assert_eq!(
        shown["nextStep"], "set its credentials, then \"mainstay start x\"",
        "{shown}"
    );
    let client = gateway.client().await;
    for _ in 0..3 {
        let error = client.error("tools/call", json!({"name": "x__echo"})).await;
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("unauthorized: "), "{error}");
    }
    let posts = backend.fake().received();
    let posts = posts.iter().filter(|it| it.verb == "POST");
    let posts: Vec<_> = posts.filter_map(fake_server::Received::method).collect();
    assert_eq!(posts, ["server/discover", "initialize"]);
}

/// What a program says that repeats its input is Mainstay's own, and is not told as the server's words.
#[cfg(unix)]
#[tokio::test]
async fn a_program_that_repeats_its_input_is_told_to_be_no_server() {
    let mut backend = Backend::start(Kind::Stdio, &[]).await;
    backend.entry["command"] = "cat".into();
    backend.entry["args"] = json!([]);
    for protocol in ["auto", "legacy", "modern"] {
        backend.entry["protocol"] = protocol.into();
        let gateway = Gateway::of(&[("x", &backend)]).await;
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
