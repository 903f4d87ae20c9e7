//! Servers that send too many messages. Mainstay drops and counts the messages above a rate.
//! Answers still arrive.

use std::pin::pin;

use mainstay_gateway::GatewayOptions;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{text, value},
    gateway::{Gateway, config, soon},
    metrics::Scrape,
};

/// The number of lines in a flood, and the length of a line.
const LINES: u32 = 20_000;
const LINE: u32 = 102;

const MODERN: &[&str] = &["--revisions", "2026-07-28"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_messages_beyond_a_rate_are_dropped_and_the_answer_comes() {
    log_messages_are_dropped(Backend::stdio().await, "stdout").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_precede_the_result_on_a_stream() {
    log_messages_are_dropped(Backend::http().await, "answer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_precede_the_result_on_a_modern_stream() {
    let backend = Backend::start(BackendKind::Http, MODERN).await;
    log_messages_are_dropped(backend, "answer").await;
}

/// Log messages above a rate are dropped and counted. The server's log and a message to the client
/// say so. The answer still arrives.
async fn log_messages_are_dropped(backend: Backend, target: &str) {
    let state = tempfile::tempdir().expect("a temporary folder");
    let options = GatewayOptions {
        state: Some(state.path().to_owned()),
        ..GatewayOptions::default()
    };
    let gateway = Gateway::with_options(&config(&[("x", &backend)], json!({})), options).await;
    let client = gateway.client().await;
    client
        .result("logging/setLevel", json!({"level": "debug"}))
        .await;
    let arguments = json!({"to": target, "of": "log", "bytes": LINES * LINE});
    let params = json!({"name": "x__flood", "arguments": arguments}).to_string();
    let texts = client.exchange("tools/call", &params).await;
    let mut messages: Vec<Value> = texts.iter().map(|text| value(text)).collect();
    let answer = messages.pop().expect("an answer");
    assert_eq!(text(&answer["result"]), "flooded");
    assert!(messages.len() < LINES as usize / 2, "{}", messages.len());
    let own_messages = messages
        .iter()
        .filter(|message| message["params"]["logger"] == "mainstay");
    assert!(own_messages.count() <= 1, "{:?}", messages.last());
    let rest = gateway.rest();
    let written_text = async {
        loop {
            let log = rest.get("/api/servers/x/logs").await.to_string();
            let reports = log.matches("sends too many log messages").count();
            if reports > 0 {
                return reports;
            }
        }
    };
    assert_eq!(soon("the log", written_text).await, 1);
    let scrape = Scrape::fetch(&gateway).await;
    let dropped_count = scrape.of_server("mainstay_server_dropped_notifications_total");
    assert!(dropped_count >= f64::from(LINES / 2), "{dropped_count}");
    // After the flood, messages arrive again.
    client.assert_echo("x__echo").await;
}

/// While a server floods, it and other servers answer calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_answered_while_a_server_floods() {
    let (flooding_backend, calm_backend) = tokio::join!(Backend::stdio(), Backend::http());
    let gateway = Gateway::with_servers(&[("x", &flooding_backend), ("calm", &calm_backend)]).await;
    let client = gateway.client().await;
    for flood in [
        json!({"to": "stdout", "of": "log", "bytes": 1_000_000}),
        json!({"to": "stdout", "of": "tools_changed", "bytes": 1_000_000}),
        json!({"to": "stdout", "of": "broken", "bytes": 1_000_000}),
        json!({"to": "stdout", "bytes": 10_000_000}),
        json!({"to": "stderr", "bytes": 10_000_000}),
    ] {
        let flood_name = flood.to_string();
        let flooding_backend = client.call_text("x__flood", flood);
        let other_calls = async {
            for _ in 0..5 {
                client.assert_echo("x__echo").await;
                client.assert_echo("calm__echo").await;
            }
        };
        let (answer, ()) = soon(&flood_name, async {
            tokio::join!(flooding_backend, other_calls)
        })
        .await;
        assert_eq!(answer, "flooded", "{flood_name}");
    }
}

/// An answer with very many notifications is read at a limited rate. Other calls are answered
/// meanwhile.
async fn an_answer_full_of_notifications_is_read_slowly(flags: &[&str]) {
    let backend = Backend::start(BackendKind::Http, flags).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    // At the allowed rate, this flood takes almost five seconds.
    let flood = json!({"to": "answer", "of": "tools_changed", "bytes": 40_000 * 95});
    let mut flooding_result = pin!(client.call_text("x__flood", flood));
    let other_result = client.call_text("x__sleep", json!({"ms": 2000}));
    tokio::select! {
        text = flooding_result.as_mut() => panic!("{text} before the other call was answered"),
        text = other_result => assert_eq!(text, "slept 2000 ms"),
    }
    assert_eq!(soon("the answer", flooding_result).await, "flooded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_in_an_answer_are_read_slowly() {
    an_answer_full_of_notifications_is_read_slowly(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_in_a_modern_answer_are_read_slowly() {
    an_answer_full_of_notifications_is_read_slowly(MODERN).await;
}
