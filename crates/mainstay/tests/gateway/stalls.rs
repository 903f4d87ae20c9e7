//! Servers that stop answering. After two unanswered calls in a row, Mainstay refuses calls until
//! the server answers again. A server at work is an exception.

use mainstay_core::record::{State, Status};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, failure, text},
    gateway::{Gateway, soon},
    records::Recorded,
};

/// Starts a server with a short timeout for calls. It is probed only after an unanswered call.
async fn start_unprobed(kind: BackendKind, flags: &[&str]) -> Backend {
    let backend = Backend::start(kind, flags).await;
    let health = json!({"intervalMs": 0});
    backend.option("health", health).option("timeout_s", 1)
}

async fn kind_of_failure(client: &Http, tool: &str) -> Value {
    let result = client.call(tool, json!({"text": "hello"})).await;
    failure(&result)["kind"].clone()
}

/// Repeats a call until Mainstay refuses it. Asserts that two or three calls were unanswered
/// before. More than two are possible, because a call does not count if the server sent a message
/// during it.
async fn until_refused(client: &Http, tool: &str) {
    for unanswered_count in 1.. {
        let kind = kind_of_failure(client, tool).await;
        if kind == "server_not_answering" {
            assert!(unanswered_count > 1, "refused after the first");
            return;
        }
        assert_eq!(kind, "call_timeout");
        assert!(unanswered_count < 3, "not refused");
    }
}

async fn is_degraded(gateway: &Gateway) -> Value {
    let is_degraded = |server: &Value| server["healthStatus"] == "degraded";
    gateway.rest().until("x", "degraded", is_degraded).await
}

over_every_transport! {
    /// The third call is refused and recorded with the reason. After a message of the server, calls
    /// are allowed again in the same session.
    async fn calls_to_a_server_that_does_not_answer_are_refused(kind) {
        let backend = start_unprobed(kind, &[]).await;
        let fixture = Recorded::with_backend(&backend).await;
        let client = fixture.gateway.client().await;
        client.assert_echo("x__echo").await;
        assert_eq!(kind_of_failure(&client, "x__hang_server").await, "call_timeout");
        until_refused(&client, "x__echo").await;
        for _ in 0..3 {
            let result = client.call("x__echo", json!({"text": "hello"})).await;
            assert_eq!(failure(&result)["kind"], "server_not_answering", "{result}");
            assert_eq!(failure(&result)["server"], "x", "{result}");
            let message = text(&result);
            assert!(message.contains("2 calls in a row got no answer") && message.contains("was not sent"), "{message}");
        }
        let record = fixture.latest().await;
        assert_eq!((record.state, record.status), (State::NotSent, Status::Refused), "{record:?}");
        assert_eq!(record.error.expect("an error").kind, "server_not_answering");
        let server = is_degraded(&fixture.gateway).await;
        assert_eq!(server["status"], "connected", "{server}");
        let reason = server["lastError"].as_str().unwrap_or_default();
        assert!(reason.contains("calls in a row were not answered"), "{server}");
        if kind == BackendKind::Stdio {
            return;
        }
        backend.fake().hang(false);
        let answered_result = async {
            while client.call("x__echo", json!({"text": "hello"})).await["isError"] == true {}
        };
        soon("the server to answer again", answered_result).await;
        assert_eq!(backend.count("initialize"), 1);
        let is_healthy = |server: &Value| server["healthStatus"] == "healthy";
        fixture.gateway.rest().until("x", "healthy", is_healthy).await;
    }

    /// If the server answers the probe, Mainstay does not refuse further calls of a hanging tool.
    async fn a_tool_that_hangs_refuses_no_calls(kind) {
        let backend = start_unprobed(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        for _ in 0..2 {
            assert_eq!(kind_of_failure(&client, "x__hang").await, "call_timeout");
            assert_eq!(kind_of_failure(&client, "x__hang").await, "call_timeout");
            client.assert_echo("x__echo").await;
        }
    }

    /// A server that answers pings but no calls is degraded until it answers a call.
    async fn calls_that_all_run_out_of_time_degrade_a_server(kind) {
        let backend = start_unprobed(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        for _ in 0..3 {
            assert_eq!(kind_of_failure(&client, "x__hang").await, "call_timeout");
        }
        let rest = gateway.rest();
        let counts = |server: &Value| server["failingCalls"]["failed"] == 3;
        let server = rest.until("x", "degraded by its calls", counts).await;
        assert_eq!(server["failingCalls"]["of"], 4, "{server}");
        let has_ping_failure = |server: &Value| {
            let reason = server["lastError"].as_str().unwrap_or_default();
            reason == "answers pings; its last 3 calls failed: no answer in time"
        };
        let server = rest.until("x", "said to answer pings", has_ping_failure).await;
        assert_eq!(server["healthStatus"], "degraded", "{server}");
        client.assert_echo("x__echo").await;
        let is_healthy = |server: &Value| server["healthStatus"] == "healthy";
        let server = rest.until("x", "healthy", is_healthy).await;
        assert!(server.get("failingCalls").is_none(), "{server}");
    }

    /// The presets of other documents refuse no calls. A policy can also switch refusals off.
    async fn other_policies_go_on_calling(kind) {
        let backend = start_unprobed(kind, &[]).await;
        let backend = backend.option("health", json!({"intervalMs": 0, "unansweredCalls": 0}));
        let manual = start_unprobed(kind, &[]).await.option("preset", "manual");
        for backend in [backend, manual] {
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            let client = gateway.client().await;
            client.call("x__hang_server", json!({})).await;
            for _ in 0..3 {
                assert_eq!(kind_of_failure(&client, "x__echo").await, "call_timeout");
            }
        }
    }
}

/// An isolated session refuses calls in the same way.
#[tokio::test]
async fn an_isolated_session_refuses_calls_as_well() {
    let backend = start_unprobed(BackendKind::Http, &[]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client_at("/servers/x/mcp").await;
    client.assert_echo("echo").await;
    client.call("hang_server", json!({})).await;
    until_refused(&client, "echo").await;
    backend.fake().hang(false);
    let answered_result =
        async { while client.call("echo", json!({"text": "hello"})).await["isError"] == true {} };
    soon("the server to answer again", answered_result).await;
}

/// If a server uses CPU time, its calls are not refused after timeouts.
#[tokio::test]
async fn a_server_that_computes_refuses_no_calls() {
    let backend = start_unprobed(BackendKind::Stdio, &[]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    assert_eq!(kind_of_failure_of(&client, 6000).await, "call_timeout");
    for _ in 0..3 {
        assert_eq!(kind_of_failure(&client, "x__echo").await, "call_timeout");
    }
}

async fn kind_of_failure_of(client: &Http, busy_ms: u64) -> Value {
    let result = client.call("x__busy", json!({"ms": busy_ms})).await;
    failure(&result)["kind"].clone()
}

/// A health URL does not show that calls are answered. While calls are refused, Mainstay sends
/// probes of the protocol.
#[tokio::test]
async fn a_health_url_keeps_no_server_from_being_called_again() {
    let backend = Backend::start(BackendKind::Http, &["--health", "200"]).await;
    let url = backend.fake().url().replace("/mcp", "/health");
    let health = json!({"method": "http", "intervalMs": 100, "timeoutMs": 100});
    let backend = backend
        .option("healthCheckUrl", url)
        .option("health", health)
        .option("timeout_s", 0.3);
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    for _ in 0..2 {
        assert_eq!(kind_of_failure(&client, "x__hang").await, "call_timeout");
    }
    let answered_result = async {
        while client.call("x__echo", json!({"text": "hello"})).await["isError"] == true {}
    };
    soon("calls to be sent again", answered_result).await;
}
