//! Handshakes that servers refuse for `server/discover` or for the revision.

use mainstay_gateway::GatewayOptions;
use serde_json::json;

use crate::{
    backend::{Backend, Kind},
    gateway::{Gateway, config, found},
    rest_client::promptly,
};

async fn works(kind: Kind, bend: &str) -> Backend {
    let backend = Backend::start(kind, &[bend])
        .await
        .option("reconnect", promptly());
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.hears("x__echo").await;
    let own = gateway.client_at("/servers/x/mcp").await;
    own.hears("echo").await;
    backend
}

/// A server that does not bear `server/discover` is started once more without, and not asked it again.
#[tokio::test]
async fn a_server_that_discover_spoils_is_greeted_without() {
    for (kind, bend) in [
        (Kind::Stdio, "--bend=spoiled-initialize"),
        (Kind::Http, "--bend=spoiled-initialize"),
        (Kind::Stdio, "--bend=spoiled-answers"),
        (Kind::Stdio, "--bend=spoiled-lists"),
        (Kind::Http, "--bend=spoiled-lists"),
    ] {
        let backend = works(kind, bend).await;
        assert_eq!(backend.count("server/discover"), 1, "{kind:?} {bend}");
    }
}

/// Its log names the setting.
#[tokio::test]
async fn the_log_names_the_setting_that_spares_a_server_the_probe() {
    for bend in ["--bend=spoiled-initialize", "--bend=spoiled-lists"] {
        let state = tempfile::tempdir().expect("a temporary folder");
        let options = GatewayOptions {
            state: Some(state.path().to_owned()),
            ..GatewayOptions::default()
        };
        let backend = Backend::start(Kind::Stdio, &[bend]).await;
        let gateway = Gateway::set(&config(&[("x", &backend)], json!({})), options).await;
        gateway.client().await.hears("x__echo").await;
        let rest = gateway.rest();
        found("the line in the log", async || {
            let log = rest.get("/api/servers/x/logs").await.to_string();
            log.contains(r#"\"protocol\": \"legacy\""#).then_some(())
        })
        .await;
    }
}

/// HTTP 401 to `server/discover` alone is no verdict.
#[tokio::test]
async fn a_server_that_forbids_discover_is_greeted_by_initialize() {
    let backend = works(Kind::Http, "--bend=discover401").await;
    assert!(backend.count("initialize") > 0);
}

/// A server that refuses the revision is asked for one that it names, or for the next older one.
#[tokio::test]
async fn a_server_that_refuses_the_revision_is_asked_for_another() {
    for (kind, bend) in [
        (Kind::Stdio, "--bend=revision-supported"),
        (Kind::Http, "--bend=revision-supported"),
        (Kind::Sse, "--bend=revision-supported"),
        (Kind::Stdio, "--bend=revision-error"),
        (Kind::Http, "--bend=revision-error"),
        (Kind::Sse, "--bend=revision-error"),
        (Kind::Http, "--bend=revision-text"),
        (Kind::Stdio, "--bend=revision-exit"),
    ] {
        let backend = works(kind, bend).await;
        let greetings = backend.of_method("initialize");
        let asked = greetings
            .iter()
            .map(|it| it["params"]["protocolVersion"].clone());
        let asked: Vec<_> = asked.collect();
        assert_eq!(asked[0], "2025-11-25", "{kind:?} {bend}");
        assert!(
            asked.contains(&json!("2025-03-26")),
            "{kind:?} {bend}: {asked:?}"
        );
    }
}

/// A revision that the entry states is the only one.
#[tokio::test]
async fn a_stated_revision_is_not_left() {
    let backend = Backend::start(Kind::Http, &["--bend=revision-supported"]).await;
    let backend = backend.option("protocol", "2025-06-18");
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let shown = gateway
        .rest()
        .until("x", "refused", |server| {
            let reason = server["lastError"].as_str().unwrap_or_default();
            reason.contains("Unsupported protocol version")
        })
        .await;
    assert_ne!(shown["status"], "connected", "{shown}");
    let greetings = backend.of_method("initialize");
    let is_stated = |it: &serde_json::Value| it["params"]["protocolVersion"] == "2025-06-18";
    assert!(greetings.iter().all(is_stated), "{greetings:?}");
}

/// A first start that dies of something else makes no server of both eras legacy for ever.
#[cfg(unix)]
#[tokio::test]
async fn a_first_start_that_dies_of_something_else_hides_no_era() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flags = ["--revisions", "2025-11-25,2026-07-28"];
    let mut backend = Backend::start(Kind::Stdio, &flags).await;
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
    let backend = backend.option("reconnect", promptly());
    let gateway = Gateway::of(&[("x", &backend)]).await;
    gateway.client().await.hears("x__echo").await;
    gateway.rest().done("x", "restart").await;
    gateway.client().await.hears("x__echo").await;
    // Only a modern session has one.
    backend.until_count("subscriptions/listen", 1).await;
}

/// Whatever status the error has that names the revisions.
#[tokio::test]
async fn a_revision_is_refused_under_any_status() {
    for status in [409, 422, 500] {
        let error = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no","data":{"supported":["2024-11-05"]}}}"#;
        let backend = Backend::start(Kind::Http, &[])
            .await
            .option("protocol", "legacy");
        backend.fake().edit(|script| {
            (script.status, script.status_times) = (Some(status), Some(1));
            script.status_body = Some(error.to_owned());
        });
        let gateway = Gateway::of(&[("x", &backend)]).await;
        gateway.client().await.hears("x__echo").await;
        let greetings = backend.of_method("initialize");
        let asked: Vec<_> = greetings
            .iter()
            .map(|it| &it["params"]["protocolVersion"])
            .collect();
        assert_eq!(asked, ["2025-11-25", "2024-11-05"], "{status}");
    }
}
