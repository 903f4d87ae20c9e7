//! Probes of servers: when they are sent, which requests they are, and what follows
//! (docs/dev/requirements.md, "Health checks"; Y2).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, soon},
    rest_client::{health_checks, prompt_retry},
};

const PROBE_INTERVAL: Duration = Duration::from_millis(100);

fn failures(server: &Value) -> u64 {
    server["consecutiveHealthFailures"]
        .as_u64()
        .unwrap_or_default()
}

over_every_transport! {
    /// A probe uses the current session (toolhive#5890: a second `initialize`; kuadrant#1419: a
    /// probe without a session is refused, and the tools disappear).
    async fn a_probe_is_a_request_of_the_live_session(kind) {
        let backend = Backend::start(kind, &[]).await.option("health", health_checks(PROBE_INTERVAL, "reconnect"));
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let tools = client.tools().await;
        backend.until_count("ping", 5).await;
        assert_eq!(backend.count("initialize"), 1);
        assert_eq!(client.tools().await, tools);
        if kind != BackendKind::Stdio {
            assert_eq!(backend.fake().sessions(), 1);
        }
        if kind == BackendKind::Http {
            let received_requests = backend.fake().received();
            let pings = received_requests.iter().filter(|request| request.method().as_deref() == Some("ping"));
            assert!(pings.into_iter().all(|ping| ping.headers.contains_key("mcp-session-id")));
        }
    }

    /// An error as the answer to `ping` is also an answer (H13).
    async fn a_server_that_knows_no_ping_is_well(kind) {
        let mut health = health_checks(PROBE_INTERVAL, "reconnect");
        health["threshold"] = json!(1);
        let backend = Backend::start(kind, &["--no-ping"]).await.option("health", health);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        backend.until_count("ping", 5).await;
        let server = gateway.rest().server("x").await;
        assert_eq!((&server["healthStatus"], failures(&server)), (&json!("healthy"), 0), "{server}");
        assert_eq!(backend.count("initialize"), 1);
    }

    /// A server that has just answered is not probed (H14).
    async fn a_server_with_traffic_is_not_asked(kind) {
        let interval = Duration::from_millis(1500);
        let backend = Backend::start(kind, &[]).await.option("health", health_checks(interval, "verify"));
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        for _ in 0..20 {
            client.call_text("x__sleep", json!({"ms": 150})).await;
        }
        assert_eq!(backend.count("ping"), 0);
        backend.until_count("ping", 1).await;
    }

    /// After `threshold` failed probes the server is degraded, but its tools stay (toolhive#3221:
    /// one failed probe removes a server).
    async fn failed_probes_remove_no_server(kind) {
        let backend = Backend::start(kind, &["--ignore-ping"]).await.option("health", health_checks(PROBE_INTERVAL, "verify"));
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let tools = client.tools().await;
        let server = rest.until("x", "asked in vain", |server| failures(server) >= 1).await;
        assert_eq!(server["healthStatus"] == "degraded", failures(&server) >= 3, "{server}");
        let server_view = rest.until("x", "degraded", |server| server["healthStatus"] == "degraded").await;
        assert!(failures(&server_view) >= 3, "{server_view}");
        let degraded_since = server_view["degradedSince"].clone();
        assert!(degraded_since.is_string(), "{server_view}");
        let later_view = rest.until("x", "asked once more", |server| failures(server) > failures(&server_view)).await;
        assert_eq!(later_view["degradedSince"], degraded_since, "{later_view}");
        assert_eq!((&server_view["status"], &server_view["lastError"]), (&json!("connected"), &json!("ping timed out after 0.1s")), "{server_view}");
        assert_eq!(client.tools().await, tools);
        client.assert_echo("x__echo").await;
        assert_eq!(backend.count("initialize"), 1);
        // The server is no longer degraded after it has answered a call.
        let server = rest.until("x", "well again", |server| failures(server) == 0).await;
        assert!(server["degradedSince"].is_null(), "{server}");
    }
}

/// A degraded server that sends a message every 100 ms is still probed.
#[tokio::test]
async fn a_degraded_server_that_never_stops_talking_is_looked_at() {
    let mut health = health_checks(Duration::from_millis(200), "verify");
    // With this interval, only the call that timed out causes a probe.
    health["intervalMs"] = json!(3_600_000);
    health["threshold"] = json!(1);
    let backend = Backend::start(BackendKind::Http, &["--ignore-ping"]).await;
    let backend = backend.option("health", health).option("timeout_s", 1);
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    client.call("x__hang", json!({})).await;
    rest.until("x", "degraded", |server| failures(server) > 0)
        .await;
    let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "on"}});
    let mut interval = tokio::time::interval(PROBE_INTERVAL);
    let publisher = async {
        loop {
            interval.tick().await;
            backend.fake().publish(&message.to_string());
        }
    };
    tokio::select! {
        () = publisher => {}
        _ = rest.until("x", "well again", |server| failures(server) == 0) => {}
    }
}

/// The effect of each action when the threshold is reached (Y2).
#[tokio::test]
async fn each_policy_does_what_it_says() {
    // The server is silent for longer than `hangAfterMs`. Two of the policies treat this as a hang.
    for (action, reconnects) in [
        ("event", false),
        ("log", false),
        ("verify", true),
        ("reconnect", true),
    ] {
        let mut health = health_checks(PROBE_INTERVAL, action);
        health["hangAfterMs"] = json!(700);
        let backend = Backend::start(BackendKind::Http, &["--ignore-ping"]).await;
        let backend = backend
            .option("health", health)
            .option("reconnect", prompt_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        if reconnects {
            backend.until_count("initialize", 2).await;
        } else {
            let rest = gateway.rest();
            rest.until("x", "asked ten times", |server| failures(server) >= 10)
                .await;
            assert_eq!(backend.count("initialize"), 1, "{action}");
            assert_eq!(rest.server("x").await["healthStatus"], "degraded");
        }
    }
}

/// If only probes time out, `verify` does not reconnect the server, and `reconnect` does (Y2).
#[tokio::test]
async fn late_answers_alone_are_evidence_for_one_policy() {
    let flags = ["--ignore-ping"];
    let verifying_backend = Backend::start(BackendKind::Http, &flags).await;
    let verifying_backend =
        verifying_backend.option("health", health_checks(PROBE_INTERVAL, "verify"));
    let reconnecting_backend = Backend::start(BackendKind::Http, &flags).await;
    let reconnecting_backend = reconnecting_backend
        .option("health", health_checks(PROBE_INTERVAL, "reconnect"))
        .option("reconnect", prompt_retry());
    let gateway =
        Gateway::with_servers(&[("v", &verifying_backend), ("r", &reconnecting_backend)]).await;
    reconnecting_backend.until_count("initialize", 2).await;
    let rest = gateway.rest();
    rest.until("v", "asked ten times", |server| failures(server) >= 10)
        .await;
    assert_eq!(verifying_backend.count("initialize"), 1);
}

/// `off`, `false` and the interval 0 switch probes off.
#[tokio::test]
async fn without_health_checks_nobody_is_asked() {
    let mut silent_backends = Vec::new();
    for health in [json!("off"), json!(false), json!({"intervalMs": 0})] {
        silent_backends.push(Backend::http().await.option("health", health));
    }
    let probed_backend = Backend::http()
        .await
        .option("health", health_checks(PROBE_INTERVAL, "verify"));
    let gateway = Gateway::with_servers(&[
        ("a", &silent_backends[0]),
        ("b", &silent_backends[1]),
        ("c", &silent_backends[2]),
        ("asked", &probed_backend),
    ])
    .await;
    gateway.client().await.assert_echo("a__echo").await;
    probed_backend.until_count("ping", 10).await;
    assert!(
        silent_backends
            .iter()
            .all(|backend| backend.count("ping") == 0)
    );
}

/// If the health URL answers 404, the URL counts as wrong. Errors of the server itself still count
/// (H4).
#[tokio::test]
async fn a_wrong_health_url_is_not_a_death() {
    for (status, is_well) in [(404, true), (405, true), (204, true), (500, false)] {
        let flags = ["--health", &status.to_string()];
        let backend = Backend::start(BackendKind::Http, &flags).await;
        let url = format!("http://{}/health", backend.fake().address());
        let mut health = health_checks(PROBE_INTERVAL, "reconnect");
        health["method"] = json!("http");
        let backend = backend
            .option("health", health)
            .option("healthCheckUrl", url)
            .option("reconnect", prompt_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        if is_well {
            let request_count = || {
                let received_requests = backend.fake().received();
                received_requests
                    .iter()
                    .filter(|request| request.path == "/health")
                    .count()
            };
            crate::gateway::until("many looks", || request_count() >= 8).await;
            let server = gateway.rest().server("x").await;
            assert_eq!(server["healthStatus"], "healthy", "{status}: {server}");
            assert_eq!(
                (backend.count("initialize"), backend.count("ping")),
                (1, 0),
                "{status}"
            );
        } else {
            backend.until_count("initialize", 2).await;
        }
    }
}

/// A health URL gets the configured headers only at the server's own origin, because headers may
/// contain secrets.
#[tokio::test]
async fn a_health_url_elsewhere_gets_no_headers_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let other_address = listener.local_addr().expect("a bound socket");
    let backend = Backend::start(BackendKind::Http, &[])
        .await
        .option("bearerToken", json!("topsecret"))
        .option("headers", json!({"x-api-key": "topsecret"}))
        .option(
            "healthCheckUrl",
            json!(format!("http://{other_address}/health")),
        );
    let mut health = health_checks(PROBE_INTERVAL, "verify");
    health["method"] = json!("http");
    let backend = backend.option("health", health);
    let _gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (mut stream, _) = soon("a probe", listener.accept()).await.expect("accepted");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon("the head", stream.read_u8()).await.expect("a byte"));
    }
    let head = String::from_utf8(head).expect("UTF-8");
    assert!(head.starts_with("GET /health HTTP/1.1\r\n"), "{head}");
    assert!(!head.contains("topsecret"), "{head}");

    // This health URL is at the server's origin.
    let url = format!("http://{}/health", backend.fake().address());
    let backend = backend.option("healthCheckUrl", url);
    let _gateway = Gateway::with_servers(&[("x", &backend)]).await;
    crate::gateway::until("a probe with the headers", || {
        let received_requests = backend.fake().received();
        received_requests.iter().any(|request| {
            request.path == "/health"
                && request.headers["x-api-key"] == "topsecret"
                && request.headers["authorization"] == "Bearer topsecret"
        })
    })
    .await;
}

/// A server without its tools is not healthy (1mcp#547).
#[tokio::test]
async fn a_server_without_its_tools_is_not_green() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let rest = gateway.rest();
    rest.until("x", "healthy and listed", |server| {
        server["healthStatus"] == "healthy" && server["toolsReady"] == true
    })
    .await;
    backend.fake().edit(|script| script.no_tools = true);
    rest.done("x", "reconnect").await;
    let server = rest.server("x").await;
    assert_eq!(
        (
            &server["status"],
            &server["healthStatus"],
            &server["toolCount"]
        ),
        (&json!("connected"), &json!("degraded"), &json!(0)),
        "{server}"
    );
    let reason = server["lastError"].as_str().expect("a reason");
    assert!(reason.contains("it lists no tools; it had "), "{reason}");
    let health = rest.get("/api/health").await;
    assert_eq!(health["servers"][0]["status"], "unhealthy", "{health}");
    // After a reconnect without tools, the server is still degraded.
    rest.done("x", "reconnect").await;
    assert_eq!(rest.server("x").await["healthStatus"], "degraded");
    backend.fake().edit(|script| script.no_tools = false);
    rest.done("x", "reconnect").await;
    assert_eq!(rest.server("x").await["healthStatus"], "healthy");
}
