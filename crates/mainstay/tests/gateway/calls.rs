//! A failed call ends in time, reports the true reason, and affects no other call (K2, K7, K9, K10,
//! K16, invariant 6).

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use mainstay_core::failure::MAY_HAVE_RUN;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, failure, raw},
    gateway::{Gateway, until},
    rogue::{self, EndlessProgress, RogueInput, RogueReply},
};

/// The time limit of a failure that should be immediate. The timeout of a call is 30 s.
const IMMEDIATE_LIMIT: Duration = Duration::from_secs(10);

const ENDPOINTS: [(&str, &str); 2] = [("/mcp", "x__"), ("/servers/x/mcp", "")];

/// If a call kills its server, the error contains the exit status and the last line of stderr.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_kills_its_server_says_how() {
    let backend = Backend::start(
        BackendKind::Stdio,
        &["--stderr", "fatal: database is locked"],
    )
    .await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let result = client.call("x__crash", json!({})).await;
    let failure = failure(&result);
    assert_eq!(failure["kind"], "outcome_unknown", "{failure}");
    let text = crate::client::text(&result);
    let expected_error = "Server 'x' was lost during the call: process exited unexpectedly (code 3): fatal: database is locked. ";
    assert!(text.contains(expected_error), "{text}");
    gateway.stop().await;
}

over_every_transport! {
    /// A call ends when the timeout of its server has passed. The error names the server, and the
    /// server gets a cancellation (K6, K7).
    async fn a_call_has_a_time_limit(kind) {
        for (path, prefix) in ENDPOINTS {
            let backend = Backend::start(kind, &[]).await.option("timeout_s", 0.3);
            let calm_backend = Backend::http().await;
            let gateway = Gateway::with_servers(&[("x", &backend), ("calm", &calm_backend)]).await;
            let client = gateway.client_at(path).await;
            let result = client.call(&format!("{prefix}hang"), json!({})).await;
            assert_eq!(failure(&result), &json!({"kind": "call_timeout", "server": "x", "note": MAY_HAVE_RUN}));
            let text = crate::client::value(&crate::client::text(&result));
            assert_eq!(text["error"], "timeout after 300ms", "{text}");
            let id = backend.until_called("hang").await;
            backend.until_cancelled(&id).await;
            client.assert_echo(&format!("{prefix}echo")).await;
            gateway.client().await.assert_echo("calm__echo").await;
        }
    }

    /// Progress extends the timeout up to the hard limit (K16; metamcp#124: a limit of 60 s in
    /// spite of progress).
    async fn progress_extends_the_time_limit_up_to_the_hard_one(kind) {
        let backend = Backend::start(kind, &[]).await.option("timeout_s", 1);
        let backend = backend.option("maxTimeoutMs", 3000);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let call = async |steps: u64| {
            let params = json!({
                "name": "x__progress",
                "arguments": {"steps": steps, "intervalMs": 150},
                "_meta": {"progressToken": 1},
            });
            client.result("tools/call", params).await
        };
        assert_eq!(call(10).await["content"][0]["text"], "10 steps done");
        assert_eq!(failure(&call(1000).await)["kind"], "call_timeout");
    }

    /// A late answer is dropped. It does not become the answer of the next call (K7).
    async fn a_late_answer_is_dropped(kind) {
        let backend = Backend::start(kind, &["--ignore-cancel"]).await.option("timeout_s", 0.3);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let late_result = client.call("x__out_of_order", json!({})).await;
        assert_eq!(failure(&late_result)["kind"], "call_timeout");
        // This call makes the server answer the first call, after that call has timed out.
        assert_eq!(client.call_text("x__out_of_order", json!({})).await, "called second");
        client.assert_echo("x__echo").await;
        let mut stream = client.listen().await;
        client.call("x__change_tools", json!({})).await;
        assert_eq!(stream.message().await["method"], "notifications/tools/list_changed");
    }

    /// After a crash, the client gets at once the error that the call may have run (K9, K10,
    /// invariant 6).
    async fn a_crash_during_a_call_is_an_unknown_outcome(kind) {
        for (path, prefix) in ENDPOINTS {
            let backend = Backend::start(kind, &[]).await;
            let calm_backend = Backend::http().await;
            let gateway = Gateway::with_servers(&[("x", &backend), ("calm", &calm_backend)]).await;
            let (client, other_client) = (gateway.client_at(path).await, gateway.client().await);
            let start = Instant::now();
            let hang_tool = format!("{prefix}hang");
            let (hang_result, crash_result) = tokio::join!(client.call(&hang_tool, json!({})), async {
                backend.until_called("hang").await;
                client.call(&format!("{prefix}crash"), json!({})).await
            });
            assert!(start.elapsed() < IMMEDIATE_LIMIT, "{:?}", start.elapsed());
            for result in [hang_result, crash_result] {
                let failure = failure(&result);
                assert_eq!((&failure["kind"], &failure["server"]), (&json!("outcome_unknown"), &json!("x")));
                let text = crate::client::text(&result);
                assert!(text.contains("'x'") && text.contains("may or may not have run"), "{text}");
            }
            other_client.assert_echo("calm__echo").await;
            client.assert_echo(&format!("{prefix}echo")).await;
            assert_eq!(backend.calls_of("crash").len(), 1);
        }
    }

    /// Errors of the server pass unchanged (K2, K3).
    async fn the_servers_own_errors_pass_verbatim(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in ENDPOINTS {
            let client = gateway.client_at(path).await;
            let error = client.ask("tools/call", &json!({"name": format!("{prefix}rpc_error")}).to_string()).await;
            assert_eq!(
                raw(&error, "error"),
                r#"{"code":-32050,"message":"the request failed","data":{"reason":"asked for"}}"#
            );
            let result = client.ask("tools/call", &json!({"name": format!("{prefix}error")}).to_string()).await;
            assert_eq!(
                raw(&result, "result"),
                r#"{"content":[{"type":"text","text":"the tool failed"}],"isError":true}"#
            );
        }
    }

    /// An answer larger than `maxMessageBytes` fails only its own call (Y6).
    async fn an_oversize_answer_fails_its_own_call(kind) {
        for (path, prefix) in ENDPOINTS {
            let backend = Backend::start(kind, &[]).await.option("maxMessageBytes", 100_000);
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            let client = gateway.client_at(path).await;
            let parked_tool = format!("{prefix}out_of_order");
            let (parked_text, big_result) = tokio::join!(client.call_text(&parked_tool, json!({})), async {
                backend.until_called("out_of_order").await;
                let big_result = client.call(&format!("{prefix}big"), json!({"bytes": 1_000_000})).await;
                client.assert_echo(&format!("{prefix}echo")).await;
                client.call_text(&parked_tool, json!({})).await;
                big_result
            });
            assert_eq!(failure(&big_result)["kind"], "message_too_large", "{big_result}");
            assert_eq!(parked_text, "called first");
            let large_result = client.call_text(&format!("{prefix}big"), json!({"bytes": 90_000})).await;
            assert_eq!(large_result.len(), 90_000);
        }
    }
}

/// After a lost session, Mainstay opens a new session and then repeats the call (E11;
/// sparfenyuk/mcp-proxy#149, metamcp#166, agentgateway#3622: no `initialize` after a 404).
#[tokio::test]
async fn a_forgotten_session_is_renewed_and_the_call_answered() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    for round in 1..=3 {
        backend.fake().expire_sessions();
        client.assert_echo("x__echo").await;
        assert_eq!(backend.count("initialize"), 1 + round);
    }
    assert_eq!(backend.fake().runs("echo"), 4);
}

/// Concurrent calls in a lost session lead to only one new session.
#[tokio::test]
async fn a_forgotten_session_is_renewed_once_for_all() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    backend.fake().expire_sessions();
    futures_util::future::join_all((0..20).map(|_| client.assert_echo("x__echo"))).await;
    assert_eq!(backend.count("initialize"), 2);
    assert_eq!(backend.fake().runs("echo"), 21);
}

/// The call waits for only one attempt to connect (K9).
#[tokio::test]
async fn a_call_to_a_server_that_refuses_connections_fails_with_its_reason() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let (backend, calm_backend) = (Backend::start(kind, &[]).await, Backend::http().await);
        let gateway = Gateway::with_servers(&[("x", &backend), ("calm", &calm_backend)]).await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        backend.fake().refuse(true).await.expect("the fake runs");
        let start = Instant::now();
        let mut result = client.call("x__echo", json!({})).await;
        if failure(&result)["kind"] == "outcome_unknown" {
            // The first request may have used a connection that was closing.
            result = client.call("x__echo", json!({})).await;
        }
        assert!(
            start.elapsed() < Duration::from_secs(8),
            "{:?}",
            start.elapsed()
        );
        let failure = failure(&result);
        assert_eq!(failure["kind"], "server_not_connected", "{failure}");
        assert_eq!(failure["status"], "reconnecting", "{failure}");
        assert!(
            failure["lastError"]
                .as_str()
                .is_some_and(|text| text.contains("refused")),
            "{failure}"
        );
        assert!(failure["nextRetryMs"].is_u64(), "{failure}");
        client.assert_echo("calm__echo").await;
        // The server's tools are still listed.
        assert!(client.tools().await.contains(&"x__echo".to_owned()));

        backend.fake().refuse(false).await.expect("the fake runs");
        client.assert_echo("x__echo").await;
    }
}

/// A server may answer a call with an HTTP error status. The call fails with that error.
#[tokio::test]
async fn an_http_error_is_the_calls_error() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        for (status, expected) in [
            (500, "call_failed"),
            (400, "call_failed"),
            (503, "outcome_unknown"),
            (429, "call_failed"),
        ] {
            backend.fake().edit(|script| {
                (script.status, script.status_times) = (Some(status), Some(1));
            });
            let result = client.call("x__echo", json!({})).await;
            assert_eq!(failure(&result)["kind"], expected, "{result}");
            assert!(
                result.to_string().contains(&format!("HTTP {status}")),
                "{result}"
            );
            let fate = if status < 500 {
                "most likely not run"
            } else {
                MAY_HAVE_RUN
            };
            assert!(crate::client::text(&result).contains(fate), "{result}");
            backend.fake().edit(|script| script.status = None);
            client.assert_echo("x__echo").await;
        }
    }
}

/// A server may send data all the time. Its call still ends at the timeout or at a cancellation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_never_pauses_does_not_outlive_its_call() {
    for beginning in [":", "data: "] {
        let progress = Arc::new(EndlessProgress::default());
        let server = rogue::start_scripted({
            let progress = Arc::clone(&progress);
            move |input| match input {
                RogueInput::Message(message) if message["method"] == "tools/call" => {
                    let response = rogue::http("text/event-stream", beginning);
                    Some(RogueReply::Endless(response, Arc::clone(&progress)))
                }
                _ => None,
            }
        });
        let mut server = server.await;
        server["timeout_s"] = json!(1);
        server["maxMessageBytes"] = json!(1_u64 << 40);
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server}})).await;
        let client = gateway.client().await;
        let start = Instant::now();
        let result = client.call("x__act", json!({})).await;
        assert!(start.elapsed() < IMMEDIATE_LIMIT, "{:?}", start.elapsed());
        assert_eq!(failure(&result)["kind"], "call_timeout");
        until("the stream to be given up", || {
            progress.is_over.load(Ordering::Relaxed)
        })
        .await;
    }
}

/// An invalid answer fails its call at once with a reason. The next call succeeds.
#[tokio::test]
async fn answers_that_are_none_are_errors() {
    type Case = (&'static str, fn(&Value) -> String, &'static str);
    let cases: [Case; 17] = [
        (
            "an empty body",
            |_| rogue::http("application/json", ""),
            "call_failed",
        ),
        (
            "no JSON",
            |_| rogue::http("application/json", "<html>hello"),
            "call_failed",
        ),
        (
            "no response",
            |_| {
                rogue::http(
                    "application/json",
                    r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#,
                )
            },
            "call_failed",
        ),
        (
            "202 and nothing",
            |_| {
                "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned()
            },
            "call_failed",
        ),
        (
            "a stream that ends",
            |_| rogue::http("text/event-stream", ": hello\n\n"),
            "outcome_unknown",
        ),
        (
            "a stream with several others' answers",
            |_| {
                let answer = |id| rogue::event(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
                rogue::http("text/event-stream", &[answer("x"), answer("y")].concat())
            },
            "call_failed",
        ),
        (
            "a connection that breaks in the body",
            |_| {
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"jsonrpc\"".to_owned()
            },
            "outcome_unknown",
        ),
        ("nothing at all", |_| String::new(), "outcome_unknown"),
        (
            "204",
            |_| "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            "call_failed",
        ),
        (
            "no status",
            |_| "HTTP/1.1 hello\r\n\r\n".to_owned(),
            "call_failed",
        ),
        (
            "two lengths",
            |_| spoilt_response("content-length: 2\r\ncontent-length: 3\r\n", "{}"),
            "call_failed",
        ),
        (
            "a negative length",
            |_| spoilt_response("content-length: -2\r\n", "{}"),
            "call_failed",
        ),
        (
            "a chunk of no size",
            |_| spoilt_response("transfer-encoding: chunked\r\n", "hello\r\n{}\r\n0\r\n\r\n"),
            "call_failed",
        ),
        (
            "another protocol",
            |_| "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n".to_owned(),
            "call_failed",
        ),
        (
            "a chunk without end",
            |_| spoilt_response("transfer-encoding: chunked\r\n", "FFFFFFFFFFFFFFFF\r\n{}"),
            "call_failed",
        ),
        (
            "what was not asked for",
            |_| spoilt_response("content-encoding: gzip\r\n", "\u{1f}\u{8b}"),
            "call_failed",
        ),
        (
            "an array",
            |_| rogue::http("application/json", "[1]"),
            "call_failed",
        ),
    ];
    let calm_backend = Backend::http().await;
    for (description, answer, kind) in cases {
        let entry = rogue::start(answer).await;
        let config = json!({"mcpServers": {"x": entry, "calm": calm_backend.entry}});
        let gateway = Gateway::start(&config).await;
        let client = gateway.client().await;
        for _ in 0..2 {
            let result = client.call("x__act", json!({})).await;
            assert_eq!(failure(&result)["kind"], kind, "{description}: {result}");
            assert_eq!(failure(&result)["server"], "x", "{description}");
            // The server received the request, so the call may have run.
            assert!(
                crate::client::text(&result).contains(MAY_HAVE_RUN),
                "{description}: {result}"
            );
        }
        client.assert_echo("calm__echo").await;
    }
}

/// A JSON response with additional header lines and this body.
fn spoilt_response(head: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n{head}\r\n{body}"
    )
}

/// Events that are not JSON-RPC messages are skipped.
#[tokio::test]
async fn noise_in_an_event_stream_is_skipped() {
    let entry = rogue::start(|id| {
        let answer = rogue::event(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "here"}]}}));
        let foreign_event = rogue::event(&json!({"jsonrpc": "2.0", "id": "x", "result": {}}));
        let noise = "id: 1\ndata:\n\nretry: 50\n\ndata: no JSON\n\n: a comment\n\nevent: other\ndata: [1]\n\n";
        rogue::http("text/event-stream; charset=utf-8", &format!("{noise}{foreign_event}{answer}{answer}"))
    })
    .await;
    let gateway = Gateway::start(&json!({"mcpServers": {"x": entry}})).await;
    let client: Http = gateway.client().await;
    assert_eq!(client.call_text("x__act", json!({})).await, "here");
    assert_eq!(client.call_text("x__act", json!({})).await, "here");
}

/// The timeout of calls does not apply to lists and handshakes (K6).
#[tokio::test]
async fn the_time_limit_of_calls_is_for_calls() {
    let backend = Backend::start(BackendKind::Stdio, &["--slow-start", "600"])
        .await
        .option("timeout_s", 0.2);
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    assert_eq!(
        failure(&client.call("x__sleep", json!({"ms": 60_000})).await)["kind"],
        "call_timeout"
    );
}
