//! Own tools of the group `external` (docs/dev/requirements.md, "Own tools: `external`"; docs/dev/seeds.md,
//! 002, "Own tools").

use serde_json::{Value, json};

use super::{call_failing, call_ok, gateway};
use crate::{
    backend::Backend,
    client::{Http, raw, text, value},
    gateway::Gateway,
    modern::Modern,
};

async fn client(gateway: &Gateway) -> Http {
    gateway.client().await
}

/// Without servers, lists are empty and calls fail (t118, t126).
#[tokio::test]
async fn without_servers_there_is_nothing() {
    let gateway = gateway(&[], &["external"]).await;
    let client = client(&gateway).await;
    for (tool, expected) in [
        ("external_list_servers", json!({"servers": {}})),
        ("external_list_tools", json!({"tools": []})),
        ("external_list_resources", json!({"resources": []})),
    ] {
        assert_eq!(call_ok(&client, tool, json!({})).await, expected, "{tool}");
    }
    let failure = call_failing(&client, "external_call_tool", json!({"tool": "x/echo"})).await;
    assert_eq!(failure["error"], "mcp_client_not_configured", "{failure}");
}

/// The list has the status, number of tools and problem of each server (t119, N1).
#[tokio::test]
async fn servers_are_listed_with_what_they_have() {
    let backend = Backend::http().await;
    let dead_backend = Backend::stdio().await.option("command", "no-such-program");
    let gateway = gateway(&[("x", &backend), ("dead", &dead_backend)], &["external"]).await;
    let client = client(&gateway).await;
    client.tools().await;
    let result = call_ok(&client, "external_list_servers", json!({})).await;
    assert_eq!(result["servers"]["x"]["status"], "connected", "{result}");
    assert!(
        result["servers"]["x"]["tool_count"].as_u64() > Some(3),
        "{result}"
    );
    assert_eq!(
        result["servers"]["dead"]["status"], "reconnecting",
        "{result}"
    );
    assert!(result["servers"]["dead"]["error"].is_string(), "{result}");
    assert!(
        result["servers"]["dead"].get("tool_count").is_none(),
        "{result}"
    );
}

/// Tools are listed for all servers or for one server (t120, t121, N2).
#[tokio::test]
async fn tools_are_listed_of_all_servers_or_of_one() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let second_backend = second_backend.option("disabledTools", json!(["add"]));
    let gateway = gateway(
        &[("one", &first_backend), ("two", &second_backend)],
        &["external"],
    )
    .await;
    let client = client(&gateway).await;
    let result = call_ok(&client, "external_list_tools", json!({})).await;
    let tool_named = |result: &Value, name: &str| {
        let tools = result["tools"].as_array().expect("a list").iter();
        tools.filter(|tool| tool["name"] == name).count()
    };
    assert_eq!(
        (
            tool_named(&result, "one/add"),
            tool_named(&result, "two/echo")
        ),
        (1, 1),
        "{result}"
    );
    assert_eq!(
        tool_named(&result, "two/add"),
        0,
        "it is disabled: {result}"
    );
    let tool = &result["tools"][0];
    assert_eq!(tool["server"], "one");
    assert!(
        tool["description"].is_string() && tool.as_object().map(serde_json::Map::len) == Some(3)
    );
    let result = call_ok(&client, "external_list_tools", json!({"server": "two"})).await;
    assert_eq!(
        (
            tool_named(&result, "one/add"),
            tool_named(&result, "two/echo")
        ),
        (0, 1),
        "{result}"
    );
    let failure = call_failing(&client, "external_list_tools", json!({"server": "three"})).await;
    assert_eq!(
        (&failure["error"], &failure["server"]),
        (&json!("server_not_found"), &json!("three"))
    );
}

/// A call returns the content of the tool's result, and `isError` (t122, N3, N8).
#[tokio::test]
async fn tools_are_called() {
    let backend = Backend::http().await;
    let gateway = gateway(&[("x", &backend)], &["external"]).await;
    let client = client(&gateway).await;
    let echo = json!({"tool": "x/echo", "arguments": {"text": "grüße"}});
    let result = call_ok(&client, "external_call_tool", echo.clone()).await;
    assert_eq!(
        result,
        json!({"content": [{"type": "text", "text": "grüße"}]})
    );
    let result = call_ok(&client, "external_call_tool", json!({"tool": "x/pid"})).await;
    assert_eq!(result["content"][0]["type"], "text", "K1: {result}");
    let (result, is_error) = super::result_json(
        &client
            .call("external_call_tool", json!({"tool": "x/error"}))
            .await,
    );
    assert!(is_error);
    assert_eq!(
        result,
        json!({"content": [{"type": "text", "text": "the tool failed"}], "is_error": true})
    );
    // The content has the server's bytes (K3), even a number that no JSON parser can represent.
    let direct = gateway.client_at("/servers/x/mcp").await;
    let direct = direct.ask("tools/call", r#"{"name":"weird"}"#).await;
    let params = r#"{"name":"external_call_tool","arguments":{"tool":"x/weird"}}"#;
    let weird_result = value(&client.ask("tools/call", params).await);
    let content = raw(raw(&direct, "result"), "content");
    assert_eq!(
        text(&weird_result["result"]),
        format!(r#"{{"content":{content}}}"#)
    );
    let modern = Modern::at(&gateway, "/mcp");
    let result = modern.call("external_call_tool", echo).await;
    assert_eq!(result["resultType"], "complete");
    assert!(text(&result).contains("grüße"), "{result}");
}

/// The error of a failed call states its kind (t123–t125, K2, Y17).
#[tokio::test]
async fn failed_calls_say_their_kind() {
    let backend = Backend::http().await.option("timeout", 1000);
    let broken_backend = Backend::http().await;
    let gateway = gateway(&[("x", &backend), ("down", &broken_backend)], &["external"]).await;
    let client = client(&gateway).await;
    gateway.rest().done("down", "stop").await;
    for (arguments, kind, key, expected_server) in [
        (
            json!({"tool": "nosuch/echo"}),
            "server_not_found",
            "server",
            json!("nosuch"),
        ),
        (
            json!({"tool": "x/nosuch"}),
            "tool_not_found",
            "tool",
            json!("x/nosuch"),
        ),
        (
            json!({"tool": "down/echo"}),
            "server_not_connected",
            "server",
            json!("down"),
        ),
        (
            json!({"tool": "nosuch"}),
            "invalid_tool_name",
            "tool",
            json!("nosuch"),
        ),
        (
            json!({"tool": "x/hang"}),
            "call_timeout",
            "server",
            json!("x"),
        ),
        (
            json!({"tool": "x/rpc_error"}),
            "call_failed",
            "rpcCode",
            json!(-32050),
        ),
        (
            json!({"arguments": {}}),
            "invalid_request",
            "error",
            json!("invalid_request"),
        ),
    ] {
        let failure = call_failing(&client, "external_call_tool", arguments.clone()).await;
        assert_eq!(
            (&failure["error"], &failure[key]),
            (&json!(kind), &expected_server),
            "{arguments}: {failure}"
        );
        assert!(failure["message"].is_string(), "{failure}");
    }
    assert_eq!(backend.runs("hang"), 1);
}

/// Resources are listed and read (t127–t131, N4, N5).
#[tokio::test]
async fn resources_are_listed_and_read() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let gateway = gateway(
        &[("one", &first_backend), ("two", &second_backend)],
        &["external"],
    )
    .await;
    let client = client(&gateway).await;
    let result = call_ok(&client, "external_list_resources", json!({})).await;
    let all_resources = result["resources"].as_array().expect("a list");
    assert_eq!(all_resources.len(), 4, "{result}");
    for key in ["uri", "server", "name", "mime_type"] {
        assert!(
            all_resources
                .iter()
                .all(|resource| resource[key].is_string()),
            "{key}: {result}"
        );
    }
    assert!(
        all_resources
            .iter()
            .all(|resource| resource.get("description").is_some()),
        "{result}"
    );
    let result = call_ok(&client, "external_list_resources", json!({"server": "two"})).await;
    let second_backend = result["resources"].as_array().expect("a list");
    assert!(
        second_backend.len() == 2
            && second_backend
                .iter()
                .all(|resource| resource["server"] == "two"),
        "{result}"
    );
    assert_eq!(
        second_backend[0]["uri"], "fake://text",
        "its own URI: {result}"
    );
    let read_resource = async |server: &str, uri: &str| {
        call_ok(
            &client,
            "external_read_resource",
            json!({"server": server, "uri": uri}),
        )
        .await
    };
    assert_eq!(
        read_resource("two", "fake://text").await["content"],
        "the text of the fake"
    );
    assert_eq!(
        read_resource("one", "fake://blob").await["content"],
        "AAECAwQ="
    );
    assert!(
        read_resource("one", "fake://text")
            .await
            .get("mime_type")
            .is_some()
    );
    for (arguments, kind, key) in [
        (
            json!({"server": "nosuch", "uri": "fake://text"}),
            "server_not_found",
            "server",
        ),
        (
            json!({"server": "one", "uri": "fake://nothing"}),
            "resource_not_found",
            "uri",
        ),
        (json!({"server": "one"}), "invalid_request", "error"),
    ] {
        let failure = call_failing(&client, "external_read_resource", arguments.clone()).await;
        assert_eq!(failure["error"], kind, "{arguments}: {failure}");
        assert!(failure[key].is_string(), "{failure}");
    }
}
