//! Servers that announce list changes all the time.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, until},
};

/// The maximum number of list requests without a delay: the first one, and those that follow at
/// once.
const MAX_PROMPT_REQUESTS: usize = 7;

const REPEATED_NOTE: &str = "says again and again";

over_every_transport! {
    /// If a server announces a change after each list request, the requests become less and less
    /// frequent. The server's status says so.
    async fn a_list_that_is_announced_at_each_reading_is_read_ever_less_often(kind) {
        for revisions in [&[][..], &["--revisions", "2026-07-28"]] {
            if kind == BackendKind::Sse && !revisions.is_empty() {
                continue;
            }
            let flags = [&["--bend", "announce-at-lists"], revisions].concat();
            let backend = Backend::start(kind, &flags).await;
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            let rest = gateway.rest();
            let server = rest.until("x", "the note", |server| list_note(server).contains(REPEATED_NOTE)).await;
            assert_eq!(server["connected"], true, "{server}");
            assert_eq!(server["healthStatus"], "healthy", "{server}");
            for list in ["tools/list", "prompts/list", "resources/list"] {
                // A further list request may be in flight. An announcement before the stream is
                // open is lost.
                let count = backend.count(list);
                assert!((1..=MAX_PROMPT_REQUESTS + 1).contains(&count), "{list}: {count}");
            }
            let client = gateway.client().await;
            client.assert_echo("x__echo").await;
        }
    }

    /// If a tool changes at each list request, there are few events and few notifications.
    async fn tools_that_come_and_go_are_told_now_and_then(kind) {
        let backend = Backend::start(kind, &["--bend", "alternating-tools"]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        rest.until("x", "the note", |server| list_note(server).contains(REPEATED_NOTE)).await;
        let change_events = || async {
            let events = rest.get("/api/events/recent?limit=1000").await;
            let events = events["events"].as_array().expect("a list").clone();
            events.iter().filter(|event| event["type"] == "tools_changed").count()
        };
        let previous_count = change_events().await;
        assert!(previous_count < MAX_PROMPT_REQUESTS, "{previous_count}");
        // Wait for two more list requests. Each comes after a delay.
        let listed_count = backend.count("tools/list");
        until("two more listings", || backend.count("tools/list") >= listed_count + 2).await;
        assert_eq!(change_events().await, previous_count);
        client.assert_echo("x__echo").await;
    }
}

fn list_note(server: &Value) -> &str {
    server["lastError"].as_str().unwrap_or_default()
}

/// If a list changes rarely, it is requested at once after each change.
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
        let has_extra_tool = client.tools().await.contains(&"x__extra".to_owned());
        assert_eq!(has_extra_tool, !remove);
    }
}
