//! Progress notifications: their tokens and their order (K16).

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{raw, value},
    gateway::Gateway,
};

fn params(tool: &str, token: &Value) -> String {
    json!({"name": tool, "arguments": {"steps": 5}, "_meta": {"progressToken": token, "other": 1}})
        .to_string()
}

/// Asserts that five progress notifications with the client's token arrive in order, and then the
/// result.
fn check(messages: &[Value], token: &Value) {
    assert_eq!(messages.len(), 6, "{messages:?}");
    for (step, message) in (1..=5).zip(messages) {
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progress"], step);
        assert_eq!(message["params"]["total"], 5);
        assert_eq!(message["params"]["progressToken"], *token);
    }
    assert_eq!(messages[5]["result"]["content"][0]["text"], "5 steps done");
}

over_every_transport! {
    async fn all_progress_comes_before_the_result_under_the_clients_token(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let tokens = [json!("my token \"quoted\""), json!(17), json!("17"), json!(0), json!("")];
        for (path, tool) in [("/mcp", "x__progress"), ("/servers/x/mcp", "progress")] {
            let client = gateway.client_at(path).await;
            for token in &tokens {
                let response = client.post(client.request_text("tools/call", &params(tool, token))).await;
                assert!(response.is_stream());
                let messages: Vec<_> = response.messages().iter().map(|message| value(message)).collect();
                check(&messages, token);
            }
        }
        let mut pipe = gateway.pipe().await;
        for token in &tokens {
            let answer = pipe.ask("tools/call", &params("x__progress", token)).await;
            let mut messages = std::mem::take(&mut pipe.other_messages);
            messages.push(value(&answer));
            check(&messages, token);
        }
        // Each upstream call has a token of its own, although the clients use the same token.
        let calls = backend.of_method("tools/call");
        let sent: Vec<_> = calls.iter().map(|call| call["params"]["_meta"]["progressToken"].to_string()).collect();
        let shared_steps = sent.iter().take(5).chain(sent.iter().skip(10));
        let distinct: std::collections::HashSet<_> = shared_steps.collect();
        assert_eq!(distinct.len(), 10, "{sent:?}");
        assert!(calls.iter().all(|call| call["params"]["_meta"]["other"] == 1));
    }

    /// Each of two concurrent calls with the same token gets its own progress.
    async fn progress_finds_its_call(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let clients = [gateway.client().await, gateway.client().await];
        let token = json!("same");
        let params = params("x__progress", &token);
        let calls = clients.iter().map(|client| client.exchange("tools/call", &params));
        for messages in futures_util::future::join_all(calls).await {
            check(&messages.iter().map(|message| value(message)).collect::<Vec<_>>(), &token);
        }
    }

    /// If the client sends no token, Mainstay requests no progress and sends none.
    async fn progress_is_not_forced_on_anyone(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, tool) in [("/mcp", "x__progress"), ("/servers/x/mcp", "progress")] {
            let client = gateway.client_at(path).await;
            let params = json!({"name": tool, "arguments": {"steps": 3}}).to_string();
            assert_eq!(client.exchange("tools/call", &params).await.len(), 1);
        }
        for call in backend.of_method("tools/call") {
            assert_eq!(call["params"]["_meta"]["progressToken"], Value::Null, "{call}");
        }
    }
}

/// If several messages arrive in one chunk of an event stream, they are read in order.
#[tokio::test]
async fn messages_of_one_write_are_told_apart() {
    let backend = Backend::start(BackendKind::Http, &["--coalesce", "--answer", "sse"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let messages = client
        .exchange("tools/call", &params("x__progress", &json!("t")))
        .await;
    check(
        &messages
            .iter()
            .map(|message| value(message))
            .collect::<Vec<_>>(),
        &json!("t"),
    );
}

/// Only the token of a progress notification changes (invariant 5).
#[tokio::test]
async fn a_progress_notification_keeps_its_other_bytes() {
    let entry = crate::rogue::start(|id| {
        let progress = format!(
            r#"{{"jsonrpc":"2.0","x-unknown":1e400,"method":"notifications/progress","params":{{"z":-0,"progressToken":{id},"progress":1.0,"a":"\u00e9"}}}}"#
        );
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
        let body = format!("data: {progress}\n\ndata: {answer}\n\n");
        crate::rogue::http("text/event-stream", &body)
    })
    .await;
    let gateway = Gateway::start(&json!({"mcpServers": {"x": entry}})).await;
    let client = gateway.client().await;
    let messages = client
        .exchange("tools/call", &params("x__act", &json!("t")))
        .await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(raw(&messages[0], "x-unknown"), "1e400");
    assert_eq!(
        raw(&messages[0], "params"),
        r#"{"z":-0,"progressToken":"t","progress":1.0,"a":"\u00e9"}"#
    );
}
