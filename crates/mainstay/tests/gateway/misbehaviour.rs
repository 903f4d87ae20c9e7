//! What servers send that they should not: their clients get the
//! truth, and other servers' calls go on.

use std::{
    io,
    sync::{Arc, Mutex},
};

use serde_json::json;

use crate::{
    backend::{Backend, Kind},
    client::{Http, failure, value},
    gateway::{Gateway, soon, until},
};

async fn beside(trouble: &Backend) -> (Gateway, Backend, Http) {
    let calm = Backend::http().await;
    let gateway = Gateway::of(&[("x", trouble), ("calm", &calm)]).await;
    let client = gateway.client().await;
    (gateway, calm, client)
}

/// E17: garbage on stdout is skipped, every message found.
#[tokio::test]
async fn noise_on_stdout_hides_nothing() {
    let noisy = Backend::start(Kind::Stdio, &["--noise"]).await;
    let (gateway, _calm, client) = beside(&noisy).await;
    let own = gateway.client_at("/servers/x/mcp").await;
    for _ in 0..5 {
        client.hears("x__echo").await;
        own.hears("echo").await;
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
    client.hears("calm__echo").await;
}

/// Arrays in arrays cost no more stack than one.
#[cfg(unix)]
#[tokio::test]
async fn a_batch_of_batches_without_end_ends_nothing() {
    let mut nested = Backend::start(Kind::Stdio, &[]).await;
    let script = r#"for byte in '[' ']'; do head -c 200000 /dev/zero | tr '\0' "$byte"; done; echo; exec "$0""#;
    nested.entry["command"] = json!("sh");
    nested.entry["args"] = json!(["-c", script, fake_server::binary()]);
    let (_gateway, _calm, client) = beside(&nested).await;
    client.hears("x__echo").await;
    client.hears("calm__echo").await;
}

#[tokio::test]
async fn lines_that_come_in_pieces_are_whole() {
    let backend = Backend::start(Kind::Stdio, &["--half-lines"]).await;
    let (_gateway, _calm, client) = beside(&backend).await;
    client.hears("x__echo").await;
    let text = "é🦀".repeat(100_000);
    assert_eq!(client.say("x__echo", json!({"text": text})).await, text);
    client.hears("calm__echo").await;
}

over_every_transport! {
    /// E16: the first answer counts, the second is dropped.
    async fn a_second_answer_is_dropped(kind) {
        let backend = Backend::start(kind, &[]).await;
        let (gateway, _calm, client) = beside(&backend).await;
        let own = gateway.client_at("/servers/x/mcp").await;
        for _ in 0..3 {
            let params = json!({"name": "x__twice"}).to_string();
            let said = client.exchange("tools/call", &params).await;
            assert_eq!(said.len(), 1, "{said:?}");
            assert_eq!(value(&said[0])["result"]["content"][0]["text"], "first answer");
            assert_eq!(own.say("twice", json!({})).await, "first answer");
            client.hears("x__echo").await;
            client.hears("calm__echo").await;
        }
    }

    /// E16: an answer to no request is dropped, and does not end the call.
    async fn an_answer_to_no_request_is_dropped(kind) {
        let backend = Backend::start(kind, &[]).await;
        let (gateway, _calm, client) = beside(&backend).await;
        let own = gateway.client_at("/servers/x/mcp").await;
        assert_eq!(client.say("x__wrong_id", json!({})).await, "right id");
        assert_eq!(own.say("wrong_id", json!({})).await, "right id");
        client.hears("x__echo").await;
        client.hears("calm__echo").await;
    }

    /// Invariant 7: a call that hangs holds up no other, neither of its server nor of another
    /// (fastmcp#2019: a remote that hangs makes local tools hang).
    async fn a_hanging_call_holds_nobody_up(kind) {
        let backend = Backend::start(kind, &[]).await.option("timeout_s", 2);
        let (_gateway, _calm, client) = beside(&backend).await;
        let (hanging, ()) = tokio::join!(client.call("x__hang", json!({})), async {
            backend.until_called("hang").await;
            for _ in 0..20 {
                client.hears("x__echo").await;
                client.hears("calm__echo").await;
            }
        });
        assert_eq!(failure(&hanging)["kind"], "call_timeout");
    }
}

/// A server that stops reading is ended and started anew; what it cannot have read is sent again.
#[tokio::test]
async fn a_server_that_closes_its_stdin_is_replaced() {
    let backend = Backend::start(Kind::Stdio, &["--close-stdin-after", "1"]).await;
    let (_gateway, _calm, client) = beside(&backend).await;
    let first = client.say("x__pid", json!({})).await;
    let (second, ()) = tokio::join!(client.say("x__pid", json!({})), async {
        for _ in 0..5 {
            client.hears("calm__echo").await;
        }
    });
    assert_ne!(first, second);
}

/// E19: what a server asks or tells outside of calls reaches its addressee, or no client.
#[tokio::test]
async fn stray_messages_of_a_server_are_harmless() {
    for kind in [Kind::Http, Kind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        let (_gateway, _calm, client) = beside(&backend).await;
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
                .find(|it| it["id"] == id && it["method"].is_null())
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
        client.hears("x__echo").await;
        client.hears("calm__echo").await;
    }
}

/// A client that does not read its stream costs itself, not the others.
#[tokio::test]
async fn a_client_that_does_not_read_delays_nobody() {
    let backend = Backend::stdio().await;
    let (gateway, _calm, client) = beside(&backend).await;
    let slow = gateway.client().await;
    let params = json!({"name": "x__log", "arguments": {"n": 20_000}});
    let text = slow.request_text("tools/call", &params.to_string());
    let unread = slow.begin(text).await;
    client.hears("x__echo").await;
    client.hears("calm__echo").await;
    // Whatever was dropped, the result comes, and comes last.
    let said = unread.whole().await;
    assert!(said.json()["result"].is_object());
}

/// The pipe of a server that floods stdout with answers to no request is read all the same.
#[tokio::test]
async fn log_floods_are_bounded_and_the_result_arrives() {
    for kind in Kind::ALL {
        let backend = Backend::start(kind, &[]).await;
        let (_gateway, _calm, client) = beside(&backend).await;
        let (result, ()) = tokio::join!(client.call("x__log", json!({"n": 5000})), async {
            client.hears("calm__echo").await;
        });
        assert_eq!(result["content"][0]["text"], "5000 lines logged");
        soon("an echo", client.hears("x__echo")).await;
    }
}

/// A log that a test can read.
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

/// E16, E17, K7: what is dropped is said in the log, with the server's name.
#[tokio::test]
async fn what_is_dropped_is_logged() {
    let log = Log::default();
    let writer = log.clone();
    // For all tests of this process: those that share it have no server of this name.
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .init();
    let flags = ["--noise", "--ignore-cancel"];
    let backend = Backend::start(Kind::Stdio, &flags).await;
    let backend = backend.option("timeout_s", 0.3);
    let gateway = Gateway::of(&[("watched", &backend)]).await;
    let client = gateway.client().await;
    let late = client.call("watched__out_of_order", json!({})).await;
    assert_eq!(failure(&late)["kind"], "call_timeout");
    client.say("watched__out_of_order", json!({})).await;
    client.call("watched__wrong_id", json!({})).await;
    client.hears("watched__echo").await;

    let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("UTF-8");
    let lines = log.lines().filter(|line| line.contains("server=watched"));
    let lines: Vec<_> = lines.collect();
    let saying = |text: &str| {
        let lines = lines.iter().filter(|line| line.contains(text));
        lines.copied().collect::<Vec<_>>()
    };
    let unknown = saying("unknown id");
    // An answer that is only late is no misbehaviour.
    assert_eq!(unknown.len(), 1, "{lines:#?}");
    assert!(unknown[0].contains("nobody-asked"), "{unknown:#?}");
    assert!(
        !saying("failed to parse JSON-RPC message").is_empty(),
        "{lines:#?}"
    );
}
