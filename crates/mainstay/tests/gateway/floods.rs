//! Servers that say much more than was asked for: what is beyond a rate is counted, and answers come.

use std::pin::pin;

use mainstay_gateway::GatewayOptions;
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

const MODERN: &[&str] = &["--revisions", "2026-07-28"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_messages_beyond_a_rate_are_dropped_and_the_answer_comes() {
    log_messages_are_dropped(Backend::stdio().await, "stdout").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_they_are_on_the_stream_of_an_answer() {
    log_messages_are_dropped(Backend::http().await, "answer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_they_are_on_the_stream_of_a_modern_answer() {
    let backend = Backend::start(Kind::Http, MODERN).await;
    log_messages_are_dropped(backend, "answer").await;
}

/// Log messages beyond a rate are dropped and counted; the server's log says so once, and so does a message to
/// the client, unless it reads too slowly for that one, too. Its answer comes.
async fn log_messages_are_dropped(backend: Backend, to: &str) {
    let state = tempfile::tempdir().expect("a temporary folder");
    let options = GatewayOptions {
        state: Some(state.path().to_owned()),
        ..GatewayOptions::default()
    };
    let gateway = Gateway::set(&config(&[("x", &backend)], json!({})), options).await;
    let client = gateway.client().await;
    client
        .result("logging/setLevel", json!({"level": "debug"}))
        .await;
    let arguments = json!({"to": to, "of": "log", "bytes": LINES * LINE});
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

/// The stream of an answer that is full of notifications is read more slowly, and other calls are answered
/// meanwhile.
async fn an_answer_full_of_notifications_is_read_slowly(flags: &[&str]) {
    let backend = Backend::start(Kind::Http, flags).await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let client = gateway.client().await;
    // By the allowance alone it takes almost five seconds.
    let flood = json!({"to": "answer", "of": "tools_changed", "bytes": 40_000 * 95});
    let mut flooding = pin!(client.say("x__flood", flood));
    let other = client.say("x__sleep", json!({"ms": 2000}));
    tokio::select! {
        said = flooding.as_mut() => panic!("{said} before the other call was answered"),
        said = other => assert_eq!(said, "slept 2000 ms"),
    }
    assert_eq!(soon("the answer", flooding).await, "flooded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_in_an_answer_are_read_slowly() {
    an_answer_full_of_notifications_is_read_slowly(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_in_a_modern_answer_are_read_slowly() {
    an_answer_full_of_notifications_is_read_slowly(MODERN).await;
}
