//! `isolation: "session"`: on `/mcp`, too, each client has an upstream session of its own.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, Kind},
    client::{Http, LATEST, failure, text},
    gateway::{Gateway, config, soon, until},
    modern::Modern,
};

const UPDATED: &str = "notifications/resources/updated";
const SAMPLING: &str = "sampling/createMessage";

async fn isolated(kind: Kind) -> Backend {
    Backend::start(kind, &[])
        .await
        .option("isolation", "session")
}

/// A client that can be asked everything.
async fn willing(gateway: &Gateway, path: &str) -> Http {
    let mut client = gateway.stranger(path);
    client.initialize_with(&everything()).await;
    client
}

fn everything() -> Value {
    json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": true}})
}

async fn reply(client: &Http, question: &Value, result: Value) {
    let response = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    let status = client.post(response.to_string()).await.status;
    assert_eq!(status, StatusCode::ACCEPTED);
}

/// The capabilities of every `initialize` that the server was sent.
fn declared(backend: &Backend) -> Vec<Value> {
    let greetings = backend.of_method("initialize").into_iter();
    greetings
        .map(|it| it["params"]["capabilities"].clone())
        .collect()
}

#[tokio::test]
async fn each_client_of_a_profile_has_its_own_process() {
    let backend = isolated(Kind::Stdio).await;
    let calm = Backend::stdio().await;
    let gateway = Gateway::of(&[("x", &backend), ("calm", &calm)]).await;
    let clients = [gateway.client().await, gateway.client().await];
    let mut pids = Vec::new();
    for client in &clients {
        pids.push(client.say("x__pid", json!({})).await);
    }
    let rest = gateway.rest();
    let (status, shared) = rest
        .post("/api/servers/x/tools/pid/call", json!({"arguments": {}}))
        .await;
    assert_eq!(status, StatusCode::OK, "{shared}");
    assert_ne!(pids[0], pids[1]);
    for pid in &pids {
        assert!(!shared.to_string().contains(pid.as_str()), "{shared}");
    }
    assert_eq!(clients[0].say("x__pid", json!({})).await, pids[0]);
    // Other servers are shared as ever.
    let [one, two] = &clients;
    assert_eq!(
        one.say("calm__pid", json!({})).await,
        two.say("calm__pid", json!({})).await
    );
    // A pipe is a client, too; and the own tools call in their client's session.
    let mut pipe = gateway.pipe().await;
    let own = text(&pipe.call("x__pid", json!({})).await);
    assert!(!pids.contains(&own));
    let meta = gateway.client_at("/mcp/meta").await;
    let request = json!({"tool": "x/pid", "arguments": {}});
    let first = meta.say("execute_tool", request.clone()).await;
    assert!(!pids.contains(&first) && first != own, "{first}");
    assert_eq!(meta.say("execute_tool", request).await, first);

    let before = backend.count("initialize");
    assert!(one.delete().await.is_success());
    assert_eq!(two.say("x__pid", json!({})).await, pids[1]);
    assert_eq!(backend.count("initialize"), before);
}

over_every_transport! {
    /// Capabilities are declared as the client's, and what the server asks reaches the client.
    async fn the_client_is_asked(kind) {
        let backend = isolated(kind).await;
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let (client, mute) = (willing(&gateway, "/mcp").await, gateway.client().await);
        for method in [SAMPLING, "elicitation/create", "roots/list"] {
            let params = json!({"name": "x__ask", "arguments": {"method": method}}).to_string();
            let mut stream = client.begin(client.request_text("tools/call", &params)).await;
            let question = stream.message().await;
            assert_eq!(question["method"], method, "{question}");
            reply(&client, &question, json!({"answer": method})).await;
            let answer = stream.message().await;
            assert!(text(&answer["result"]).contains(method), "{answer}");
        }
        let refused = mute.say("x__ask", json!({"method": SAMPLING})).await;
        assert!(refused.contains("-32601"), "{refused}");
        let declared = declared(&backend);
        assert_eq!(declared.len(), 3, "{declared:?}");
        assert!(declared.contains(&everything()), "{declared:?}");
        assert_eq!(declared.iter().filter(|it| **it == json!({})).count(), 2, "{declared:?}");
    }

    /// What the session says reaches its client alone.
    async fn what_a_session_says_reaches_its_client_alone(kind) {
        let backend = isolated(kind).await;
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let (one, two) = (gateway.client().await, gateway.client().await);
        let (mut first, mut second) = (one.listen().await, two.listen().await);
        for client in [&one, &two] {
            client.hears("x__echo").await;
        }
        let subscribe = json!({"uri": "mainstay+x:fake://text"});
        assert_eq!(one.result("resources/subscribe", subscribe.clone()).await, json!({}));
        one.call("x__touch", json!({"uri": "fake://text"})).await;
        let update = first.message().await;
        assert_eq!((&update["method"], &update["params"]["uri"]), (&json!(UPDATED), &subscribe["uri"]));
        one.result("logging/setLevel", json!({"level": "error"})).await;
        assert_eq!(one.say("x__log", json!({"level": "info"})).await, "0 lines logged");
        let logged = one.say("x__log", json!({"level": "error", "outside": true})).await;
        assert_eq!(logged, "1 lines logged");
        one.result("resources/unsubscribe", subscribe).await;
        assert_eq!(one.call("x__subscriptions", json!({})).await["structuredContent"]["fake://text"], Value::Null);
        // Nothing of that has reached the other client, which hears its own messages.
        two.call("x__change_prompts", json!({})).await;
        let heard = second.message().await;
        assert_eq!(heard["method"], "notifications/prompts/list_changed", "{heard}");
        // Progress is the call's own.
        let params = r#"{"name":"x__progress","arguments":{"steps":2},"_meta":{"progressToken":"p"}}"#;
        let said = one.exchange("tools/call", params).await;
        assert_eq!(said.len(), 3, "{said:?}");
    }

    /// What a client wants of a session that is lost, or made room for another, it has of the next.
    async fn a_session_that_is_opened_again_is_as_it_was(kind) {
        let backend = isolated(kind).await.option("maxSessions", 1);
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let (client, other) = (gateway.client().await, gateway.client().await);
        let mut stream = client.listen().await;
        client.result("logging/setLevel", json!({"level": "warning"})).await;
        client.result("resources/subscribe", json!({"uri": "fake://text"})).await;
        for _ in 0..2 {
            other.hears("x__echo").await;
            client.call("x__touch", json!({"uri": "fake://text"})).await;
            while stream.message().await["method"] != UPDATED {}
            assert_eq!(client.say("x__log", json!({"level": "notice"})).await, "0 lines logged");
            assert_eq!(client.say("x__log", json!({"level": "warning"})).await, "1 lines logged");
            client.call("x__crash", json!({})).await;
        }
    }

    /// The other operations are of the client's session, too.
    async fn prompts_completions_and_resources_are_of_the_session(kind) {
        let backend = isolated(kind).await;
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.tools().await;
        let before = backend.count("initialize");
        client.result("resources/read", json!({"uri": "fake://text"})).await;
        assert_eq!(backend.count("initialize"), before + 1);
        client.result("resources/read", json!({"uri": "fake://item/7"})).await;
        let prompts = client.result("prompts/list", json!({})).await;
        let prompt = &prompts["prompts"][0]["name"];
        client.request("prompts/get", json!({"name": prompt})).await;
        let asked = json!({"ref": {"type": "ref/resource", "uri": "fake://item/{id}"}, "argument": {"name": "id", "value": "1"}});
        client.result("completion/complete", asked).await;
        assert_eq!(backend.count("initialize"), before + 1);
        let greetings = backend.of_method("initialize");
        assert_eq!(greetings.last().expect("one")["params"]["clientInfo"]["name"], "tests");
    }

    /// Profiles are no different, and every session counts.
    async fn sessions_of_profiles_are_limited(kind) {
        let backend = isolated(kind).await.option("maxSessions", 1);
        let gateway = Gateway::with(&[("x", &backend)], json!({"profiles": {"p": {"servers": ["x"]}}})).await;
        let (one, two) = (gateway.client_at("/mcp/p").await, gateway.client().await);
        for client in [&one, &two, &one, &two] {
            client.hears("x__echo").await;
        }
        let _busy = one.begin(one.request_text("tools/call", r#"{"name":"x__sleep","arguments":{"ms":60000}}"#)).await;
        let refused = two.call("x__echo", json!({"text": "x"})).await;
        assert_eq!(failure(&refused)["kind"], "too_many_sessions", "{refused}");
        // The operator's own calls do not wait for that.
        let (status, _) = gateway.rest().post("/api/servers/x/tools/echo/call", json!({"arguments": {"text": "x"}})).await;
        assert_eq!(status, StatusCode::OK);
    }
}

/// The server asks outside any call: whose session it is, is asked.
#[tokio::test]
async fn a_question_outside_a_call_reaches_the_client() {
    let backend = isolated(Kind::Http).await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let client = willing(&gateway, "/mcp").await;
    let mut stream = client.listen().await;
    client.hears("x__echo").await;
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
        let received = backend.received();
        received
            .iter()
            .any(|it| it["result"]["roots"][0]["uri"] == "file:///mine")
    })
    .await;
}

/// A question that its server takes back is not that of another server with the same id.
#[tokio::test]
async fn a_server_takes_back_its_own_question_only() {
    let backends = [isolated(Kind::Http).await, isolated(Kind::Http).await];
    let gateway = Gateway::of(&[("x", &backends[0]), ("y", &backends[1])]).await;
    let client = willing(&gateway, "/mcp").await;
    let mut stream = client.listen().await;
    let mut ids = Vec::new();
    for (name, backend) in ["x", "y"].iter().zip(&backends) {
        client.hears(&format!("{name}__echo")).await;
        backend
            .fake()
            .publish(r#"{"jsonrpc":"2.0","id":"same","method":"roots/list"}"#);
        let question = stream.message().await;
        assert_eq!(question["method"], "roots/list", "{question}");
        ids.push(question);
    }
    let taken =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"same"}}"#;
    backends[1].fake().publish(taken);
    let told = stream.message().await;
    assert_eq!(told["params"]["requestId"], ids[1]["id"], "{told}");
    reply(
        &client,
        &ids[0],
        json!({"roots": [{"uri": "file:///first"}]}),
    )
    .await;
    until("the answer", || {
        let received = backends[0].received();
        received
            .iter()
            .any(|it| it["result"]["roots"][0]["uri"] == "file:///first")
    })
    .await;
}

/// Clients without a session share one with clients like them, and with no others.
#[tokio::test]
async fn clients_without_a_session_are_pooled() {
    let backend = isolated(Kind::Stdio).await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let pid = async |client: &Modern| text(&client.call("x__pid", json!({})).await);
    let (one, alike) = (Modern::at(&gateway, "/mcp"), Modern::at(&gateway, "/mcp"));
    let able = Modern::at(&gateway, "/mcp").able(json!({"sampling": {}}));
    let legacy = gateway.client().await.say("x__pid", json!({})).await;
    let own = pid(&one).await;
    assert_eq!(pid(&alike).await, own);
    let other = pid(&able).await;
    assert!(other != own && other != legacy && own != legacy);
    let level = Modern::at(&gateway, "/mcp").with("io.modelcontextprotocol/logLevel", "error");
    let said = level
        .ask(
            "tools/call",
            json!({"name": "x__log", "arguments": {"level": "error"}}),
        )
        .await;
    assert_eq!(said.messages().len(), 2, "{:?}", said.messages());
}

/// A server that keeps no sessions is shared all the same.
#[tokio::test]
async fn a_server_without_sessions_is_shared() {
    let backend = Backend::start(Kind::Http, &["--revisions", "2026-07-28"]).await;
    let backend = backend
        .option("isolation", "session")
        .option("maxSessions", 1);
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    for client in [&one, &two] {
        client.hears("x__echo").await;
    }
    // Once it is asked whether it opens any.
    assert!(backend.count("initialize") <= 1);
}

/// One word at the top of the file is the default of all servers.
#[tokio::test]
async fn the_default_of_all_servers_stands_at_the_top() {
    let (backend, shared) = (
        Backend::stdio().await,
        Backend::stdio().await.option("isolation", "shared"),
    );
    let all = config(
        &[("x", &backend), ("y", &shared)],
        json!({"isolation": "session"}),
    );
    let gateway = Gateway::start(&all).await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    assert_ne!(
        one.say("x__pid", json!({})).await,
        two.say("x__pid", json!({})).await
    );
    assert_eq!(
        one.say("y__pid", json!({})).await,
        two.say("y__pid", json!({})).await
    );
}

/// A session that has not been used ends with its client's, and takes nothing with it.
#[tokio::test]
async fn ended_clients_leave_nothing() {
    let backend = isolated(Kind::Http).await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = gateway.stranger("/mcp");
        client.initialize(LATEST).await;
        client.hears("x__echo").await;
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
