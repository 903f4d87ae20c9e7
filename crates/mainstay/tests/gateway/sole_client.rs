//! `mainstay mcp`: one client, to which all servers belong. By default the servers' questions reach that
//! client.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{LATEST, initialize, text, value},
    gateway::{Gateway, config, until},
    modern,
    pipe::Pipe,
};

const SAMPLING: &str = "sampling/createMessage";

/// A Mainstay for one client on stdio, as `mainstay mcp` starts it.
async fn alone(servers: &[(&str, &Backend)]) -> Gateway {
    let options = mainstay_gateway::GatewayOptions {
        sole_client: true,
        ..mainstay_gateway::GatewayOptions::default()
    };
    Gateway::with_options(&config(servers, json!({})), options).await
}

async fn greet(pipe: &mut Pipe, capabilities: &Value) {
    let declared = format!(r#""capabilities":{capabilities}"#);
    let text = initialize(LATEST).replace(r#""capabilities":{}"#, &declared);
    pipe.send(text).await;
    loop {
        let message = pipe.message().await;
        if message["id"] == "hello" {
            break;
        }
        pipe.other_messages.push(message);
    }
    pipe.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
        .await;
}

fn capabilities() -> Value {
    json!({"sampling": {}, "roots": {"listChanged": true}})
}

/// The next request of the server.
async fn question(pipe: &mut Pipe) -> Value {
    loop {
        let message = pipe.message().await;
        if message["method"].is_string() && message["id"] != Value::Null {
            return message;
        }
    }
}

async fn reply(pipe: &mut Pipe, question: &Value, result: Value) {
    let response = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    pipe.send(response.to_string()).await;
}

over_every_transport! {
    /// The shared session declares the client's capabilities, and its questions reach the client.
    async fn the_servers_ask_the_one_client(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = alone(&[("x", &backend)]).await;
        let mut pipe = gateway.silent_pipe();
        greet(&mut pipe, &capabilities()).await;
        for method in [SAMPLING, "roots/list"] {
            let params = json!({"name": "x__ask", "arguments": {"method": method}}).to_string();
            let id = pipe.begin("tools/call", &params).await;
            let request = question(&mut pipe).await;
            assert_eq!(request["method"], method, "{request}");
            reply(&mut pipe, &request, json!({"answer": method})).await;
            let answer = value(&pipe.answer(&id).await);
            assert!(text(&answer["result"]).contains(method), "{answer}");
        }
        // A capability that the client did not declare is not declared upstream, and such a question is not
        // asked.
        let refused = text(&pipe.call("x__ask", json!({"method": "elicitation/create"})).await);
        assert!(refused.contains("-32601"), "{refused}");
        let greetings = backend.of_method("initialize");
        assert_eq!(greetings.len(), 1, "{greetings:?}");
        assert_eq!(greetings[0]["params"]["capabilities"], capabilities());
    }

    /// `serverRequests: "reject"` overrides this.
    async fn the_configuration_says_otherwise(kind) {
        let backend = Backend::start(kind, &[]).await.option("serverRequests", "reject");
        let gateway = alone(&[("x", &backend)]).await;
        let mut pipe = gateway.silent_pipe();
        greet(&mut pipe, &capabilities()).await;
        let refused = text(&pipe.call("x__ask", json!({"method": SAMPLING})).await);
        assert!(refused.contains("-32601"), "{refused}");
        assert_eq!(backend.of_method("initialize")[0]["params"]["capabilities"], json!({}));
    }
}

/// A question outside of calls reaches the one client, too.
#[tokio::test]
async fn a_question_outside_a_call_reaches_the_one_client() {
    let backend = Backend::http().await;
    let gateway = alone(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    greet(&mut pipe, &capabilities()).await;
    pipe.assert_echo("x__echo").await;
    backend
        .fake()
        .publish(r#"{"jsonrpc":"2.0","id":"q7","method":"roots/list"}"#);
    let request = question(&mut pipe).await;
    reply(
        &mut pipe,
        &request,
        json!({"roots": [{"uri": "file:///mine"}]}),
    )
    .await;
    until("the answer", || {
        let received = backend.received();
        received
            .iter()
            .any(|message| message["result"]["roots"][0]["uri"] == "file:///mine")
    })
    .await;
}

/// Another client may share the servers. A server that has asked the one client outside of calls knows that
/// client. Other clients that can be asked get an isolated session, which declares their capabilities.
#[tokio::test]
async fn another_client_is_asked_for_its_own_roots() {
    let backend = Backend::http().await;
    let gateway = alone(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    greet(&mut pipe, &capabilities()).await;
    pipe.assert_echo("x__echo").await;
    let capabilities = json!({"roots": {"listChanged": true}, "elicitation": {}});
    let mut guest = gateway.stranger("/mcp");
    guest.initialize_with(&capabilities).await;
    let mute = gateway.client().await;
    for client in [&guest, &mute] {
        assert_eq!(
            client.call_text("x__echo", json!({"text": "shared"})).await,
            "shared"
        );
    }
    assert_eq!(backend.of_method("initialize").len(), 1);

    let published = r#"{"jsonrpc":"2.0","id":"q7","method":"roots/list"}"#;
    backend.fake().publish(published);
    let request = question(&mut pipe).await;
    reply(&mut pipe, &request, json!({"roots": []})).await;

    let params = json!({"name": "x__ask", "arguments": {"method": "roots/list"}}).to_string();
    let mut stream = guest.begin(guest.request_text("tools/call", &params)).await;
    let message = stream.message().await;
    assert_eq!(message["method"], "roots/list", "{message}");
    let roots = json!({"roots": [{"uri": "file:///guest"}]});
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": roots});
    guest.post(answer.to_string()).await;
    let answer = stream.message().await;
    assert!(
        text(&answer["result"]).contains("file:///guest"),
        "{answer}"
    );
    assert_eq!(
        mute.call_text("x__echo", json!({"text": "shared"})).await,
        "shared"
    );
    assert_eq!(
        text(&pipe.call("x__echo", json!({"text": "own"})).await),
        "own"
    );
    let greetings = backend.of_method("initialize");
    assert_eq!(greetings.len(), 2, "{greetings:?}");
    assert_eq!(greetings[1]["params"]["capabilities"], capabilities);

    // The roots belong to the client's own session, and reach no other client.
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    guest.post(changed.to_owned()).await;
    let method = "notifications/roots/list_changed";
    backend.until_count(method, 1).await;
    pipe.call("x__echo", json!({"text": "own"})).await;
    assert_eq!(backend.of_method(method).len(), 1);
}

/// A change of the client's roots reaches the servers, which have no other client.
#[tokio::test]
async fn changed_roots_are_passed_on() {
    let backend = Backend::stdio().await;
    let gateway = alone(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    greet(&mut pipe, &capabilities()).await;
    pipe.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#)
        .await;
    backend
        .until_count("notifications/roots/list_changed", 1)
        .await;
}

/// A client without a session declares its capabilities for the servers with its first request.
#[tokio::test]
async fn a_client_without_a_session_declares_by_its_first_request() {
    let backend = Backend::stdio().await;
    let gateway = alone(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    let able = modern::Modern::at(&gateway, "/mcp").able(json!({"sampling": {}}));
    let (_, request) = able.request(
        "tools/call",
        json!({"name": "x__echo", "arguments": {"text": "hello"}}),
    );
    pipe.send(request.to_string()).await;
    let answer = pipe.message().await;
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    let greetings = backend.of_method("initialize");
    assert_eq!(greetings.len(), 1, "{greetings:?}");
    assert_eq!(
        greetings[0]["params"]["capabilities"],
        json!({"sampling": {}})
    );
}

/// If a client is silent for long, its servers are started anyway. Its later capabilities count: in the
/// handshakes of servers that are still starting, and in new sessions of the others.
#[tokio::test]
async fn a_client_that_speaks_late_is_declared_late() {
    for greets_after in ["0", "500"] {
        let backend =
            Backend::start(BackendKind::Stdio, &["--handshake-delay", greets_after]).await;
        let gateway = alone(&[("x", &backend)]).await;
        let mut pipe = gateway.silent_pipe();
        backend.until_count("initialize", 1).await;
        greet(&mut pipe, &capabilities()).await;
        backend.until_count("initialize", 2).await;
        let answer = pipe.call("x__echo", json!({"text": "hello"})).await;
        assert_eq!(text(&answer), "hello");
        let greetings = backend.of_method("initialize");
        assert_eq!(greetings[0]["params"]["capabilities"], json!({}));
        assert_eq!(greetings[1]["params"]["capabilities"], capabilities());
    }
}

/// A client that declares the same capabilities as an earlier client gets the stored offer of the servers at
/// once. A client that declares more waits for its own offer.
#[tokio::test]
async fn what_another_client_was_offered_is_no_answer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let backend = Backend::http().await;
    let listed = async |declared: &Value| {
        let options = mainstay_gateway::GatewayOptions {
            sole_client: true,
            catalogs: Some(folder.path().to_owned()),
            ..mainstay_gateway::GatewayOptions::default()
        };
        let all = config(&[("x", &backend)], json!({}));
        let gateway = Gateway::with_options(&all, options).await;
        let mut pipe = gateway.silent_pipe();
        greet(&mut pipe, declared).await;
        let list = pipe.result("tools/list", json!({})).await;
        pipe.close().await;
        gateway.stop().await;
        list["tools"].to_string()
    };
    let first = listed(&json!({})).await;
    assert!(!first.contains("x__tool_1"), "{first}");
    backend.offer(1);
    let second = listed(&capabilities()).await;
    assert!(second.contains("x__tool_1"), "{second}");
    // Both clients get the same offer, and both offers are stored.
    assert_eq!(listed(&json!({})).await, second);
    backend.fake().edit(|script| script.hang_at_start = true);
    for declared in [json!({}), capabilities()] {
        assert_eq!(listed(&declared).await, second);
    }
}
