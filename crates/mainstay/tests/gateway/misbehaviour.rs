//! Servers that send invalid messages. Clients get correct errors, and other servers still work.

use std::{
    io,
    sync::{Arc, Mutex},
};

use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, failure, value},
    gateway::{Gateway, soon, until},
};

async fn with_calm_server(trouble: &Backend) -> (Gateway, Backend, Http) {
    let calm_backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", trouble), ("calm", &calm_backend)]).await;
    let client = gateway.client().await;
    (gateway, calm_backend, client)
}

/// Lines on stdout that are not messages are skipped. The messages between them are read (E17).
#[tokio::test]
async fn noise_on_stdout_hides_nothing() {
    let noisy_backend = Backend::start(BackendKind::Stdio, &["--noise"]).await;
    let (gateway, _calm, client) = with_calm_server(&noisy_backend).await;
    let direct = gateway.client_at("/servers/x/mcp").await;
    for _ in 0..5 {
        client.assert_echo("x__echo").await;
        direct.assert_echo("echo").await;
    }
    let params =
        json!({"name": "x__progress", "arguments": {"steps": 20}, "_meta": {"progressToken": 1}});
    assert_eq!(
        client
            .exchange("tools/call", &params.to_string())
            .await
            .len(),
        21
    );
    client.assert_echo("calm__echo").await;
}

/// Very many nested arrays do not overflow the stack.
#[cfg(unix)]
#[tokio::test]
async fn a_batch_of_batches_without_end_ends_nothing() {
    let mut nested_backend = Backend::start(BackendKind::Stdio, &[]).await;
    let script = r#"for byte in '[' ']'; do head -c 200000 /dev/zero | tr '\0' "$byte"; done; echo; exec "$0""#;
    nested_backend.entry["command"] = json!("sh");
    nested_backend.entry["args"] = json!(["-c", script, fake_server::binary()]);
    let (_gateway, _calm, client) = with_calm_server(&nested_backend).await;
    client.assert_echo("x__echo").await;
    client.assert_echo("calm__echo").await;
}

#[tokio::test]
async fn lines_that_come_in_pieces_are_whole() {
    let backend = Backend::start(BackendKind::Stdio, &["--half-lines"]).await;
    let (_gateway, _calm, client) = with_calm_server(&backend).await;
    client.assert_echo("x__echo").await;
    let text = "é🦀".repeat(100_000);
    assert_eq!(
        client.call_text("x__echo", json!({"text": text})).await,
        text
    );
    client.assert_echo("calm__echo").await;
}

over_every_transport! {
    /// If a request is answered twice, the second answer is dropped (E16).
    async fn a_second_answer_is_dropped(kind) {
        let backend = Backend::start(kind, &[]).await;
        let (gateway, _calm, client) = with_calm_server(&backend).await;
        let direct = gateway.client_at("/servers/x/mcp").await;
        for _ in 0..3 {
            let params = json!({"name": "x__twice"}).to_string();
            let messages = client.exchange("tools/call", &params).await;
            assert_eq!(messages.len(), 1, "{messages:?}");
            assert_eq!(value(&messages[0])["result"]["content"][0]["text"], "first answer");
            assert_eq!(direct.call_text("twice", json!({})).await, "first answer");
            client.assert_echo("x__echo").await;
            client.assert_echo("calm__echo").await;
        }
    }

    /// An answer to no request is dropped, and the call continues (E16).
    async fn an_answer_to_no_request_is_dropped(kind) {
        let backend = Backend::start(kind, &[]).await;
        let (gateway, _calm, client) = with_calm_server(&backend).await;
        let direct = gateway.client_at("/servers/x/mcp").await;
        assert_eq!(client.call_text("x__wrong_id", json!({})).await, "right id");
        assert_eq!(direct.call_text("wrong_id", json!({})).await, "right id");
        client.assert_echo("x__echo").await;
        client.assert_echo("calm__echo").await;
    }

    /// A hanging call delays no other call, neither of its server nor of other servers (invariant
    /// 7, fastmcp#2019).
    async fn a_hanging_call_holds_nobody_up(kind) {
        let backend = Backend::start(kind, &[]).await.option("timeout_s", 2);
        let (_gateway, _calm, client) = with_calm_server(&backend).await;
        let (hang_result, ()) = tokio::join!(client.call("x__hang", json!({})), async {
            backend.until_called("hang").await;
            for _ in 0..20 {
                client.assert_echo("x__echo").await;
                client.assert_echo("calm__echo").await;
            }
        });
        assert_eq!(failure(&hang_result)["kind"], "call_timeout");
    }
}

/// A server that closes its stdin is restarted, and the unsent messages are sent again.
#[tokio::test]
async fn a_server_that_closes_its_stdin_is_replaced() {
    let backend = Backend::start(BackendKind::Stdio, &["--close-stdin-after", "1"]).await;
    let (_gateway, _calm, client) = with_calm_server(&backend).await;
    let first = client.call_text("x__pid", json!({})).await;
    let (second_text, ()) = tokio::join!(client.call_text("x__pid", json!({})), async {
        for _ in 0..5 {
            client.assert_echo("calm__echo").await;
        }
    });
    assert_ne!(first, second_text);
}

/// Questions and notifications outside of calls reach their client or are dropped (E19).
#[tokio::test]
async fn stray_messages_of_a_server_are_harmless() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        let (_gateway, _calm, client) = with_calm_server(&backend).await;
        until("the stream upstream", || backend.fake().streams() == 1).await;
        for message in [
            r#"{"jsonrpc":"2.0","id":"s1","method":"roots/list"}"#,
            r#"{"jsonrpc":"2.0","id":"s2","method":"vendor/ask","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":"s3","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/vendor","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"fake://text"}}"#,
            r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#,
            "no JSON at all",
        ] {
            backend.fake().publish(message);
        }
        let answer = |id: &str| {
            let answers = backend.received();
            answers
                .into_iter()
                .find(|answer| answer["id"] == id && answer["method"].is_null())
        };
        until("all answers", || {
            ["s1", "s2", "s3"].iter().all(|id| answer(id).is_some())
        })
        .await;
        for (id, code) in [
            ("s1", json!(-32601)),
            ("s2", json!(-32601)),
            ("s3", json!(null)),
        ] {
            let answer = answer(id).expect("an answer");
            assert_eq!(answer["error"]["code"], code, "{answer}");
        }
        client.assert_echo("x__echo").await;
        client.assert_echo("calm__echo").await;
    }
}

/// A client that does not read its stream does not delay other clients.
#[tokio::test]
async fn a_client_that_does_not_read_delays_nobody() {
    let backend = Backend::stdio().await;
    let (gateway, _calm, client) = with_calm_server(&backend).await;
    let slow_client = gateway.client().await;
    let params = json!({"name": "x__log", "arguments": {"n": 20_000}});
    let text = slow_client.request_text("tools/call", &params.to_string());
    let unread_response = slow_client.begin(text).await;
    client.assert_echo("x__echo").await;
    client.assert_echo("calm__echo").await;
    // Notifications may be missing. The result arrives last.
    let response = unread_response.whole().await;
    assert!(response.json()["result"].is_object());
}

/// While a server floods with log messages, other calls are answered. The result of the call arrives.
#[tokio::test]
async fn log_floods_are_bounded_and_the_result_arrives() {
    for kind in BackendKind::ALL {
        let backend = Backend::start(kind, &[]).await;
        let (_gateway, _calm, client) = with_calm_server(&backend).await;
        let (result, ()) = tokio::join!(client.call("x__log", json!({"n": 5000})), async {
            client.assert_echo("calm__echo").await;
        });
        assert_eq!(result["content"][0]["text"], "5000 lines logged");
        soon("an echo", client.assert_echo("x__echo")).await;
    }
}

/// A buffer that collects log lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Dropped messages are logged with the server's name (E16, E17, K7).
#[tokio::test]
async fn dropped_messages_are_logged() {
    let log = Log::default();
    let writer = log.clone();
    // The subscriber is global, so use a server name that no other test uses.
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .init();
    let flags = ["--noise", "--ignore-cancel"];
    let backend = Backend::start(BackendKind::Stdio, &flags).await;
    let backend = backend.option("timeout_s", 0.3);
    let gateway = Gateway::with_servers(&[("watched", &backend)]).await;
    let client = gateway.client().await;
    let late_result = client.call("watched__out_of_order", json!({})).await;
    assert_eq!(failure(&late_result)["kind"], "call_timeout");
    client.call_text("watched__out_of_order", json!({})).await;
    client.call("watched__wrong_id", json!({})).await;
    client.assert_echo("watched__echo").await;

    let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("UTF-8");
    let lines = log.lines().filter(|line| line.contains("server=watched"));
    let lines: Vec<_> = lines.collect();
    let lines_with = |text: &str| {
        let matching_lines = lines.iter().filter(|line| line.contains(text));
        matching_lines.copied().collect::<Vec<_>>()
    };
    let unknown_lines = lines_with("unknown id");
    // Only one line: a late answer is not a violation of the protocol and is not logged.
    assert_eq!(unknown_lines.len(), 1, "{lines:#?}");
    assert!(
        unknown_lines[0].contains("nobody-asked"),
        "{unknown_lines:#?}"
    );
    assert!(
        !lines_with("failed to parse JSON-RPC message").is_empty(),
        "{lines:#?}"
    );
}
