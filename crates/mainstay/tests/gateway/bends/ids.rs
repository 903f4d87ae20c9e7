//! Answers whose ids are not those of their requests: taken where they can belong to one request alone, and
//! named where not.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, Kind},
    client::{Http, failure, text},
    gateway::{Gateway, soon},
    rogue,
};

async fn before(backend: &Backend) -> (Gateway, Http) {
    let gateway = Gateway::of(&[("x", backend)]).await;
    let client = gateway.client().await;
    (gateway, client)
}

over_every_transport! {
    async fn an_id_in_another_spelling_is_taken(kind) {
        for bend in ["id-text", "id-float"] {
            let backend = Backend::start(kind, &["--bend", bend]).await;
            let (gateway, client) = before(&backend).await;
            let own = gateway.client_at("/servers/x/mcp").await;
            for _ in 0..3 {
                client.hears("x__echo").await;
                own.hears("echo").await;
            }
            // Several at once keep their answers apart.
            let (one, two) = tokio::join!(
                client.say("x__echo", json!({"text": "one"})),
                client.say("x__echo", json!({"text": "two"})),
            );
            assert_eq!((&*one, &*two), ("one", "two"), "{bend}");
        }
    }

    /// A server that refuses a request without its id refuses it at once.
    async fn an_error_without_an_id_ends_the_only_call(kind) {
        let backend = Backend::start(kind, &["--bend", "error-id-null"]).await;
        let (_gateway, client) = before(&backend).await;
        for _ in 0..3 {
            client.hears("x__echo").await;
            let params = json!({"name": "x__rpc_error"});
            let error = soon("an error", client.error("tools/call", params)).await;
            assert_eq!(error["message"], "the request failed", "{error}");
        }
    }
}

/// A server may answer every message. Its answer to a notification is no call's.
#[tokio::test]
async fn an_answer_to_a_notification_ends_no_call() {
    for kind in [Kind::Stdio, Kind::Sse] {
        let backend = Backend::start(kind, &["--bend", "answers-notifications"]).await;
        let (_gateway, client) = before(&backend).await;
        let slow = client.say("x__sleep", json!({"ms": 300}));
        let (slow, ()) = tokio::join!(slow, async {
            client.hears("x__echo").await;
        });
        assert_eq!(slow, "slept 300 ms");
        assert!(client.tools().await.contains(&"x__echo".to_owned()));
    }
}

/// One POST has one answer, under whatever id.
#[tokio::test]
async fn over_http_an_answer_under_any_id_is_taken() {
    for bend in ["id-null", "id-foreign"] {
        for form in ["json", "sse"] {
            for revision in ["2025-11-25", "2026-07-28"] {
                let flags = ["--bend", bend, "--answer", form, "--revisions", revision];
                let backend = Backend::start(Kind::Http, &flags).await;
                let (_gateway, client) = before(&backend).await;
                for _ in 0..3 {
                    client.hears("x__echo").await;
                }
            }
        }
    }
}

/// A stream that brings several answers and not the right one says under which ids they came.
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
    let failed = soon("a failure", client.call("x__act", json!({}))).await;
    let said = text(&failed);
    assert!(
        said.contains(r#"ids that no request has: \"a\", 4711"#),
        "{said}"
    );
}

/// Where many requests share a connection nobody can tell whose a foreign answer is. The call that waits in
/// vain says what came.
#[tokio::test]
async fn a_call_that_waits_in_vain_names_the_ids_that_came() {
    let backend = Backend::start(Kind::Sse, &[])
        .await
        .option("timeout_s", 0.5);
    let (_gateway, client) = before(&backend).await;
    client.hears("x__echo").await;
    let (failed, ()) = tokio::join!(client.call("x__hang", json!({})), async {
        backend.until_called("hang").await;
        backend
            .fake()
            .publish(r#"{"jsonrpc":"2.0","id":"nobody-asked","result":{}}"#);
    });
    assert_eq!(failure(&failed)["kind"], "call_timeout");
    let said = text(&failed);
    assert!(
        said.contains(r#"ids that no request has: \"nobody-asked\""#),
        "{said}"
    );
}

/// A server whose every answer has a foreign id is never connected, and its reason says so.
#[tokio::test]
async fn a_server_of_foreign_ids_is_not_connected() {
    for kind in [Kind::Stdio, Kind::Sse] {
        let backend = Backend::start(kind, &["--bend", "id-foreign"]).await;
        let backend = backend
            .option("timeout_s", 1)
            .option("connectTimeoutMs", 500);
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let rest = gateway.rest();
        let named = |server: &Value| {
            let reason = server["lastError"].as_str();
            reason.is_some_and(|reason| reason.contains(r#"no request has: "of-the-server-"#))
        };
        let shown = rest.until("x", "a reason", named).await;
        assert_ne!(shown["status"], "connected");
    }
}
