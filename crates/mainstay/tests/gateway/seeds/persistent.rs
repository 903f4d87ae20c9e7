//! Document 001 under `persistent`: for ever, by itself and for every call, with early warnings only.

use http::StatusCode;
use serde_json::{Value, json};

use super::{brief, kinds, told, until_told};
use crate::{
    backend::{Backend, Kind},
    client::{failure, text},
    gateway::{Gateway, until},
    loss::{kill, pid},
    rest_client::never,
};

async fn under(servers: &[(&str, &Backend)]) -> Gateway {
    super::under("persistent", servers).await
}

fn of<'e>(events: &'e [(String, Value)], kind: &str) -> &'e Value {
    let event = events.iter().find(|(told, _)| told == kind);
    &event.unwrap_or_else(|| panic!("no {kind} in {events:?}")).1
}

over_every_transport! {
    /// I1–I3, G13: killed, it is told to be lost, to be tried, and to be back with its capabilities.
    async fn a_killed_server_is_told_of_and_comes_back(kind) {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let tools = client.tools().await;
        backend.leave(&client).await;
        // A call shows that a server over HTTP has gone.
        client.call("x__echo", json!({})).await;
        until_told(&rest, "x", "server_reconnecting").await;
        assert_eq!(client.tools().await, tools, "they stay listed");
        backend.come_back().await;
        let events = until_told(&rest, "x", "server_reconnected").await;
        assert_eq!(kinds(&events)[..3], ["server_connected", "server_disconnected", "server_reconnecting"]);
        assert_eq!(of(&events, "server_disconnected")["wasIntentional"], false);
        let trying = of(&events, "server_reconnecting");
        assert_eq!(trying["attempt"], 1, "{trying}");
        assert!(trying["nextRetryMs"].as_u64().is_some_and(|wait| wait <= 1100), "{trying}");
        let back = of(&events, "server_reconnected");
        assert!(back["attemptsTaken"].is_u64() && back["capabilities"]["tools"].is_object(), "{back}");
        client.hears("x__echo").await;
    }

    /// Y1: more attempts than any other preset has, and still one to come; W2.
    async fn it_is_tried_for_ever(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", brief());
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        client.call("x__echo", json!({})).await;
        let tried = |server: &Value| server["reconnectAttempt"].as_u64() >= Some(8) && server["nextRetryMs"].is_u64();
        let shown = rest.until("x", "tried eight times", tried).await;
        assert_eq!(shown["status"], "reconnecting", "{shown}");
        backend.come_back().await;
        rest.until_status("x", "connected").await;
        client.hears("x__echo").await;
    }

    /// G8, K9, W5: a call tries at once, whatever the schedule; where that fails it says what is known.
    async fn a_call_tries_at_once_and_says_what_came_of_it(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", never());
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        client.call("x__echo", json!({})).await;
        rest.until("x", "waiting", |server| server["nextRetryMs"].is_u64()).await;
        let result = client.call("x__echo", json!({})).await;
        let found = failure(&result);
        assert_eq!((&found["kind"], &found["status"]), (&json!("server_not_connected"), &json!("reconnecting")), "{found}");
        assert!(found["attempt"].is_u64() && found["lastAttempt"] == found["attempt"]);
        assert!( found["nextRetryMs"].is_u64() && found["lastError"].is_string(), "{found}");
        assert!(text(&result).contains("Server 'x' is reconnecting"), "{result}");
        backend.come_back().await;
        client.hears("x__echo").await;
    }

    /// H6, H7: checks that fail warn, once, and close nothing; a call that succeeds ends the warning.
    async fn failed_checks_warn_and_close_nothing(kind) {
        // It is a ping here, for the fake can be told to leave that unanswered.
        let health = json!({"intervalMs": 100, "timeoutMs": 100, "jitter": 0, "method": "ping", "hangAfterMs": 200});
        let backend = Backend::start(kind, &["--ignore-ping"]).await.option("health", health);
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let events = until_told(&rest, "x", "server_health_degraded").await;
        let warned = of(&events, "server_health_degraded");
        assert_eq!(warned["consecutiveFailures"], 3, "{warned}");
        assert!(warned["lastError"].as_str().is_some_and(|words| words.contains("timed out")), "{warned}");
        let failures = |server: &Value| server["consecutiveHealthFailures"].as_u64() >= Some(8);
        let shown = rest.until("x", "asked in vain", failures).await;
        assert_eq!((&shown["status"], &shown["healthStatus"]), (&json!("connected"), &json!("degraded")), "{shown}");
        client.hears("x__echo").await;
        let events = until_told(&rest, "x", "server_health_restored").await;
        assert_eq!(kinds(&events)[..3], ["server_connected", "server_health_degraded", "server_health_restored"]);
        assert_eq!(backend.count("initialize"), 1);
    }

    /// I10, O4, W7: a forced reconnect of a server that is well is one intended loss and a return.
    async fn a_forced_reconnect_is_told_as_intended(kind) {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        client.hears("x__echo").await;
        backend.offer(1);
        rest.done("x", "reconnect").await;
        let events = until_told(&rest, "x", "server_reconnected").await;
        assert_eq!(kinds(&events), ["server_connected", "server_disconnected", "server_reconnected"]);
        assert_eq!(of(&events, "server_disconnected")["wasIntentional"], true);
        assert!(client.tools().await.contains(&"x__tool_1".to_owned()));
    }

    /// G9, G10, W1: lost again and again, it is tried by one attempt at a time, and each loss is the first.
    async fn each_of_many_losses_is_the_first(kind) {
        let backend = Backend::start(kind, &[]).await.option("reconnect", brief());
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        client.hears("x__echo").await;
        for session in 2..=5 {
            // A call that crashes it for the fourth time would be refused.
            match kind {
                Kind::Stdio => kill(&pid(&client, "x__pid").await),
                Kind::Http | Kind::Sse => drop(client.call("x__crash", json!({})).await),
            }
            until("the next session", || backend.count("notifications/initialized") == session).await;
            rest.until_status("x", "connected").await;
        }
        let events = told(&rest, "x").await;
        let attempts = events.iter().filter(|(kind, _)| kind == "server_reconnecting");
        assert!(attempts.into_iter().all(|(_, data)| data["attempt"] == 1), "{events:?}");
        assert_eq!(backend.count("initialize"), 5);
    }

    /// I9, W4: a stop while it is tried ends that, and is announced once.
    async fn a_stop_while_it_is_tried_ends_it(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", brief());
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        client.call("x__echo", json!({})).await;
        rest.until("x", "tried again", |server| server["reconnectAttempt"].as_u64() >= Some(2)).await;
        rest.done("x", "stop").await;
        backend.come_back().await;
        let events = told(&rest, "x").await;
        let (last, data) = events.last().expect("an event");
        assert_eq!((last.as_str(), &data["wasIntentional"]), ("server_disconnected", &json!(true)), "{events:?}");
        let shown = rest.server("x").await;
        assert_eq!((&shown["status"], &shown["nextRetryMs"]), (&json!("disconnected"), &Value::Null), "{shown}");
    }

    /// A server that is removed while it is tried is not tried again, and one intended disconnect and
    /// the removal are all that is told of it from then on.
    async fn a_removal_while_it_is_tried_ends_it(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", brief());
        let other = Backend::fickle(Kind::Http, &[]).await.option("reconnect", brief());
        let gateway = under(&[("x", &backend), ("other", &other)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        for (name, backend) in [("x", &backend), ("other", &other)] {
            backend.leave(&client).await;
            client.call(&format!("{name}__echo"), json!({})).await;
            rest.until(name, "tried again", |server| server["reconnectAttempt"].as_u64() >= Some(2)).await;
        }
        let (status, answer) = rest.delete("/api/mcp-clients/x").await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        backend.come_back().await;
        other.come_back().await;
        // Its schedule is the other's, which has been tried and is back.
        rest.until_status("other", "connected").await;
        assert_eq!(backend.count("initialize"), 1);
        let events = until_told(&rest, "x", "server_removed").await;
        let after = events.iter().skip_while(|(_, data)| data["wasIntentional"] != true);
        let after: Vec<_> = after.map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(after, ["server_disconnected", "server_removed"], "{events:?}");
        assert_eq!(rest.names().await, ["other"]);
    }
}

/// H5: the probe is the list, and none is sent without a connection.
#[tokio::test]
async fn the_list_of_tools_is_what_is_asked_for() {
    let health = json!({"intervalMs": 100, "jitter": 0});
    let backend = Backend::fickle(Kind::Http, &[])
        .await
        .option("health", health)
        .option("reconnect", never());
    let gateway = under(&[("x", &backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    backend.until_count("tools/list", 5).await;
    assert_eq!((backend.count("ping"), backend.count("initialize")), (0, 1));
    backend.leave(&client).await;
    rest.until("x", "waiting", |server| server["nextRetryMs"].is_u64())
        .await;
    assert!(rest.server("x").await["healthStatus"].is_null());
    backend.come_back().await;
    rest.done("x", "reconnect").await;
    let asked = backend.count("tools/list");
    backend.until_count("tools/list", asked + 3).await;
}
