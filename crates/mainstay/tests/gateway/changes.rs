//! `list_changed`: relayed, merged, and true when it arrives (Y7).

use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    client::LATEST,
    gateway::{Gateway, until},
};

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";

over_every_transport! {
    /// A client that lists after the notification gets the change.
    async fn a_changed_list_is_announced_and_listed_anew(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let mut stream = client.listen().await;
        let mut pipe = gateway.pipe().await;
        assert!(!client.tools().await.contains(&"x__extra".to_owned()));

        client.call("x__change_tools", json!({})).await;
        assert_eq!(stream.message().await, json!({"jsonrpc": "2.0", "method": TOOLS}));
        assert!(client.tools().await.contains(&"x__extra".to_owned()));
        client.call("x__extra", json!({})).await;
        assert_eq!(pipe.message().await["method"], TOOLS);

        client.call("x__change_tools", json!({"remove": true})).await;
        assert_eq!(stream.message().await["method"], TOOLS);
        assert!(!client.tools().await.contains(&"x__extra".to_owned()));
        assert_eq!(pipe.message().await["method"], TOOLS);
    }

    /// A server's announcement counts, even if the list is the same.
    async fn every_kind_of_change_is_relayed(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let mut stream = client.listen().await;
        for (tool, method) in [("x__change_prompts", PROMPTS), ("x__change_resources", RESOURCES)] {
            client.call(tool, json!({})).await;
            assert_eq!(stream.message().await["method"], method);
        }
    }

    /// At the transparent endpoint the server's own message arrives.
    async fn a_transparent_client_hears_its_own_session(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client_at("/servers/x/mcp").await;
        let mut stream = client.listen().await;
        client.call("change_tools", json!({})).await;
        assert_eq!(stream.message().await, json!({"jsonrpc": "2.0", "method": TOOLS, "params": {}}));
        assert!(client.tools().await.contains(&"extra".to_owned()));
    }
}

/// Y7: for a client a burst of changes is one change, after one reading of the list.
#[tokio::test]
async fn a_burst_of_changes_is_gathered() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let mut stream = client.listen().await;
        until("the stream upstream", || backend.fake().streams() == 1).await;
        let before = backend.count("tools/list");
        for _ in 0..20 {
            let message = json!({"jsonrpc": "2.0", "method": TOOLS});
            backend.fake().publish(&message.to_string());
        }
        assert_eq!(stream.message().await["method"], TOOLS);
        client.call("x__change_prompts", json!({})).await;
        assert_eq!(stream.message().await["method"], PROMPTS);
        assert_eq!(backend.count("tools/list"), before + 1);
    }
}

/// Messages without a stream wait for the stream (specification, transports).
#[tokio::test]
async fn what_was_said_before_the_stream_opened_is_not_lost() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (client, listener) = (gateway.client().await, gateway.client().await);
    let mut stream = listener.listen().await;
    client.call("x__change_tools", json!({})).await;
    assert_eq!(stream.message().await["method"], TOOLS);
    assert_eq!(client.listen().await.message().await["method"], TOOLS);
}

/// A late server is announced to clients that have listed already.
#[tokio::test]
async fn a_late_server_is_announced() {
    let quick = Backend::http().await;
    let late = Backend::start(BackendKind::Stdio, &["--slow-start", "1500"]).await;
    let servers = [("quick", &quick), ("late", &late)];
    let gateway = Gateway::with_settings(&servers, json!({"startup": {"waitMs": 200}})).await;
    let client = gateway.client().await;
    assert!(!client.tools().await.contains(&"late__echo".to_owned()));
    let mut stream = client.listen().await;
    while stream.message().await["method"] != TOOLS {}
    until_listed(&client, "late__echo").await;
    client.assert_echo("late__echo").await;
}

async fn until_listed(client: &crate::client::Http, tool: &str) {
    let listing = async { while !client.tools().await.contains(&tool.to_owned()) {} };
    crate::gateway::soon(tool, listing).await;
}

/// Each message is sent on one stream only, and all messages arrive.
#[tokio::test]
async fn two_streams_of_one_session_share_its_messages() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let (mut one, mut two) = (client.listen().await, client.listen().await);
    let mut received = Vec::new();
    for tool in [
        "x__change_tools",
        "x__change_prompts",
        "x__change_resources",
    ] {
        client.call(tool, json!({})).await;
        let message = tokio::select! {
            message = one.message() => message,
            message = two.message() => message,
        };
        received.push(message["method"].clone());
    }
    assert_eq!(received, [TOOLS, PROMPTS, RESOURCES]);
}

/// If a stream is dropped, messages that were not written to it are not lost. The next stream sends them.
#[tokio::test]
async fn a_stream_may_be_opened_again() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut client = gateway.stranger("/mcp");
    client.initialize(LATEST).await;
    drop(client.listen().await);
    let mut stream = client.listen().await;
    client.call("x__change_tools", json!({})).await;
    assert_eq!(stream.message().await["method"], TOOLS);
}
