//! Files with secrets are replaced while Mainstay runs.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, found},
    world::{TestConfig, entry_with},
};

const FIRST: &str = "first-secret-of-the-tests";
const SECOND: &str = "second-secret-of-the-tests";

/// Starts a server that accepts only this credential.
async fn start_guarded(kind: BackendKind, secret: &str) -> Backend {
    let header = format!("authorization=Bearer {secret}");
    Backend::start(kind, &["--require-header", &header]).await
}

/// Changes the credential that the server accepts.
fn accept_secret(backend: &Backend, secret: &str) {
    let header = format!("authorization=Bearer {secret}");
    let header = header.parse().expect("a header");
    backend
        .fake()
        .edit(|script| script.require_header = Some(header));
}

fn rotate(world: &TestConfig, secret: &str) {
    // Rename the file, as programs do that rotate secrets.
    let new_path = world.folder.path().join("new");
    std::fs::write(&new_path, format!("{secret}\n")).expect("written");
    std::fs::rename(new_path, world.folder.path().join("token")).expect("renamed");
}

/// Starts a gateway whose server `x` gets its credential from a file.
async fn start(backend: &Backend, secret: &str, members: Value) -> (TestConfig, Gateway) {
    let mut entry = entry_with(backend, members);
    entry["headers"] = json!({"Authorization": "Bearer ${file:token}"});
    let world = TestConfig::new_json(&json!({"mcpServers": {"x": entry}}));
    rotate(&world, secret);
    let gateway = world.run().await;
    (world, gateway)
}

fn is_hidden(value: &Value) {
    for secret in [FIRST, SECOND] {
        assert!(!value.to_string().contains(secret), "{value}");
    }
}

/// If a server refuses the credential during a session, Mainstay reads the file again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_rotated_in_a_session_is_read_again() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = start_guarded(kind, FIRST).await;
        let (world, gateway) = start(&backend, FIRST, json!({})).await;
        let (rest, client) = (gateway.rest(), gateway.client().await);
        client.assert_echo("x__echo").await;
        accept_secret(&backend, SECOND);
        rotate(&world, SECOND);
        // Calls and probes are refused until there is a new session.
        found("a call that works", async || {
            let result = client.call("x__echo", json!({"text": "hello"})).await;
            is_hidden(&result);
            (result["isError"] != true).then_some(())
        })
        .await;
        let server = rest.server("x").await;
        assert_eq!(server["connected"], true, "{kind:?}: {server}");
        is_hidden(&server);
        is_hidden(&rest.get("/api/events/recent").await);
    }
}

/// After a 401, a manual start reads the file again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_reads_a_secret_again() {
    for operation in ["start", "restart", "reconnect"] {
        let backend = start_guarded(BackendKind::Http, SECOND).await;
        let (world, gateway) = start(&backend, FIRST, json!({})).await;
        let rest = gateway.rest();
        let is_refused = |server: &Value| {
            let reason = server["lastError"].as_str().unwrap_or_default();
            reason.starts_with("unauthorized")
        };
        let server = rest.until("x", "refused", is_refused).await;
        is_hidden(&server);
        rotate(&world, SECOND);
        rest.done("x", operation).await;
        gateway.client().await.assert_echo("x__echo").await;
        is_hidden(&rest.server("x").await);
        // The reload finds no change in the configuration.
        let previous_count = backend.count("initialize");
        let (_, reload_answer) = rest.post("/api/reload", json!({})).await;
        assert_eq!(reload_answer["applied"], true, "{reload_answer}");
        gateway.client().await.assert_echo("x__echo").await;
        assert_eq!(backend.count("initialize"), previous_count, "{operation}");
    }
}

/// If the file cannot be read, the attempt fails, and the reason has the file's path. The next
/// attempt reads the file again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_that_fails_is_named_and_tried_again() {
    let backend = start_guarded(BackendKind::Http, FIRST).await;
    let (world, gateway) = start(&backend, FIRST, json!({"connectTimeoutMs": 2000})).await;
    let rest = gateway.rest();
    rest.until_status("x", "connected").await;
    std::fs::remove_file(world.folder.path().join("token")).expect("removed");
    rest.operate("x", "restart").await;
    let names_reference = |server: &Value| {
        let reason = server["lastError"].as_str().unwrap_or_default();
        ["headers.Authorization", "token", "there is no such file"]
            .iter()
            .all(|part| reason.contains(part))
    };
    let server = rest.until("x", "named", names_reference).await;
    assert_eq!(server["retried"], true, "{server}");
    rotate(&world, FIRST);
    rest.until_status("x", "connected").await;
}

/// A server whose file is missing starts when the file has been created.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_comes_later_is_read_at_the_start() {
    let backend = start_guarded(BackendKind::Http, FIRST).await;
    let mut entry = backend.entry.clone();
    entry["headers"] = json!({"Authorization": "Bearer ${file:token}"});
    let world = TestConfig::new_json(&json!({"mcpServers": {"x": entry}}));
    let gateway = world.run().await;
    let rest = gateway.rest();
    let names_reference = |server: &Value| {
        let reason = server["lastError"].as_str().unwrap_or_default();
        reason.contains("there is no such file")
    };
    rest.until("x", "named", names_reference).await;
    rotate(&world, FIRST);
    rest.done("x", "start").await;
    gateway.client().await.assert_echo("x__echo").await;
}

/// Each start of a process reads the variables of `envFile` again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_variables_is_read_at_each_start() {
    let backend = Backend::stdio().await;
    let entry = entry_with(&backend, json!({"envFile": "variables"}));
    let world = TestConfig::new_json(&json!({"mcpServers": {"x": entry}}));
    let write = |folder: &Path, value: &str| {
        let text = format!("TOKEN_OF_TESTS={value}\n");
        std::fs::write(folder.join("variables"), text).expect("written");
    };
    write(world.folder.path(), FIRST);
    let gateway = world.run().await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    let env = async || {
        client
            .call_text("x__env", json!({"name": "TOKEN_OF_TESTS"}))
            .await
    };
    assert_eq!(env().await, FIRST);
    write(world.folder.path(), SECOND);
    rest.done("x", "restart").await;
    assert_eq!(env().await, SECOND);
    is_hidden(&rest.server("x").await);
}
