//! Servers whose headers come from a command (`headersHelper`).

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, found},
    world::{TestConfig, entry_with},
};

const FIRST: &str = "first-ticket-of-the-tests";
const SECOND: &str = "second-ticket-of-the-tests";

/// Starts a server that accepts only this credential.
async fn guarded(kind: BackendKind, ticket: &str) -> Backend {
    let header = format!("authorization=Bearer {ticket}");
    Backend::start(kind, &["--require-header", &header]).await
}

/// Changes the credential that the server accepts.
fn take(backend: &Backend, ticket: &str) {
    let header = format!("authorization=Bearer {ticket}");
    let header = header.parse().expect("a header");
    backend
        .fake()
        .edit(|script| script.require_header = Some(header));
}

/// Sets the credential that the helper prints.
fn put(folder: &Path, ticket: &str) {
    let text = json!({"Authorization": format!("Bearer {ticket}")}).to_string();
    std::fs::write(folder.join("ticket"), text).expect("written");
}

/// The number of times that the helper has run.
fn runs(folder: &Path) -> usize {
    let text = std::fs::read_to_string(folder.join("runs")).unwrap_or_default();
    text.lines().count()
}

/// Starts a gateway. Its server `x` has a helper that prints a file.
async fn start(backend: &Backend, ticket: &str) -> (TestConfig, Gateway) {
    let world = TestConfig::new_json(&json!({"mcpServers": {}}));
    let folder = world.folder.path();
    put(folder, ticket);
    let place = folder.display();
    let command = format!("echo run >> '{place}/runs'; echo 'a note' >&2; cat '{place}/ticket'");
    // The helper's headers override those of the entry.
    let members = json!({"headersHelper": command, "headers": {"authorization": "Bearer old"}});
    world.write(&json!({"mcpServers": {"x": entry_with(backend, members)}}));
    let gateway = world.run().await;
    (world, gateway)
}

fn is_hidden(value: &Value) {
    for ticket in [FIRST, SECOND] {
        assert!(!value.to_string().contains(ticket), "{value}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_gets_the_headers_of_its_command() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = guarded(kind, FIRST).await;
        let (world, gateway) = start(&backend, FIRST).await;
        let (rest, client) = (gateway.rest(), gateway.client().await);
        client.assert_echo("x__echo").await;
        client.assert_echo("x__echo").await;
        assert_eq!(runs(world.folder.path()), 1, "{kind:?}");
        let received = backend.fake().received();
        let is_old = received.iter().any(|request| {
            let lines = request.headers.get_all("authorization");
            lines.iter().any(|value| value == "Bearer old")
        });
        assert!(!is_old, "the static header is replaced");
        let logs = rest.get("/api/servers/x/logs").await;
        assert!(logs.to_string().contains("a note"), "{logs}");
        // If the server accepts another credential, it gets the new one, and no call is lost.
        put(world.folder.path(), SECOND);
        take(&backend, SECOND);
        found("a call that works", async || {
            let result = client.call("x__echo", json!({"text": "hello"})).await;
            is_hidden(&result);
            (result["isError"] != true).then_some(())
        })
        .await;
        for path in [
            "/api/servers/x",
            "/api/servers/x/logs",
            "/api/events/recent",
            "/api/config",
        ] {
            is_hidden(&rest.get(path).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_fails_is_named_and_run_again() {
    let backend = guarded(BackendKind::Http, FIRST).await;
    let (world, gateway) = start(&backend, FIRST).await;
    let rest = gateway.rest();
    rest.until_status("x", "connected").await;
    std::fs::remove_file(world.folder.path().join("ticket")).expect("removed");
    // Retry, because the previous session may still use its source, which caches its headers.
    let server = found("the reason of the helper", async || {
        rest.operate("x", "restart").await;
        let server = rest.server("x").await;
        let reason = server["lastError"].as_str().unwrap_or_default();
        let is_named = reason.contains("headersHelper echo: it ended with code 1");
        is_named.then_some(server)
    })
    .await;
    assert_eq!(server["retried"], true, "{server}");
    put(world.folder.path(), FIRST);
    rest.until_status("x", "connected").await;
}
