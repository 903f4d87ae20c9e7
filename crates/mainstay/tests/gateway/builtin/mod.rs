//! Tests of Mainstay's own tools, called by clients of both eras.

mod activity;
pub mod control;
mod external;
mod meta;
mod objects;
mod records;
mod targets;

use serde_json::{Value, json};

use crate::{
    backend::Backend,
    client::{Http, text, value},
    gateway::Gateway,
};

/// A gateway whose `/mcp` has the tools of these servers and these groups of own tools.
async fn gateway(servers: &[(&str, &Backend)], groups: &[&str]) -> Gateway {
    Gateway::with_settings(servers, json!({"ownTools": groups})).await
}

/// The JSON of a tool result, which must have exactly one text (t134). Also returns `isError`.
fn result_json(result: &Value) -> (Value, bool) {
    let content = result["content"].as_array().expect("content");
    assert_eq!(content.len(), 1, "{result}");
    assert_eq!(content[0]["type"], "text", "{result}");
    (value(&text(result)), result["isError"] == true)
}

/// The JSON in the result of a call that must succeed.
pub async fn call_ok(client: &Http, tool: &str, arguments: Value) -> Value {
    let (answer, is_error) = result_json(&client.call(tool, arguments).await);
    assert!(!is_error, "{answer}");
    answer
}

/// The JSON in the result of a call that must fail.
pub async fn call_failing(client: &Http, tool: &str, arguments: Value) -> Value {
    let (answer, is_error) = result_json(&client.call(tool, arguments).await);
    assert!(is_error, "{answer}");
    assert!(answer["error"].is_string(), "{answer}");
    answer
}

/// Endpoints that enable own tools list them first. If a server has a tool of the same name, the
/// own tool keeps the name.
#[tokio::test]
async fn own_tools_are_where_they_are_chosen() {
    let backend = Backend::http().await;
    let inner_gateway =
        Gateway::with_settings(&[("x", &backend)], json!({"ownTools": ["meta"]})).await;
    let gateway = Gateway::start(&json!({
        "mcpServers": {"inner": {"type": "http", "url": format!("http://{}/mcp", inner_gateway.address)}},
        "ownTools": ["external", "meta"],
        "naming": "none",
        "profiles": {"plain": {"naming": "none"}},
    }))
    .await;
    let client = gateway.client().await;
    let names = client.tools().await;
    assert_eq!(
        (&*names[0], &*names[5]),
        ("external_list_servers", "search_tools"),
        "{names:?}"
    );
    let count = |expected: &str| names.iter().filter(|name| *name == expected).count();
    assert_eq!(
        (count("list_servers"), count("inner__list_servers")),
        (1, 1),
        "{names:?}"
    );
    let servers = |result: &Value| result[0]["name"].clone();
    assert_eq!(
        servers(&call_ok(&client, "list_servers", json!({})).await),
        "inner"
    );
    assert_eq!(
        servers(&call_ok(&client, "inner__list_servers", json!({})).await),
        "x"
    );

    let plain_client = gateway.client_at("/mcp/plain").await;
    let names = plain_client.tools().await;
    assert!(names.contains(&"list_servers".to_owned()), "{names:?}");
    assert!(
        names.iter().all(|name| !name.starts_with("external_")),
        "{names:?}"
    );
    assert_eq!(
        servers(&call_ok(&plain_client, "list_servers", json!({})).await),
        "x"
    );
    let error = plain_client
        .error("tools/call", json!({"name": "external_list_servers"}))
        .await;
    assert_eq!(error["code"], -32602, "{error}");
}
