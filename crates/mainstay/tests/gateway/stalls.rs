//! Servers that stop answering: after the second call in a row the next ones are refused at once, until
//! the server is heard again. A server at work is left alone.

use mainstay_core::record::{State, Status};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, Kind},
    client::{Http, failure, text},
    gateway::{Gateway, soon},
    records::Recorded,
};

/// A server with short calls, which is not probed unless a call was not answered.
async fn unasked(kind: Kind, flags: &[&str]) -> Backend {
    let backend = Backend::start(kind, flags).await;
    let health = json!({"intervalMs": 0});
    backend.option("health", health).option("timeout_s", 1)
}

async fn kind_of_failure(client: &Http, tool: &str) -> Value {
    let result = client.call(tool, json!({"text": "hello"})).await;
    failure(&result)["kind"].clone()
}

/// The calls after the first that was not answered, up to the first that is refused. An answer to a
/// request for lists may have come during the first, which then does not count.
async fn until_refused(client: &Http, tool: &str) {
    for unanswered in 1.. {
        let kind = kind_of_failure(client, tool).await;
        if kind == "server_not_answering" {
            assert!(unanswered > 1, "refused after the first");
            return;
        }
        assert_eq!(kind, "call_timeout");
        assert!(unanswered < 3, "not refused");
    }
}

async fn is_degraded(gateway: &Gateway) -> Value {
    let degraded = |server: &Value| server["healthStatus"] == "degraded";
    gateway.rest().until("x", "degraded", degraded).await
}

over_every_transport! {
    /// Two calls cost their time, the third is refused, on record like every refused call, and says
    /// why. What is heard ends it, on the session that there is.
    async fn calls_to_a_server_that_does_not_answer_are_refused(kind) {
        let backend = unasked(kind, &[]).await;
        let recorded = Recorded::of(&backend).await;
        let client = recorded.gateway.client().await;
        client.hears("x__echo").await;
        assert_eq!(kind_of_failure(&client, "x__hang_server").await, "call_timeout");
        until_refused(&client, "x__echo").await;
        for _ in 0..3 {
            let result = client.call("x__echo", json!({"text": "hello"})).await;
            assert_eq!(failure(&result)["kind"], "server_not_answering", "{result}");
            assert_eq!(failure(&result)["server"], "x", "{result}");
            let words = text(&result);
            assert!(words.contains("2 calls in a row got no answer") && words.contains("was not sent"), "{words}");
        }
        let record = recorded.latest().await;
        assert_eq!((record.state, record.status), (State::NotSent, Status::Refused), "{record:?}");
        assert_eq!(record.error.expect("an error").kind, "server_not_answering");
        let shown = is_degraded(&recorded.gateway).await;
        assert_eq!(shown["status"], "connected", "{shown}");
        let reason = shown["lastError"].as_str().unwrap_or_default();
        assert!(reason.contains("calls in a row were not answered"), "{shown}");
        if kind == Kind::Stdio {
            return;
        }
        backend.fake().hang(false);
        let heard = async {
            while client.call("x__echo", json!({"text": "hello"})).await["isError"] == true {}
        };
        soon("the server to answer again", heard).await;
        assert_eq!(backend.count("initialize"), 1);
        let healthy = |server: &Value| server["healthStatus"] == "healthy";
        recorded.gateway.rest().until("x", "healthy", healthy).await;
    }

    /// A tool that hangs is not its server: the probe is answered at once, and calls go on.
    async fn a_tool_that_hangs_refuses_no_calls(kind) {
        let backend = unasked(kind, &[]).await;
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let client = gateway.client().await;
        for _ in 0..2 {
            assert_eq!(kind_of_failure(&client, "x__hang").await, "call_timeout");
            assert_eq!(kind_of_failure(&client, "x__hang").await, "call_timeout");
            client.hears("x__echo").await;
        }
    }

    /// A server that answers pings and leaves every call without an answer is degraded until it answers one.
    async fn calls_that_all_run_out_of_time_degrade_a_server(kind) {
        let backend = unasked(kind, &[]).await;
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.hears("x__echo").await;
        for _ in 0..3 {
            assert_eq!(kind_of_failure(&client, "x__hang").await, "call_timeout");
        }
        let rest = gateway.rest();
        let counts = |server: &Value| server["failingCalls"]["failed"] == 3;
        let shown = rest.until("x", "degraded by its calls", counts).await;
        assert_eq!(shown["failingCalls"]["of"], 4, "{shown}");
        let pinged = |server: &Value| {
            let reason = server["lastError"].as_str().unwrap_or_default();
            reason == "answers pings; its last 3 calls failed: no answer in time"
        };
        let shown = rest.until("x", "said to answer pings", pinged).await;
        assert_eq!(shown["healthStatus"], "degraded", "{shown}");
        client.hears("x__echo").await;
        let healthy = |server: &Value| server["healthStatus"] == "healthy";
        let shown = rest.until("x", "healthy", healthy).await;
        assert!(shown.get("failingCalls").is_none(), "{shown}");
    }

    /// The documents of the other presets know no such thing, and a policy may say so.
    async fn other_policies_go_on_calling(kind) {
        let backend = unasked(kind, &[]).await;
        let backend = backend.option("health", json!({"intervalMs": 0, "unansweredCalls": 0}));
        let manual = unasked(kind, &[]).await.option("preset", "manual");
        for backend in [backend, manual] {
            let gateway = Gateway::of(&[("x", &backend)]).await;
            let client = gateway.client().await;
            client.call("x__hang_server", json!({})).await;
            for _ in 0..3 {
                assert_eq!(kind_of_failure(&client, "x__echo").await, "call_timeout");
            }
        }
    }
}

/// A session of one client's own refuses calls and is asked like the shared one.
#[tokio::test]
async fn an_isolated_session_refuses_calls_as_well() {
    let backend = unasked(Kind::Http, &[]).await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let client = gateway.client_at("/servers/x/mcp").await;
    client.hears("echo").await;
    client.call("hang_server", json!({})).await;
    until_refused(&client, "echo").await;
    backend.fake().hang(false);
    let heard =
        async { while client.call("echo", json!({"text": "hello"})).await["isError"] == true {} };
    soon("the server to answer again", heard).await;
}

/// A server that computes is at work, however many calls run out of time.
#[tokio::test]
async fn a_server_that_computes_refuses_no_calls() {
    let backend = unasked(Kind::Stdio, &[]).await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.hears("x__echo").await;
    assert_eq!(kind_of_failure_of(&client, 6000).await, "call_timeout");
    for _ in 0..3 {
        assert_eq!(kind_of_failure(&client, "x__echo").await, "call_timeout");
    }
}

async fn kind_of_failure_of(client: &Http, busy: u64) -> Value {
    let result = client.call("x__busy", json!({"ms": busy})).await;
    failure(&result)["kind"].clone()
}

/// A health URL says that a page is served, not that calls are answered: a server whose calls are refused
/// is asked by a message of the protocol.
#[tokio::test]
async fn a_health_url_keeps_no_server_from_being_called_again() {
    let backend = Backend::start(Kind::Http, &["--health", "200"]).await;
    let url = backend.fake().url().replace("/mcp", "/health");
    let health = json!({"method": "http", "intervalMs": 100, "timeoutMs": 100});
    let backend = backend
        .option("healthCheckUrl", url)
        .option("health", health)
        .option("timeout_s", 0.3);
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.hears("x__echo").await;
    for _ in 0..2 {
        assert_eq!(kind_of_failure(&client, "x__hang").await, "call_timeout");
    }
    let heard = async {
        while client.call("x__echo", json!({"text": "hello"})).await["isError"] == true {}
    };
    soon("calls to be sent again", heard).await;
}
