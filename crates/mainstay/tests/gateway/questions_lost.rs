//! Questions of a server that is lost are refused at once. Answers to them fail (G12).

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::Http,
    gateway::{Gateway, found},
    questions::{SAMPLING, open_question, willing_client},
    rest_client::Rest,
};

/// The questions that wait for an answer over REST.
async fn waiting_requests(rest: &Rest) -> Vec<Value> {
    let requests = rest.get("/api/server-requests").await;
    requests["requests"].as_array().expect("a list").clone()
}

/// The outcomes of all ended questions, the oldest first.
async fn outcomes(rest: &Rest) -> Vec<Value> {
    let recent_response = rest
        .get("/api/events/recent?type=server_request_settled")
        .await;
    let events = recent_response["events"].as_array().expect("a list").iter();
    events
        .map(|event| event["data"]["outcome"].clone())
        .collect()
}

/// Waits for a question and runs `end`. Asserts that the question is then refused.
async fn assert_refused(rest: &Rest, end: impl AsyncFnOnce()) {
    let request = found("a request", async || waiting_requests(rest).await.pop()).await;
    let previous_count = outcomes(rest).await.len();
    end().await;
    found("no request", async || {
        waiting_requests(rest).await.is_empty().then_some(())
    })
    .await;
    assert_eq!(
        outcomes(rest).await[previous_count..],
        [json!("disconnected")]
    );
    let path = format!("/api/server-requests/{}", request["id"]);
    let (status, answer) = rest.post(&path, json!({"result": {"model": "late"}})).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::NOT_FOUND, &json!("request_not_found"))
    );
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        message.ends_with("or its server has disconnected"),
        "{message}"
    );
}

async fn ask(client: &Http) -> Value {
    client.call("x__ask", json!({"method": SAMPLING})).await
}

over_every_transport! {
    async fn a_request_ends_with_its_server(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("serverRequests", "queue");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, other_client, rest) = (gateway.client().await, gateway.client().await, gateway.rest());
        let leave_client = async || {
            backend.leave(&other_client).await;
            // Over HTTP, the loss of a server is noticed only by a failed call.
            other_client.call("x__echo", json!({})).await;
        };
        tokio::join!(ask(&client), assert_refused(&rest, leave_client));
        backend.come_back().await;
        client.assert_echo("x__echo").await;
        for operation in ["reconnect", "restart", "stop"] {
            let end = async || { rest.done("x", operation).await; };
            tokio::join!(ask(&client), assert_refused(&rest, end));
        }
        rest.done("x", "start").await;
        let end = async || { assert_eq!(rest.delete("/api/servers/x").await.0, StatusCode::OK); };
        tokio::join!(ask(&client), assert_refused(&rest, end));
    }

    /// A question of an isolated session ends together with the session.
    async fn a_request_ends_with_its_isolated_session(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("serverRequests", "queue");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        let mut client = gateway.stranger("/servers/x/mcp");
        client.initialize_with(&json!({})).await;
        let params = json!({"name": "ask", "arguments": {"method": SAMPLING}}).to_string();
        let _call = client.begin(client.request_text("tools/call", &params)).await;
        assert_refused(&rest, async || { client.delete().await; }).await;
    }

    /// The client gets a cancellation of its open question.
    async fn a_client_is_told_that_its_answer_would_reach_nobody(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("serverRequests", "forward");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        for path in ["/mcp", "/servers/x/mcp"] {
            let client = willing_client(&gateway, path).await;
            let mut listen = client.listen().await;
            let tool = if path == "/mcp" { "x__ask" } else { "ask" };
            let (mut stream, question) = open_question(&client, tool, SAMPLING).await;
            rest.done("x", "reconnect").await;
            let mut message = listen.message().await;
            while message["method"] != "notifications/cancelled" {
                message = listen.message().await;
            }
            assert_eq!(message["params"], json!({"requestId": question["id"], "reason": "Server disconnected"}));
            let requests = rest.get("/api/server-requests").await;
            assert_eq!(requests["clients"], json!([]));
            stream.message().await;
        }
    }
}

/// Withdraws the server's question. Its id is one of those that the fake assigns.
fn take_back(backend: &Backend) {
    for number in 0..20 {
        let id = format!("fake-{number}");
        let params = json!({"requestId": id, "reason": "changed my mind"});
        let text = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        backend.fake().publish(&text.to_string());
    }
}

/// If a server withdraws a question, the client gets a cancellation with the client's own id. This
/// also works in shared sessions.
#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_server_request_needs_no_answer() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[])
            .await
            .option("serverRequests", "forward");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        for path in ["/mcp", "/servers/x/mcp"] {
            let client = willing_client(&gateway, path).await;
            let mut listen = client.listen().await;
            let tool = if path == "/mcp" { "x__ask" } else { "ask" };
            let (_stream, question) = open_question(&client, tool, SAMPLING).await;
            take_back(&backend);
            let mut message = listen.message().await;
            while message["method"] != "notifications/cancelled" {
                message = listen.message().await;
            }
            let expected = json!({"requestId": question["id"], "reason": "changed my mind"});
            assert_eq!(message["params"], expected, "{kind:?} {path}");
            let requests = rest.get("/api/server-requests").await;
            assert_eq!(requests["clients"], json!([]));
        }

        let backend = Backend::start(kind, &[])
            .await
            .option("serverRequests", "queue");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let params = json!({"name": "x__ask", "arguments": {"method": SAMPLING}}).to_string();
        let _call = client
            .begin(client.request_text("tools/call", &params))
            .await;
        found("a request", async || waiting_requests(&rest).await.pop()).await;
        take_back(&backend);
        let all_ended = async || waiting_requests(&rest).await.is_empty().then_some(());
        found("no request", all_ended).await;
        assert_eq!(outcomes(&rest).await, [json!("taken_back")], "{kind:?}");
    }
}
