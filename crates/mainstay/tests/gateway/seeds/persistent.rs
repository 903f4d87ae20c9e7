//! Document 001 with the preset `persistent`: unlimited retries, attempts because of calls, and
//! warnings.

use http::StatusCode;
use serde_json::{Value, json};

use super::{brief_retry, kinds, server_events, until_event};
use crate::{
    backend::{Backend, BackendKind},
    client::{failure, text},
    gateway::{Gateway, until},
    loss::{kill, pid},
    rest_client::never_retry,
};

async fn start_with_preset(servers: &[(&str, &Backend)]) -> Gateway {
    super::start_with_preset("persistent", servers).await
}

fn data_of<'e>(events: &'e [(String, Value)], kind: &str) -> &'e Value {
    let event = events.iter().find(|(event_type, _)| event_type == kind);
    &event.unwrap_or_else(|| panic!("no {kind} in {events:?}")).1
}

over_every_transport! {
    /// There are events for the loss, for the retry, and for the reconnection with its capabilities
    /// (I1–I3, G13).
    async fn a_killed_server_is_told_of_and_comes_back(kind) {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let tools = client.tools().await;
        backend.leave(&client).await;
        // Over HTTP, the loss is noticed only by a failed call.
        client.call("x__echo", json!({})).await;
        until_event(&rest, "x", "server_reconnecting").await;
        assert_eq!(client.tools().await, tools, "they stay listed");
        backend.come_back().await;
        let events = until_event(&rest, "x", "server_reconnected").await;
        assert_eq!(kinds(&events)[..3], ["server_connected", "server_disconnected", "server_reconnecting"]);
        assert_eq!(data_of(&events, "server_disconnected")["wasIntentional"], false);
        let retry_data = data_of(&events, "server_reconnecting");
        assert_eq!(retry_data["attempt"], 1, "{retry_data}");
        assert!(retry_data["nextRetryMs"].as_u64().is_some_and(|wait| wait <= 1100), "{retry_data}");
        let reconnect_data = data_of(&events, "server_reconnected");
        assert!(reconnect_data["attemptsTaken"].is_u64() && reconnect_data["capabilities"]["tools"].is_object(), "{reconnect_data}");
        client.assert_echo("x__echo").await;
    }

    /// Attempts continue where other presets stop (Y1, W2).
    async fn a_lost_server_is_retried_without_limit(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", brief_retry());
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        client.call("x__echo", json!({})).await;
        let is_late = |server: &Value| server["reconnectAttempt"].as_u64() >= Some(8) && server["nextRetryMs"].is_u64();
        let server = rest.until("x", "tried eight times", is_late).await;
        assert_eq!(server["status"], "reconnecting", "{server}");
        backend.come_back().await;
        rest.until_status("x", "connected").await;
        client.assert_echo("x__echo").await;
    }

    /// A call leads to an immediate attempt. Its error has the reason why the attempt failed (G8,
    /// K9, W5).
    async fn a_call_tries_at_once_and_says_what_came_of_it(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", never_retry());
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        client.call("x__echo", json!({})).await;
        rest.until("x", "waiting", |server| server["nextRetryMs"].is_u64()).await;
        let result = client.call("x__echo", json!({})).await;
        let failure_data = failure(&result);
        assert_eq!((&failure_data["kind"], &failure_data["status"]), (&json!("server_not_connected"), &json!("reconnecting")), "{failure_data}");
        assert!(failure_data["attempt"].is_u64() && failure_data["lastAttempt"] == failure_data["attempt"]);
        assert!( failure_data["nextRetryMs"].is_u64() && failure_data["lastError"].is_string(), "{failure_data}");
        assert!(text(&result).contains("Server 'x' is reconnecting"), "{result}");
        backend.come_back().await;
        client.assert_echo("x__echo").await;
    }

    /// Failed probes cause one warning. A successful call ends it (H6, H7).
    async fn failed_checks_warn_and_close_nothing(kind) {
        // Probe by `ping`, because the fake can ignore pings.
        let health = json!({"intervalMs": 100, "timeoutMs": 100, "jitter": 0, "method": "ping", "hangAfterMs": 200});
        let backend = Backend::start(kind, &["--ignore-ping"]).await.option("health", health);
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let events = until_event(&rest, "x", "server_health_degraded").await;
        let warning_data = data_of(&events, "server_health_degraded");
        assert_eq!(warning_data["consecutiveFailures"], 3, "{warning_data}");
        assert!(warning_data["lastError"].as_str().is_some_and(|text| text.contains("timed out")), "{warning_data}");
        let failures = |server: &Value| server["consecutiveHealthFailures"].as_u64() >= Some(8);
        let server = rest.until("x", "asked in vain", failures).await;
        assert_eq!((&server["status"], &server["healthStatus"]), (&json!("connected"), &json!("degraded")), "{server}");
        client.assert_echo("x__echo").await;
        let events = until_event(&rest, "x", "server_health_restored").await;
        assert_eq!(kinds(&events)[..3], ["server_connected", "server_health_degraded", "server_health_restored"]);
        assert_eq!(backend.count("initialize"), 1);
    }

    /// A forced reconnect causes one event of an intended disconnect, and one of a reconnect (I10,
    /// O4, W7).
    async fn a_forced_reconnect_is_told_as_intended(kind) {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        client.assert_echo("x__echo").await;
        backend.offer(1);
        rest.done("x", "reconnect").await;
        let events = until_event(&rest, "x", "server_reconnected").await;
        assert_eq!(kinds(&events), ["server_connected", "server_disconnected", "server_reconnected"]);
        assert_eq!(data_of(&events, "server_disconnected")["wasIntentional"], true);
        assert!(client.tools().await.contains(&"x__tool_1".to_owned()));
    }

    /// Losses in a row lead to one attempt at a time. After each loss, attempts are counted from 1
    /// (G9, G10, W1).
    async fn each_of_many_losses_is_the_first(kind) {
        let backend = Backend::start(kind, &[]).await.option("reconnect", brief_retry());
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        client.assert_echo("x__echo").await;
        for session in 2..=5 {
            // Kill the process: after three crashes by the same call, the call would be refused.
            match kind {
                BackendKind::Stdio => kill(&pid(&client, "x__pid").await),
                BackendKind::Http | BackendKind::Sse => drop(client.call("x__crash", json!({})).await),
            }
            until("the next session", || backend.count("notifications/initialized") == session).await;
            rest.until_status("x", "connected").await;
        }
        let events = server_events(&rest, "x").await;
        let attempts = events.iter().filter(|(kind, _)| kind == "server_reconnecting");
        assert!(attempts.into_iter().all(|(_, data)| data["attempt"] == 1), "{events:?}");
        assert_eq!(backend.count("initialize"), 5);
    }

    /// A stop ends the retries. It is reported once (I9, W4).
    async fn a_stop_while_it_is_tried_ends_it(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", brief_retry());
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        client.call("x__echo", json!({})).await;
        rest.until("x", "tried again", |server| server["reconnectAttempt"].as_u64() >= Some(2)).await;
        rest.done("x", "stop").await;
        backend.come_back().await;
        let events = server_events(&rest, "x").await;
        let (last_kind, data) = events.last().expect("an event");
        assert_eq!((last_kind.as_str(), &data["wasIntentional"]), ("server_disconnected", &json!(true)), "{events:?}");
        let server = rest.server("x").await;
        assert_eq!((&server["status"], &server["nextRetryMs"]), (&json!("disconnected"), &Value::Null), "{server}");
    }

    /// If a server is removed while it reconnects, its attempts end. Afterwards there are only the
    /// events of one intended disconnect and of the removal.
    async fn a_removal_while_it_is_tried_ends_it(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", brief_retry());
        let other_backend = Backend::fickle(BackendKind::Http, &[]).await.option("reconnect", brief_retry());
        let gateway = start_with_preset(&[("x", &backend), ("other", &other_backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        for (name, backend) in [("x", &backend), ("other", &other_backend)] {
            backend.leave(&client).await;
            client.call(&format!("{name}__echo"), json!({})).await;
            rest.until(name, "tried again", |server| server["reconnectAttempt"].as_u64() >= Some(2)).await;
        }
        let (status, answer) = rest.delete("/api/mcp-clients/x").await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        backend.come_back().await;
        other_backend.come_back().await;
        // Wait for another server with the same schedule, which is connected again.
        rest.until_status("other", "connected").await;
        assert_eq!(backend.count("initialize"), 1);
        let events = until_event(&rest, "x", "server_removed").await;
        let after = events.iter().skip_while(|(_, data)| data["wasIntentional"] != true);
        let after: Vec<_> = after.map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(after, ["server_disconnected", "server_removed"], "{events:?}");
        assert_eq!(rest.names().await, ["other"]);
    }
}

/// The probe is `tools/list`. Without a connection there is no probe (H5).
#[tokio::test]
async fn the_list_of_tools_is_what_is_asked_for() {
    let health = json!({"intervalMs": 100, "jitter": 0});
    let backend = Backend::fickle(BackendKind::Http, &[])
        .await
        .option("health", health)
        .option("reconnect", never_retry());
    let gateway = start_with_preset(&[("x", &backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    backend.until_count("tools/list", 5).await;
    assert_eq!((backend.count("ping"), backend.count("initialize")), (0, 1));
    backend.leave(&client).await;
    rest.until("x", "waiting", |server| server["nextRetryMs"].is_u64())
        .await;
    assert!(rest.server("x").await["healthStatus"].is_null());
    backend.come_back().await;
    rest.done("x", "reconnect").await;
    let lists = backend.count("tools/list");
    backend.until_count("tools/list", lists + 3).await;
}
