//! Lists with pages, from servers and from Mainstay (J17).

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::names,
    gateway::Gateway,
    rogue::{self, RogueInput, RogueReply},
};

over_every_transport! {
    async fn a_servers_pages_are_followed_to_the_end(kind) {
        let backend = Backend::start(kind, &["--tools", "50", "--page-size", "7"]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let listed_result = client.result("tools/list", json!({})).await;
        assert_eq!(listed_result["nextCursor"], Value::Null);
        let tools = names(&listed_result["tools"]);
        let numbered: Vec<_> = (1..=50).map(|n| format!("x__tool_{n}")).collect();
        assert!(tools.ends_with(&numbered), "{tools:?}");
        assert!(tools.contains(&"x__echo".to_owned()));
        assert_eq!(client.call_text("x__tool_50", json!({})).await, "tool_50");
        let resources = client.result("resources/list", json!({})).await;
        assert_eq!(resources["resources"].as_array().map(Vec::len), Some(2));
    }

    /// If pages never end, reading stops at a limit, and the items before it are served (J17).
    async fn endless_pages_hang_nobody(kind) {
        let endless_backend = Backend::start(kind, &["--page-size", "10", "--endless-pages"]).await;
        let calm_backend = Backend::http().await;
        let gateway = Gateway::with_servers(&[("endless", &endless_backend), ("calm", &calm_backend)]).await;
        let client = gateway.client().await;
        let tools = client.tools().await;
        let distinct: std::collections::HashSet<_> = tools.iter().collect();
        assert_eq!(distinct.len(), tools.len());
        client.assert_echo("endless__echo").await;
        client.assert_echo("calm__echo").await;
        assert!(endless_backend.count("tools/list") < 10);
    }
}

/// `pageSize` sets the size of the pages that Mainstay sends.
#[tokio::test]
async fn our_lists_are_paged_where_configured() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let servers = [("one", &first_backend), ("two", &second_backend)];
    let gateway = Gateway::with_settings(&servers, json!({"pageSize": 5})).await;
    let full_client = Gateway::with_servers(&servers)
        .await
        .client()
        .await
        .tools()
        .await;
    let client = gateway.client().await;
    let (mut all_names, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.result("tools/list", params).await;
        let tools = names(&page["tools"]);
        assert!(tools.len() <= 5 && !tools.is_empty());
        all_names.extend(tools);
        if page["nextCursor"] == Value::Null {
            break;
        }
        params = json!({"cursor": page["nextCursor"]});
    }
    assert_eq!(all_names, full_client);
    for cursor in [
        json!("foreign"),
        json!(""),
        json!("-1"),
        json!("999999"),
        json!({}),
    ] {
        let error = client.error("tools/list", json!({"cursor": cursor})).await;
        assert_eq!(error["code"], -32602, "{cursor}");
    }
}

/// A server without tools, prompts and resources connects (J9).
#[tokio::test]
async fn a_server_that_offers_nothing_is_served() {
    let bare_backend = Backend::start(
        BackendKind::Http,
        &["--no-tools", "--no-resources", "--no-prompts"],
    )
    .await;
    let calm_backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("bare", &bare_backend), ("calm", &calm_backend)]).await;
    let client = gateway.client().await;
    assert!(
        client
            .tools()
            .await
            .iter()
            .all(|tool| tool.starts_with("calm__"))
    );
    let error = client
        .error("tools/call", json!({"name": "bare__echo"}))
        .await;
    assert_eq!(error["data"]["kind"], "tool_not_found");
    for method in [
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    ] {
        assert_eq!(bare_backend.count(method), 0, "{method}");
    }
}

/// An error of a list request is a failure. Only the code −32601 means that the list is empty,
/// whatever the text says.
#[tokio::test]
async fn a_refused_list_is_told_from_an_unknown_method_by_its_code() {
    for (code, message, expected) in [
        (-32601, "no templates here", Value::Null),
        (
            -32603,
            "upstream answered -32601",
            json!("its resourceTemplates cannot be listed"),
        ),
        (
            -326_010,
            "not a code of JSON-RPC",
            json!("its resourceTemplates cannot be listed"),
        ),
    ] {
        let server = rogue::start_scripted(move |input| {
            let RogueInput::Message(message_in) = input else {
                return None;
            };
            let id = &message_in["id"];
            Some(RogueReply::Http(match message_in["method"].as_str()? {
                "initialize" => rogue::greeting(id, &json!({"resources": {}})),
                "resources/list" => rogue::result(id, &json!({"resources": []})),
                "resources/templates/list" => rogue::error(id, code, message),
                _ => return None,
            }))
        })
        .await;
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server}})).await;
        let rest = gateway.rest();
        let has_lists =
            |server: &Value| server["toolsReady"] == true && server["listsStale"] == false;
        let server = rest.until("x", "listed", has_lists).await;
        let trouble = server["lastError"].as_str().unwrap_or_default();
        let expected = expected.as_str().unwrap_or_default();
        assert_eq!(trouble.is_empty(), expected.is_empty(), "{server}");
        assert!(trouble.starts_with(expected), "{server}");
    }
}

/// If a server lists its tools, it stays healthy although another list fails. The failure is
/// reported once.
#[tokio::test]
async fn a_refused_list_beside_tools_degrades_no_server() {
    for (failing_method, is_well) in [
        ("prompts/list", true),
        ("resources/list", true),
        ("resources/templates/list", true),
        ("tools/list", false),
    ] {
        let server = rogue::start_scripted(move |input| {
            let RogueInput::Message(message) = input else {
                return None;
            };
            let id = &message["id"];
            Some(RogueReply::Http(match message["method"].as_str()? {
                "initialize" => {
                    let offered_capabilities = json!({"tools": {}, "prompts": {}, "resources": {}});
                    rogue::greeting(id, &offered_capabilities)
                }
                method if method == failing_method => rogue::error(id, -32603, "the disk is full"),
                "ping" => rogue::result(id, &json!({})),
                "prompts/list" => rogue::result(id, &json!({"prompts": []})),
                "resources/list" => rogue::result(id, &json!({"resources": []})),
                "resources/templates/list" => rogue::result(id, &json!({"resourceTemplates": []})),
                _ => return None,
            }))
        })
        .await;
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server}})).await;
        let rest = gateway.rest();
        let health = if is_well { "healthy" } else { "degraded" };
        // If the tools fail, Mainstay restarts the server once without `server/discover`.
        let has_lists = |server: &Value| {
            let is_listed = server["toolsReady"] == true && server["listsStale"] == false;
            is_listed && server["healthStatus"] == health
        };
        let server = rest.until("x", "listed", has_lists).await;
        let note = server["lastError"].as_str().unwrap_or_default();
        assert!(note.contains("the disk is full"), "{server}");
        let report = rest.get("/api/health").await;
        let report = &report["servers"][0];
        let health = if is_well { "healthy" } else { "unhealthy" };
        assert_eq!(report["status"], health, "{failing_method}: {report}");
        let note = report["message"].as_str().unwrap_or_default();
        assert!(note.contains("the disk is full"), "{report}");
    }
}

/// Without servers, all lists are empty.
#[tokio::test]
async fn no_server_at_all_is_an_empty_catalog() {
    let gateway = Gateway::with_servers(&[]).await;
    let client = gateway.client().await;
    assert_eq!(
        client.result("tools/list", json!({})).await,
        json!({"tools": []})
    );
    assert_eq!(
        client.result("prompts/list", json!({})).await,
        json!({"prompts": []})
    );
    assert_eq!(
        client.result("resources/list", json!({})).await,
        json!({"resources": []})
    );
    let templates = client.result("resources/templates/list", json!({})).await;
    assert_eq!(templates, json!({"resourceTemplates": []}));
    client.error("tools/call", json!({"name": "echo"})).await;
}

/// Tools that `includeTools` does not name are neither listed nor callable at any door.
#[tokio::test]
async fn tools_beside_those_that_are_allowed_are_neither_listed_nor_called() {
    let backend = Backend::http().await;
    let backend = backend.option("includeTools", json!(["echo"]));
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    assert_eq!(client.tools().await, ["x__echo"]);
    client
        .error("tools/call", json!({"name": "x__add", "arguments": {}}))
        .await;
    let direct = gateway.client_at("/servers/x/mcp").await;
    assert_eq!(direct.tools().await, ["echo"]);
    direct
        .error("tools/call", json!({"name": "add", "arguments": {}}))
        .await;
    let call = json!({"tool": "x/add", "arguments": {}});
    let (status, answer) = gateway.rest().post("/api/mcp-tools/call", call).await;
    assert_eq!(status, http::StatusCode::NOT_FOUND, "{answer}");
    assert_eq!(backend.count("tools/call"), 1, "the echo");
}
