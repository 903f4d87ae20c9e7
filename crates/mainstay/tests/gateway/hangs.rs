//! Servers that run but do not answer, and connections that transfer no data. A server that works
//! must not be replaced.

use std::time::{Duration, Instant};

use fake_server::gate::GateMode;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, failure, text},
    gateway::{Gateway, soon, until},
    loss::pid,
    rest_client::prompt_retry,
};

/// Ten probes a second. A server counts as hanging after half a second without a message.
fn sharp_health() -> Value {
    json!({"intervalMs": 100, "timeoutMs": 100, "jitter": 0, "hangAfterMs": 500})
}

fn impatient_reconnect(backend: Backend) -> Backend {
    backend
        .option("health", sharp_health())
        .option("reconnect", prompt_retry())
        .option("connectTimeoutMs", 1000)
}

/// The number of attempts to connect. Over HTTP+SSE, a hanging fake never gets a handshake, so
/// count its streams.
fn attempts(kind: BackendKind, backend: &Backend) -> usize {
    if kind == BackendKind::Sse {
        let received_requests = backend.fake().received();
        received_requests
            .iter()
            .filter(|request| request.verb == "GET")
            .count()
    } else {
        backend.count("initialize")
    }
}

/// Waits until the tool `echo` answers.
async fn until_echo(client: &Http) {
    let answered_result = async {
        while client.call("x__echo", json!({"text": "hello"})).await["isError"] == true {}
    };
    soon("the server to answer again", answered_result).await;
}

over_every_transport! {
    /// A hanging server is replaced when its call's deadline has passed, but not earlier.
    async fn a_server_that_hangs_is_replaced_after_its_calls_deadline(kind) {
        let backend = impatient_reconnect(Backend::start(kind, &[]).await).option("timeout_s", 2);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let start = Instant::now();
        let result = client.call("x__hang_server", json!({})).await;
        assert_eq!(failure(&result)["kind"], "call_timeout", "{result}");
        assert!(start.elapsed() >= Duration::from_secs(2));
        until("a second session", || attempts(kind, &backend) > 1).await;
        if kind != BackendKind::Stdio {
            backend.fake().hang(false);
        }
        until_echo(&client).await;
    }

    /// A hang is detected although new calls keep coming and time out.
    async fn steady_calls_do_not_hide_a_hang(kind) {
        let backend = impatient_reconnect(Backend::start(kind, &[]).await).option("timeout_s", 0.4);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let clients = [gateway.client().await, gateway.client().await, gateway.client().await];
        clients[0].call("x__hang_server", json!({})).await;
        let calling_result = clients.each_ref().map(async |client| {
            while attempts(kind, &backend) < 2 {
                client.call("x__echo", json!({})).await;
            }
        });
        soon("the server to be replaced", futures_util::future::join_all(calling_result)).await;
        if kind != BackendKind::Stdio {
            backend.fake().hang(false);
        }
        until_echo(&clients[0]).await;
    }

    /// If a server handles one request at a time, a ping must not end its call (mcpproxy#1317).
    async fn a_ping_kills_no_call_of_a_single_flight_server(kind) {
        let health = json!({
            "intervalMs": 100, "timeoutMs": 100, "jitter": 0, "hangAfterMs": 300,
            "action": "reconnect", "threshold": 1,
        });
        let backend = Backend::start(kind, &["--single-flight"]).await.option("health", health);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        assert_eq!(client.call_text("x__sleep", json!({"ms": 2000})).await, "slept 2000 ms");
        client.assert_echo("x__echo").await;
        assert_eq!((backend.count("initialize"), backend.runs("sleep")), (1, 1));
    }
}

/// A server that uses CPU time is not replaced, even when its call's deadline has passed.
#[tokio::test]
async fn a_server_that_burns_cpu_is_left_alone() {
    let health = json!({"intervalMs": 100, "timeoutMs": 300, "jitter": 0, "hangAfterMs": 500});
    let backend = Backend::stdio()
        .await
        .option("health", health)
        .option("timeout_s", 0.5);
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let previous_pid = pid(&client, "x__pid").await;
    let result = client.call("x__busy", json!({"ms": 3000})).await;
    assert_eq!(failure(&result)["kind"], "call_timeout", "{result}");
    // Probes of the server continue.
    gateway
        .rest()
        .until("x", "late", |server| {
            server["consecutiveHealthFailures"].as_u64() >= Some(2)
        })
        .await;
    until_echo(&client).await;
    assert_eq!(pid(&client, "x__pid").await, previous_pid);
    assert_eq!(backend.count("initialize"), 1);
}

/// Half-open connections give no answer and no reset. Over HTTP the session continues on new
/// connections. Over HTTP+SSE the session ends together with its stream.
#[tokio::test]
async fn half_open_connections_heal() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let (backend, gate) = Backend::gated(kind, &[]).await;
        let health = json!({"intervalMs": 200, "timeoutMs": 300, "jitter": 0, "hangAfterMs": 900});
        let backend = backend
            .option("health", health)
            .option("reconnect", prompt_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        let mut stream = client.listen().await;
        until("the stream upstream", || backend.fake().streams() == 1).await;
        gate.strand();
        if kind == BackendKind::Http {
            let gets = || {
                let received_requests = backend.fake().received();
                received_requests
                    .iter()
                    .filter(|request| request.verb == "GET")
                    .count()
            };
            until("a new stream upstream", || gets() == 2).await;
            assert_eq!(backend.count("initialize"), 1);
        } else {
            backend.until_count("initialize", 2).await;
            gateway.rest().until_status("x", "connected").await;
        }
        client.assert_echo("x__echo").await;
        client.call("x__change_tools", json!({})).await;
        let changed_message = stream.message().await;
        assert_eq!(
            changed_message["method"],
            "notifications/tools/list_changed"
        );
    }
}

/// If the network drops all packets, there is an outage. The session continues when the network
/// works again.
#[tokio::test]
async fn a_network_that_swallows_everything_is_an_outage() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let (backend, gate) = Backend::gated(kind, &[]).await;
        let backend = impatient_reconnect(backend);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        client.assert_echo("x__echo").await;
        gate.set(GateMode::Silent).await.expect("the gate stands");
        let is_hanging = |server: &Value| {
            let reason = server["lastError"].as_str().unwrap_or_default();
            server["status"] == "reconnecting" && reason.contains("no handshake within 1000 ms")
        };
        rest.until("x", "given up for now", is_hanging).await;
        gate.set(GateMode::Forward).await.expect("the gate stands");
        rest.until_status("x", "connected").await;
        client.assert_echo("x__echo").await;
    }
}

/// The error of a call contains the status of its server (H9).
#[tokio::test]
async fn a_failed_call_says_how_its_server_is() {
    let health = json!({"intervalMs": 100, "timeoutMs": 100, "jitter": 0, "threshold": 2});
    let backend = Backend::start(BackendKind::Http, &["--ignore-ping"]).await;
    let backend = backend.option("health", health).option("timeout_s", 1);
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let is_degraded = |server: &Value| server["healthStatus"] == "degraded";
    gateway.rest().until("x", "degraded", is_degraded).await;
    // A server at work is not probed, so the error has the status at the start of the call.
    let result = client.call("x__hang", json!({})).await;
    assert!(
        text(&result).contains("(server x is unhealthy)"),
        "{result}"
    );
    assert!(text(&result).contains("timeout after 1s"), "{result}");
}
