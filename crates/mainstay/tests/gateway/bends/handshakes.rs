//! Servers that fail at a handshake because of `server/discover` or because of the revision.

use mainstay_gateway::GatewayOptions;
use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, config, found},
    rest_client::prompt_retry,
};

async fn assert_works(kind: BackendKind, bend: &str) -> Backend {
    let backend = Backend::start(kind, &[bend])
        .await
        .option("reconnect", prompt_retry());
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    let direct = gateway.client_at("/servers/x/mcp").await;
    direct.assert_echo("echo").await;
    backend
}

/// A server that breaks after `server/discover` is restarted and gets no such request.
#[tokio::test]
async fn a_server_that_discover_spoils_is_greeted_without() {
    for (kind, bend) in [
        (BackendKind::Stdio, "--bend=spoiled-initialize"),
        (BackendKind::Http, "--bend=spoiled-initialize"),
        (BackendKind::Stdio, "--bend=spoiled-answers"),
        (BackendKind::Stdio, "--bend=spoiled-lists"),
        (BackendKind::Http, "--bend=spoiled-lists"),
    ] {
        let backend = assert_works(kind, bend).await;
        assert_eq!(backend.count("server/discover"), 1, "{kind:?} {bend}");
    }
}

/// The server's log names the setting that prevents the request.
#[tokio::test]
async fn the_log_names_the_setting_that_spares_a_server_the_probe() {
    for bend in ["--bend=spoiled-initialize", "--bend=spoiled-lists"] {
        let state = tempfile::tempdir().expect("a temporary folder");
        let options = GatewayOptions {
            state: Some(state.path().to_owned()),
            ..GatewayOptions::default()
        };
        let backend = Backend::start(BackendKind::Stdio, &[bend]).await;
        let gateway = Gateway::with_options(&config(&[("x", &backend)], json!({})), options).await;
        gateway.client().await.assert_echo("x__echo").await;
        let rest = gateway.rest();
        found("the line in the log", async || {
            let log = rest.get("/api/servers/x/logs").await.to_string();
            log.contains(r#"\"protocol\": \"legacy\""#).then_some(())
        })
        .await;
    }
}

/// If a server answers `server/discover` with 401, `initialize` still works. The server does not
/// count as unauthorized.
#[tokio::test]
async fn a_server_that_forbids_discover_is_greeted_by_initialize() {
    let backend = assert_works(BackendKind::Http, "--bend=discover401").await;
    assert!(backend.count("initialize") > 0);
}

/// If a server refuses a revision, the next handshake requests a revision from the server's list.
/// Without a list, it requests the next older revision.
#[tokio::test]
async fn a_server_that_refuses_the_revision_is_asked_for_another() {
    for (kind, bend) in [
        (BackendKind::Stdio, "--bend=revision-supported"),
        (BackendKind::Http, "--bend=revision-supported"),
        (BackendKind::Sse, "--bend=revision-supported"),
        (BackendKind::Stdio, "--bend=revision-error"),
        (BackendKind::Http, "--bend=revision-error"),
        (BackendKind::Sse, "--bend=revision-error"),
        (BackendKind::Http, "--bend=revision-text"),
        (BackendKind::Stdio, "--bend=revision-exit"),
    ] {
        let backend = assert_works(kind, bend).await;
        let greetings = backend.of_method("initialize");
        let revisions = greetings
            .iter()
            .map(|initialize| initialize["params"]["protocolVersion"].clone());
        let revisions: Vec<_> = revisions.collect();
        assert_eq!(revisions[0], "2025-11-25", "{kind:?} {bend}");
        assert!(
            revisions.contains(&json!("2025-03-26")),
            "{kind:?} {bend}: {revisions:?}"
        );
    }
}

/// If the entry sets a revision, Mainstay requests no other revision.
#[tokio::test]
async fn a_stated_revision_is_not_left() {
    let backend = Backend::start(BackendKind::Http, &["--bend=revision-supported"]).await;
    let backend = backend.option("protocol", "2025-06-18");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let server = gateway
        .rest()
        .until("x", "refused", |server| {
            let reason = server["lastError"].as_str().unwrap_or_default();
            reason.contains("Unsupported protocol version")
        })
        .await;
    assert_ne!(server["status"], "connected", "{server}");
    let greetings = backend.of_method("initialize");
    let is_stated =
        |message: &serde_json::Value| message["params"]["protocolVersion"] == "2025-06-18";
    assert!(greetings.iter().all(is_stated), "{greetings:?}");
}

/// If the first process dies for an unrelated reason, the server does not count as legacy.
#[cfg(unix)]
#[tokio::test]
async fn a_first_start_that_dies_of_something_else_hides_no_era() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flags = ["--revisions", "2025-11-25,2026-07-28"];
    let mut backend = Backend::start(BackendKind::Stdio, &flags).await;
    let script = r#"[ -e "$0" ] || { touch "$0"; echo "no network" >&2; exit 1; }; exec "$@""#;
    let mut args = vec![
        json!("-c"),
        json!(script),
        json!(folder.path().join("network")),
    ];
    args.push(backend.entry["command"].take());
    args.extend(backend.entry["args"].as_array().expect("a list").clone());
    backend.entry["command"] = json!("sh");
    backend.entry["args"] = json!(args);
    let backend = backend.option("reconnect", prompt_retry());
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    gateway.client().await.assert_echo("x__echo").await;
    gateway.rest().done("x", "restart").await;
    gateway.client().await.assert_echo("x__echo").await;
    // Only a modern session sends this request.
    backend.until_count("subscriptions/listen", 1).await;
}

/// The error that lists the supported revisions may have any HTTP status.
#[tokio::test]
async fn a_revision_is_refused_under_any_status() {
    for status in [409, 422, 500] {
        let error = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no","data":{"supported":["2024-11-05"]}}}"#;
        let backend = Backend::start(BackendKind::Http, &[])
            .await
            .option("protocol", "legacy");
        backend.fake().edit(|script| {
            (script.status, script.status_times) = (Some(status), Some(1));
            script.status_body = Some(error.to_owned());
        });
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        gateway.client().await.assert_echo("x__echo").await;
        let greetings = backend.of_method("initialize");
        let revisions: Vec<_> = greetings
            .iter()
            .map(|initialize| &initialize["params"]["protocolVersion"])
            .collect();
        assert_eq!(revisions, ["2025-11-25", "2024-11-05"], "{status}");
    }
}
