//! Event streams that end at once, are refused once, or lack the last line break.

use std::time::{Duration, Instant};

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, found, until},
};

/// The times of the GET requests that opened a stream.
fn get_times(backend: &Backend) -> Vec<Instant> {
    let received_requests = backend.fake().received();
    let gets = received_requests
        .into_iter()
        .filter(|received_requests| received_requests.verb == "GET");
    gets.map(|received_requests| received_requests.at).collect()
}

/// The pauses between requests grow even if the server sends `retry: 0`.
#[tokio::test]
async fn a_stream_that_ends_at_once_is_opened_with_growing_pauses() {
    let backend = Backend::start(BackendKind::Http, &["--bend=stream-ends"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    until("three streams", || get_times(&backend).len() == 3).await;
    let gets = get_times(&backend);
    assert!(gets[2] - gets[0] >= Duration::from_millis(2900), "{gets:?}");
    gateway.client().await.assert_echo("x__echo").await;
    let server = gateway.rest().server("x").await;
    assert_eq!(server["listening"]["open"], false, "{server}");
    let reason = server["listening"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("ended the stream"), "{server}");
}

/// If the first GET is refused, a later one opens the stream, and announcements arrive.
#[tokio::test]
async fn a_stream_that_is_refused_once_is_opened_later() {
    let backend = Backend::start(BackendKind::Http, &["--bend=stream-refused"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let rest = gateway.rest();
    let refused_server = found("the refusal", async || {
        let server = rest.server("x").await;
        let reason = server["listening"]["reason"].as_str()?.to_owned();
        Some(reason)
    })
    .await;
    assert!(refused_server.contains("HTTP 409"), "{refused_server}");
    until("the stream", || backend.fake().streams() == 1).await;
    rest.until("x", "listening", |server| {
        server["listening"]["open"] == true
    })
    .await;
    let listed_count = backend.count("tools/list");
    backend
        .fake()
        .publish(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    backend.until_count("tools/list", listed_count + 1).await;
}

/// A server without a stream gets no further GET. Its status says that there is no stream.
#[tokio::test]
async fn a_server_without_a_stream_is_shown_so() {
    let backend = Backend::start(BackendKind::Http, &["--no-get"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    gateway.client().await.assert_echo("x__echo").await;
    let server = gateway.rest().server("x").await;
    assert_eq!(server["listening"]["open"], false, "{server}");
    let reason = server["listening"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("HTTP 405"), "{server}");
    assert_eq!(get_times(&backend).len(), 1);
}

/// An event counts without its blank line, and a body without its last chunk.
#[tokio::test]
async fn answers_that_end_early_are_answers() {
    for flags in [
        ["--bend=no-blank-line", "--answer=sse"],
        ["--bend=early-end", "--answer=json"],
    ] {
        let backend = Backend::start(BackendKind::Http, &flags).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, direct) = (
            gateway.client().await,
            gateway.client_at("/servers/x/mcp").await,
        );
        for _ in 0..3 {
            client.assert_echo("x__echo").await;
            direct.assert_echo("echo").await;
        }
        assert_eq!(backend.runs("echo"), 6, "{flags:?}");
    }
}

/// The last line of a process counts without its line break.
#[cfg(unix)]
#[tokio::test]
async fn the_last_line_of_a_process_is_an_answer() {
    let mut backend = Backend::start(BackendKind::Stdio, &[]).await;
    let script = r#"
        read -r line; printf '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}\n'
        read -r line
        read -r line; printf '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"last","inputSchema":{"type":"object"}}]}}\n'
        read -r line; printf '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"bye"}]}}'"#;
    backend.entry["command"] = serde_json::json!("sh");
    backend.entry["args"] = serde_json::json!(["-c", script]);
    let backend = backend.option("protocol", "legacy");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    assert_eq!(
        client.call_text("x__last", serde_json::json!({})).await,
        "bye"
    );
}
