//! Group `external` (docs/dev/requirements.md, "Own tools: `external`"; docs/dev/seeds.md, 002, "Own tools").

use serde_json::{Value, json};

use super::{fails, gateway, says};
use crate::{
    backend::Backend,
    client::{Http, raw, text, value},
    gateway::Gateway,
    modern::Modern,
};

async fn client(gateway: &Gateway) -> Http {
    gateway.client().await
}

/// t118, t126: no server is nothing to list, and nothing to call.
#[tokio::test]
async fn without_servers_there_is_nothing() {
    let gateway = gateway(&[], &["external"]).await;
    let client = client(&gateway).await;
    for (tool, expected) in [
        ("external_list_servers", json!({"servers": {}})),
        ("external_list_tools", json!({"tools": []})),
        ("external_list_resources", json!({"resources": []})),
    ] {
        assert_eq!(says(&client, tool, json!({})).await, expected, "{tool}");
    }
    let said = fails(&client, "external_call_tool", json!({"tool": "x/echo"})).await;
    assert_eq!(said["error"], "mcp_client_not_configured", "{said}");
}

/// t119, N1: status and number of tools, or what is wrong.
#[tokio::test]
async fn servers_are_listed_with_what_they_have() {
    let backend = Backend::http().await;
    let dead = Backend::stdio().await.option("command", "no-such-program");
    let gateway = gateway(&[("x", &backend), ("dead", &dead)], &["external"]).await;
    let client = client(&gateway).await;
    client.tools().await;
    let said = says(&client, "external_list_servers", json!({})).await;
    assert_eq!(said["servers"]["x"]["status"], "connected", "{said}");
    assert!(
        said["servers"]["x"]["tool_count"].as_u64() > Some(3),
        "{said}"
    );
    assert_eq!(said["servers"]["dead"]["status"], "reconnecting", "{said}");
    assert!(said["servers"]["dead"]["error"].is_string(), "{said}");
    assert!(
        said["servers"]["dead"].get("tool_count").is_none(),
        "{said}"
    );
}

/// t120, t121, N2.
#[tokio::test]
async fn tools_are_listed_of_all_servers_or_of_one() {
    let (one, two) = (Backend::http().await, Backend::http().await);
    let two = two.option("disabledTools", json!(["add"]));
    let gateway = gateway(&[("one", &one), ("two", &two)], &["external"]).await;
    let client = client(&gateway).await;
    let said = says(&client, "external_list_tools", json!({})).await;
    let named = |said: &Value, name: &str| {
        let tools = said["tools"].as_array().expect("a list").iter();
        tools.filter(|tool| tool["name"] == name).count()
    };
    assert_eq!(
        (named(&said, "one/add"), named(&said, "two/echo")),
        (1, 1),
        "{said}"
    );
    assert_eq!(named(&said, "two/add"), 0, "it is disabled: {said}");
    let tool = &said["tools"][0];
    assert_eq!(tool["server"], "one");
    assert!(
        tool["description"].is_string() && tool.as_object().map(serde_json::Map::len) == Some(3)
    );
    let said = says(&client, "external_list_tools", json!({"server": "two"})).await;
    assert_eq!(
        (named(&said, "one/add"), named(&said, "two/echo")),
        (0, 1),
        "{said}"
    );
    let said = fails(&client, "external_list_tools", json!({"server": "three"})).await;
    assert_eq!(
        (&said["error"], &said["server"]),
        (&json!("server_not_found"), &json!("three"))
    );
}

/// t122, N3, N8: the content of the tool's answer, and whether it is an error.
#[tokio::test]
async fn tools_are_called() {
    let backend = Backend::http().await;
    let gateway = gateway(&[("x", &backend)], &["external"]).await;
    let client = client(&gateway).await;
    let echo = json!({"tool": "x/echo", "arguments": {"text": "grüße"}});
    let said = says(&client, "external_call_tool", echo.clone()).await;
    assert_eq!(
        said,
        json!({"content": [{"type": "text", "text": "grüße"}]})
    );
    let said = says(&client, "external_call_tool", json!({"tool": "x/pid"})).await;
    assert_eq!(said["content"][0]["type"], "text", "K1: {said}");
    let (said, failed) = super::said(
        &client
            .call("external_call_tool", json!({"tool": "x/error"}))
            .await,
    );
    assert!(failed);
    assert_eq!(
        said,
        json!({"content": [{"type": "text", "text": "the tool failed"}], "is_error": true})
    );
    // K3: as it is, what no JSON value can hold included.
    let own = gateway.client_at("/servers/x/mcp").await;
    let own = own.ask("tools/call", r#"{"name":"weird"}"#).await;
    let params = r#"{"name":"external_call_tool","arguments":{"tool":"x/weird"}}"#;
    let weird = value(&client.ask("tools/call", params).await);
    let content = raw(raw(&own, "result"), "content");
    assert_eq!(
        text(&weird["result"]),
        format!(r#"{{"content":{content}}}"#)
    );
    let modern = Modern::at(&gateway, "/mcp");
    let result = modern.call("external_call_tool", echo).await;
    assert_eq!(result["resultType"], "complete");
    assert!(text(&result).contains("grüße"), "{result}");
}

/// t123–t125, K2, Y17.
#[tokio::test]
async fn failed_calls_say_their_kind() {
    let backend = Backend::http().await.option("timeout", 1000);
    let down = Backend::http().await;
    let gateway = gateway(&[("x", &backend), ("down", &down)], &["external"]).await;
    let client = client(&gateway).await;
    gateway.rest().done("down", "stop").await;
    for (arguments, kind, key, named) in [
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
        let said = fails(&client, "external_call_tool", arguments.clone()).await;
        assert_eq!(
            (&said["error"], &said[key]),
            (&json!(kind), &named),
            "{arguments}: {said}"
        );
        assert!(said["message"].is_string(), "{said}");
    }
    assert_eq!(backend.runs("hang"), 1);
}

/// t127–t131, N4, N5.
#[tokio::test]
async fn resources_are_listed_and_read() {
    let (one, two) = (Backend::http().await, Backend::http().await);
    let gateway = gateway(&[("one", &one), ("two", &two)], &["external"]).await;
    let client = client(&gateway).await;
    let said = says(&client, "external_list_resources", json!({})).await;
    let all = said["resources"].as_array().expect("a list");
    assert_eq!(all.len(), 4, "{said}");
    for key in ["uri", "server", "name", "mime_type"] {
        assert!(
            all.iter().all(|resource| resource[key].is_string()),
            "{key}: {said}"
        );
    }
    assert!(
        all.iter()
            .all(|resource| resource.get("description").is_some()),
        "{said}"
    );
    let said = says(&client, "external_list_resources", json!({"server": "two"})).await;
    let two = said["resources"].as_array().expect("a list");
    assert!(
        two.len() == 2 && two.iter().all(|it| it["server"] == "two"),
        "{said}"
    );
    assert_eq!(two[0]["uri"], "fake://text", "its own URI: {said}");
    let read = async |server: &str, uri: &str| {
        says(
            &client,
            "external_read_resource",
            json!({"server": server, "uri": uri}),
        )
        .await
    };
    assert_eq!(
        read("two", "fake://text").await["content"],
        "the text of the fake"
    );
    assert_eq!(read("one", "fake://blob").await["content"], "AAECAwQ=");
    assert!(read("one", "fake://text").await.get("mime_type").is_some());
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
        let said = fails(&client, "external_read_resource", arguments.clone()).await;
        assert_eq!(said["error"], kind, "{arguments}: {said}");
        assert!(said[key].is_string(), "{said}");
    }
}
