//! Operations of the operator on servers over REST (O2, O3, M7, M8, M12, Y19, W7, W13, W25).

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::failure,
    gateway::{Gateway, found, until},
    rest_client::{Rest, never_retry},
};

/// Asserts that this is the answer for a connected server (O3).
fn is_connected(answer: &Value) {
    assert_eq!(
        (&answer["success"], &answer["status"]),
        (&json!(true), &json!("connected")),
        "{answer}"
    );
    let tools = answer["tools"].as_array().expect("a list");
    assert!(tools.contains(&json!("x/echo")), "{answer}");
}

/// Makes a server crash until its status is `failed`. At its next start, the server works.
async fn bring_to_failed(gateway: &Gateway, backend: &Backend) {
    backend.leave(&gateway.client().await).await;
    let rest = gateway.rest();
    rest.until_status("x", "failed").await;
    backend.come_back().await;
}

over_every_transport! {
    /// A reconnect opens a new session if the status is `connected`, `disconnected` or
    /// `reconnecting` (O2).
    async fn a_reconnect_leads_to_a_new_session_from_every_state(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", never_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let greeting_count = || backend.count("notifications/initialized");
        is_connected(&rest.done("x", "reconnect").await);
        assert_eq!(greeting_count(), 2, "from connected");

        let stop_answer = rest.done("x", "stop").await;
        assert_eq!((&stop_answer["status"], &stop_answer["tools"]), (&json!("disconnected"), &json!([])), "{stop_answer}");
        is_connected(&rest.done("x", "reconnect").await);
        assert_eq!(greeting_count(), 3, "from disconnected");

        backend.leave(&client).await;
        client.call("x__echo", json!({})).await;
        rest.until("x", "waiting", |server| server["nextRetryMs"].is_u64()).await;
        backend.come_back().await;
        is_connected(&rest.done("x", "reconnect").await);
        let server = rest.server("x").await;
        assert!(server["reconnectAttempt"].is_null(), "{server}");
        client.assert_echo("x__echo").await;
    }

    /// A start over REST starts a failed server. A call does not start it (F10, W25).
    async fn a_failed_server_is_started_by_hand(kind) {
        let reconnect = json!({"initialDelayMs": 100, "maxDelayMs": 100, "maxAttempts": 1, "jitter": 0});
        let backend = Backend::fickle(kind, &[]).await;
        let backend = backend.option("reconnect", reconnect).option("restart", json!({"maxAttempts": 1}));
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        for operation in ["start", "reconnect"] {
            bring_to_failed(&gateway, &backend).await;
            let is_gone = async || client.tools().await.is_empty().then_some(());
            found("a catalog without its tools, because nobody brings it back", is_gone).await;
            let error = client.error("tools/call", json!({"name": "x__echo"})).await;
            let message = error["message"].as_str().unwrap_or_default();
            assert!(message.contains("down after repeated failures"), "{error}");
            is_connected(&rest.done("x", operation).await);
            client.assert_echo("x__echo").await;
        }
    }

    /// The routes of document 002, with the preset of that document (M7, M8, Y19).
    async fn the_routes_of_002_do_what_they_say(kind) {
        let backend = Backend::start(kind, &[]).await.option("preset", "bounded");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        client.assert_echo("x__echo").await;
        let post = async |operation: &str, body: Value| {
            let (status, answer) = rest.post(&format!("/api/mcp-clients/x/{operation}"), body).await;
            assert_eq!(status, StatusCode::OK, "{answer}");
            assert_eq!((&answer["status"], &answer["name"]), (&json!("ok"), &json!("x")), "{answer}");
            answer
        };
        // Without `force`, `reconnect` does nothing to a connected server.
        let answer = post("reconnect", json!({})).await;
        assert!(answer["tools"].as_array().is_some_and(|tools| tools.contains(&json!("x/echo"))), "{answer}");
        assert_eq!(backend.count("initialize"), 1);
        post("reconnect", json!({"force": true})).await;
        assert_eq!(backend.count("initialize"), 2);
        // The command succeeds even if there is nothing to do.
        for _ in 0..2 {
            let answer = post("disconnect", json!({})).await;
            assert_eq!(answer, json!({"status": "ok", "name": "x"}));
            assert_eq!(client.tools().await, Vec::<String>::new());
            assert_eq!(rest.server("x").await["status"], "disconnected");
        }
        let error = client.error("tools/call", json!({"name": "x__echo"})).await;
        assert!(error["message"].as_str().is_some_and(|text| text.contains("disconnected")), "{error}");
        post("reconnect", json!({})).await;
        client.assert_echo("x__echo").await;
        assert_eq!(backend.count("initialize"), 3);
        for route in ["/api/mcp-clients/nobody/reconnect", "/api/mcp-clients/nobody/disconnect", "/api/servers/nobody/start"] {
            let (status, answer) = rest.post(route, json!({})).await;
            assert_eq!((status, &answer["error"]), (StatusCode::NOT_FOUND, &json!("server_not_found")), "{answer}");
        }
    }

    /// A forced reconnect ends only the calls of the old session (W7, K10).
    async fn a_forced_reconnect_ends_the_calls_in_flight(kind) {
        let (backend, calm_backend) = (Backend::start(kind, &[]).await, Backend::start(kind, &[]).await);
        let gateway = Gateway::with_servers(&[("x", &backend), ("calm", &calm_backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let calm_call = json!({"ms": 1500});
        let (lost_result, calm_text, ()) = tokio::join!(
            client.call("x__hang", json!({})),
            client.call_text("calm__sleep", calm_call),
            async {
                backend.until_called("hang").await;
                calm_backend.until_called("sleep").await;
                is_connected(&rest.done("x", "reconnect").await);
            }
        );
        assert_eq!(failure(&lost_result)["kind"], "outcome_unknown", "{lost_result}");
        assert_eq!(calm_text, "slept 1500 ms");
        assert_eq!((backend.runs("hang"), calm_backend.count("initialize")), (1, 1));
        client.assert_echo("x__echo").await;
    }

    /// Every one of several concurrent commands is answered. One session remains (W13).
    async fn operations_at_once_end_well(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        gateway.client().await.assert_echo("x__echo").await;
        let operations = ["reconnect", "stop", "start", "restart", "reconnect", "stop"];
        let all_operations = operations.iter().cycle().take(18).map(|operation| rest.operate("x", operation));
        for (status, answer) in futures_util::future::join_all(all_operations).await {
            // A command fails if a stop comes before its end.
            assert!(status == StatusCode::OK || answer["error"] == "connect_failed", "{status} {answer}");
        }
        is_connected(&rest.done("x", "start").await);
        gateway.client().await.assert_echo("x__echo").await;
        if kind == BackendKind::Http {
            until("one session upstream", || backend.fake().sessions() == 1).await;
        }
    }
}

/// If a reconnect fails, the answer has the reason, and the server is not connected (O2).
#[tokio::test]
async fn a_reconnect_that_fails_says_why() {
    let backend = Backend::fickle(BackendKind::Http, &[])
        .await
        .option("reconnect", never_retry());
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    backend.leave(&client).await;
    let rest: Rest = gateway.rest();
    let (status, answer) = rest.operate("x", "reconnect").await;
    assert_eq!(status, StatusCode::BAD_GATEWAY, "{answer}");
    assert_eq!(
        (&answer["error"], &answer["name"]),
        (&json!("connect_failed"), &json!("x")),
        "{answer}"
    );
    let message = answer["message"].as_str().expect("words");
    assert!(message.contains("cannot connect"), "{answer}");
    let error = client.call("x__echo", json!({})).await;
    assert_eq!(failure(&error)["kind"], "server_not_connected", "{error}");
}
