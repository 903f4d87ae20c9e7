//! Evidence of a server's health, and what follows from it. Only a message of the protocol is a
//! sign of life. An error status, a web page or a closed connection is not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fake_server::gate::GateMode;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, text},
    gateway::{Gateway, soon, until},
    rest_client::{Rest, health_checks, prompt_retry},
    rogue::{self, RogueInput, RogueReply},
};

const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// The maintenance page of a proxy.
const PAGE: &str = "<!doctype html><title>Maintenance</title>";

/// An error that has no request id.
const ERROR: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not like this"}}"#;

fn reason_contains(server: &Value, text: &str) -> bool {
    let reason = server["lastError"].as_str();
    reason.is_some_and(|reason| reason.contains(text))
}

/// Starts a server with frequent probes, and with this action when they fail.
async fn start_with_checks(kind: BackendKind, action: &str) -> Backend {
    let backend = Backend::start(kind, &[]).await;
    backend.option("health", health_checks(PROBE_INTERVAL, action))
}

/// Starts a gateway with this server as `x`. Also returns a client that has called the server, and
/// a REST client.
async fn start_gateway(backend: &Backend) -> (Gateway, Http, Rest) {
    let gateway = Gateway::with_servers(&[("x", backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    client.assert_echo("x__echo").await;
    (gateway, client, rest)
}

/// True if the server's status is degraded.
fn is_degraded(server: &Value) -> bool {
    server["healthStatus"] == "degraded"
}

/// Starts a server that is probed only after failed calls.
async fn start_unprobed(flags: &[&str], action: &str) -> Backend {
    let mut health = health_checks(Duration::from_secs(10), action);
    health["intervalMs"] = json!(0);
    Backend::start(BackendKind::Http, flags)
        .await
        .option("health", health)
        .option("reconnect", prompt_retry())
}

/// A server that answers every request with an error status or a web page is disconnected. It is
/// connected again after its first message.
#[tokio::test]
async fn a_server_that_answers_with_errors_alone_is_reconnected() {
    for (kind, status, body) in [
        (BackendKind::Http, 500, None),
        (BackendKind::Http, 502, Some(PAGE)),
        (BackendKind::Http, 503, None),
        (BackendKind::Http, 200, Some(PAGE)),
        (BackendKind::Sse, 500, None),
    ] {
        let backend = start_with_checks(kind, "verify").await;
        let backend = backend.option("reconnect", prompt_retry());
        let (_gateway, client, rest) = start_gateway(&backend).await;
        backend.fake().edit(|script| {
            script.status = Some(status);
            script.status_body = body.map(str::to_owned);
        });
        let server = rest.until_status("x", "reconnecting").await;
        assert!(server["lastError"].is_string(), "{status}: {server}");
        backend.fake().edit(|script| script.status = None);
        rest.until_status("x", "connected").await;
        client.assert_echo("x__echo").await;
    }
}

/// Policies that only report change nothing but the status and its reason.
#[tokio::test]
async fn reporting_policies_show_the_reason() {
    let backend = start_with_checks(BackendKind::Http, "event").await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let rest = gateway.rest();
    rest.until_status("x", "connected").await;
    backend.fake().edit(|script| script.status = Some(503));
    let server = rest.until("x", "degraded", is_degraded).await;
    assert!(reason_contains(&server, "HTTP 503"), "{server}");
    assert_eq!(backend.count("initialize"), 1);
    backend.fake().edit(|script| script.status = None);
    rest.until("x", "well again", |server| !is_degraded(server))
        .await;
}

/// A server that refuses every client has the status "unauthorized".
#[tokio::test]
async fn a_server_that_refuses_everybody_is_unauthorized() {
    for (kind, status) in [
        (BackendKind::Http, 401),
        (BackendKind::Http, 403),
        (BackendKind::Sse, 401),
    ] {
        let backend = start_with_checks(kind, "verify").await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        rest.until_status("x", "connected").await;
        backend.fake().edit(|script| script.status = Some(status));
        let server = rest.until_status("x", "error").await;
        assert!(
            reason_contains(&server, "unauthorized: "),
            "{status}: {server}"
        );
    }
}

/// If every connection is reset, the session ends under every policy.
#[tokio::test]
async fn a_server_that_resets_every_connection_is_reconnected() {
    for action in ["verify", "reconnect", "event"] {
        // Use no event stream, because it would show the reset at once.
        let (backend, gate) = Backend::gated(BackendKind::Http, &["--no-get"]).await;
        let backend = backend
            .option("health", health_checks(PROBE_INTERVAL, action))
            .option("reconnect", prompt_retry());
        let (_gateway, client, rest) = start_gateway(&backend).await;
        gate.set(GateMode::Reset).await.expect("the gate stands");
        rest.until_status("x", "reconnecting").await;
        gate.set(GateMode::Forward).await.expect("the gate stands");
        rest.until_status("x", "connected").await;
        client.assert_echo("x__echo").await;
    }
}

/// Without probes, failed calls make a server degraded.
#[tokio::test]
async fn calls_that_fail_are_evidence() {
    let backend = start_unprobed(&[], "verify").await;
    let (_gateway, client, rest) = start_gateway(&backend).await;
    backend.fake().edit(|script| script.status = Some(500));
    let failing_result = async {
        while rest.server("x").await["status"] == "connected" {
            client.call("x__echo", json!({})).await;
        }
    };
    soon("the calls to be heeded", failing_result).await;
    backend.fake().edit(|script| script.status = None);
    rest.until_status("x", "connected").await;
    client.assert_echo("x__echo").await;
}

/// One failed call between successful calls does not make a server degraded.
#[tokio::test]
async fn a_failed_call_among_good_ones_degrades_no_server() {
    for threshold in [1, 3] {
        let mut backend = start_unprobed(&[], "reconnect").await;
        backend.entry["health"]["threshold"] = json!(threshold);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        for _ in 0..8 {
            backend.fake().edit(|script| {
                script.status = Some(500);
                script.status_times = Some(1);
            });
            let result = client.call("x__echo", json!({})).await;
            assert_eq!(result["isError"], true, "{result}");
            client.assert_echo("x__echo").await;
            let server = rest.server("x").await;
            assert_eq!(server["healthStatus"], "healthy", "{threshold}: {server}");
        }
        assert_eq!(backend.count("initialize"), 1);
    }
}

/// An error without a request id is not a sign of life. Mainstay opens a new session, and the
/// reason quotes the error.
#[tokio::test]
async fn an_error_that_names_no_request_is_no_sign_of_life() {
    let backend = start_with_checks(BackendKind::Http, "verify")
        .await
        .option("reconnect", prompt_retry());
    let (_gateway, client, rest) = start_gateway(&backend).await;
    backend.fake().edit(|script| {
        script.status = Some(400);
        script.status_body = Some(ERROR.to_owned());
    });
    let is_named = |server: &Value| {
        let reason = server["lastError"].as_str().unwrap_or_default();
        server["status"] == "reconnecting" && reason.contains("not like this")
    };
    rest.until("x", "refused", is_named).await;
    backend.fake().edit(|script| script.status = None);
    rest.until_status("x", "connected").await;
    client.assert_echo("x__echo").await;
}

/// A complete HTTP response to a request of a session.
fn response(status: u16, body: &Value) -> RogueReply {
    RogueReply::Http(format!(
        "HTTP/1.1 {status} Scripted\r\nconnection: close\r\ncontent-type: application/json\r\nmcp-session-id: one\r\n\r\n{body}"
    ))
}

/// A server whose calls all fail is degraded, although it answers `ping`. It keeps its session.
/// After a successful call it is healthy again.
#[tokio::test]
async fn a_server_that_fails_every_call_is_degraded() {
    let is_well = Arc::new(AtomicBool::new(false));
    let greetings = Arc::new(AtomicUsize::new(0));
    let (is_repaired, greeting_count) = (Arc::clone(&is_well), Arc::clone(&greetings));
    let mut server = rogue::start_scripted(move |input| {
        let RogueInput::Message(message) = input else {
            return None;
        };
        let id = &message["id"];
        match message["method"].as_str()? {
            "initialize" => {
                greetings.fetch_add(1, Ordering::Relaxed);
                None
            }
            "ping" => Some(RogueReply::Http(rogue::result(id, &json!({})))),
            "tools/call" if is_well.load(Ordering::Relaxed) => {
                let content = json!({"content": [{"type": "text", "text": "done"}]});
                Some(RogueReply::Http(rogue::result(id, &content)))
            }
            "tools/call" => Some(response(500, &Value::Null)),
            _ => None,
        }
    })
    .await;
    server["health"] = health_checks(PROBE_INTERVAL, "verify");
    let gateway = Gateway::start(&json!({"mcpServers": {"x": server}})).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    for _ in 0..4 {
        let result = client.call("x__act", json!({})).await;
        assert_eq!(result["isError"], true, "{result}");
    }
    let is_newer_than =
        |previous_time: Value| move |server: &Value| server["lastSuccessAt"] != previous_time;
    rest.until("x", "degraded", is_degraded).await;
    let answers_pings = |server: &Value| reason_contains(server, "answers pings");
    let mut server = rest.until("x", "seen to answer pings", answers_pings).await;
    // An answer to `ping` is a sign of life, but it does not count as a successful call.
    for _ in 0..5 {
        let previous_time = server["lastSuccessAt"].clone();
        server = rest
            .until("x", "asked again", is_newer_than(previous_time))
            .await;
        assert!(is_degraded(&server), "{server}");
        assert!(
            reason_contains(&server, "answers pings; its last 4 calls failed"),
            "{server}"
        );
        assert!(reason_contains(&server, "HTTP 500"), "{server}");
    }
    let report = rest.get("/api/health").await;
    let report = &report["servers"][0];
    assert_eq!(report["status"], "unhealthy", "{report}");
    let reason = report["message"].as_str().unwrap_or_default();
    assert!(
        reason.starts_with("answers pings; its last 4 calls failed"),
        "{report}"
    );
    let calls = &rest.server("x").await["failingCalls"];
    assert_eq!((&calls["failed"], &calls["of"]), (&json!(4), &json!(4)));
    assert!(
        calls["since"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    is_repaired.store(true, Ordering::Relaxed);
    let result = client.call("x__act", json!({})).await;
    assert_eq!(text(&result), "done", "{result}");
    rest.until("x", "well again", |server| !is_degraded(server))
        .await;
    assert_eq!(greeting_count.load(Ordering::Relaxed), 1);
}

/// A JSON-RPC answer with the request's id shows that the session exists, whatever the HTTP status
/// is. Only the error for a lost session counts like a 404 without a body.
#[tokio::test]
async fn an_answer_under_404_ends_no_session() {
    for (code, is_kept) in [(-32601, true), (-32001, false)] {
        let greetings = Arc::new(AtomicUsize::new(0));
        let pings = Arc::new(AtomicUsize::new(0));
        let (greeting_count, ping_count) = (Arc::clone(&greetings), Arc::clone(&pings));
        let mut server = rogue::start_scripted(move |input| {
            let RogueInput::Message(message) = input else {
                return None;
            };
            let id = &message["id"];
            match message["method"].as_str()? {
                "initialize" => {
                    greetings.fetch_add(1, Ordering::Relaxed);
                    let result = json!({
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "rogue", "version": "1"},
                    });
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                    Some(response(200, &answer))
                }
                "ping" => {
                    pings.fetch_add(1, Ordering::Relaxed);
                    let error = json!({"code": code, "message": "not found"});
                    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
                    Some(response(404, &answer))
                }
                _ => None,
            }
        })
        .await;
        server["health"] = health_checks(PROBE_INTERVAL, "verify");
        server["reconnect"] = prompt_retry();
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server}})).await;
        until("pings", || ping_count.load(Ordering::Relaxed) >= 3).await;
        assert_eq!(
            greeting_count.load(Ordering::Relaxed) == 1,
            is_kept,
            "{code}"
        );
        if is_kept {
            let server = gateway.rest().server("x").await;
            assert_eq!(server["healthStatus"], "healthy", "{server}");
        }
    }
}
