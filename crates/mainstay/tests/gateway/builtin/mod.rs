//! Mainstay's own tools, as clients of both eras call them.

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

/// A gateway whose `/mcp` has these groups beside the tools of its servers.
async fn gateway(servers: &[(&str, &Backend)], groups: &[&str]) -> Gateway {
    Gateway::with(servers, json!({"ownTools": groups})).await
}

/// What a tool says: exactly one text that holds JSON (t134), and whether it failed.
fn said(result: &Value) -> (Value, bool) {
    let content = result["content"].as_array().expect("content");
    assert_eq!(content.len(), 1, "{result}");
    assert_eq!(content[0]["type"], "text", "{result}");
    (value(&text(result)), result["isError"] == true)
}

/// What a tool says that succeeds.
pub async fn says(client: &Http, tool: &str, arguments: Value) -> Value {
    let (said, failed) = said(&client.call(tool, arguments).await);
    assert!(!failed, "{said}");
    said
}

/// What a tool says that fails.
pub async fn fails(client: &Http, tool: &str, arguments: Value) -> Value {
    let (said, failed) = said(&client.call(tool, arguments).await);
    assert!(failed, "{said}");
    assert!(said["error"].is_string(), "{said}");
    said
}

/// Own tools stand first, win over a server's of the same name, which keeps a name of its
/// own, and exist where they are chosen only.
#[tokio::test]
async fn own_tools_are_where_they_are_chosen() {
    let backend = Backend::http().await;
    let inner = Gateway::with(&[("x", &backend)], json!({"ownTools": ["meta"]})).await;
    let gateway = Gateway::start(&json!({
        "mcpServers": {"inner": {"type": "http", "url": format!("http://{}/mcp", inner.address)}},
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
    let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    assert_eq!(
        (count("list_servers"), count("inner__list_servers")),
        (1, 1),
        "{names:?}"
    );
    let servers = |said: &Value| said[0]["name"].clone();
    assert_eq!(
        servers(&says(&client, "list_servers", json!({})).await),
        "inner"
    );
    assert_eq!(
        servers(&says(&client, "inner__list_servers", json!({})).await),
        "x"
    );

    let plain = gateway.client_at("/mcp/plain").await;
    let names = plain.tools().await;
    assert!(names.contains(&"list_servers".to_owned()), "{names:?}");
    assert!(
        names.iter().all(|name| !name.starts_with("external_")),
        "{names:?}"
    );
    assert_eq!(servers(&says(&plain, "list_servers", json!({})).await), "x");
    let error = plain
        .error("tools/call", json!({"name": "external_list_servers"}))
        .await;
    assert_eq!(error["code"], -32602, "{error}");
}
