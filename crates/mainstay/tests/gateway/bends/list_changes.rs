//! Servers that announce changes of their lists without end.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, Kind},
    gateway::{Gateway, until},
};

/// The readings of a list before the pauses begin: the first, and those that follow at once.
const PROMPT: usize = 7;

const AGAIN: &str = "says again and again";

over_every_transport! {
    /// A server that announces each list whenever it is listed is listed ever less often, and says so of itself.
    async fn a_list_that_is_announced_at_each_reading_is_read_ever_less_often(kind) {
        for revisions in [&[][..], &["--revisions", "2026-07-28"]] {
            if kind == Kind::Sse && !revisions.is_empty() {
                continue;
            }
            let flags = [&["--bend", "announce-at-lists"], revisions].concat();
            let backend = Backend::start(kind, &flags).await;
            let gateway = Gateway::of(&[("x", &backend)]).await;
            let rest = gateway.rest();
            let server = rest.until("x", "the note", |server| note(server).contains(AGAIN)).await;
            assert_eq!(server["connected"], true, "{server}");
            assert_eq!(server["healthStatus"], "healthy", "{server}");
            for list in ["tools/list", "prompts/list", "resources/list"] {
                // One more may have come meanwhile. What is announced before the stream is open is lost.
                let count = backend.count(list);
                assert!((1..=PROMPT + 1).contains(&count), "{list}: {count}");
            }
            let client = gateway.client().await;
            client.hears("x__echo").await;
        }
    }

    /// Tools that come and go at each listing fill neither the events nor the clients' streams.
    async fn tools_that_come_and_go_are_told_now_and_then(kind) {
        let backend = Backend::start(kind, &["--bend", "alternating-tools"]).await;
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        rest.until("x", "the note", |server| note(server).contains(AGAIN)).await;
        let told = || async {
            let events = rest.get("/api/events/recent?limit=1000").await;
            let events = events["events"].as_array().expect("a list").clone();
            events.iter().filter(|it| it["type"] == "tools_changed").count()
        };
        let before = told().await;
        assert!(before < PROMPT, "{before}");
        // Two more, after pauses.
        let listed = backend.count("tools/list");
        until("two more listings", || backend.count("tools/list") >= listed + 2).await;
        assert_eq!(told().await, before);
        client.hears("x__echo").await;
    }
}

fn note(server: &Value) -> &str {
    server["lastError"].as_str().unwrap_or_default()
}

/// A server that changes a list now and then is read at once, each time.
#[tokio::test]
async fn a_list_that_settles_is_read_at_once_again() {
    let backend = Backend::http().await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
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
