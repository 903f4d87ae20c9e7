//! The checks that the seed documents describe, each with the preset for its document.
//! `tests/seeds` maps each check to a test. Checks that hold for all presets are in the files of
//! their subjects.

mod bounded;
mod desktop;
mod manual;
mod persistent;
mod router;

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    backend::Backend,
    client::Http,
    gateway::{Gateway, found},
    rest_client::Rest,
};

/// A gateway with this preset. An entry may override its settings.
async fn start_with_preset(preset: &str, servers: &[(&str, &Backend)]) -> Gateway {
    Gateway::with_settings(
        servers,
        json!({"preset": preset, "startup": {"waitMs": 300}}),
    )
    .await
}

/// Retry settings with short delays. The number of attempts is that of the preset.
fn brief_retry() -> Value {
    json!({"initialDelayMs": 100, "maxDelayMs": 100})
}

/// The entry of a server in `GET /api/mcp-clients` (M1).
async fn client_entry(rest: &Rest, server: &str) -> Value {
    rest.get("/api/mcp-clients").await["clients"][server].clone()
}

/// Calls a tool over REST (M3). Returns the status and the answer.
async fn call(rest: &Rest, tool: &str, arguments: Value) -> (StatusCode, Value) {
    let body = json!({"tool": tool, "arguments": arguments});
    rest.post("/api/mcp-tools/call", body).await
}

/// Asserts that the `echo` of a server answers over REST.
async fn assert_echo(rest: &Rest, server: &str) {
    let (status, answer) = call(rest, &format!("{server}/echo"), json!({"text": "hello"})).await;
    let text = &answer["result"]["content"][0]["text"];
    assert_eq!(
        (status, text),
        (StatusCode::OK, &json!("hello")),
        "{answer}"
    );
}

/// The names of a server's tools, read over REST (M2).
async fn tools(rest: &Rest, server: &str) -> Vec<String> {
    let listed_response = rest.get(&format!("/api/mcp-tools?server={server}")).await;
    crate::client::names(&listed_response["tools"])
}

/// The events of a server, each with type and data, the oldest first.
async fn server_events(rest: &Rest, server: &str) -> Vec<(String, Value)> {
    let recent_response = rest.get("/api/events/recent").await;
    let events = recent_response["events"].as_array().expect("a list").iter();
    let server_events = events.filter(|event| event["server"] == server);
    server_events
        .map(|event| {
            let kind = event["type"].as_str().expect("a type");
            (kind.to_owned(), event["data"].clone())
        })
        .collect()
}

/// Waits for an event of this type. Returns all events of the server.
async fn until_event(rest: &Rest, server: &str, kind: &str) -> Vec<(String, Value)> {
    found(&format!("{kind} of {server}"), async || {
        let events = server_events(rest, server).await;
        let is_published = events.iter().any(|(event_type, _)| event_type == kind);
        is_published.then_some(events)
    })
    .await
}

/// Waits until neither `/mcp` nor REST lists a tool of this server.
async fn until_unlisted(client: &Http, rest: &Rest, server: &str) {
    let (prefix, tool) = (format!("{server}__"), format!("{server}__echo"));
    found("nothing listed", async || {
        let mcp_tools = client.tools().await;
        let mut is_listed = mcp_tools.iter().any(|name| name.starts_with(&prefix));
        for (path, list) in [
            ("/api/mcp-tools", "tools"),
            ("/api/mcp-resources", "resources"),
        ] {
            let listing = rest.get(path).await;
            let mut items = listing[list].as_array().expect("a list").iter();
            is_listed |= items.any(|item| item["server"] == server);
        }
        (!is_listed).then_some(())
    })
    .await;
    let failed_result = client.error("tools/call", json!({"name": tool})).await;
    assert_eq!(failed_result["data"]["server"], server, "{failed_result}");
    let message = failed_result["message"].as_str().expect("words");
    assert!(
        message.contains(&format!("(Server '{server}' is ")),
        "{failed_result}"
    );
}

/// The types of the events about connections. Leaves out starts of attempts.
fn kinds(events: &[(String, Value)]) -> Vec<&str> {
    let kinds = events.iter().map(|(kind, _)| kind.as_str());
    kinds
        .filter(|kind| kind.starts_with("server_") && *kind != "server_starting")
        .collect()
}
