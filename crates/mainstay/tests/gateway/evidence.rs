//! Green means evidence: what shows that a server is well, what shows that it is not, and what follows.
//! Only a message of the protocol is a sign of life; an error status, a page, a connection that is cut
//! are none.

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
    backend::{Backend, Kind},
    client::{Http, text},
    gateway::{Gateway, soon, until},
    rest_client::{Rest, asked, promptly},
    rogue::{self, Heard, Reply},
};

const OFTEN: Duration = Duration::from_millis(100);

/// What a proxy shows where its server should answer.
const PAGE: &str = "<!doctype html><title>Maintenance</title>";

/// An error that a server gives without having read an id.
const ERROR: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not like this"}}"#;

fn says(server: &Value, words: &str) -> bool {
    let reason = server["lastError"].as_str();
    reason.is_some_and(|reason| reason.contains(words))
}

/// A server that is asked often, and this follows when it does not answer.
async fn asked_often(kind: Kind, action: &str) -> Backend {
    let backend = Backend::start(kind, &[]).await;
    backend.option("health", asked(OFTEN, action))
}

/// A gateway before this server, as `x`; a client that has heard from it, and the REST door.
async fn before(backend: &Backend) -> (Gateway, Http, Rest) {
    let gateway = Gateway::of(&[("x", backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    client.hears("x__echo").await;
    (gateway, client, rest)
}

/// Whether a server is shown to be degraded.
fn is_degraded(server: &Value) -> bool {
    server["healthStatus"] == "degraded"
}

/// A server that is asked only after a call that failed.
async fn unasked(flags: &[&str], action: &str) -> Backend {
    let mut health = asked(Duration::from_secs(10), action);
    health["intervalMs"] = json!(0);
    Backend::start(Kind::Http, flags)
        .await
        .option("health", health)
        .option("reconnect", promptly())
}

/// A server that answers everything with an error status, or with a page, is not connected, whatever
/// it answered before; it is again once it speaks.
#[tokio::test]
async fn a_server_that_answers_with_errors_alone_is_reconnected() {
    for (kind, status, body) in [
        (Kind::Http, 500, None),
        (Kind::Http, 502, Some(PAGE)),
        (Kind::Http, 503, None),
        (Kind::Http, 200, Some(PAGE)),
        (Kind::Sse, 500, None),
    ] {
        let backend = asked_often(kind, "verify").await;
        let backend = backend.option("reconnect", promptly());
        let (_gateway, client, rest) = before(&backend).await;
        backend.fake().edit(|script| {
            script.status = Some(status);
            script.status_body = body.map(str::to_owned);
        });
        let shown = rest.until_status("x", "reconnecting").await;
        assert!(shown["lastError"].is_string(), "{status}: {shown}");
        backend.fake().edit(|script| script.status = None);
        rest.until_status("x", "connected").await;
        client.hears("x__echo").await;
    }
}

/// The policies that only report do only that, and say what there is.
#[tokio::test]
async fn where_trouble_is_only_reported_errors_are_reported() {
    let backend = asked_often(Kind::Http, "event").await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let rest = gateway.rest();
    rest.until_status("x", "connected").await;
    backend.fake().edit(|script| script.status = Some(503));
    let shown = rest.until("x", "degraded", is_degraded).await;
    assert!(says(&shown, "HTTP 503"), "{shown}");
    assert_eq!(backend.count("initialize"), 1);
    backend.fake().edit(|script| script.status = None);
    rest.until("x", "well again", |server| !is_degraded(server))
        .await;
}

/// A server that lets no client in any more says so.
#[tokio::test]
async fn a_server_that_refuses_everybody_is_unauthorized() {
    for (kind, status) in [(Kind::Http, 401), (Kind::Http, 403), (Kind::Sse, 401)] {
        let backend = asked_often(kind, "verify").await;
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let rest = gateway.rest();
        rest.until_status("x", "connected").await;
        backend.fake().edit(|script| script.status = Some(status));
        let shown = rest.until_status("x", "error").await;
        assert!(says(&shown, "unauthorized: "), "{status}: {shown}");
    }
}

/// A server that takes connections and resets them has lost its connection, also where trouble is only
/// reported.
#[tokio::test]
async fn a_server_that_resets_every_connection_is_reconnected() {
    for action in ["verify", "reconnect", "event"] {
        // Without a stream, which would tell at once.
        let (backend, gate) = Backend::gated(Kind::Http, &["--no-get"]).await;
        let backend = backend
            .option("health", asked(OFTEN, action))
            .option("reconnect", promptly());
        let (_gateway, client, rest) = before(&backend).await;
        gate.set(GateMode::Reset).await.expect("the gate stands");
        rest.until_status("x", "reconnecting").await;
        gate.set(GateMode::Forward).await.expect("the gate stands");
        rest.until_status("x", "connected").await;
        client.hears("x__echo").await;
    }
}

/// Calls that fail are evidence without probes.
#[tokio::test]
async fn calls_that_fail_are_evidence() {
    let backend = unasked(&[], "verify").await;
    let (_gateway, client, rest) = before(&backend).await;
    backend.fake().edit(|script| script.status = Some(500));
    let failing = async {
        while rest.server("x").await["status"] == "connected" {
            client.call("x__echo", json!({})).await;
        }
    };
    soon("the calls to be heeded", failing).await;
    backend.fake().edit(|script| script.status = None);
    rest.until_status("x", "connected").await;
    client.hears("x__echo").await;
}

/// One call that fails among many that do not changes nothing.
#[tokio::test]
async fn a_failed_call_among_good_ones_degrades_no_server() {
    for threshold in [1, 3] {
        let mut backend = unasked(&[], "reconnect").await;
        backend.entry["health"]["threshold"] = json!(threshold);
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        for _ in 0..8 {
            backend.fake().edit(|script| {
                script.status = Some(500);
                script.status_times = Some(1);
            });
            let result = client.call("x__echo", json!({})).await;
            assert_eq!(result["isError"], true, "{result}");
            client.hears("x__echo").await;
            let shown = rest.server("x").await;
            assert_eq!(shown["healthStatus"], "healthy", "{threshold}: {shown}");
        }
        assert_eq!(backend.count("initialize"), 1);
    }
}

/// An error that names no request is no sign of life: the server is greeted anew, and while it refuses that, too, the
/// reason quotes it.
#[tokio::test]
async fn an_error_that_names_no_request_is_no_sign_of_life() {
    let backend = asked_often(Kind::Http, "verify")
        .await
        .option("reconnect", promptly());
    let (_gateway, client, rest) = before(&backend).await;
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
    client.hears("x__echo").await;
}

/// A response to a request of a session, in one piece.
fn answered(status: u16, body: &Value) -> Reply {
    Reply::Http(format!(
        "HTTP/1.1 {status} Scripted\r\nconnection: close\r\ncontent-type: application/json\r\nmcp-session-id: one\r\n\r\n{body}"
    ))
}

/// Whatever `ping` says: a server whose calls all fail is not well. It keeps its session, and is well once
/// a call is answered.
#[tokio::test]
async fn a_server_that_fails_every_call_is_degraded() {
    let is_well = Arc::new(AtomicBool::new(false));
    let greetings = Arc::new(AtomicUsize::new(0));
    let (mends, greeted) = (Arc::clone(&is_well), Arc::clone(&greetings));
    let mut server = rogue::start_scripted(move |heard| {
        let Heard::Message(message) = heard else {
            return None;
        };
        let id = &message["id"];
        match message["method"].as_str()? {
            "initialize" => {
                greetings.fetch_add(1, Ordering::Relaxed);
                None
            }
            "ping" => Some(Reply::Http(rogue::result(id, &json!({})))),
            "tools/call" if is_well.load(Ordering::Relaxed) => {
                let content = json!({"content": [{"type": "text", "text": "done"}]});
                Some(Reply::Http(rogue::result(id, &content)))
            }
            "tools/call" => Some(answered(500, &Value::Null)),
            _ => None,
        }
    })
    .await;
    server["health"] = asked(OFTEN, "verify");
    let gateway = Gateway::start(&json!({"mcpServers": {"x": server}})).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    for _ in 0..4 {
        let result = client.call("x__act", json!({})).await;
        assert_eq!(result["isError"], true, "{result}");
    }
    let asked = |before: Value| move |server: &Value| server["lastSuccessAt"] != before;
    rest.until("x", "degraded", is_degraded).await;
    let answers_pings = |server: &Value| says(server, "answers pings");
    let mut shown = rest.until("x", "seen to answer pings", answers_pings).await;
    // Each answer to `ping` is a sign of life, and none is an answer to a call.
    for _ in 0..5 {
        let before = shown["lastSuccessAt"].clone();
        shown = rest.until("x", "asked again", asked(before)).await;
        assert!(is_degraded(&shown), "{shown}");
        assert!(
            says(&shown, "answers pings; its last 4 calls failed"),
            "{shown}"
        );
        assert!(says(&shown, "HTTP 500"), "{shown}");
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
    assert!(calls["since"].as_str().is_some_and(|at| at.ends_with('Z')));
    mends.store(true, Ordering::Relaxed);
    let result = client.call("x__act", json!({})).await;
    assert_eq!(text(&result), "done", "{result}");
    rest.until("x", "well again", |server| !is_degraded(server))
        .await;
    assert_eq!(greeted.load(Ordering::Relaxed), 1);
}

/// A server that answers a request by its id has its session, whatever HTTP status it gives an error. Only
/// the error by which servers say that the session is over does what a bare 404 does.
#[tokio::test]
async fn an_answer_under_404_ends_no_session() {
    for (code, is_kept) in [(-32601, true), (-32001, false)] {
        let greetings = Arc::new(AtomicUsize::new(0));
        let pings = Arc::new(AtomicUsize::new(0));
        let (greeted, pinged) = (Arc::clone(&greetings), Arc::clone(&pings));
        let mut server = rogue::start_scripted(move |heard| {
            let Heard::Message(message) = heard else {
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
                    Some(answered(200, &answer))
                }
                "ping" => {
                    pings.fetch_add(1, Ordering::Relaxed);
                    let error = json!({"code": code, "message": "not found"});
                    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
                    Some(answered(404, &answer))
                }
                _ => None,
            }
        })
        .await;
        server["health"] = asked(OFTEN, "verify");
        server["reconnect"] = promptly();
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server}})).await;
        until("pings", || pinged.load(Ordering::Relaxed) >= 3).await;
        assert_eq!(greeted.load(Ordering::Relaxed) == 1, is_kept, "{code}");
        if is_kept {
            let shown = gateway.rest().server("x").await;
            assert_eq!(shown["healthStatus"], "healthy", "{shown}");
        }
    }
}
