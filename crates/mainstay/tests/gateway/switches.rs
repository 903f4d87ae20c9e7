//! Servers and tools that are switched off for one client (A36).

use http::StatusCode;
use mainstay::daemon::DaemonOptions;
use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use serde_json::{Value, json};

use crate::{
    backend::Backend,
    client::{Http, LATEST, initialize},
    gateway::{Gateway, config},
    modern::{Modern, key},
};

const TOOLS: &str = "notifications/tools/list_changed";

async fn switch(gateway: &Gateway, client: &str, switch: Value) {
    let path = format!("/api/switches/{client}");
    let (status, answer) = gateway.rest().put(&path, switch).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["client"], client, "{answer}");
}

/// Connects a client that states this name.
async fn client(gateway: &Gateway, name: &str) -> Http {
    let mut client = gateway.stranger("/mcp");
    let greeting_text = initialize(LATEST).replace("\"tests\"", &format!("\"{name}\""));
    client.greet(&greeting_text).await;
    client
}

async fn has_tool(client: &Http, tool: &str) -> bool {
    client.tools().await.contains(&tool.to_owned())
}

#[tokio::test]
async fn a_switch_is_one_clients() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let gateway = Gateway::with_servers(&[("x", &first_backend), ("y", &second_backend)]).await;
    let (first_client, other_client) = (
        client(&gateway, "one").await,
        client(&gateway, "other").await,
    );
    let (mut one_stream, mut other_stream) =
        (first_client.listen().await, other_client.listen().await);
    first_client.assert_echo("x__echo").await;
    assert_eq!(
        gateway.rest().get("/api/switches").await,
        json!({"clients": {}})
    );

    switch(&gateway, "one", json!({"server": "x", "enabled": false})).await;
    switch(
        &gateway,
        "one",
        json!({"server": "y", "tool": "echo", "enabled": false}),
    )
    .await;
    assert_eq!(
        gateway.rest().get("/api/switches").await,
        json!({"clients": {"one": {"servers": ["x"], "tools": ["y/echo"]}}})
    );
    assert_eq!(one_stream.message().await["method"], TOOLS);
    for tool in ["x__echo", "x__count", "y__echo"] {
        assert!(
            !has_tool(&first_client, tool).await && has_tool(&other_client, tool).await,
            "{tool}"
        );
        other_client.call(tool, json!({"text": "hello"})).await;
    }
    let (calls, read_count) = (
        first_backend.runs("echo") + second_backend.runs("echo"),
        first_backend.count("resources/read"),
    );
    for spelling in ["x__echo", "x/echo", "mcp__x__echo", "y__echo", "y/echo"] {
        let error = first_client
            .error("tools/call", json!({"name": spelling}))
            .await;
        assert_eq!(error["code"], -32602, "{spelling}: {error}");
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("switched off"), "{message}");
    }
    let resource = json!({"uri": "mainstay+x:fake://text"});
    first_client.error("resources/read", resource.clone()).await;
    first_client
        .error("prompts/get", json!({"name": "x__plain"}))
        .await;
    assert_eq!(
        (
            first_backend.runs("echo") + second_backend.runs("echo"),
            first_backend.count("resources/read")
        ),
        (calls, read_count)
    );
    first_client.call("y__count", json!({})).await;
    // REST calls are not affected by switches.
    let (status, _) = gateway
        .rest()
        .post(
            "/api/mcp-tools/call",
            json!({"tool": "x/echo", "arguments": {"text": "hi"}}),
        )
        .await;
    assert_eq!(status, StatusCode::OK);

    switch(&gateway, "one", json!({"server": "x", "enabled": true})).await;
    first_client.assert_echo("x__echo").await;
    first_client
        .error("tools/call", json!({"name": "y__echo"}))
        .await;
    let (status, _) = gateway.rest().delete("/api/switches/one").await;
    assert_eq!(status, StatusCode::OK);
    first_client.assert_echo("y__echo").await;
    assert_eq!(
        gateway.rest().get("/api/switches").await,
        json!({"clients": {}})
    );
    // Before this message, the other client received nothing.
    other_client.call("x__change_resources", json!({})).await;
    let first = other_stream.message().await;
    assert_eq!(
        first["method"], "notifications/resources/list_changed",
        "{first}"
    );
}

/// A client without a session is known by its client information (2026-07-28).
#[tokio::test]
async fn switches_hold_for_clients_without_a_session() {
    let x_backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &x_backend)]).await;
    let first_client = Modern::at(&gateway, "/mcp")
        .with(&key("clientInfo"), json!({"name": "a / b", "version": "1"}));
    let other_client = Modern::at(&gateway, "/mcp");
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = first_client.begin("subscriptions/listen", listen).await;
    stream.message().await;
    let path = "/api/switches/a%20%2F%20b";
    let switch_body = json!({"server": "x", "tool": "echo", "enabled": false});
    let (status, answer) = gateway.rest().put(path, switch_body).await;
    assert_eq!(
        (status, &answer["client"]),
        (StatusCode::OK, &json!("a / b"))
    );
    assert_eq!(stream.message().await["method"], TOOLS);
    let (_, error) = first_client
        .error("tools/call", json!({"name": "x__echo"}))
        .await;
    assert_eq!(error["code"], -32602, "{error}");
    assert_eq!(x_backend.runs("echo"), 0);
    let tools = first_client
        .result("tools/list", json!({}))
        .await
        .to_string();
    assert!(!tools.contains("x__echo") && tools.contains("x__count"));
    other_client.call("x__echo", json!({"text": "hello"})).await;
    assert_eq!(
        gateway.rest().delete("/api/switches").await.0,
        StatusCode::OK
    );
    assert_eq!(stream.message().await["method"], TOOLS);
    first_client.call("x__echo", json!({"text": "hello"})).await;
}

/// Switches are stored. They also apply to revived sessions (A36).
#[tokio::test]
async fn a_restart_forgets_no_switch() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let x_backend = Backend::http().await;
    let config = config(&[("x", &x_backend)], json!({}));
    let run = async || {
        let options = DaemonOptions {
            gateway: GatewayOptions {
                switches: Some(folder.path().join("switches.json")),
                ..GatewayOptions::default()
            },
            session_key: Some(Secret::new("a key that is kept")),
            ..DaemonOptions::default()
        };
        Gateway::with_options(&config, options).await
    };
    let gateway = run().await;
    let (first_client, other_client) = (
        client(&gateway, "one").await,
        client(&gateway, "other").await,
    );
    switch(&gateway, "one", json!({"server": "x", "enabled": false})).await;
    gateway.stop().await;
    let gateway = run().await;
    for (client, expected) in [(&first_client, false), (&other_client, true)] {
        let mut revived_client = gateway.stranger("/mcp");
        revived_client.session.clone_from(&client.session);
        assert_eq!(has_tool(&revived_client, "x__echo").await, expected);
    }
    assert!(!has_tool(&client(&gateway, "one").await, "x__echo").await);
}

/// Switching an unknown name off is refused. An item that has been removed can still be switched
/// on.
#[tokio::test]
async fn only_existing_items_can_be_switched_off() {
    let x_backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &x_backend)]).await;
    gateway.client().await.assert_echo("x__echo").await;
    for (body, status, code) in [
        (
            json!({"server": "z", "enabled": false}),
            404,
            "server_not_found",
        ),
        (
            json!({"server": "x", "tool": "ecko", "enabled": false}),
            404,
            "tool_not_found",
        ),
        (json!({"server": "x"}), 400, "invalid_request"),
        (
            json!({"server": "x", "enabled": "no"}),
            400,
            "invalid_request",
        ),
    ] {
        let (actual_status, answer) = gateway.rest().put("/api/switches/one", body).await;
        assert_eq!(
            (actual_status.as_u16(), &answer["error"]),
            (status, &json!(code)),
            "{answer}"
        );
    }
    let (status, answer) = gateway.rest().delete("/api/switches/%FF").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(answer["error"], "invalid_request", "{answer}");
    let switch_body = json!({"server": "z", "enabled": true});
    let (status, _) = gateway.rest().put("/api/switches/one", switch_body).await;
    assert_eq!(status, StatusCode::OK);
}
