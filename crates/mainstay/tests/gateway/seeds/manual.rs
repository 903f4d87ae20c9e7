//! Document 004 under `manual`: a person looks, and a person reconnects. Its live SQLite server is in
//! `tests/outside`.

use serde_json::{Value, json};

use super::{call, hears, kinds, told, tools, until_told};
use crate::{
    backend::{Backend, Kind},
    client::text,
    gateway::{Gateway, soon},
};

async fn under(servers: &[(&str, &Backend)]) -> Gateway {
    super::under("manual", servers).await
}

over_every_transport! {
    /// H9: a call whose connection fails says how its server is, and one that fails otherwise does not.
    async fn a_failed_call_says_how_its_server_is(kind) {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let result = client.call("x__error", json!({})).await;
        assert!(!result.to_string().contains("(server x"), "{result}");
        backend.leave(&client).await;
        let found = async {
            loop {
                let response = client.request("tools/call", json!({"name": "x__echo"})).await;
                if response["error"].is_object() {
                    return response["error"].clone();
                }
            }
        };
        let error = soon("a call that finds nobody", found).await;
        let state = rest.server("x").await["status"].as_str().expect("a word").to_owned();
        assert_eq!(error["data"]["status"], state, "{error}");
        let words = error["message"].as_str().expect("words");
        assert!(words.contains("'x'") && words.contains(&state), "{words}");
        let health = rest.get("/api/health").await;
        assert_eq!(health["servers"][0]["status"], "error", "{health}");
    }

    /// B12, G16: nothing comes back by itself; by hand that server does, with what it offers now.
    async fn a_person_reconnects(kind) {
        let (backend, calm) = (Backend::fickle(kind, &[]).await, Backend::http().await);
        let gateway = under(&[("x", &backend), ("calm", &calm)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        hears(&rest, "calm").await;
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
        hears(&rest, "x").await;
        assert_eq!(calm.count("initialize"), 1);
    }
}

/// H9: the very call that loses its server says so, and does not promise that it comes back.
#[tokio::test]
async fn a_call_that_loses_its_server_says_that_it_is_gone() {
    let backend = Backend::stdio().await;
    let gateway = under(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let words = text(&client.call("x__crash", json!({})).await);
    // Whether its process has been seen to end by then is a matter of luck.
    let said = ["(server x is disconnected)", "(server x is crashed)"];
    assert!(said.iter().any(|said| words.contains(said)), "{words}");
}

/// B13, H12: asked in the background where an interval is given, and nowhere else; what turns is told
/// once, and no call is disturbed.
#[tokio::test]
async fn the_background_asks_only_where_it_is_told_to() {
    let flags = ["--ignore-ping"];
    let silent = Backend::start(Kind::Http, &flags).await;
    let health = json!({"intervalMs": 100, "timeoutMs": 100, "jitter": 0});
    let asked = Backend::start(Kind::Http, &flags)
        .await
        .option("health", health);
    let gateway = under(&[("silent", &silent), ("asked", &asked)]).await;
    let rest = gateway.rest();
    let degraded = |server: &Value| server["healthStatus"] == "degraded";
    rest.until("asked", "degraded", degraded).await;
    asked.until_count("ping", 6).await;
    let events = until_told(&rest, "asked", "server_health_degraded").await;
    assert_eq!(
        kinds(&events),
        ["server_connected", "server_health_degraded"]
    );
    hears(&rest, "asked").await;
    until_told(&rest, "asked", "server_health_restored").await;
    assert_eq!(asked.count("initialize"), 1);
    assert_eq!(
        (silent.count("ping"), kinds(&told(&rest, "silent").await)),
        (0, vec!["server_connected"])
    );

    // Stopped, it is asked no more.
    rest.done("asked", "stop").await;
    let before = asked.count("ping");
    // The other one's pings are the clock: as many as would have come to this one.
    let clock = Backend::start(Kind::Http, &[])
        .await
        .option("health", json!({"intervalMs": 100, "jitter": 0}));
    let _other = under(&[("clock", &clock)]).await;
    clock.until_count("ping", 5).await;
    assert_eq!(asked.count("ping"), before);
}
