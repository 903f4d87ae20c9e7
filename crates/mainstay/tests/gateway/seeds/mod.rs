//! What the documents that Mainstay unites check from outside, each under the preset that keeps its
//! behaviour reachable. `tests/seeds` says which check is which; what no preset changes is shown by
//! the tests of its own room.

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

/// A gateway whose servers have this preset, but for what their entries say.
async fn under(preset: &str, servers: &[(&str, &Backend)]) -> Gateway {
    Gateway::with(
        servers,
        json!({"preset": preset, "startup": {"waitMs": 300}}),
    )
    .await
}

/// A schedule that goes by in a moment, with the attempts that its preset has.
fn brief() -> Value {
    json!({"initialDelayMs": 100, "maxDelayMs": 100})
}

/// How `GET /api/mcp-clients` shows a server (M1).
async fn shown(rest: &Rest, server: &str) -> Value {
    rest.get("/api/mcp-clients").await["clients"][server].clone()
}

/// Calls a tool over REST (M3).
async fn call(rest: &Rest, tool: &str, arguments: Value) -> (StatusCode, Value) {
    let body = json!({"tool": tool, "arguments": arguments});
    rest.post("/api/mcp-tools/call", body).await
}

/// Shows over REST that a server works.
async fn hears(rest: &Rest, server: &str) {
    let (status, answer) = call(rest, &format!("{server}/echo"), json!({"text": "hello"})).await;
    let said = &answer["result"]["content"][0]["text"];
    assert_eq!(
        (status, said),
        (StatusCode::OK, &json!("hello")),
        "{answer}"
    );
}

/// The names of a server's tools over REST (M2).
async fn tools(rest: &Rest, server: &str) -> Vec<String> {
    let listed = rest.get(&format!("/api/mcp-tools?server={server}")).await;
    crate::client::names(&listed["tools"])
}

/// What has been told of a server so far: types and data, the oldest first.
async fn told(rest: &Rest, server: &str) -> Vec<(String, Value)> {
    let recent = rest.get("/api/events/recent").await;
    let events = recent["events"].as_array().expect("a list").iter();
    let of_server = events.filter(|event| event["server"] == server);
    of_server
        .map(|event| {
            let kind = event["type"].as_str().expect("a type");
            (kind.to_owned(), event["data"].clone())
        })
        .collect()
}

/// The same once an event of this type is among it.
async fn until_told(rest: &Rest, server: &str, kind: &str) -> Vec<(String, Value)> {
    found(&format!("{kind} of {server}"), async || {
        let events = told(rest, server).await;
        let is_told = events.iter().any(|(told, _)| told == kind);
        is_told.then_some(events)
    })
    .await
}

/// Waits until nothing of this server is listed, on `/mcp` and over REST. A call still names the server.
async fn until_unlisted(client: &Http, rest: &Rest, server: &str) {
    let (prefix, tool) = (format!("{server}__"), format!("{server}__echo"));
    found("nothing listed", async || {
        let on_mcp = client.tools().await;
        let mut listed = on_mcp.iter().any(|name| name.starts_with(&prefix));
        for (path, list) in [
            ("/api/mcp-tools", "tools"),
            ("/api/mcp-resources", "resources"),
        ] {
            let shown = rest.get(path).await;
            let mut items = shown[list].as_array().expect("a list").iter();
            listed |= items.any(|item| item["server"] == server);
        }
        (!listed).then_some(())
    })
    .await;
    let failed = client.error("tools/call", json!({"name": tool})).await;
    assert_eq!(failed["data"]["server"], server, "{failed}");
    let words = failed["message"].as_str().expect("words");
    assert!(
        words.contains(&format!("(Server '{server}' is ")),
        "{failed}"
    );
}

/// The types of those that are about the connection; an attempt that begins is no change of it.
fn kinds(events: &[(String, Value)]) -> Vec<&str> {
    let kinds = events.iter().map(|(kind, _)| kind.as_str());
    kinds
        .filter(|kind| kind.starts_with("server_") && *kind != "server_starting")
        .collect()
}
