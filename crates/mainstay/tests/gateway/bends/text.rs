//! Strings with an unpaired surrogate (`"\ud800"`), which programs with UTF-16 strings can produce.
//! They are valid JSON, but no Rust `String`.

use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    client::raw,
    gateway::Gateway,
    rogue,
};

const TOOL: &str = r#"{"name":"odd","title":"Odd \udc00","description":"Reads \ud800 files","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}"#;

over_every_transport! {
    /// Forwarded messages keep the bytes. Texts for people have a replacement character.
    async fn half_a_character_is_shown_as_one(kind) {
        let backend = Backend::start(kind, &["--tool", TOOL]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let params = r#"{"name":"x__echo","arguments":{"text":"a\ud800b","n":1e400}}"#;
        let answer = client.ask("tools/call", params).await;
        let text = r#"{"content":[{"type":"text","text":"a\ud800b"}]"#;
        assert!(answer.contains(text) && answer.contains("1e400"), "{answer}");
        let listed_response = client.ask("tools/list", "{}").await;
        assert!(listed_response.contains(r#""description":"Reads \ud800 files""#), "{listed_response}");

        let tools = rest.get("/api/mcp-tools").await;
        let tools = tools["tools"].as_array().expect("a list");
        let odd_tool = tools.iter().find(|tool| tool["original_name"] == "odd");
        let odd_tool = odd_tool.unwrap_or_else(|| panic!("the tool in {tools:?}"));
        assert_eq!(odd_tool["description"], "Reads \u{fffd} files", "{odd_tool}");
        assert_eq!(odd_tool["title"], "Odd \u{fffd}", "{odd_tool}");
    }
}

/// The error text of a tool is shown with a replacement character.
#[tokio::test]
async fn an_error_text_with_half_a_character_is_shown() {
    let entry = rogue::start(|id| {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"no \ud800 licence"}},{{"type":"text","text":"ask for one"}}],"isError":true}}}}"#
        );
        format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    })
    .await;
    let gateway = Gateway::start(&json!({"mcpServers": {"x": entry}})).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    let answer = client
        .ask("tools/call", r#"{"name":"x__act","arguments":{}}"#)
        .await;
    let content = raw(raw(&answer, "result"), "content");
    assert!(content.contains(r"no \ud800 licence"), "{content}");
    let (_, answer) = rest
        .raw("/api/servers/x/tools/act/call", r#"{"arguments":{}}"#)
        .await;
    let error = answer["error"].as_str().unwrap_or_default();
    assert_eq!(error, "no \u{fffd} licence\nask for one", "{answer}");
}
