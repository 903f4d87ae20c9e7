//! Messages of 2026-07-28 with their headers.

use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::{parse, read, send};

pub const REVISION: &str = "2026-07-28";

/// All client capabilities.
pub fn everything() -> Value {
    json!({
        "sampling": {}, "roots": {}, "elicitation": {"form": {}, "url": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    })
}

pub fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Builds a request with these client capabilities in `_meta`.
pub fn request_as(capabilities: &Value, id: u32, method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    let mut full_meta = meta(capabilities);
    let more: Map<String, Value> = params["_meta"].as_object().cloned().unwrap_or_default();
    full_meta.as_object_mut().expect("an object").extend(more);
    params["_meta"] = full_meta;
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub fn request(id: u32, method: &str, params: &Value) -> Value {
    request_as(&everything(), id, method, params)
}

pub fn call(id: u32, tool: &str, arguments: &Value) -> Value {
    request(
        id,
        "tools/call",
        &json!({"name": tool, "arguments": arguments}),
    )
}

/// Builds the retry after `input_required`.
pub fn retry(id: u32, first: &Value, answer: &Value, responses: &Value) -> Value {
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    let mut retry = first.clone();
    retry["id"] = json!(id);
    retry["params"]["inputResponses"] = responses.clone();
    if let Some(state) = answer["result"].get("requestState") {
        retry["params"]["requestState"] = state.clone();
    }
    retry
}

/// Returns the required headers except parameter headers.
pub fn headers(message: &Value) -> Vec<(String, String)> {
    let params = &message["params"];
    let method = message["method"].as_str().expect("a method");
    let mut headers = vec![
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", REVISION),
        ("mcp-method", method),
    ];
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        _ => params["taskId"].as_str(),
    };
    headers.extend(name.map(|name| ("mcp-name", name)));
    let owned_pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    headers.into_iter().map(owned_pair).collect()
}

pub async fn post(url: &str, message: &Value, headers: &[(String, String)]) -> Response<Incoming> {
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    send(url, "POST", &headers, message.to_string())
        .await
        .expect("answered")
}

/// Sends a message, and returns the status and the answer.
pub async fn ask_with(
    url: &str,
    message: &Value,
    headers: &[(String, String)],
) -> (StatusCode, Value) {
    let response = post(url, message, headers).await;
    let status = response.status();
    (status, parse(&read(response).await.expect("a body")))
}

pub async fn ask(url: &str, message: &Value) -> (StatusCode, Value) {
    ask_with(url, message, &headers(message)).await
}
