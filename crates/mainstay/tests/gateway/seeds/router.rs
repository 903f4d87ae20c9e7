//! Document 000 with the preset `router`: five attempts without jitter, and probes by HTTP.

use std::time::Duration;

use fake_server::gate::GateMode;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::clock::SleepClock;
use serde_json::{Value, json};

use super::{assert_echo, brief_retry, kinds, server_events, until_event};
use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, config, until},
    loss::{kill, pid},
};

async fn start_with_preset(servers: &[(&str, &Backend)]) -> Gateway {
    super::start_with_preset("router", servers).await
}

/// Retry settings that suit slow machines. `lifecycle/tests/seeds.rs` tests the number and the
/// times of the attempts.
fn patient_retry() -> Value {
    json!({"maxAttempts": 50, "initialDelayMs": 100, "maxDelayMs": 100})
}

over_every_transport! {
    /// A server is connected, called and disconnected (E8, I7).
    async fn a_client_connects_is_used_and_is_closed(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client_at("/servers/x/mcp").await, gateway.rest());
        rest.until_status("x", "connected").await;
        assert_eq!(kinds(&server_events(&rest, "x").await), ["server_connected"]);
        assert!(client.tools().await.contains(&"echo".to_owned()));
        client.assert_echo("echo").await;
        assert!(client.delete().await.is_success());
        rest.done("x", "stop").await;
        if kind == BackendKind::Http {
            until("no session upstream", || backend.fake().sessions() == 0).await;
        }
        if kind == BackendKind::Sse {
            until("no stream upstream", || backend.fake().streams() == 0).await;
        }
        assert!(rest.server("x").await["pid"].is_null());
        assert_eq!(kinds(&server_events(&rest, "x").await), ["server_connected", "server_disconnected"]);
    }

    /// When a connection closes, the retries begin (F3, G2).
    async fn a_connection_that_ends_is_opened_again(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", patient_retry());
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        if kind != BackendKind::Stdio {
            // The loss is noticed only by a failed call.
            client.call("x__echo", json!({})).await;
        }
        until_event(&rest, "x", "server_reconnecting").await;
        backend.come_back().await;
        let events = until_event(&rest, "x", "server_reconnected").await;
        assert_eq!(kinds(&events)[..3], ["server_connected", "server_disconnected", "server_reconnecting"]);
        let (_, retry_event) = events.iter().find(|(kind, _)| kind == "server_reconnecting").expect("it is there");
        assert_eq!(retry_event["attempt"], 1, "{retry_event}");
        assert!(retry_event["nextRetryMs"].as_u64().is_some_and(|wait| wait <= 100), "{retry_event}");
        client.assert_echo("x__echo").await;
    }

    /// After all attempts the status is `failed`. It stays until a manual start (document 000,
    /// third scenario; W25, G1).
    async fn an_absent_server_fails_until_started_by_hand(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("maxRetries", 3).option("reconnect", brief_retry());
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        client.call("x__echo", json!({})).await;
        let server = rest.until_status("x", "failed").await;
        assert!(server["lastError"].is_string() && server["nextRetryMs"].is_null(), "{server}");
        let events = server_events(&rest, "x").await;
        let attempts = events.iter().filter(|(kind, _)| kind == "server_reconnecting");
        assert_eq!(attempts.count(), 3, "{events:?}");
        assert_eq!(events.last().expect("an event").0, "server_failed");
        backend.come_back().await;
        rest.done("x", "stop").await;
        rest.done("x", "start").await;
        assert_echo(&rest, "x").await;
    }
}

/// A session ends when its process is killed, and when its stream is reset (E10).
#[tokio::test]
async fn an_error_of_the_transport_is_a_loss() {
    let process = Backend::stdio().await.option("reconnect", patient_retry());
    let (stream, gate) = Backend::gated(BackendKind::Sse, &[]).await;
    let stream = stream.option("reconnect", patient_retry());
    let gateway = start_with_preset(&[("process", &process), ("stream", &stream)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    client.assert_echo("stream__echo").await;
    kill(&pid(&client, "process__pid").await);
    gate.reset();
    for server in ["process", "stream"] {
        let events = until_event(&rest, server, "server_reconnected").await;
        assert_eq!(
            kinds(&events)[1..3],
            ["server_disconnected", "server_reconnecting"],
            "{server}"
        );
        assert_echo(&rest, server).await;
    }
}

/// A connection dies during a sleep of the machine. The server is probed and reconnected, and its
/// tools work.
#[tokio::test]
async fn a_laptop_that_slept_has_its_sse_server_again() {
    let (backend, gate) = Backend::gated(BackendKind::Sse, &[]).await;
    let backend = backend.option("health", json!({"timeoutMs": 300, "hangAfterMs": 1}));
    let clock = SleepClock::manual();
    let options = GatewayOptions {
        clock: clock.clone(),
        ..GatewayOptions::default()
    };
    let config_json = config(&[("x", &backend)], json!({"preset": "router"}));
    let gateway = Gateway::with_options(&config_json, options).await;
    let rest = gateway.rest();
    assert_echo(&rest, "x").await;
    until("the stream upstream", || backend.fake().streams() == 1).await;
    gate.strand();
    assert_eq!(
        kinds(&server_events(&rest, "x").await),
        ["server_connected"]
    );
    clock.sleep(Duration::from_secs(5));
    let events = until_event(&rest, "x", "server_reconnected").await;
    assert_eq!(
        kinds(&events)[..3],
        [
            "server_connected",
            "server_disconnected",
            "server_reconnecting"
        ]
    );
    rest.until_status("x", "connected").await;
    assert_echo(&rest, "x").await;
    assert_eq!(backend.count("initialize"), 2);
}

/// The health URL shows that a server has stopped, and later that it has returned (document 000,
/// second scenario; W27, H1–H3).
#[tokio::test]
async fn a_server_over_http_that_stopped_is_found_again() {
    let (backend, gate) = Backend::gated(BackendKind::Http, &["--no-get", "--health", "200"]).await;
    let url = format!("http://{}/health", gate.address());
    let backend = backend
        .option("healthCheckUrl", url)
        .option("healthCheckIntervalMs", 100)
        .option("reconnect", patient_retry());
    let gateway = start_with_preset(&[("x", &backend)]).await;
    let rest = gateway.rest();
    assert_echo(&rest, "x").await;
    let probe_count = || {
        let received_requests = backend.fake().received();
        received_requests
            .iter()
            .filter(|request| request.path == "/health")
            .count()
    };
    until("looks at its health", || probe_count() >= 3).await;
    assert_eq!(rest.server("x").await["healthStatus"], "healthy");
    gate.set(GateMode::Closed).await.expect("the gate stands");
    gate.reset();
    let server = rest.until_status("x", "reconnecting").await;
    let reason = server["lastError"].as_str().expect("a reason");
    assert!(
        !reason.contains("hangs"),
        "a connection that is refused is no hang: {reason}"
    );
    gate.set(GateMode::Forward).await.expect("the gate stands");
    rest.until_status("x", "connected").await;
    assert_echo(&rest, "x").await;
    assert_eq!(backend.count("ping"), 0);
}
