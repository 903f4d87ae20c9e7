//! `result.maxInlineBytes`: a client gets the beginning of a large result, and a link to the whole
//! result.

use http::StatusCode;
use mainstay_core::{
    config::{self, Payloads},
    record::{Cid, OBJECTS},
};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::text,
    records::Recorded,
};

const LIMIT: usize = 2048;

async fn backend() -> Backend {
    let limit_settings = json!({"maxInlineBytes": LIMIT});
    Backend::start(BackendKind::Stdio, &["--revisions", "2025-11-25"])
        .await
        .option("result", limit_settings)
}

/// A text of a thousand numbered lines.
fn poem() -> String {
    let lines: Vec<_> = (1..=1000).map(|line| format!("line \"{line}\"")).collect();
    lines.join("\n") + "\n"
}

fn parts(path: &str) -> (String, String) {
    let prefix = if path == "/mcp" { "x__" } else { "" };
    (format!("{prefix}echo"), format!("{prefix}object"))
}

async fn read(client: &crate::client::Http, uri: &str) -> Value {
    let result = client.result("resources/read", json!({"uri": uri})).await;
    result["contents"][0].clone()
}

/// The record contains the CID of the whole result, which can be read in parts (L3).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_gets_the_beginning_and_a_link_to_the_whole() {
    for path in ["/mcp", "/servers/x/mcp"] {
        let backend = backend().await;
        let fixture = Recorded::with_backend(&backend).await;
        let client = fixture.gateway.client_at(path).await;
        let (echo, _) = parts(path);
        let result = client.call(&echo, json!({"text": poem()})).await;

        let blocks = result["content"].as_array().expect("blocks");
        let (head, link) = (text(&result), &blocks[1]);
        assert!(
            head.len() > LIMIT / 2 && poem().starts_with(&*head),
            "{head}"
        );
        assert!(blocks[0].to_string().len() <= LIMIT);
        assert!(
            result["structuredContent"].is_null(),
            "{path}: it is as large"
        );
        assert_eq!((blocks.len(), &link["type"]), (2, &json!("resource_link")));

        let uri = link["uri"].as_str().expect("a link");
        let cid: Cid = uri
            .strip_prefix(OBJECTS)
            .expect("ours")
            .parse()
            .expect("a CID");
        let full_text = fixture.object(cid).await;
        assert_eq!(link["mimeType"], "text/plain", "{path}");
        let stored: Value = serde_json::from_str(&full_text).expect("JSON");
        assert_eq!(text(&stored), poem());
        let record = fixture.one().await;
        assert_eq!(
            record.result.and_then(|object| object.cid),
            Some(cid),
            "the very same"
        );

        let first = read(&client, uri).await;
        assert_eq!(first["uri"], uri);
        let beginning: String = poem().chars().take(4000).collect();
        assert_eq!(first["text"], beginning);
        let meta = json!({"mainstay/offset": 0, "mainstay/total": poem().len(), "mainstay/nextOffset": 4000});
        assert_eq!(first["_meta"], meta);
        for (query, expected) in [
            ("lines=998-999", "line \"998\"\nline \"999\""),
            ("pattern=%22(7%7C70)%22", "7: line \"7\"\n70: line \"70\"\n"),
            ("offset=5&length=3", "\"1\""),
            ("raw=true&path=$.content[0].type", "text"),
        ] {
            let part = read(&client, &format!("{uri}?{query}")).await;
            assert_eq!(part["text"], expected, "{path}: {query}");
        }
        let unknown_text = format!("{OBJECTS}{}", Cid::for_content(b"never"));
        let error = client
            .error("resources/read", json!({"uri": unknown_text}))
            .await;
        assert_eq!(error["code"], -32002, "{error}");
        for query in ["lines=0", "offset=x", "colour=red", "pattern=("] {
            let uri = format!("{uri}?{query}");
            let error = client.error("resources/read", json!({"uri": uri})).await;
            assert_eq!(error["code"], -32602, "{query}: {error}");
        }
    }
}

/// A result that fits is not changed. Nor is the result of a tool with `outputSchema`, because
/// clients validate it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_fits_is_left_alone() {
    for path in ["/mcp", "/servers/x/mcp"] {
        let backend = backend().await;
        let fixture = Recorded::with_backend(&backend).await;
        let client = fixture.gateway.client_at(path).await;
        let (echo, object) = parts(path);
        let result = client.call(&echo, json!({"text": "short"})).await;
        let blocks = result["content"].as_array().map(Vec::len);
        assert_eq!((text(&result), blocks), ("short".to_owned(), Some(1)));
        assert_eq!(result["structuredContent"], json!({"text": "short"}));

        let list = client.result("tools/list", json!({})).await;
        let tools = list["tools"].as_array().expect("tools");
        let tools_with_schema = tools.iter().filter(|tool| !tool["outputSchema"].is_null());
        assert_eq!(tools_with_schema.count(), 0, "{path}");
        assert!(tools.iter().any(|tool| tool["name"] == object), "{path}");
    }
    let backend = Backend::start(BackendKind::Stdio, &["--revisions", "2025-11-25"]).await;
    let fixture = Recorded::with_backend(&backend).await;
    let client = fixture.gateway.client().await;
    let full_result = client.call("x__echo", json!({"text": poem()})).await;
    assert_eq!(text(&full_result), poem(), "off by default");
    let list = client.result("tools/list", json!({})).await;
    let listed_tools = list["tools"].as_array().expect("tools");
    let tools_with_schema = listed_tools
        .iter()
        .any(|tool| !tool["outputSchema"].is_null());
    assert!(tools_with_schema, "and then promised");
}

/// The resource template of the links is listed only if a server's results are shortened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_template_is_listed_where_results_are_cut() {
    for (backend, expected) in [(backend().await, true), (Backend::stdio().await, false)] {
        let fixture = Recorded::with_backend(&backend).await;
        let client = fixture.gateway.client().await;
        let list = client.result("resources/templates/list", json!({})).await;
        let templates = list["resourceTemplates"].as_array().expect("templates");
        let own_text = templates.iter().any(|template| {
            let uri = template["uriTemplate"].as_str();
            uri.is_some_and(|uri| uri.starts_with(OBJECTS))
        });
        assert_eq!(own_text, expected);
    }
}

/// Calls over REST get the whole result. MCP clients also get it if they could not read it later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_cut_only_if_they_can_be_read_later() {
    let backend = backend().await;
    let fixture = Recorded::with_backend(&backend).await;
    let body = json!({"tool": "x/echo", "arguments": {"text": poem()}});
    let (status, answer) = fixture
        .gateway
        .rest()
        .post("/api/mcp-tools/call", body)
        .await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert!(answer.to_string().contains(r#"line \"1000\""#), "{answer}");

    let settings = config::Journal {
        payloads: Payloads::Digest,
        ..config::Journal::default()
    };
    let fixture = Recorded::with(&backend, settings).await;
    let client = fixture.gateway.client().await;
    let full_result = client.call("x__echo", json!({"text": poem()})).await;
    assert_eq!(text(&full_result), poem());

    let fixture = Recorded::with_backend(&backend).await;
    let client = fixture.gateway.client().await;
    fixture.journal.close().await;
    let full_result = client.call("x__echo", json!({"text": poem()})).await;
    assert_eq!(
        text(&full_result),
        poem(),
        "a journal that is not written any more"
    );
}
