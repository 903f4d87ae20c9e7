//! Health checks that do no harm (docs/dev/requirements.md, "Health checks"; Y2): their times, their requests,
//! and their consequences.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, soon},
    rest_client::{health_checks, promptly},
};

const OFTEN: Duration = Duration::from_millis(100);

fn failures(server: &Value) -> u64 {
    server["consecutiveHealthFailures"]
        .as_u64()
        .unwrap_or_default()
}

over_every_transport! {
    /// toolhive#5890: the probe sends a second `initialize`. kuadrant#1419: the probe has no session, is
    /// refused, and the tools vanish. Here a probe is a request in the current session.
    async fn a_probe_is_a_request_of_the_live_session(kind) {
        let backend = Backend::start(kind, &[]).await.option("health", health_checks(OFTEN, "reconnect"));
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
            let received = backend.fake().received();
            let pings = received.iter().filter(|request| request.method().as_deref() == Some("ping"));
            assert!(pings.into_iter().all(|ping| ping.headers.contains_key("mcp-session-id")));
        }
    }

    /// H13: a server without `ping` answers with an error, and is healthy.
    async fn a_server_that_knows_no_ping_is_well(kind) {
        let mut health = health_checks(OFTEN, "reconnect");
        health["threshold"] = json!(1);
        let backend = Backend::start(kind, &["--no-ping"]).await.option("health", health);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        backend.until_count("ping", 5).await;
        let server = gateway.rest().server("x").await;
        assert_eq!((&server["healthStatus"], failures(&server)), (&json!("healthy"), 0), "{server}");
        assert_eq!(backend.count("initialize"), 1);
    }

    /// H14: a server that answers calls is not probed.
    async fn a_server_with_traffic_is_not_asked(kind) {
        let interval = Duration::from_millis(1500);
        let backend = Backend::start(kind, &[]).await.option("health", health_checks(interval, "verify"));
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        for _ in 0..20 {
            client.call_text("x__sleep", json!({"ms": 150})).await;
        }
        assert_eq!(backend.count("ping"), 0);
        // Without traffic it is probed.
        backend.until_count("ping", 1).await;
    }

    /// toolhive#3221: one failed probe removes a server. Here `threshold` failed probes only make it degraded.
    /// Its tools stay, and work.
    async fn failed_probes_remove_no_server(kind) {
        let backend = Backend::start(kind, &["--ignore-ping"]).await.option("health", health_checks(OFTEN, "verify"));
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let tools = client.tools().await;
        let server = rest.until("x", "asked in vain", |server| failures(server) >= 1).await;
        assert_eq!(server["healthStatus"] == "degraded", failures(&server) >= 3, "{server}");
        let server_view = rest.until("x", "degraded", |server| server["healthStatus"] == "degraded").await;
        assert!(failures(&server_view) >= 3, "{server_view}");
        let since = server_view["degradedSince"].clone();
        assert!(since.is_string(), "{server_view}");
        let later = rest.until("x", "asked once more", |server| failures(server) > failures(&server_view)).await;
        assert_eq!(later["degradedSince"], since, "{later}");
        assert_eq!((&server_view["status"], &server_view["lastError"]), (&json!("connected"), &json!("ping timed out after 0.1s")), "{server_view}");
        assert_eq!(client.tools().await, tools);
        client.assert_echo("x__echo").await;
        assert_eq!(backend.count("initialize"), 1);
        // Traffic is evidence, and ends the alarm.
        let server = rest.until("x", "well again", |server| failures(server) == 0).await;
        assert!(server["degradedSince"].is_null(), "{server}");
    }
}

/// Traffic ends the alarm, however frequent it is: a server that sends a message every 100 ms is probed like a
/// silent one.
#[tokio::test]
async fn a_degraded_server_that_never_stops_talking_is_looked_at() {
    let mut health = health_checks(Duration::from_millis(200), "verify");
    // Only the call that times out makes a probe due.
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
    let mut often = tokio::time::interval(OFTEN);
    let talking = async {
        loop {
            often.tick().await;
            backend.fake().publish(&message.to_string());
        }
    };
    tokio::select! {
        () = talking => {}
        _ = rest.until("x", "well again", |server| failures(server) == 0) => {}
    }
}

/// Y2: the consequence of the threshold.
#[tokio::test]
async fn each_policy_does_what_it_says() {
    // At the end the server is silent for longer than `hangAfterMs`, which is evidence for two of the policies.
    for (action, reconnects) in [
        ("event", false),
        ("log", false),
        ("verify", true),
        ("reconnect", true),
    ] {
        let mut health = health_checks(OFTEN, action);
        health["hangAfterMs"] = json!(700);
        let backend = Backend::start(BackendKind::Http, &["--ignore-ping"]).await;
        let backend = backend
            .option("health", health)
            .option("reconnect", promptly());
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

/// Y2: for `verify` a timeout alone is no hard evidence. For `reconnect` it is, at its threshold.
#[tokio::test]
async fn late_answers_alone_are_evidence_for_one_policy() {
    let flags = ["--ignore-ping"];
    let verifying = Backend::start(BackendKind::Http, &flags).await;
    let verifying = verifying.option("health", health_checks(OFTEN, "verify"));
    let reconnecting = Backend::start(BackendKind::Http, &flags).await;
    let reconnecting = reconnecting
        .option("health", health_checks(OFTEN, "reconnect"))
        .option("reconnect", promptly());
    let gateway = Gateway::with_servers(&[("v", &verifying), ("r", &reconnecting)]).await;
    reconnecting.until_count("initialize", 2).await;
    let rest = gateway.rest();
    rest.until("v", "asked ten times", |server| failures(server) >= 10)
        .await;
    assert_eq!(verifying.count("initialize"), 1);
}

/// `off`, `false` and an interval of 0 send no probe.
#[tokio::test]
async fn without_health_checks_nobody_is_asked() {
    let mut silent = Vec::new();
    for health in [json!("off"), json!(false), json!({"intervalMs": 0})] {
        silent.push(Backend::http().await.option("health", health));
    }
    let probed = Backend::http()
        .await
        .option("health", health_checks(OFTEN, "verify"));
    let gateway = Gateway::with_servers(&[
        ("a", &silent[0]),
        ("b", &silent[1]),
        ("c", &silent[2]),
        ("asked", &probed),
    ])
    .await;
    gateway.client().await.assert_echo("a__echo").await;
    probed.until_count("ping", 10).await;
    assert!(silent.iter().all(|backend| backend.count("ping") == 0));
}

/// H4: a 404 on a health URL causes an endless loop. Here it is only reported that the URL is wrong. Trouble
/// that the server itself reports still counts.
#[tokio::test]
async fn a_wrong_health_url_is_not_a_death() {
    for (status, well) in [(404, true), (405, true), (204, true), (500, false)] {
        let flags = ["--health", &status.to_string()];
        let backend = Backend::start(BackendKind::Http, &flags).await;
        let url = format!("http://{}/health", backend.fake().address());
        let mut health = health_checks(OFTEN, "reconnect");
        health["method"] = json!("http");
        let backend = backend
            .option("health", health)
            .option("healthCheckUrl", url)
            .option("reconnect", promptly());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        if well {
            let looks = || {
                let received = backend.fake().received();
                received
                    .iter()
                    .filter(|request| request.path == "/health")
                    .count()
            };
            crate::gateway::until("many looks", || looks() >= 8).await;
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

/// The configured headers contain secrets of the server. Only the server's own origin gets them.
#[tokio::test]
async fn a_health_url_elsewhere_gets_no_headers_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let elsewhere = listener.local_addr().expect("a bound socket");
    let backend = Backend::start(BackendKind::Http, &[])
        .await
        .option("bearerToken", json!("topsecret"))
        .option("headers", json!({"x-api-key": "topsecret"}))
        .option(
            "healthCheckUrl",
            json!(format!("http://{elsewhere}/health")),
        );
    let mut health = health_checks(OFTEN, "verify");
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

    // The server's own origin gets them.
    let url = format!("http://{}/health", backend.fake().address());
    let backend = backend.option("healthCheckUrl", url);
    let _gateway = Gateway::with_servers(&[("x", &backend)]).await;
    crate::gateway::until("a probe with the headers", || {
        let received = backend.fake().received();
        received.iter().any(|request| {
            request.path == "/health"
                && request.headers["x-api-key"] == "topsecret"
                && request.headers["authorization"] == "Bearer topsecret"
        })
    })
    .await;
}

/// 1mcp#547: "healthy" without any tools.
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
    // It stays degraded after other reconnects, until it has tools.
    rest.done("x", "reconnect").await;
    assert_eq!(rest.server("x").await["healthStatus"], "degraded");
    backend.fake().edit(|script| script.no_tools = false);
    rest.done("x", "reconnect").await;
    assert_eq!(rest.server("x").await["healthStatus"], "healthy");
}
