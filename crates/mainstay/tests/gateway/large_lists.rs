//! Size limits for the lists of a server and for the texts of its handshake.

use std::sync::{Arc, atomic::Ordering};

use mainstay_gateway::GatewayOptions;
use mainstay_testkit::{found, limits::PROGRAMS};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, config, until},
    rest_client::never_retry,
    rogue::{self, EndlessProgress, RogueInput, RogueReply},
};

const MIB: usize = 1024 * 1024;

fn is_listed(server: &Value) -> bool {
    server["toolsReady"] == true && server["listsStale"] == false
}

over_every_transport! {
    /// If pages never end, reading stops at the limit. The items before it are served, and the
    /// status names the limit.
    async fn lists_are_read_up_to_their_bound(kind) {
        let padding = (8 * MIB).to_string();
        let flags = ["--tools", "200", "--page-size", "10", "--page-padding", &padding];
        let large_backend = Backend::start(kind, &flags).await;
        let calm_backend = Backend::http().await;
        let gateway = Gateway::with_servers(&[("x", &large_backend), ("calm", &calm_backend)]).await;
        let server = gateway.rest().until("x", "listed", is_listed).await;
        let trouble = server["lastError"].as_str().unwrap_or_default();
        assert!(trouble.starts_with("its tools are cut off after 70") && trouble.contains("64 MiB"), "{server}");
        assert_eq!(server["healthStatus"], "degraded", "{server}");
        assert_eq!(server["toolCount"], 70, "{server}");
        assert_eq!(large_backend.count("tools/list"), 8);
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        client.assert_echo("calm__echo").await;
    }

    /// The instructions of each server are shortened before they are joined.
    async fn instructions_are_cut(kind) {
        let instructions = "é".repeat(60 * 1024);
        let backend = Backend::start(kind, &["--instructions", &instructions]).await;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = GatewayOptions {
            catalogs: Some(folder.path().to_owned()),
            ..GatewayOptions::default()
        };
        let gateway = Gateway::with_options(&config(&[("x", &backend)], json!({})), options).await;
        gateway.rest().until("x", "listed", is_listed).await;
        let mut client = gateway.stranger("/mcp");
        let greeting_answer = client.initialize("2025-11-25").await;
        let joined_text = greeting_answer["instructions"].as_str().expect("instructions");
        assert!(joined_text.ends_with("é…") && joined_text.len() < 65 * 1024, "{}", joined_text.len());
        let path = folder.path().join("x.json");
        until("the kept catalog", || path.exists()).await;
        let catalog: Value = serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON");
        assert!(catalog["instructions"].as_str().expect("instructions").len() < 65 * 1024);
    }
}

/// The part of a page above the limit is not stored.
#[tokio::test]
async fn a_page_without_an_end_is_given_up_at_the_bound() {
    let progress = Arc::new(EndlessProgress::default());
    let server = rogue::start_scripted({
        let progress = Arc::clone(&progress);
        move |input| {
            let RogueInput::Message(message) = input else {
                return None;
            };
            let id = &message["id"];
            if message["method"] != "tools/list" {
                return None;
            }
            if message["params"]["cursor"].is_null() {
                let tools = json!([{"name": "act", "inputSchema": {"type": "object"}}]);
                let page = json!({"tools": tools, "nextCursor": "more"});
                return Some(RogueReply::Http(rogue::result(id, &page)));
            }
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"padding":""#);
            let response = rogue::http("application/json", &body);
            Some(RogueReply::Endless(response, Arc::clone(&progress)))
        }
    });
    let mut server = server.await;
    server["maxMessageBytes"] = json!(1024 * MIB);
    let gateway = Gateway::start(&json!({"mcpServers": {"x": server}})).await;
    until("the page to be given up", || {
        progress.is_over.load(Ordering::Relaxed)
    })
    .await;
    let bytes = progress.bytes.load(Ordering::Relaxed);
    assert!(bytes < 80 * MIB, "{bytes} bytes were taken");
    let server = gateway.rest().until("x", "listed", is_listed).await;
    let trouble = server["lastError"].as_str().unwrap_or_default();
    assert!(trouble.contains("64 MiB"), "{server}");
    assert_eq!(server["toolCount"], 1, "{server}");
}

/// The limit counts a minimum size for each item, so very many small items also reach it.
#[tokio::test]
async fn very_many_very_small_items_are_cut_off() {
    let server = rogue::start_scripted(|input| {
        let RogueInput::Message(message) = input else {
            return None;
        };
        let id = &message["id"];
        (message["method"] == "tools/list").then(|| {
            let tools: Vec<String> = (0..200_000)
                .map(|number| format!(r#"{{"name":"t{number}"}}"#))
                .collect();
            let tools = tools.join(",");
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{tools}]}}}}"#);
            RogueReply::Http(rogue::http("application/json", &body))
        })
    });
    let gateway = Gateway::start(&json!({"mcpServers": {"x": server.await}})).await;
    // Wait long enough for a debug build.
    let rest = gateway.rest();
    let server = found(PROGRAMS, "x to be listed", async || {
        let server = rest.server("x").await;
        is_listed(&server).then_some(server)
    })
    .await;
    let count = server["toolCount"].as_u64().unwrap_or_default();
    assert!((100_000..135_000).contains(&count), "{count}");
    let trouble = server["lastError"].as_str().unwrap_or_default();
    assert!(trouble.contains("64 MiB"), "{trouble}");
}

/// If the answer to the handshake is too large, it counts as a refusal.
#[tokio::test]
async fn a_greeting_beyond_its_bound_opens_no_session() {
    let large_text = (2 * MIB).to_string();
    let script = format!(
        r#"read line; printf '{{"jsonrpc":"2.0","id":1,"result":{{"x":"'; head -c {large_text} /dev/zero | tr '\0' x; echo '"}}}}'; cat > /dev/null"#
    );
    let mut servers = vec![json!({"command": "sh", "args": ["-c", script]})];
    let mut backends = Vec::new();
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &["--instructions", &"x".repeat(2 * MIB)]).await;
        servers.push(backend.entry.clone());
        backends.push(backend);
    }
    for mut server in servers {
        server["reconnect"] = never_retry();
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server}})).await;
        let is_too_large = |server: &Value| {
            let error = server["lastError"].as_str().unwrap_or_default();
            server["connected"] == false && error.contains("1048576")
        };
        gateway.rest().until("x", "refused", is_too_large).await;
    }
}

/// The text of a refusal is shortened.
#[tokio::test]
async fn long_refusals_are_cut() {
    for (refused_method, capabilities) in [
        ("initialize", json!({})),
        ("tools/list", json!({"tools": {}})),
    ] {
        let server = rogue::start_scripted(move |input| {
            let RogueInput::Message(message) = input else {
                return None;
            };
            let id = &message["id"];
            let method = message["method"].as_str()?;
            Some(RogueReply::Http(match method {
                _ if method == refused_method => rogue::error(id, -32603, &"no ".repeat(100_000)),
                "initialize" => rogue::greeting(id, &capabilities),
                _ => return None,
            }))
        });
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server.await}})).await;
        let refused_method = |server: &Value| {
            let error = server["lastError"].as_str().unwrap_or_default();
            error.contains("no no no")
        };
        let server = gateway.rest().until("x", "refused", refused_method).await;
        let error = server["lastError"].as_str().unwrap_or_default();
        assert!(error.len() < 2048, "{} bytes", error.len());
    }
}
