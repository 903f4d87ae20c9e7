//! Servers that announce changes of their lists without end.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, until},
};

/// Number of readings of a list before the pauses begin: the first reading, and the readings that follow at
/// once.
const PROMPT: usize = 7;

const AGAIN: &str = "says again and again";

over_every_transport! {
    /// A server announces a change at each reading of a list. It is read less and less often, and its status
    /// says so.
    async fn a_list_that_is_announced_at_each_reading_is_read_ever_less_often(kind) {
        for revisions in [&[][..], &["--revisions", "2026-07-28"]] {
            if kind == BackendKind::Sse && !revisions.is_empty() {
                continue;
            }
            let flags = [&["--bend", "announce-at-lists"], revisions].concat();
            let backend = Backend::start(kind, &flags).await;
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            let rest = gateway.rest();
            let server = rest.until("x", "the note", |server| note(server).contains(AGAIN)).await;
            assert_eq!(server["connected"], true, "{server}");
            assert_eq!(server["healthStatus"], "healthy", "{server}");
            for list in ["tools/list", "prompts/list", "resources/list"] {
                // One more reading may have happened meanwhile. An announcement before the stream is open is lost.
                let count = backend.count(list);
                assert!((1..=PROMPT + 1).contains(&count), "{list}: {count}");
            }
            let client = gateway.client().await;
            client.assert_echo("x__echo").await;
        }
    }

    /// Tools that change at each reading fill neither the events nor the clients' streams.
    async fn tools_that_come_and_go_are_told_now_and_then(kind) {
        let backend = Backend::start(kind, &["--bend", "alternating-tools"]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        rest.until("x", "the note", |server| note(server).contains(AGAIN)).await;
        let change_events = || async {
            let events = rest.get("/api/events/recent?limit=1000").await;
            let events = events["events"].as_array().expect("a list").clone();
            events.iter().filter(|event| event["type"] == "tools_changed").count()
        };
        let before = change_events().await;
        assert!(before < PROMPT, "{before}");
        // Two more readings, after pauses.
        let listed = backend.count("tools/list");
        until("two more listings", || backend.count("tools/list") >= listed + 2).await;
        assert_eq!(change_events().await, before);
        client.assert_echo("x__echo").await;
    }
}

fn note(server: &Value) -> &str {
    server["lastError"].as_str().unwrap_or_default()
}

/// A list that changes now and then is read at once after each change.
#[tokio::test]
async fn a_list_that_settles_is_read_at_once_again() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let mut stream = client.listen().await;
    for remove in [false, true, false] {
        client
            .call("x__change_tools", json!({"remove": remove}))
            .await;
        assert_eq!(
            stream.message().await["method"],
            "notifications/tools/list_changed"
        );
        let has = client.tools().await.contains(&"x__extra".to_owned());
        assert_eq!(has, !remove);
    }
}
