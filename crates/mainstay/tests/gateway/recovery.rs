//! Connections are lost and restored, for every transport and every kind of loss (G8, G11, K9, W5,
//! W26).

use std::time::{Duration, Instant};

use fake_server::gate::GateMode;
use http::StatusCode;
use mainstay::daemon::DaemonOptions;
use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::clock::SleepClock;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, failure, text},
    gateway::{Gateway, config, soon, until},
    loss::{kill, pid},
    rest_client::{health_checks, never_retry, prompt_retry},
};

const MINUTE: Duration = Duration::from_secs(60);

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn contains_words(value: &Value, expected_text: &str) -> bool {
    value
        .as_str()
        .is_some_and(|text| text.contains(expected_text))
}

/// The failure of a call without a session. If a call was sent on a dying connection, the next call
/// is used.
async fn not_connected(client: &Http) -> Value {
    let matching_result = async {
        loop {
            let result = client.call("x__echo", json!({"text": "hello"})).await;
            if failure(&result)["kind"] == "server_not_connected" {
                return result;
            }
        }
    };
    soon("a call that finds no session", matching_result).await
}

over_every_transport! {
    /// If a server is lost, concurrent calls share one immediate attempt (G8, G9).
    async fn calls_share_one_attempt(kind) {
        let backend = Backend::start(kind, &["--handshake-delay", "300"]).await.option("reconnect", never_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.call("x__crash", json!({})).await;
        futures_util::future::join_all((0..10).map(|_| client.assert_echo("x__echo"))).await;
        assert_eq!(backend.count("initialize"), 2);
        assert_eq!(backend.runs("echo"), 10);
    }

    /// The error has the number of the attempt, and the time of the next one (K9).
    async fn a_failed_attempt_says_when_the_next_one_comes(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", never_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        backend.leave(&client).await;
        let result = not_connected(&client).await;
        let failure = failure(&result);
        assert_eq!((&failure["server"], &failure["status"]), (&json!("x"), &json!("reconnecting")), "{failure}");
        assert!(number(&failure["attempt"]) >= 1 && number(&failure["nextRetryMs"]) > 3_000_000, "{failure}");
        assert!(failure["lastError"].is_string(), "{failure}");
        assert!(text(&result).contains("Server 'x' is reconnecting: "), "{result}");
        backend.come_back().await;
        client.assert_echo("x__echo").await;
    }

    /// A server whose process is dead must not appear healthy (sparfenyuk/mcp-proxy#247, #75: the
    /// answer is 200 with an empty error).
    async fn a_dead_backend_is_not_reported_healthy(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", never_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        let result = not_connected(&client).await;
        assert!(!text(&result).is_empty(), "{result}");
        let server = rest.server("x").await;
        assert_eq!((&server["connected"], &server["status"]), (&json!(false), &json!("reconnecting")), "{server}");
        assert_eq!(server["lastError"], failure(&result)["lastError"], "{server}");
        assert!(server["healthStatus"].is_null(), "{server}");
        let health = rest.get("/api/health").await;
        assert_eq!(health["servers"][0]["status"], "error", "{health}");
        assert!(contains_words(&health["servers"][0]["message"], "reconnecting: "), "{health}");
    }

    /// A server that comes and goes must not change the tool lists of clients (envoy
    /// ai-gateway#1924).
    async fn a_flapping_backend_does_not_flicker(kind) {
        let backend = Backend::start(kind, &[]).await.option("reconnect", prompt_retry());
        let calm_backend = Backend::http().await;
        let gateway = Gateway::with_servers(&[("x", &backend), ("calm", &calm_backend)]).await;
        let client = gateway.client().await;
        let mut stream = client.listen().await;
        let tools = client.tools().await;
        for round in 2..=3 {
            client.call("x__crash", json!({})).await;
            let restored_count = async {
                while backend.count("tools/list") < round {
                    assert_eq!(client.tools().await, tools);
                }
            };
            soon("it to be back", restored_count).await;
            client.assert_echo("x__echo").await;
        }
        // This announcement is the first one.
        client.call("calm__change_prompts", json!({})).await;
        assert_eq!(stream.message().await["method"], "notifications/prompts/list_changed");
        assert_eq!(client.tools().await, tools);
    }

    /// After a sleep of the machine, a connected server is probed in its session (G11).
    async fn after_a_sleep_a_server_is_asked(kind) {
        let backend = Backend::start(kind, &[]).await;
        let clock = SleepClock::manual();
        let options = GatewayOptions { clock: clock.clone(), ..GatewayOptions::default() };
        let gateway = Gateway::with_options(&config(&[("x", &backend)], json!({})), options).await;
        gateway.client().await.assert_echo("x__echo").await;
        assert_eq!(backend.count("ping"), 0);
        clock.sleep(MINUTE);
        backend.until_count("ping", 1).await;
        gateway.client().await.assert_echo("x__echo").await;
        assert_eq!(backend.count("initialize"), 1);
    }
}

/// A call reconnects a server at once, even if its last session lasted only a second.
#[tokio::test]
async fn a_call_does_not_wait_for_the_schedule() {
    let backend = Backend::stdio().await.option("reconnect", never_retry());
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    // Measure several pauses and take the shortest, because load can only lengthen a start.
    let mut shortest_pause = Duration::MAX;
    for _ in 0..5 {
        let first = pid(&client, "x__pid").await;
        client.call("x__sleep", json!({"ms": 1000})).await;
        kill(&first);
        gateway.rest().until_status("x", "reconnecting").await;
        let start = Instant::now();
        assert_ne!(pid(&client, "x__pid").await, first);
        shortest_pause = shortest_pause.min(start.elapsed());
        // This is shorter than the delay between attempts.
        if shortest_pause < Duration::from_millis(800) {
            return;
        }
    }
    panic!("{shortest_pause:?}");
}

/// If a handshake hangs, a call waits for it until the call's own deadline (K9).
#[tokio::test]
async fn a_call_waits_within_its_own_deadline() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        let backend = backend
            .option("reconnect", never_retry())
            .option("timeout_s", 1)
            .option("connectTimeoutMs", 3000);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        backend.fake().edit(|script| script.hang_at_start = true);
        client.call("x__crash", json!({})).await;
        let start = Instant::now();
        let rest = gateway.rest();
        let has_failed = |server: &Value| {
            let last_error = server["lastError"].as_str();
            last_error.is_some_and(|reason| reason.contains("no handshake within 3000 ms"))
        };
        let result = tokio::select! {
            result = client.call("x__echo", json!({})) => result,
            _ = rest.until("x", "tried", has_failed) => panic!("it waits for the handshake's end"),
        };
        let elapsed = start.elapsed();
        assert_eq!(failure(&result)["status"], "reconnecting", "{result}");
        assert!(elapsed >= Duration::from_millis(900), "{elapsed:?}");
        backend.fake().edit(|script| script.hang_at_start = false);
        // Under load, the handshake may be answered before the deadline.
        let is_over =
            |server: &Value| server["nextRetryMs"].is_u64() || server["status"] == "connected";
        rest.until("x", "waiting or back", is_over).await;
        client.assert_echo("x__echo").await;
    }
}

/// After a short failure of the network the server returns. Until then, the next attempt is shown
/// (mcphub#970, #1111).
#[tokio::test]
async fn a_network_blip_is_shown_and_heals() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let (backend, gate) = Backend::gated(kind, &[]).await;
        let backend = backend.option("reconnect", prompt_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        client.assert_echo("x__echo").await;
        until("the stream upstream", || backend.fake().streams() == 1).await;
        gate.set(GateMode::Closed).await.expect("the gate stands");
        gate.reset();
        let is_retried = |server: &Value| {
            number(&server["reconnectAttempt"]) >= 2 && server["nextRetryMs"].is_u64()
        };
        let server = rest.until("x", "tried again", is_retried).await;
        assert_eq!(server["status"], "reconnecting", "{server}");
        assert!(
            contains_words(&server["lastError"], "cannot connect"),
            "{server}"
        );
        gate.set(GateMode::Forward).await.expect("the gate stands");
        rest.until_status("x", "connected").await;
        client.assert_echo("x__echo").await;
    }
}

/// If an idle connection is reset, no call fails.
#[tokio::test]
async fn connections_that_were_reset_cost_no_call() {
    let (backend, gate) = Backend::gated(BackendKind::Http, &["--no-get"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    for round in 1..=5 {
        client.assert_echo("x__echo").await;
        gate.reset();
        assert_eq!(backend.runs("echo"), round);
    }
    client.assert_echo("x__echo").await;
    assert_eq!((backend.count("initialize"), backend.runs("echo")), (1, 6));
}

/// An HTTP+SSE session ends with its stream.
#[tokio::test]
async fn an_sse_stream_that_drops_is_a_new_session() {
    let backend = Backend::start(BackendKind::Sse, &[]).await;
    let backend = backend.option("reconnect", prompt_retry());
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    for round in 2..=3 {
        backend.fake().drop_streams();
        backend.until_count("initialize", round).await;
        gateway.rest().until_status("x", "connected").await;
        client.assert_echo("x__echo").await;
    }
}

/// The next attempt respects `Retry-After`. The reason contains the time.
#[tokio::test]
async fn a_server_that_says_when_is_not_asked_before() {
    let flags = "--status 503 --status-on-all --status-times 1 --retry-after 2";
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let (backend, gate) = Backend::gated(kind, &flags.split(' ').collect::<Vec<_>>()).await;
        let backend = backend.option("reconnect", prompt_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        let server_view = rest
            .until("x", "told off", |server| server["nextRetryMs"].is_u64())
            .await;
        assert!(
            contains_words(&server_view["lastError"], "HTTP 503")
                && contains_words(&server_view["lastError"], "after 2 s"),
            "{server_view}"
        );
        rest.until("x", "listed", |server| server["toolsReady"] == true)
            .await;
        let attempts = gate.attempts();
        assert!(
            attempts[1] - attempts[0] >= Duration::from_millis(1900),
            "{:?}",
            attempts[1] - attempts[0]
        );
        gateway.client().await.assert_echo("x__echo").await;
    }
}

/// If a host name does not resolve, Mainstay tries again.
#[tokio::test]
async fn a_name_that_nobody_knows_is_tried_again() {
    let mut lost_backend = Backend::http().await.option("reconnect", prompt_retry());
    lost_backend.entry["url"] = "http://nobody.invalid/mcp".into();
    let calm_backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &lost_backend), ("calm", &calm_backend)]).await;
    let server = gateway
        .rest()
        .until("x", "tried again", |server| {
            number(&server["reconnectAttempt"]) >= 2 && server["nextRetryMs"].is_u64()
        })
        .await;
    assert!(
        contains_words(&server["lastError"], "cannot connect"),
        "{server}"
    );
    gateway.client().await.assert_echo("calm__echo").await;
}

/// After a sleep of the machine, a waiting attempt starts at once (G11).
#[tokio::test]
async fn after_a_sleep_a_waiting_server_is_tried() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[])
            .await
            .option("reconnect", never_retry());
        backend.fake().refuse(true).await.expect("the fake runs");
        let clock = SleepClock::manual();
        let options = GatewayOptions {
            clock: clock.clone(),
            ..GatewayOptions::default()
        };
        let gateway = Gateway::with_options(&config(&[("x", &backend)], json!({})), options).await;
        let rest = gateway.rest();
        rest.until("x", "waiting", |server| {
            number(&server["nextRetryMs"]) > 3_000_000
        })
        .await;
        backend.fake().refuse(false).await.expect("the fake runs");
        clock.sleep(MINUTE);
        rest.until_status("x", "connected").await;
    }
}

/// Connections die without a reset during a sleep of five seconds (W26).
#[tokio::test]
async fn after_a_sleep_dead_connections_are_replaced() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let (backend, gate) = Backend::gated(kind, &[]).await;
        let mut health = health_checks(Duration::from_millis(300), "verify");
        health["intervalMs"] = json!(3_600_000);
        health["hangAfterMs"] = json!(1);
        let backend = backend.option("health", health);
        let clock = SleepClock::manual();
        let options = GatewayOptions {
            clock: clock.clone(),
            ..GatewayOptions::default()
        };
        let gateway = Gateway::with_options(&config(&[("x", &backend)], json!({})), options).await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        until("the stream upstream", || backend.fake().streams() == 1).await;
        gate.strand();
        clock.sleep(Duration::from_secs(5));
        if kind == BackendKind::Http {
            // A probe on a new connection shows that the session still exists.
            backend.until_count("ping", 1).await;
        } else {
            backend.until_count("initialize", 2).await;
        }
        gateway.rest().until_status("x", "connected").await;
        client.assert_echo("x__echo").await;
        let sessions = if kind == BackendKind::Http { 1 } else { 2 };
        assert_eq!(backend.count("initialize"), sessions);
    }
}

/// An error must not disable a server forever (metamcp#264). A manual start tries again, and so
/// does the next run.
#[tokio::test]
async fn an_error_is_not_for_ever() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let backend = Backend::start(BackendKind::Http, &["--status", "401"]).await;
    let config_json = config(&[("x", &backend)], json!({}));
    let options = || GatewayOptions {
        catalogs: Some(folder.path().to_owned()),
        ..GatewayOptions::default()
    };
    let gateway = Gateway::with_options(&config_json, options()).await;
    let rest = gateway.rest();
    let server = rest.until_status("x", "error").await;
    assert!(
        contains_words(&server["lastError"], "unauthorized"),
        "{server}"
    );
    backend.fake().edit(|script| script.status = None);
    rest.done("x", "start").await;
    gateway.client().await.assert_echo("x__echo").await;

    backend.fake().edit(|script| script.status = Some(401));
    rest.done("x", "stop").await;
    rest.operate("x", "start").await;
    rest.until_status("x", "error").await;
    gateway.stop().await;
    backend.fake().edit(|script| script.status = None);
    let gateway = Gateway::with_options(&config_json, options()).await;
    gateway.rest().until_status("x", "connected").await;
}

/// After a refusal, calls try again only once a minute (mcpproxy#310: 23 million retries). A person
/// can try again at once.
#[tokio::test]
async fn a_refusal_is_not_tried_again_at_once() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let flags = ["--status", "401", "--status-on-all"];
        let backend = Backend::start(kind, &flags).await;
        let backend = backend.option("reconnect", prompt_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        rest.until_status("x", "error").await;
        let requests = || backend.fake().received().len();
        let first_count = requests();
        for _ in 0..20 {
            client.error("tools/call", json!({"name": "x__echo"})).await;
        }
        assert_eq!(requests(), first_count);
        let (status, answer) = rest.operate("x", "reconnect").await;
        assert!(
            status.is_server_error() && contains_words(&answer["message"], "401"),
            "{answer}"
        );
        assert_eq!(requests(), 2 * first_count);
    }
}

/// If a program is missing or not executable, Mainstay tries again.
#[tokio::test]
async fn a_program_that_comes_later_is_started() {
    for has_program in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = folder.path().join("server");
        if has_program {
            // The file exists, but is not executable yet.
            std::fs::write(&program, "").expect("written");
        }
        let mut backend = Backend::stdio().await.option("reconnect", prompt_retry());
        backend.entry["command"] = program.to_str().expect("UTF-8").into();
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        let is_retried = |server: &Value| number(&server["reconnectAttempt"]) >= 2;
        let server = rest.until("x", "tried again", is_retried).await;
        assert!(
            contains_words(&server["lastError"], "cannot start: "),
            "{server}"
        );
        std::fs::remove_file(&program).ok();
        std::os::unix::fs::symlink(fake_server::binary(), &program).expect("a link");
        rest.until("x", "listed", |server| server["toolsReady"] == true)
            .await;
        gateway.client().await.assert_echo("x__echo").await;
    }
}

/// A call starts the program before the next scheduled attempt.
#[tokio::test]
async fn a_call_starts_a_program_that_has_come() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("server");
    let link = || std::os::unix::fs::symlink(fake_server::binary(), &program).expect("a link");
    link();
    let mut backend = Backend::stdio().await.option("reconnect", never_retry());
    backend.entry["command"] = program.to_str().expect("UTF-8").into();
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    std::fs::remove_file(&program).expect("it was there");
    client.call("x__crash", json!({})).await;
    let is_missing = |server: &Value| contains_words(&server["lastError"], "command not found");
    let tried_result = async {
        while !is_missing(&gateway.rest().server("x").await) {
            client.call("x__echo", json!({})).await;
        }
    };
    soon("an attempt that finds nothing", tried_result).await;
    link();
    client.assert_echo("x__echo").await;
}

/// After an error in answer to `initialize`, Mainstay tries again.
#[tokio::test]
async fn a_handshake_that_fails_is_tried_again() {
    let backend = Backend::start(BackendKind::Http, &["--initialize-error"]).await;
    let backend = backend.option("reconnect", prompt_retry());
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let rest = gateway.rest();
    let is_retried = |server: &Value| number(&server["reconnectAttempt"]) >= 2;
    let server = rest.until("x", "tried again", is_retried).await;
    assert!(
        contains_words(&server["lastError"], "initialize failed"),
        "{server}"
    );
    backend
        .fake()
        .edit(|script| script.initialize_error = false);
    rest.until("x", "listed", |server| server["toolsReady"] == true)
        .await;
    gateway.client().await.assert_echo("x__echo").await;
}

/// A server that refuses Mainstay is tried again at long intervals. Its status is `error`.
#[tokio::test]
async fn a_server_that_lets_us_in_again_is_connected() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &["--status", "401"]).await;
        let backend = backend.option("reconnect", json!({"unauthorizedDelayMs": 300}));
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        let is_retried = |server: &Value| number(&server["reconnectAttempt"]) >= 2;
        let server = rest.until("x", "tried again", is_retried).await;
        assert_eq!(server["status"], "error", "{server}");
        assert!(
            contains_words(&server["lastError"], "unauthorized: "),
            "{server}"
        );
        backend.fake().edit(|script| script.status = None);
        rest.until_status("x", "connected").await;
    }
}

/// When a server has recovered, existing sessions see its tools again (toolhive#5786).
#[tokio::test]
async fn a_backend_that_recovers_is_announced() {
    let backend = Backend::http().await.option("reconnect", prompt_retry());
    backend.fake().refuse(true).await.expect("the fake runs");
    let gateway =
        Gateway::with_settings(&[("x", &backend)], json!({"startup": {"waitMs": 100}})).await;
    let client = gateway.client().await;
    assert_eq!(client.tools().await, Vec::<String>::new());
    let mut stream = client.listen().await;
    backend.fake().refuse(false).await.expect("the fake runs");
    while stream.message().await["method"] != "notifications/tools/list_changed" {}
    client.assert_echo("x__echo").await;
}

/// A restart of Mainstay must not end the sessions of clients (mcphub#405). A session and its
/// stream continue at the same endpoint. Unknown ids, and ids of other endpoints, are refused.
#[tokio::test]
async fn a_restart_of_ours_costs_no_client_its_session() {
    let backend = Backend::http().await;
    let config_json = config(&[("x", &backend)], json!({}));
    let run = async |key: &str| {
        let session_key = Some(Secret::new(key));
        let options = DaemonOptions {
            session_key,
            ..DaemonOptions::default()
        };
        Gateway::with_options(&config_json, options).await
    };
    let gateway = run("the key of this house").await;
    let mut sessions = Vec::new();
    for (path, tool) in [("/mcp", "x__echo"), ("/servers/x/mcp", "echo")] {
        let client = gateway.client_at(path).await;
        client.assert_echo(tool).await;
        sessions.push((path, tool, client.session.expect("a session")));
    }
    let status = |client: Http| async move { client.delete().await };
    let unknown_client = |gateway: &Gateway, path: &str, id: &str| {
        let mut client = gateway.stranger(path);
        client.session = Some(id.to_owned());
        status(client)
    };
    gateway.stop().await;

    let gateway = run("another").await;
    for (path, _, id) in &sessions {
        assert_eq!(
            unknown_client(&gateway, path, id).await,
            StatusCode::NOT_FOUND
        );
    }
    gateway.stop().await;

    let gateway = run("the key of this house").await;
    for (path, tool, id) in &sessions {
        let other_path = if *path == "/mcp" {
            "/servers/x/mcp"
        } else {
            "/mcp"
        };
        assert_eq!(
            unknown_client(&gateway, other_path, id).await,
            StatusCode::NOT_FOUND
        );
        let mut client = gateway.stranger(path);
        client.session = Some(id.clone());
        client.assert_echo(tool).await;
        let mut stream = client.listen().await;
        if *path == "/mcp" {
            // The client is notified, because its list may have changed during the restart.
            assert_eq!(
                stream.message().await["method"],
                "notifications/tools/list_changed"
            );
        }
        assert!(client.delete().await.is_success());
        assert_eq!(
            unknown_client(&gateway, path, id).await,
            StatusCode::NOT_FOUND
        );
    }
    gateway.stop().await;
}
