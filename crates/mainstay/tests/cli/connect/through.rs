//! Messages pass through a front while the daemon runs.

use mainstay_testkit::{found, home, limits::PROGRAMS, until};
use serde_json::{Value, json};

use super::front::{Front, initialize};
use crate::fakes::fakes;

#[tokio::test]
async fn all_revisions_with_a_session_are_spoken_and_the_session_is_ended() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut front = Front::open(&home, &["connect"], revision).await;
        let answer = front.call("fake__echo", json!({"text": revision})).await;
        assert_eq!(answer["result"]["content"][0]["text"], revision, "{answer}");
        let (code, stderr) = front.end().await;
        assert_eq!(code, Some(0), "{stderr}");
    }
    let metrics = mainstay_testkit::get(&daemon.url, "/metrics").await;
    let sessions = metrics
        .lines()
        .find(|line| line.starts_with("mainstay_sessions "));
    if let Some(sessions) = sessions {
        assert!(sessions.ends_with(" 0"), "{sessions}");
    }
    daemon.stop().await;
}

/// Messages of 10 MB pass unchanged in both directions.
#[tokio::test]
async fn large_and_odd_messages_pass() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::open(&home, &["connect", "--server", "fake"], "2025-11-25").await;
    let text = "ü".repeat(5_000_000);
    let answer = front.call("echo", json!({"text": text})).await;
    assert_eq!(answer["result"]["content"][0]["text"], text.as_str());
    let big_result = front.call("big", json!({"bytes": 10_000_000})).await;
    let length = big_result["result"]["content"][0]["text"]
        .as_str()
        .map(str::len);
    assert_eq!(length, Some(10_000_000));
    front.end().await;
    daemon.stop().await;
}

#[tokio::test]
async fn progress_logs_questions_and_cancellations_pass_in_order() {
    let home = home!();
    let counts = home.path().join("counts");
    let flags = ["--count-file", counts.to_str().expect("UTF-8")];
    let config = fakes(&home, &[("fake", &flags)]);
    let daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::open(&home, &["connect", "--server", "fake"], "2025-11-25").await;

    let progress = json!({
        "name": "progress",
        "arguments": {"steps": 3, "intervalMs": 1},
        "_meta": {"progressToken": "p"},
    });
    let id = front.ask("tools/call", &progress).await;
    for step in 1..=3 {
        let message = front.next_with_method("notifications/progress").await;
        assert_eq!(message["params"]["progress"], step, "{message}");
        assert_eq!(message["params"]["progressToken"], "p", "{message}");
    }
    front.answer(id).await;

    let id = front
        .ask("logging/setLevel", &json!({"level": "info"}))
        .await;
    front.answer(id).await;
    let id = front.begin("log", json!({"n": 2, "outside": true})).await;
    for line in ["line 1", "line 2"] {
        let message = front.next_with_method("notifications/message").await;
        assert_eq!(message["params"]["data"], line, "{message}");
    }
    front.answer(id).await;

    let id = front.begin("ask", json!({"method": "roots/list"})).await;
    let question = front.next_with_method("roots/list").await;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [{"uri": "file:///x"}]}});
    front.send(&answer).await;
    let answer = front.answer(id).await;
    assert!(answer.to_string().contains("file:///x"), "{answer}");

    let id = front.begin("hang", json!({})).await;
    // A queued call that the client cancels is never sent.
    let runs = || std::fs::read_to_string(&counts).unwrap_or_default();
    until(PROGRAMS, "the call", || runs().contains("hang")).await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    front.send(&cancel).await;
    let message = found(PROGRAMS, "the cancellation", async || {
        let answer = front.call("cancelled", json!({})).await;
        let text = answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        (text != "[]").then_some(text)
    });
    message.await;
    let rest: Vec<Value> = front.rest().await;
    assert!(rest.iter().all(|message| message["id"] != id), "{rest:?}");
    front.end().await;
    daemon.stop().await;
}

/// A second `initialize` opens a new session. Its calls may reuse ids.
#[tokio::test]
async fn a_client_that_initializes_again_gets_a_new_session() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    for arguments in [&["connect"][..], &["connect", "--server", "fake"]] {
        let prefix = if arguments.len() == 1 { "fake__" } else { "" };
        let mut front = Front::open(&home, arguments, "2025-11-25").await;
        let hang_params = json!({"name": format!("{prefix}hang"), "arguments": {}});
        let hanging_result = front.ask("tools/call", &hang_params).await;
        let id = front.ask("initialize", &initialize("2025-06-18")).await;
        let answer = front.answer(id).await;
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-06-18",
            "{answer}"
        );
        front.initialized().await;
        let echo = json!({"name": format!("{prefix}echo"), "arguments": {"text": "hello"}});
        let call =
            json!({"jsonrpc": "2.0", "id": hanging_result, "method": "tools/call", "params": echo});
        front.send(&call).await;
        let answer = front.answer(hanging_result).await;
        assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
        found(PROGRAMS, "one session", async || {
            let metrics = mainstay_testkit::get(&daemon.url, "/metrics").await;
            metrics
                .lines()
                .any(|line| line == "mainstay_sessions 1")
                .then_some(())
        })
        .await;
        front.end().await;
    }
    daemon.stop().await;
}

/// The front answers invalid and early messages with the errors of the stdio door.
#[tokio::test]
async fn mistakes_are_answered() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::start(&home, &["connect"]);
    let early_response = front.ask("tools/list", &json!({})).await;
    let answer = front.answer(early_response).await;
    assert!(answer["error"]["message"].is_string(), "{answer}");
    let early_response = front.ask("ping", &json!({})).await;
    assert_eq!(front.answer(early_response).await["result"], json!({}));
    front
        .send(&json!({"jsonrpc": "2.0", "id": 7, "method": 3}))
        .await;
    front.hear_error().await;
    // An empty batch is invalid.
    front.send(&json!([])).await;
    let answer = front.hear_error().await;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(answer["id"].is_null(), "{answer}");
    front.end().await;
    daemon.stop().await;
}

/// Clients without a session (2026-07-28): calls, streams and cancellation work.
#[tokio::test]
async fn clients_without_a_session_are_served() {
    let home = home!();
    let config = fakes(
        &home,
        &[("fake", &["--revisions", "2025-11-25,2026-07-28"])],
    );
    let daemon = home.serve(&["--config", &config]).await;
    let mut front = Front::start(&home, &["connect"]);
    let id = front.ask("server/discover", &modern(json!({}))).await;
    let answer = front.answer(id).await;
    assert!(answer["result"]["capabilities"].is_object(), "{answer}");
    let call = modern(json!({"name": "fake__echo", "arguments": {"text": "modern"}}));
    let id = front.ask("tools/call", &call).await;
    let answer = front.answer(id).await;
    assert_eq!(answer["result"]["content"][0]["text"], "modern", "{answer}");
    // The front adds the parameter header for HTTP.
    let call = modern(json!({"name": "fake__routed", "arguments": {"region": "eu"}}));
    let id = front.ask("tools/call", &call).await;
    let answer = front.answer(id).await;
    assert!(answer["result"].is_object(), "{answer}");

    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    let listening_response = front.ask("subscriptions/listen", &listen).await;
    front
        .next_with_method("notifications/subscriptions/acknowledged")
        .await;
    let call = modern(json!({"name": "fake__change_tools", "arguments": {}}));
    let id = front.ask("tools/call", &call).await;
    front.answer(id).await;
    let message = front
        .next_with_method("notifications/tools/list_changed")
        .await;
    let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*id, listening_response, "{message}");
    let (code, stderr) = front.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    daemon.stop().await;
}

pub fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}
