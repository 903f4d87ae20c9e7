//! `mainstay mcp`: one client on stdio owns all servers. By default it gets their questions.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{LATEST, initialize, text, value},
    gateway::{Gateway, config, until},
    modern,
    pipe::Pipe,
};

const SAMPLING: &str = "sampling/createMessage";

/// A gateway for one client on stdio, as `mainstay mcp` starts it.
async fn start_for_sole_client(servers: &[(&str, &Backend)]) -> Gateway {
    let options = mainstay_gateway::GatewayOptions {
        sole_client: true,
        ..mainstay_gateway::GatewayOptions::default()
    };
    Gateway::with_options(&config(servers, json!({})), options).await
}

async fn send_initialize(pipe: &mut Pipe, capabilities: &Value) {
    let declared_text = format!(r#""capabilities":{capabilities}"#);
    let text = initialize(LATEST).replace(r#""capabilities":{}"#, &declared_text);
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

/// The next question of the server.
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
    /// The shared session declares the client's capabilities, and the client gets the servers' questions.
    async fn the_servers_ask_the_one_client(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = start_for_sole_client(&[("x", &backend)]).await;
        let mut pipe = gateway.silent_pipe();
        send_initialize(&mut pipe, &capabilities()).await;
        for method in [SAMPLING, "roots/list"] {
            let params = json!({"name": "x__ask", "arguments": {"method": method}}).to_string();
            let id = pipe.begin("tools/call", &params).await;
            let request = question(&mut pipe).await;
            assert_eq!(request["method"], method, "{request}");
            reply(&mut pipe, &request, json!({"answer": method})).await;
            let answer = value(&pipe.answer(&id).await);
            assert!(text(&answer["result"]).contains(method), "{answer}");
        }
        // Capabilities that the client has not declared are not declared to the server.
        let refused_result = text(&pipe.call("x__ask", json!({"method": "elicitation/create"})).await);
        assert!(refused_result.contains("-32601"), "{refused_result}");
        let greetings = backend.of_method("initialize");
        assert_eq!(greetings.len(), 1, "{greetings:?}");
        assert_eq!(greetings[0]["params"]["capabilities"], capabilities());
    }

    /// `serverRequests: "reject"` overrides the default.
    async fn the_configuration_says_otherwise(kind) {
        let backend = Backend::start(kind, &[]).await.option("serverRequests", "reject");
        let gateway = start_for_sole_client(&[("x", &backend)]).await;
        let mut pipe = gateway.silent_pipe();
        send_initialize(&mut pipe, &capabilities()).await;
        let refused_result = text(&pipe.call("x__ask", json!({"method": SAMPLING})).await);
        assert!(refused_result.contains("-32601"), "{refused_result}");
        assert_eq!(backend.of_method("initialize")[0]["params"]["capabilities"], json!({}));
    }
}

/// The client also gets a question that the server asks outside of a call.
#[tokio::test]
async fn a_question_outside_a_call_reaches_the_one_client() {
    let backend = Backend::http().await;
    let gateway = start_for_sole_client(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    send_initialize(&mut pipe, &capabilities()).await;
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
        let messages = backend.received();
        messages
            .iter()
            .any(|message| message["result"]["roots"][0]["uri"] == "file:///mine")
    })
    .await;
}

/// If a server has asked a question outside of calls, other clients with capabilities get isolated sessions.
#[tokio::test]
async fn another_client_is_asked_for_its_own_roots() {
    let backend = Backend::http().await;
    let gateway = start_for_sole_client(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    send_initialize(&mut pipe, &capabilities()).await;
    pipe.assert_echo("x__echo").await;
    let capabilities = json!({"roots": {"listChanged": true}, "elicitation": {}});
    let mut guest_client = gateway.stranger("/mcp");
    guest_client.initialize_with(&capabilities).await;
    let mute_client = gateway.client().await;
    for client in [&guest_client, &mute_client] {
        assert_eq!(
            client.call_text("x__echo", json!({"text": "shared"})).await,
            "shared"
        );
    }
    assert_eq!(backend.of_method("initialize").len(), 1);

    let published_text = r#"{"jsonrpc":"2.0","id":"q7","method":"roots/list"}"#;
    backend.fake().publish(published_text);
    let request = question(&mut pipe).await;
    reply(&mut pipe, &request, json!({"roots": []})).await;

    let params = json!({"name": "x__ask", "arguments": {"method": "roots/list"}}).to_string();
    let mut stream = guest_client
        .begin(guest_client.request_text("tools/call", &params))
        .await;
    let message = stream.message().await;
    assert_eq!(message["method"], "roots/list", "{message}");
    let roots = json!({"roots": [{"uri": "file:///guest"}]});
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": roots});
    guest_client.post(answer.to_string()).await;
    let answer = stream.message().await;
    assert!(
        text(&answer["result"]).contains("file:///guest"),
        "{answer}"
    );
    assert_eq!(
        mute_client
            .call_text("x__echo", json!({"text": "shared"}))
            .await,
        "shared"
    );
    assert_eq!(
        text(&pipe.call("x__echo", json!({"text": "own"})).await),
        "own"
    );
    let greetings = backend.of_method("initialize");
    assert_eq!(greetings.len(), 2, "{greetings:?}");
    assert_eq!(greetings[1]["params"]["capabilities"], capabilities);

    // A change of roots in the isolated session is not announced in other sessions.
    let changed_text = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    guest_client.post(changed_text.to_owned()).await;
    let method = "notifications/roots/list_changed";
    backend.until_count(method, 1).await;
    pipe.call("x__echo", json!({"text": "own"})).await;
    assert_eq!(backend.of_method(method).len(), 1);
}

/// If the client's roots change, the servers are notified.
#[tokio::test]
async fn changed_roots_are_passed_on() {
    let backend = Backend::stdio().await;
    let gateway = start_for_sole_client(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    send_initialize(&mut pipe, &capabilities()).await;
    pipe.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#)
        .await;
    backend
        .until_count("notifications/roots/list_changed", 1)
        .await;
}

/// A client without a session declares its capabilities by its first request.
#[tokio::test]
async fn a_client_without_a_session_declares_by_its_first_request() {
    let backend = Backend::stdio().await;
    let gateway = start_for_sole_client(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    let modern_client = modern::Modern::at(&gateway, "/mcp").able(json!({"sampling": {}}));
    let (_, request) = modern_client.request(
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

/// After a time limit, servers start without the client's capabilities. A later `initialize` affects only
/// handshakes after it.
#[tokio::test]
async fn a_client_that_speaks_late_is_declared_late() {
    for greets_after in ["0", "500"] {
        let backend =
            Backend::start(BackendKind::Stdio, &["--handshake-delay", greets_after]).await;
        let gateway = start_for_sole_client(&[("x", &backend)]).await;
        let mut pipe = gateway.silent_pipe();
        backend.until_count("initialize", 1).await;
        send_initialize(&mut pipe, &capabilities()).await;
        backend.until_count("initialize", 2).await;
        let answer = pipe.call("x__echo", json!({"text": "hello"})).await;
        assert_eq!(text(&answer), "hello");
        let greetings = backend.of_method("initialize");
        assert_eq!(greetings[0]["params"]["capabilities"], json!({}));
        assert_eq!(greetings[1]["params"]["capabilities"], capabilities());
    }
}

/// A client with the same capabilities as an earlier client gets the stored lists until a server has
/// started. A client with other capabilities waits for new lists.
#[tokio::test]
async fn stored_lists_depend_on_client_capabilities() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let backend = Backend::http().await;
    let list_tools = async |capabilities: &Value| {
        let options = mainstay_gateway::GatewayOptions {
            sole_client: true,
            catalogs: Some(folder.path().to_owned()),
            ..mainstay_gateway::GatewayOptions::default()
        };
        let config_json = config(&[("x", &backend)], json!({}));
        let gateway = Gateway::with_options(&config_json, options).await;
        let mut pipe = gateway.silent_pipe();
        send_initialize(&mut pipe, capabilities).await;
        let list = pipe.result("tools/list", json!({})).await;
        pipe.close().await;
        gateway.stop().await;
        list["tools"].to_string()
    };
    let first = list_tools(&json!({})).await;
    assert!(!first.contains("x__tool_1"), "{first}");
    backend.offer(1);
    let second_list = list_tools(&capabilities()).await;
    assert!(second_list.contains("x__tool_1"), "{second_list}");
    // Lists are now stored for both sets of capabilities.
    assert_eq!(list_tools(&json!({})).await, second_list);
    backend.fake().edit(|script| script.hang_at_start = true);
    for client_capabilities in [json!({}), capabilities()] {
        assert_eq!(list_tools(&client_capabilities).await, second_list);
    }
}
