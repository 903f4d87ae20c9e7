//! `GET /api/servers/NAME/history`: status changes across restarts of Mainstay.

use std::sync::Arc;

use http::StatusCode;
use mainstay_core::config;
use mainstay_gateway::GatewayOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, config as configured, found},
    rest_client::prompt_retry,
};

/// Starts a gateway with a journal in this folder.
async fn start_recorded(servers: &[(&str, &Backend)], folder: &TempDir) -> Gateway {
    let journal = mainstay_journal_store::open(folder.path(), &config::Journal::default());
    let options = GatewayOptions {
        journal: Some(Arc::new(journal.expect("a journal"))),
        ..GatewayOptions::default()
    };
    Gateway::with_options(&configured(servers, json!({})), options).await
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// The status changes of a server, the oldest first.
async fn transitions(gateway: &Gateway, server: &str) -> Vec<Value> {
    let path = format!("/api/servers/{server}/history");
    let history = gateway.rest().get(&path).await;
    let servers = history["servers"].as_array().expect("a list");
    match &servers[..] {
        [] => Vec::new(),
        [one] => one["transitions"].as_array().expect("a list").clone(),
        more => panic!("one server at most: {more:?}"),
    }
}

fn statuses(transitions: &[Value]) -> Vec<&str> {
    let statuses = transitions.iter();
    statuses
        .map(|mark| mark["status"].as_str().expect("a word"))
        .collect()
}

/// Waits until the history ends with these statuses. Returns the whole history.
async fn until_last(gateway: &Gateway, server: &str, expected_end: &[&str]) -> Vec<Value> {
    found(&format!("the last words {expected_end:?}"), async || {
        let all_marks = transitions(gateway, server).await;
        statuses(&all_marks)
            .ends_with(expected_end)
            .then_some(all_marks)
    })
    .await
}

fn events(history: &Value) -> Vec<&str> {
    let marks = history["daemon"].as_array().expect("a list").iter();
    marks
        .map(|entry| entry["event"].as_str().expect("a word"))
        .collect()
}

/// A crash is recorded with the exit code and the last line of stderr. A stop by the operator has
/// no reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_and_a_stop_are_on_record() {
    let backend = Backend::start(BackendKind::Stdio, &["--stderr", "the last words"]).await;
    let backend = backend.option("reconnect", prompt_retry());
    let folder = folder();
    let gateway = start_recorded(&[("x", &backend)], &folder).await;
    let client = gateway.client().await;
    client.call("x__crash", json!({})).await;
    let all_marks = until_last(
        &gateway,
        "x",
        &["connecting", "connected", "reconnecting", "connected"],
    )
    .await;
    let crash = &all_marks[2];
    assert_eq!(crash["exitCode"], 3, "{crash}");
    assert_eq!(crash["stderr"], json!(["the last words"]), "{crash}");
    let reason = crash["reason"].as_str().expect("a reason");
    assert_eq!(reason, "process exited unexpectedly (code 3)");
    for (index, absent_key) in [(1, "reason"), (3, "reason"), (3, "exitCode"), (3, "stderr")] {
        assert!(
            all_marks[index].get(absent_key).is_none(),
            "{}",
            all_marks[index]
        );
    }
    let times: Vec<_> = all_marks.iter().map(|entry| entry["at"].as_str()).collect();
    assert!(times.is_sorted(), "{times:?}");

    gateway.rest().done("x", "stop").await;
    let all_marks = until_last(&gateway, "x", &["stopping", "disconnected"]).await;
    assert!(
        all_marks[all_marks.len() - 1].get("reason").is_none(),
        "{all_marks:?}"
    );
    gateway.stop().await;
}

/// After a restart, Mainstay still has the earlier history, and shows the time when it did not run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_outlives_a_restart() {
    let (first_backend, second_backend) = (Backend::stdio().await, Backend::http().await);
    let folder = folder();
    let gateway =
        start_recorded(&[("x", &first_backend), ("gone", &second_backend)], &folder).await;
    until_last(&gateway, "x", &["connected"]).await;
    until_last(&gateway, "gone", &["connected"]).await;
    gateway.stop().await;

    let gateway = start_recorded(&[("x", &first_backend)], &folder).await;
    let all_marks = until_last(&gateway, "x", &["connecting", "connected"]).await;
    // A stop of Mainstay adds one entry about the daemon, and none for each server.
    assert_eq!(
        statuses(&all_marks),
        ["connecting", "connected", "connecting", "connected"]
    );
    let rest = gateway.rest();
    let history = rest.get("/api/history").await;
    assert_eq!(events(&history), ["started", "stopped", "started"]);
    let servers = history["servers"].as_array().expect("a list").iter();
    let names: Vec<_> = servers.map(|server| server["server"].as_str()).collect();
    assert_eq!(names, [Some("gone"), Some("x")]);
    assert_eq!(history["truncated"], false);

    // Query only the history of the current run.
    let start_mark = history["daemon"][2]["at"].as_str().expect("a time");
    let current_response = rest.get(&format!("/api/history?since={start_mark}")).await;
    let servers = current_response["servers"].as_array().expect("a list");
    assert_eq!(servers.len(), 1, "{current_response}");
    assert_eq!(servers[0]["server"], "x");

    // If entries are left out, the answer says so in `truncated`.
    let few_response = rest.get("/api/servers/x/history?limit=1").await;
    assert_eq!(few_response["truncated"], true, "{few_response}");
    assert_eq!(
        few_response["servers"][0]["transitions"][0]["status"],
        "connected"
    );
    gateway.stop().await;
}

/// A removed server keeps its history until the retention limit. A server that never existed has no
/// history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_server_has_a_history() {
    let backend = Backend::stdio().await;
    let folder = folder();
    let gateway = start_recorded(&[], &folder).await;
    let rest = gateway.rest();
    let mut entry = backend.entry.clone();
    entry["name"] = "x".into();
    let (status, answer) = rest.post("/api/servers", entry).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let (status, answer) = rest.delete("/api/servers/x").await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let all_marks = until_last(&gateway, "x", &["removed"]).await;
    assert_eq!(statuses(&all_marks)[..2], ["connecting", "connected"]);
    let (status, answer) = rest.try_get("/api/servers/never/history").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(answer["error"], "server_not_found");
    let (status, answer) = rest.try_get("/api/history?since=yesterday").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(answer["error"], "invalid_request");
    gateway.stop().await;
}

/// `unauthorized` is a separate member, because a program should not parse the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_says_which_server_lets_nobody_in() {
    let folder = folder();
    let closed_backend = Backend::start(BackendKind::Http, &["--status", "401"]).await;
    let broken_backend = Backend::start(BackendKind::Http, &["--status", "500"]).await;
    let gateway = start_recorded(
        &[("closed", &closed_backend), ("broken", &broken_backend)],
        &folder,
    )
    .await;
    for server in ["closed", "broken"] {
        let last_mark = found("a reason", async || {
            let last_mark = transitions(&gateway, server).await.pop()?;
            last_mark.get("reason").is_some().then_some(last_mark)
        })
        .await;
        let is_unauthorized = last_mark.get("unauthorized") == Some(&json!(true));
        assert_eq!(is_unauthorized, server == "closed", "{last_mark}");
    }
    gateway.stop().await;
}

/// Without a journal, the error gives the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_journal_there_is_no_history() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for path in ["/api/history", "/api/servers/x/history"] {
        let (status, answer) = gateway.rest().try_get(path).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer["error"], "journal_disabled", "{path}");
    }
    gateway.stop().await;
}
