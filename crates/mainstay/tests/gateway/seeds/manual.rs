//! Document 004 with the preset `manual`: probes and reconnects only by hand. `tests/outside` tests
//! the SQLite server of the document.

use serde_json::{Value, json};

use super::{assert_echo, call, kinds, server_events, tools, until_event};
use crate::{
    backend::{Backend, BackendKind},
    client::text,
    gateway::{Gateway, soon},
};

async fn start_with_preset(servers: &[(&str, &Backend)]) -> Gateway {
    super::start_with_preset("manual", servers).await
}

over_every_transport! {
    /// If the connection has failed, the error contains the server's status (H9).
    async fn a_failed_call_says_how_its_server_is(kind) {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let result = client.call("x__error", json!({})).await;
        assert!(!result.to_string().contains("(server x"), "{result}");
        backend.leave(&client).await;
        let matching_result = async {
            loop {
                let response = client.request("tools/call", json!({"name": "x__echo"})).await;
                if response["error"].is_object() {
                    return response["error"].clone();
                }
            }
        };
        let error = soon("a call that finds nobody", matching_result).await;
        let state = rest.server("x").await["status"].as_str().expect("a word").to_owned();
        assert_eq!(error["data"]["status"], state, "{error}");
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("'x'") && message.contains(&state), "{message}");
        let health = rest.get("/api/health").await;
        assert_eq!(health["servers"][0]["status"], "error", "{health}");
    }

    /// A lost server is not tried again. After a manual reconnect, its new tools are listed (B12,
    /// G16).
    async fn a_person_reconnects(kind) {
        let (backend, calm_backend) = (Backend::fickle(kind, &[]).await, Backend::http().await);
        let gateway = start_with_preset(&[("x", &backend), ("calm", &calm_backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        assert_echo(&rest, "calm").await;
        backend.leave(&client).await;
        call(&rest, "x/echo", json!({})).await;
        rest.until("x", "down", |server| server["connected"] == false).await;
        assert!(rest.server("x").await["nextRetryMs"].is_null());
        let (status, answer) = rest.operate("x", "reconnect").await;
        assert!(status.is_server_error() && answer["error"] == "connect_failed", "{answer}");
        backend.come_back().await;
        backend.offer(1);
        let answer = rest.done("x", "reconnect").await;
        assert_eq!((&answer["success"], &answer["status"]), (&json!(true), &json!("connected")), "{answer}");
        assert!(tools(&rest, "x").await.contains(&"x/tool_1".to_owned()));
        assert_echo(&rest, "x").await;
        assert_eq!(calm_backend.count("initialize"), 1);
    }
}

/// If a call loses its server, the error does not promise a reconnect (H9).
#[tokio::test]
async fn a_call_that_loses_its_server_says_that_it_is_gone() {
    let backend = Backend::stdio().await;
    let gateway = start_with_preset(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let message = text(&client.call("x__crash", json!({})).await);
    // The status depends on whether the process was reaped before the error.
    let texts = ["(server x is disconnected)", "(server x is crashed)"];
    assert!(texts.iter().any(|text| message.contains(text)), "{message}");
}

/// Probes in the background need an interval. A change of health is reported once (B13, H12).
#[tokio::test]
async fn the_background_asks_only_where_it_is_told_to() {
    let flags = ["--ignore-ping"];
    let silent_backend = Backend::start(BackendKind::Http, &flags).await;
    let health = json!({"intervalMs": 100, "timeoutMs": 100, "jitter": 0});
    let checked_backend = Backend::start(BackendKind::Http, &flags)
        .await
        .option("health", health);
    let gateway =
        start_with_preset(&[("silent", &silent_backend), ("asked", &checked_backend)]).await;
    let rest = gateway.rest();
    let is_degraded = |server: &Value| server["healthStatus"] == "degraded";
    rest.until("asked", "degraded", is_degraded).await;
    checked_backend.until_count("ping", 6).await;
    let events = until_event(&rest, "asked", "server_health_degraded").await;
    assert_eq!(
        kinds(&events),
        ["server_connected", "server_health_degraded"]
    );
    assert_echo(&rest, "asked").await;
    until_event(&rest, "asked", "server_health_restored").await;
    assert_eq!(checked_backend.count("initialize"), 1);
    assert_eq!(
        (
            silent_backend.count("ping"),
            kinds(&server_events(&rest, "silent").await)
        ),
        (0, vec!["server_connected"])
    );

    rest.done("asked", "stop").await;
    let previous_count = checked_backend.count("ping");
    // The pings of another server show that enough time has passed for a ping of the stopped
    // server.
    let clock = Backend::start(BackendKind::Http, &[])
        .await
        .option("health", json!({"intervalMs": 100, "jitter": 0}));
    let _other = start_with_preset(&[("clock", &clock)]).await;
    clock.until_count("ping", 5).await;
    assert_eq!(checked_backend.count("ping"), previous_count);
}
