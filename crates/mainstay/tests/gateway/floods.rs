//! Servers that say much more than anybody asked: what is beyond a rate is counted, and answers come.

use mainstay::setting::Setting;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, Kind},
    client::{text, value},
    gateway::{Gateway, config, soon},
    metrics::Scrape,
};

/// Lines of a flood, and bytes of each.
const LINES: u32 = 20_000;
const LINE: u32 = 102;

/// Log messages beyond a rate are dropped and counted; the server's log says so once, and so does a message to
/// the client, unless it reads too slowly for that one, too. Its answer comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_messages_beyond_a_rate_are_dropped_and_the_answer_comes() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let backend = Backend::start(Kind::Stdio, &[]).await;
    let setting = Setting {
        state: Some(state.path().to_owned()),
        ..Setting::default()
    };
    let gateway = Gateway::set(&config(&[("x", &backend)], json!({})), setting).await;
    let client = gateway.client().await;
    client
        .result("logging/setLevel", json!({"level": "debug"}))
        .await;
    let arguments = json!({"to": "stdout", "of": "log", "bytes": LINES * LINE});
    let params = json!({"name": "x__flood", "arguments": arguments}).to_string();
    let said = client.exchange("tools/call", &params).await;
    let mut said: Vec<Value> = said.iter().map(|it| value(it)).collect();
    let answer = said.pop().expect("an answer");
    assert_eq!(text(&answer["result"]), "flooded");
    assert!(said.len() < LINES as usize / 2, "{}", said.len());
    let ours = said
        .iter()
        .filter(|it| it["params"]["logger"] == "mainstay");
    assert!(ours.count() <= 1, "{:?}", said.last());
    let rest = gateway.rest();
    let written = async {
        loop {
            let log = rest.get("/api/servers/x/logs").await.to_string();
            let told = log.matches("sends too many log messages").count();
            if told > 0 {
                return told;
            }
        }
    };
    assert_eq!(soon("the log", written).await, 1);
    let scrape = Scrape::of(&gateway).await;
    let dropped = scrape.of_server("mainstay_server_dropped_notifications_total");
    assert!(dropped >= f64::from(LINES / 2), "{dropped}");
    // The flood is over, and what it says then is heard again.
    client.hears("x__echo").await;
}

/// The server's own answers, and those of others, come while it floods, whatever it floods with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_answered_while_a_server_floods() {
    let (flooding, calm) = tokio::join!(Backend::stdio(), Backend::http());
    let gateway = Gateway::of(&[("x", &flooding), ("calm", &calm)]).await;
    let client = gateway.client().await;
    for flood in [
        json!({"to": "stdout", "of": "log", "bytes": 1_000_000}),
        json!({"to": "stdout", "of": "tools_changed", "bytes": 1_000_000}),
        json!({"to": "stdout", "of": "broken", "bytes": 1_000_000}),
        json!({"to": "stdout", "bytes": 10_000_000}),
        json!({"to": "stderr", "bytes": 10_000_000}),
    ] {
        let what = flood.to_string();
        let flooding = client.say("x__flood", flood);
        let others = async {
            for _ in 0..5 {
                client.hears("x__echo").await;
                client.hears("calm__echo").await;
            }
        };
        let (said, ()) = soon(&what, async { tokio::join!(flooding, others) }).await;
        assert_eq!(said, "flooded", "{what}");
    }
}
