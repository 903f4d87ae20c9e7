//! `list_changed` notifications are relayed and merged. They are sent when the change is visible
//! (Y7).

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
    /// A list request after the notification returns the changed list.
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

    /// An announcement is relayed even if the list is the same as before.
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

    /// The transparent endpoint forwards the server's message unchanged.
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

/// Several changes in a row cause one list request and one notification (Y7).
#[tokio::test]
async fn a_burst_of_changes_is_gathered() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let mut stream = client.listen().await;
        until("the stream upstream", || backend.fake().streams() == 1).await;
        let previous_count = backend.count("tools/list");
        for _ in 0..20 {
            let message = json!({"jsonrpc": "2.0", "method": TOOLS});
            backend.fake().publish(&message.to_string());
        }
        assert_eq!(stream.message().await["method"], TOOLS);
        client.call("x__change_prompts", json!({})).await;
        assert_eq!(stream.message().await["method"], PROMPTS);
        assert_eq!(backend.count("tools/list"), previous_count + 1);
    }
}

/// Messages are stored until the client opens a stream (specification, "Transports").
#[tokio::test]
async fn messages_before_the_stream_are_stored() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (client, listener) = (gateway.client().await, gateway.client().await);
    let mut stream = listener.listen().await;
    client.call("x__change_tools", json!({})).await;
    assert_eq!(stream.message().await["method"], TOOLS);
    assert_eq!(client.listen().await.message().await["method"], TOOLS);
}

/// If a server connects late, clients that have listed tools are notified.
#[tokio::test]
async fn a_late_server_is_announced() {
    let quick_backend = Backend::http().await;
    let late_backend = Backend::start(BackendKind::Stdio, &["--slow-start", "1500"]).await;
    let servers = [("quick", &quick_backend), ("late", &late_backend)];
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

/// Each message is sent on only one stream.
#[tokio::test]
async fn two_streams_of_one_session_share_its_messages() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let (mut first_stream, mut second_stream) = (client.listen().await, client.listen().await);
    let mut received_methods = Vec::new();
    for tool in [
        "x__change_tools",
        "x__change_prompts",
        "x__change_resources",
    ] {
        client.call(tool, json!({})).await;
        let message = tokio::select! {
            message = first_stream.message() => message,
            message = second_stream.message() => message,
        };
        received_methods.push(message["method"].clone());
    }
    assert_eq!(received_methods, [TOOLS, PROMPTS, RESOURCES]);
}

/// If a stream drops, its unsent messages are sent on the next stream.
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
