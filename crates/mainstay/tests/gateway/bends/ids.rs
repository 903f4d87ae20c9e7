//! Answers whose ids differ from those of their requests. If only one request is possible, Mainstay
//! accepts the answer. Otherwise it reports the wrong id.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, failure, text},
    gateway::{Gateway, soon},
    rogue,
};

async fn start_gateway(backend: &Backend) -> (Gateway, Http) {
    let gateway = Gateway::with_servers(&[("x", backend)]).await;
    let client = gateway.client().await;
    (gateway, client)
}

over_every_transport! {
    async fn an_id_in_another_spelling_is_taken(kind) {
        for bend in ["id-text", "id-float"] {
            let backend = Backend::start(kind, &["--bend", bend]).await;
            let (gateway, client) = start_gateway(&backend).await;
            let direct = gateway.client_at("/servers/x/mcp").await;
            for _ in 0..3 {
                client.assert_echo("x__echo").await;
                direct.assert_echo("echo").await;
            }
            // Each of two concurrent calls gets its own answer.
            let (first_text, second_text) = tokio::join!(
                client.call_text("x__echo", json!({"text": "one"})),
                client.call_text("x__echo", json!({"text": "two"})),
            );
            assert_eq!((&*first_text, &*second_text), ("one", "two"), "{bend}");
        }
    }

    /// An error without an id ends the call if only one call is in flight.
    async fn an_error_without_an_id_ends_the_only_call(kind) {
        let backend = Backend::start(kind, &["--bend", "error-id-null"]).await;
        let (_gateway, client) = start_gateway(&backend).await;
        for _ in 0..3 {
            client.assert_echo("x__echo").await;
            let params = json!({"name": "x__rpc_error"});
            let error = soon("an error", client.error("tools/call", params)).await;
            assert_eq!(error["message"], "the request failed", "{error}");
        }
    }
}

/// If a server answers notifications, such an answer ends no call.
#[tokio::test]
async fn an_answer_to_a_notification_ends_no_call() {
    for kind in [BackendKind::Stdio, BackendKind::Sse] {
        let backend = Backend::start(kind, &["--bend", "answers-notifications"]).await;
        let (_gateway, client) = start_gateway(&backend).await;
        let slow_call = client.call_text("x__sleep", json!({"ms": 300}));
        let (slow_call, ()) = tokio::join!(slow_call, async {
            client.assert_echo("x__echo").await;
        });
        assert_eq!(slow_call, "slept 300 ms");
        assert!(client.tools().await.contains(&"x__echo".to_owned()));
    }
}

/// A POST has exactly one answer, so the id in that answer does not matter.
#[tokio::test]
async fn an_http_answer_is_accepted_under_any_id() {
    for bend in ["id-null", "id-foreign"] {
        for form in ["json", "sse"] {
            for revision in ["2025-11-25", "2026-07-28"] {
                let flags = ["--bend", bend, "--answer", form, "--revisions", revision];
                let backend = Backend::start(BackendKind::Http, &flags).await;
                let (_gateway, client) = start_gateway(&backend).await;
                for _ in 0..3 {
                    client.assert_echo("x__echo").await;
                }
            }
        }
    }
}

/// If a stream contains several answers with unknown ids, the error lists these ids.
#[tokio::test]
async fn several_foreign_answers_are_named() {
    let entry = rogue::start(|_| {
        let answer = |id: &str| format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n\n");
        let body = [answer("\"a\""), answer("4711")].concat();
        format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    })
    .await;
    let gateway = Gateway::start(&json!({"mcpServers": {"x": entry}})).await;
    let client = gateway.client().await;
    let failed_result = soon("a failure", client.call("x__act", json!({}))).await;
    let text = text(&failed_result);
    assert!(
        text.contains(r#"ids that no request has: \"a\", 4711"#),
        "{text}"
    );
}

/// On a shared connection, an answer with an unknown id cannot be assigned to a request. After the
/// timeout, the error lists the unknown ids.
#[tokio::test]
async fn a_call_that_waits_in_vain_names_the_ids_that_came() {
    let backend = Backend::start(BackendKind::Sse, &[])
        .await
        .option("timeout_s", 0.5);
    let (_gateway, client) = start_gateway(&backend).await;
    client.assert_echo("x__echo").await;
    let (result, ()) = tokio::join!(client.call("x__hang", json!({})), async {
        backend.until_called("hang").await;
        backend
            .fake()
            .publish(r#"{"jsonrpc":"2.0","id":"nobody-asked","result":{}}"#);
    });
    assert_eq!(failure(&result)["kind"], "call_timeout");
    let text = text(&result);
    assert!(
        text.contains(r#"ids that no request has: \"nobody-asked\""#),
        "{text}"
    );
}

/// A server whose answers all have unknown ids never connects. The reason lists the ids.
#[tokio::test]
async fn a_server_of_foreign_ids_is_not_connected() {
    for kind in [BackendKind::Stdio, BackendKind::Sse] {
        let backend = Backend::start(kind, &["--bend", "id-foreign"]).await;
        let backend = backend
            .option("timeout_s", 1)
            .option("connectTimeoutMs", 500);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        let is_named = |server: &Value| {
            let reason = server["lastError"].as_str();
            reason.is_some_and(|reason| reason.contains(r#"no request has: "of-the-server-"#))
        };
        let server = rest.until("x", "a reason", is_named).await;
        assert_ne!(server["status"], "connected");
    }
}
