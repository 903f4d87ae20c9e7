//! `mainstay mcp`: one client, which every server is there for. What the servers ask goes to it by
//! default.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, Kind},
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
    Gateway::set(&config(servers, json!({})), options).await
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
        pipe.heard.push(message);
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
    /// The shared session declares what the client declared, and its questions reach the client.
    async fn the_servers_ask_the_one_client(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = alone(&[("x", &backend)]).await;
        let mut pipe = gateway.silent_pipe();
        greet(&mut pipe, &capabilities()).await;
        for method in [SAMPLING, "roots/list"] {
            let params = json!({"name": "x__ask", "arguments": {"method": method}}).to_string();
            let id = pipe.begin("tools/call", &params).await;
            let asked = question(&mut pipe).await;
            assert_eq!(asked["method"], method, "{asked}");
            reply(&mut pipe, &asked, json!({"answer": method})).await;
            let answer = value(&pipe.answer(&id).await);
            assert!(text(&answer["result"]).contains(method), "{answer}");
        }
        // What it did not declare is not declared for it, and not asked.
        let refused = text(&pipe.call("x__ask", json!({"method": "elicitation/create"})).await);
        assert!(refused.contains("-32601"), "{refused}");
        let greetings = backend.of_method("initialize");
        assert_eq!(greetings.len(), 1, "{greetings:?}");
        assert_eq!(greetings[0]["params"]["capabilities"], capabilities());
    }

    /// `serverRequests: "reject"` says otherwise.
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

/// Outside any call the one client is asked as well.
#[tokio::test]
async fn a_question_outside_a_call_reaches_the_one_client() {
    let backend = Backend::http().await;
    let gateway = alone(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    greet(&mut pipe, &capabilities()).await;
    pipe.hears("x__echo").await;
    backend
        .fake()
        .publish(r#"{"jsonrpc":"2.0","id":"q7","method":"roots/list"}"#);
    let asked = question(&mut pipe).await;
    reply(
        &mut pipe,
        &asked,
        json!({"roots": [{"uri": "file:///mine"}]}),
    )
    .await;
    until("the answer", || {
        let received = backend.received();
        received
            .iter()
            .any(|it| it["result"]["roots"][0]["uri"] == "file:///mine")
    })
    .await;
}

/// Another client may share the servers. A server that has asked the one client outside of calls knows that
/// client: others that can be asked get a session of their own, which declares what they declared.
#[tokio::test]
async fn another_client_is_asked_for_its_own_roots() {
    let backend = Backend::http().await;
    let gateway = alone(&[("x", &backend)]).await;
    let mut pipe = gateway.silent_pipe();
    greet(&mut pipe, &capabilities()).await;
    pipe.hears("x__echo").await;
    let own = json!({"roots": {"listChanged": true}, "elicitation": {}});
    let mut guest = gateway.stranger("/mcp");
    guest.initialize_with(&own).await;
    let mute = gateway.client().await;
    for client in [&guest, &mute] {
        assert_eq!(
            client.say("x__echo", json!({"text": "shared"})).await,
            "shared"
        );
    }
    assert_eq!(backend.of_method("initialize").len(), 1);

    let published = r#"{"jsonrpc":"2.0","id":"q7","method":"roots/list"}"#;
    backend.fake().publish(published);
    let asked = question(&mut pipe).await;
    reply(&mut pipe, &asked, json!({"roots": []})).await;

    let params = json!({"name": "x__ask", "arguments": {"method": "roots/list"}}).to_string();
    let mut stream = guest.begin(guest.request_text("tools/call", &params)).await;
    let asked = stream.message().await;
    assert_eq!(asked["method"], "roots/list", "{asked}");
    let roots = json!({"roots": [{"uri": "file:///guest"}]});
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": roots});
    guest.post(answer.to_string()).await;
    let answer = stream.message().await;
    assert!(
        text(&answer["result"]).contains("file:///guest"),
        "{answer}"
    );
    assert_eq!(
        mute.say("x__echo", json!({"text": "shared"})).await,
        "shared"
    );
    assert_eq!(
        text(&pipe.call("x__echo", json!({"text": "own"})).await),
        "own"
    );
    let greetings = backend.of_method("initialize");
    assert_eq!(greetings.len(), 2, "{greetings:?}");
    assert_eq!(greetings[1]["params"]["capabilities"], own);

    // Its roots are its own session's, and nobody else hears of them.
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    guest.post(changed.to_owned()).await;
    let method = "notifications/roots/list_changed";
    backend.until_count(method, 1).await;
    pipe.call("x__echo", json!({"text": "own"})).await;
    assert_eq!(backend.of_method(method).len(), 1);
}

/// A change of its roots reaches the servers, which have no other client.
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

/// A client without a session declares with its first request what its servers are told.
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

/// A client that is silent for long has its servers started, and is believed later: in their greeting, if
/// they are still being opened, and when they are up.
#[tokio::test]
async fn a_client_that_speaks_late_is_declared_late() {
    for greets_after in ["0", "500"] {
        let backend = Backend::start(Kind::Stdio, &["--handshake-delay", greets_after]).await;
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

/// What a server offered to an earlier client is shown to one that declares the same, at once. One that
/// declares more waits for what is offered to it.
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
        let gateway = Gateway::set(&all, options).await;
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
    // The same is offered to both, and both are known.
    assert_eq!(listed(&json!({})).await, second);
    backend.fake().edit(|script| script.hang_at_start = true);
    for declared in [json!({}), capabilities()] {
        assert_eq!(listed(&declared).await, second);
    }
}
