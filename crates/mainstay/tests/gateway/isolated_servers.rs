//! `isolation: "session"`: each client has its own upstream session, also at `/mcp`.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, failure, text},
    gateway::{Gateway, config, soon, until},
    modern::Modern,
};

const UPDATED: &str = "notifications/resources/updated";
const SAMPLING: &str = "sampling/createMessage";

async fn isolated_gateway(kind: BackendKind) -> Backend {
    Backend::start(kind, &[])
        .await
        .option("isolation", "session")
}

/// Connects a client that accepts every kind of question.
async fn willing_client(gateway: &Gateway, path: &str) -> Http {
    let mut client = gateway.stranger(path);
    client.initialize_with(&all_capabilities()).await;
    client
}

fn all_capabilities() -> Value {
    json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": true}})
}

async fn reply(client: &Http, question: &Value, result: Value) {
    let response = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    let status = client.post(response.to_string()).await.status;
    assert_eq!(status, StatusCode::ACCEPTED);
}

/// The capabilities in all `initialize` requests that the server has received.
fn declared_capabilities(backend: &Backend) -> Vec<Value> {
    let greetings = backend.of_method("initialize").into_iter();
    greetings
        .map(|initialize| initialize["params"]["capabilities"].clone())
        .collect()
}

#[tokio::test]
async fn each_client_of_a_profile_has_its_own_process() {
    let backend = isolated_gateway(BackendKind::Stdio).await;
    let calm_backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend), ("calm", &calm_backend)]).await;
    let clients = [gateway.client().await, gateway.client().await];
    let mut pids = Vec::new();
    for client in &clients {
        pids.push(client.call_text("x__pid", json!({})).await);
    }
    let rest = gateway.rest();
    let (status, shared_answer) = rest
        .post("/api/servers/x/tools/pid/call", json!({"arguments": {}}))
        .await;
    assert_eq!(status, StatusCode::OK, "{shared_answer}");
    assert_ne!(pids[0], pids[1]);
    for pid in &pids {
        assert!(
            !shared_answer.to_string().contains(pid.as_str()),
            "{shared_answer}"
        );
    }
    assert_eq!(clients[0].call_text("x__pid", json!({})).await, pids[0]);
    // Servers without this setting are still shared.
    let [first_client, second_client] = &clients;
    assert_eq!(
        first_client.call_text("calm__pid", json!({})).await,
        second_client.call_text("calm__pid", json!({})).await
    );
    // A client on stdio has an isolated session. Own tools use the isolated session of their client.
    let mut pipe = gateway.pipe().await;
    let pipe_pid = text(&pipe.call("x__pid", json!({})).await);
    assert!(!pids.contains(&pipe_pid));
    let meta = gateway.client_at("/mcp/meta").await;
    let request = json!({"tool": "x/pid", "arguments": {}});
    let first = meta.call_text("execute_tool", request.clone()).await;
    assert!(!pids.contains(&first) && first != pipe_pid, "{first}");
    assert_eq!(meta.call_text("execute_tool", request).await, first);

    let previous_count = backend.count("initialize");
    assert!(first_client.delete().await.is_success());
    assert_eq!(second_client.call_text("x__pid", json!({})).await, pids[1]);
    assert_eq!(backend.count("initialize"), previous_count);
}

over_every_transport! {
    /// The isolated session declares the client's capabilities. Questions of the server reach that
    /// client.
    async fn the_client_is_asked(kind) {
        let backend = isolated_gateway(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, mute_client) = (willing_client(&gateway, "/mcp").await, gateway.client().await);
        for method in [SAMPLING, "elicitation/create", "roots/list"] {
            let params = json!({"name": "x__ask", "arguments": {"method": method}}).to_string();
            let mut stream = client.begin(client.request_text("tools/call", &params)).await;
            let question = stream.message().await;
            assert_eq!(question["method"], method, "{question}");
            reply(&client, &question, json!({"answer": method})).await;
            let answer = stream.message().await;
            assert!(text(&answer["result"]).contains(method), "{answer}");
        }
        let refused_result = mute_client.call_text("x__ask", json!({"method": SAMPLING})).await;
        assert!(refused_result.contains("-32601"), "{refused_result}");
        let declared_capabilities = declared_capabilities(&backend);
        assert_eq!(declared_capabilities.len(), 3, "{declared_capabilities:?}");
        assert!(declared_capabilities.contains(&all_capabilities()), "{declared_capabilities:?}");
        assert_eq!(declared_capabilities.iter().filter(|capabilities| **capabilities == json!({})).count(), 2, "{declared_capabilities:?}");
    }

    /// Resource updates, log messages and progress of an isolated session do not reach other clients.
    async fn notifications_of_a_session_reach_only_its_client(kind) {
        let backend = isolated_gateway(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (first_client, second_client) = (gateway.client().await, gateway.client().await);
        let (mut first, mut second_stream) = (first_client.listen().await, second_client.listen().await);
        for client in [&first_client, &second_client] {
            client.assert_echo("x__echo").await;
        }
        let subscribe = json!({"uri": "mainstay+x:fake://text"});
        assert_eq!(first_client.result("resources/subscribe", subscribe.clone()).await, json!({}));
        first_client.call("x__touch", json!({"uri": "fake://text"})).await;
        let update = first.message().await;
        assert_eq!((&update["method"], &update["params"]["uri"]), (&json!(UPDATED), &subscribe["uri"]));
        first_client.result("logging/setLevel", json!({"level": "error"})).await;
        assert_eq!(first_client.call_text("x__log", json!({"level": "info"})).await, "0 lines logged");
        let logged_result = first_client.call_text("x__log", json!({"level": "error", "outside": true})).await;
        assert_eq!(logged_result, "1 lines logged");
        first_client.result("resources/unsubscribe", subscribe).await;
        assert_eq!(first_client.call("x__subscriptions", json!({})).await["structuredContent"]["fake://text"], Value::Null);
        // Before this message, the other client received nothing.
        second_client.call("x__change_prompts", json!({})).await;
        let message = second_stream.message().await;
        assert_eq!(message["method"], "notifications/prompts/list_changed", "{message}");
        // Progress of the call arrives with the client's own token.
        let params = r#"{"name":"x__progress","arguments":{"steps":2},"_meta":{"progressToken":"p"}}"#;
        let messages = first_client.exchange("tools/call", params).await;
        assert_eq!(messages.len(), 3, "{messages:?}");
    }

    /// A session that is opened again gets the settings of the earlier one.
    async fn a_session_that_is_opened_again_is_as_it_was(kind) {
        let backend = isolated_gateway(kind).await.option("maxSessions", 1);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, other_client) = (gateway.client().await, gateway.client().await);
        let mut stream = client.listen().await;
        client.result("logging/setLevel", json!({"level": "warning"})).await;
        client.result("resources/subscribe", json!({"uri": "fake://text"})).await;
        for _ in 0..2 {
            other_client.assert_echo("x__echo").await;
            client.call("x__touch", json!({"uri": "fake://text"})).await;
            while stream.message().await["method"] != UPDATED {}
            assert_eq!(client.call_text("x__log", json!({"level": "notice"})).await, "0 lines logged");
            assert_eq!(client.call_text("x__log", json!({"level": "warning"})).await, "1 lines logged");
            client.call("x__crash", json!({})).await;
        }
    }

    /// Prompts, completions and resources also use the isolated session.
    async fn prompts_completions_and_resources_are_of_the_session(kind) {
        let backend = isolated_gateway(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.tools().await;
        let previous_count = backend.count("initialize");
        client.result("resources/read", json!({"uri": "fake://text"})).await;
        assert_eq!(backend.count("initialize"), previous_count + 1);
        client.result("resources/read", json!({"uri": "fake://item/7"})).await;
        let prompts = client.result("prompts/list", json!({})).await;
        let prompt = &prompts["prompts"][0]["name"];
        client.request("prompts/get", json!({"name": prompt})).await;
        let completion = json!({"ref": {"type": "ref/resource", "uri": "fake://item/{id}"}, "argument": {"name": "id", "value": "1"}});
        client.result("completion/complete", completion).await;
        assert_eq!(backend.count("initialize"), previous_count + 1);
        let greetings = backend.of_method("initialize");
        assert_eq!(greetings.last().expect("one")["params"]["clientInfo"]["name"], "tests");
    }

    /// `maxSessions` also limits sessions of profiles.
    async fn sessions_of_profiles_are_limited(kind) {
        let backend = isolated_gateway(kind).await.option("maxSessions", 1);
        let gateway = Gateway::with_settings(&[("x", &backend)], json!({"profiles": {"p": {"servers": ["x"]}}})).await;
        let (first_client, second_client) = (gateway.client_at("/mcp/p").await, gateway.client().await);
        for client in [&first_client, &second_client, &first_client, &second_client] {
            client.assert_echo("x__echo").await;
        }
        let _busy = first_client.begin(first_client.request_text("tools/call", r#"{"name":"x__sleep","arguments":{"ms":60000}}"#)).await;
        let refused_result = second_client.call("x__echo", json!({"text": "x"})).await;
        assert_eq!(failure(&refused_result)["kind"], "too_many_sessions", "{refused_result}");
        // Calls of the operator do not wait for a free session.
        let (status, _) = gateway.rest().post("/api/servers/x/tools/echo/call", json!({"arguments": {"text": "x"}})).await;
        assert_eq!(status, StatusCode::OK);
    }
}

/// A question outside of a call reaches the client of the session.
#[tokio::test]
async fn a_question_outside_a_call_reaches_the_client() {
    let backend = isolated_gateway(BackendKind::Http).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = willing_client(&gateway, "/mcp").await;
    let mut stream = client.listen().await;
    client.assert_echo("x__echo").await;
    backend
        .fake()
        .publish(r#"{"jsonrpc":"2.0","id":"q7","method":"roots/list"}"#);
    let question = stream.message().await;
    assert_eq!(question["method"], "roots/list", "{question}");
    reply(
        &client,
        &question,
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

/// A server withdraws one question. A question of another server with the same id stays open.
#[tokio::test]
async fn a_server_takes_back_its_own_question_only() {
    let backends = [
        isolated_gateway(BackendKind::Http).await,
        isolated_gateway(BackendKind::Http).await,
    ];
    let gateway = Gateway::with_servers(&[("x", &backends[0]), ("y", &backends[1])]).await;
    let client = willing_client(&gateway, "/mcp").await;
    let mut stream = client.listen().await;
    let mut ids = Vec::new();
    for (name, backend) in ["x", "y"].iter().zip(&backends) {
        client.assert_echo(&format!("{name}__echo")).await;
        backend
            .fake()
            .publish(r#"{"jsonrpc":"2.0","id":"same","method":"roots/list"}"#);
        let question = stream.message().await;
        assert_eq!(question["method"], "roots/list", "{question}");
        ids.push(question);
    }
    let withdrawal =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"same"}}"#;
    backends[1].fake().publish(withdrawal);
    let message = stream.message().await;
    assert_eq!(message["params"]["requestId"], ids[1]["id"], "{message}");
    reply(
        &client,
        &ids[0],
        json!({"roots": [{"uri": "file:///first"}]}),
    )
    .await;
    until("the answer", || {
        let messages = backends[0].received();
        messages
            .iter()
            .any(|message| message["result"]["roots"][0]["uri"] == "file:///first")
    })
    .await;
}

/// Clients without a session share an upstream session if they declare the same capabilities.
#[tokio::test]
async fn clients_without_a_session_are_pooled() {
    let backend = isolated_gateway(BackendKind::Stdio).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let pid = async |client: &Modern| text(&client.call("x__pid", json!({})).await);
    let (first_client, equal_client) = (Modern::at(&gateway, "/mcp"), Modern::at(&gateway, "/mcp"));
    let client_client = Modern::at(&gateway, "/mcp").able(json!({"sampling": {}}));
    let legacy = gateway.client().await.call_text("x__pid", json!({})).await;
    let first = pid(&first_client).await;
    assert_eq!(pid(&equal_client).await, first);
    let other_pid = pid(&client_client).await;
    assert!(other_pid != first && other_pid != legacy && first != legacy);
    let level = Modern::at(&gateway, "/mcp").with("io.modelcontextprotocol/logLevel", "error");
    let logged_result = level
        .ask(
            "tools/call",
            json!({"name": "x__log", "arguments": {"level": "error"}}),
        )
        .await;
    assert_eq!(
        logged_result.messages().len(),
        2,
        "{:?}",
        logged_result.messages()
    );
}

/// A server that has no sessions stays shared.
#[tokio::test]
async fn a_server_without_sessions_is_shared() {
    let backend = Backend::start(BackendKind::Http, &["--revisions", "2026-07-28"]).await;
    let backend = backend
        .option("isolation", "session")
        .option("maxSessions", 1);
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (first_client, second_client) = (gateway.client().await, gateway.client().await);
    for client in [&first_client, &second_client] {
        client.assert_echo("x__echo").await;
    }
    // Mainstay sends at most one `initialize`, to find out whether the server has sessions.
    assert!(backend.count("initialize") <= 1);
}

/// `isolation` at the top level of the file applies to all servers.
#[tokio::test]
async fn the_default_of_all_servers_stands_at_the_top() {
    let (backend, shared_backend) = (
        Backend::stdio().await,
        Backend::stdio().await.option("isolation", "shared"),
    );
    let config_json = config(
        &[("x", &backend), ("y", &shared_backend)],
        json!({"isolation": "session"}),
    );
    let gateway = Gateway::start(&config_json).await;
    let (first_client, second_client) = (gateway.client().await, gateway.client().await);
    assert_ne!(
        first_client.call_text("x__pid", json!({})).await,
        second_client.call_text("x__pid", json!({})).await
    );
    assert_eq!(
        first_client.call_text("y__pid", json!({})).await,
        second_client.call_text("y__pid", json!({})).await
    );
}

/// When a client ends, its upstream session ends too.
#[tokio::test]
async fn ended_clients_leave_nothing() {
    let backend = isolated_gateway(BackendKind::Http).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = gateway.stranger("/mcp");
        client.initialize(LATEST).await;
        client.assert_echo("x__echo").await;
        clients.push(client);
    }
    assert_eq!(backend.fake().sessions(), 21);
    for client in &clients {
        client.delete().await;
    }
    soon("the sessions to end", async {
        until("one session", || backend.fake().sessions() == 1).await;
    })
    .await;
}
