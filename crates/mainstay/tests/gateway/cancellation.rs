//! Cancellations of calls, and cancellations without effect (specification, "Cancellation").

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{cancelled, value},
    gateway::Gateway,
};

/// The endpoints, each with a tool that never answers.
const HANG: [(&str, &str); 2] = [("/mcp", "x__hang"), ("/servers/x/mcp", "hang")];

fn hang(id: &Value, tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}})
        .to_string()
}

over_every_transport! {
    /// A client's cancellation ends its call. The server gets a cancellation with the server's
    /// request id.
    async fn a_clients_cancellation_reaches_the_server(kind) {
        let (path, tool) = HANG[0];
        cancel_by_client(kind, path, tool).await;
        let (path, tool) = HANG[1];
        cancel_by_client(kind, path, tool).await;
    }

    async fn the_end_of_a_session_cancels_its_calls(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, other_client) = (gateway.client().await, gateway.client().await);
        let (response, ()) = tokio::join!(client.post(hang(&json!(1), "x__hang")), async {
            let id = backend.until_called("hang").await;
            assert!(client.delete().await.is_success());
            backend.until_cancelled(&id).await;
        });
        assert_eq!(response.json()["id"], 1);
        assert!(response.text.contains("cancelled"), "{}", response.text);
        other_client.assert_echo("x__echo").await;
    }

    /// At a server's own endpoint, DELETE ends the isolated session and all of its calls.
    async fn the_end_of_a_transparent_session_ends_its_calls(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, other_client) = (gateway.client_at("/servers/x/mcp").await, gateway.client().await);
        let (response, ()) = tokio::join!(client.post(hang(&json!(1), "hang")), async {
            backend.until_called("hang").await;
            assert!(client.delete().await.is_success());
        });
        let answer = response.json();
        assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{answer}");
        other_client.assert_echo("x__echo").await;
    }

    /// If a connection drops, its call is not cancelled (specification, "Transports").
    async fn a_dropped_stream_does_not_cancel(kind) {
        for (path, tool) in [("/mcp", "x__out_of_order"), ("/servers/x/mcp", "out_of_order")] {
            let backend = Backend::start(kind, &[]).await;
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            let client = gateway.client_at(path).await;
            let parked_call = async { drop(backend.until_called("out_of_order").await) };
            client.abandon(&hang(&json!(1), tool), parked_call).await;
            // The fake answers this call first, because the earlier call is still in flight.
            assert_eq!(client.call_text(tool, json!({})).await, "called second");
            assert_eq!(backend.cancelled(), Vec::<Value>::new());
        }
    }

    /// A cancellation has no effect if its call is unknown, has ended, or belongs to another
    /// client.
    async fn stray_cancellations_do_nothing(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, other_client) = (gateway.client().await, gateway.client().await);
        client.assert_echo("x__echo").await;
        for id in [json!(1), json!("1"), json!(null), json!({"a": 1}), json!(100)] {
            client.cancel(&id).await;
        }
        let bare_notification = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
        assert_eq!(client.post(bare_notification).await.status, StatusCode::ACCEPTED);
        let (answer, ()) = tokio::join!(client.post(hang(&json!(5), "x__out_of_order")), async {
            let upstream = backend.until_called("out_of_order").await;
            // Cancel by another client, by the id as a string, and by the server's id.
            other_client.cancel(&json!(5)).await;
            client.cancel(&json!("5")).await;
            client.cancel(&upstream).await;
            other_client.call_text("x__out_of_order", json!({})).await;
        });
        assert_eq!(answer.json()["result"]["content"][0]["text"], "called first");
        assert_eq!(backend.cancelled(), Vec::<Value>::new());
    }
}

async fn cancel_by_client(kind: BackendKind, path: &str, tool: &str) {
    let backend = Backend::start(kind, &[]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client_at(path).await;
    let client_id = json!("an id of its own");
    let (response, ()) = tokio::join!(client.post(hang(&client_id, tool)), async {
        let id = backend.until_called("hang").await;
        client.cancel(&client_id).await;
        backend.until_cancelled(&id).await;
    });
    // Over HTTP, a cancelled request is answered with an error.
    assert_eq!(response.json()["id"], client_id);
    assert_eq!(response.json()["error"]["data"]["kind"], "cancelled");
    let echo = if path == "/mcp" { "x__echo" } else { "echo" };
    client.assert_echo(echo).await;
    // The id may be used again.
    let repeated_response = client.post(hang(&client_id, echo)).await;
    assert_eq!(repeated_response.json()["id"], client_id);
    assert!(
        repeated_response.json()["result"].is_object(),
        "{}",
        repeated_response.text
    );
}

/// On stdio, a cancelled request is not answered (specification, "Cancellation").
#[tokio::test]
async fn a_cancelled_call_on_stdio_is_not_answered() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut pipe = gateway.pipe().await;
    let id = pipe.begin("tools/call", r#"{"name":"x__hang"}"#).await;
    let upstream = backend.until_called("hang").await;
    pipe.send(cancelled(&id)).await;
    backend.until_cancelled(&upstream).await;
    pipe.assert_echo("x__echo").await;
    assert_eq!(pipe.other_messages, Vec::<Value>::new());
    assert_eq!(pipe.close().await, Vec::<Value>::new());
}

/// If a call is cancelled while it waits for its server, it is never sent.
#[tokio::test]
async fn a_call_that_waits_for_its_server_can_be_cancelled() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut pipe = gateway.pipe().await;
    pipe.assert_echo("x__echo").await;
    backend.fake().refuse(true).await.expect("the fake runs");
    let id = pipe.begin("tools/call", r#"{"name":"x__hang"}"#).await;
    pipe.send(cancelled(&id)).await;
    let ping = value(&pipe.ask("ping", "{}").await);
    assert_eq!(ping["result"], json!({}));
    backend.fake().refuse(false).await.expect("the fake runs");
    pipe.assert_echo("x__echo").await;
    assert_eq!(backend.fake().runs("hang"), 0);
}
