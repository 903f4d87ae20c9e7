//! `isolation: "shared"` at `/servers/<name>/mcp`: all clients share one upstream session.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{LATEST, raw, text, value},
    gateway::Gateway,
    modern::Modern,
};

const PATH: &str = "/servers/x/mcp";
const UPDATED: &str = "notifications/resources/updated";

async fn start_shared(kind: BackendKind) -> Backend {
    Backend::start(kind, &[])
        .await
        .option("isolation", "shared")
}

over_every_transport! {
    /// More clients than `maxSessions` can use the upstream session.
    async fn clients_share_the_one_session(kind) {
        let backend = start_shared(kind).await.option("maxSessions", 1);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let aggregate = gateway.client().await;
        aggregate.assert_echo("x__echo").await;
        for _ in 0..4 {
            let client = gateway.client_at(PATH).await;
            client.assert_echo("echo").await;
            let tools = client.ask("tools/list", "{}").await;
            assert!(raw(&tools, "result").contains(r#""name":"echo""#), "{tools}");
        }
        assert_eq!(backend.count("initialize"), 1);
    }

    /// Subscriptions and log levels are stored for each client. A client gets only the
    /// notifications that match its own.
    async fn settings_of_a_shared_session_are_stored_per_client(kind) {
        let backend = start_shared(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (first_client, second_client) = (gateway.client_at(PATH).await, gateway.client_at(PATH).await);
        let (mut first, mut second_stream) = (first_client.listen().await, second_client.listen().await);
        let subscribe = json!({"uri": "fake://text"});
        first_client.result("resources/subscribe", subscribe.clone()).await;
        first_client.result("logging/setLevel", json!({"level": "error"})).await;
        backend.until_count("logging/setLevel", 1).await;
        second_client.call("touch", json!({"uri": "fake://text"})).await;
        assert_eq!(first.message().await["method"], UPDATED);
        second_client.result("resources/subscribe", subscribe.clone()).await;
        assert_eq!(backend.count("resources/subscribe"), 1);
        first_client.result("resources/unsubscribe", subscribe).await;
        second_client.call("touch", json!({"uri": "fake://text"})).await;
        assert_eq!(second_stream.message().await["method"], UPDATED);
        second_client.call("change_prompts", json!({})).await;
        for stream in [&mut first, &mut second_stream] {
            let message = stream.message().await;
            assert_eq!(message["method"], "notifications/prompts/list_changed", "{message}");
        }
        assert_eq!(backend.count("initialize"), 1);
    }

    /// Each client negotiates its own revision. If the session is lost, a new one serves all
    /// clients.
    async fn the_session_is_the_servers_own(kind) {
        let backend = start_shared(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let mut old_client = gateway.stranger(PATH);
        let greeting_answer = old_client.initialize("2025-03-26").await;
        assert_eq!(greeting_answer["protocolVersion"], "2025-03-26", "{greeting_answer}");
        assert_ne!(greeting_answer["serverInfo"]["name"], "mainstay", "{greeting_answer}");
        let client = gateway.client_at(PATH).await;
        client.call("crash", json!({})).await;
        client.assert_echo("echo").await;
    }
}

/// Clients without a session also use the shared upstream session.
#[tokio::test]
async fn clients_without_a_session_share_it() {
    let backend = start_shared(BackendKind::Stdio).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let pid = gateway.client().await.call_text("x__pid", json!({})).await;
    let client = Modern::at(&gateway, PATH);
    assert_eq!(text(&client.call("pid", json!({})).await), pid);
    let filter = json!({"notifications": {"promptsListChanged": true, "resourceSubscriptions": ["fake://text"]}});
    let mut stream = client.begin("subscriptions/listen", filter).await;
    let acknowledged_message = stream.message().await;
    assert_eq!(
        acknowledged_message["params"]["notifications"]["promptsListChanged"], true,
        "{acknowledged_message}"
    );
    client.call("touch", json!({"uri": "fake://text"})).await;
    assert_eq!(stream.message().await["method"], UPDATED);
    client.call("change_prompts", json!({})).await;
    let changed_message = stream.message().await;
    assert_eq!(
        changed_message["method"], "notifications/prompts/list_changed",
        "{changed_message}"
    );
    assert_eq!(backend.count("initialize"), 1);
}

/// Unknown requests are forwarded. The pages of lists are those of the server.
#[tokio::test]
async fn requests_are_forwarded_as_they_are() {
    let backend = Backend::start(BackendKind::Http, &["--tools", "20", "--page-size", "7"]).await;
    let backend = backend.option("isolation", "shared");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client_at(PATH).await;
    let error = client.error("vendor/method", json!({})).await;
    assert_eq!(error["code"], -32601);
    let page = value(&client.ask("tools/list", "{}").await);
    assert!(page["result"]["nextCursor"].is_string(), "{page}");
    let mut unauthenticated_client = gateway.stranger(PATH);
    assert_ne!(
        unauthenticated_client.initialize(LATEST).await["capabilities"],
        Value::Null
    );
}
