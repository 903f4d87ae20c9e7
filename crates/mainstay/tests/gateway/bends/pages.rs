//! Pages of tools, whose URIs several servers may use: a page of one server must not show another's data.

use serde_json::json;

use crate::{
    backend::{Backend, Kind},
    gateway::Gateway,
};

const PAGE: &str = "ui://app/main";

/// A tool that names the page.
const TOOL: &str = r#"{"name":"show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://app/main"}}}"#;

#[tokio::test]
async fn a_page_that_two_servers_have_is_read_by_its_address_alone() {
    let flags = ["--resource", PAGE, "--resource", "ui://app/own"];
    let one = Backend::start(Kind::Http, &flags).await;
    let two = Backend::start(Kind::Http, &["--resource", PAGE, "--tool", TOOL]).await;
    let gateway = Gateway::of(&[("one", &one), ("two", &two)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    for method in ["resources/read", "resources/subscribe"] {
        let error = client.error(method, json!({"uri": PAGE})).await;
        let said = error["message"].as_str().expect("a text");
        for words in [
            "one and two",
            "mainstay+one:ui://app/main",
            "mainstay+two:ui://app/main",
        ] {
            assert!(said.contains(words), "{said}");
        }
    }
    let (status, said) = rest.post("/api/resources/read", json!({"uri": PAGE})).await;
    assert_eq!(status, 404, "{said}");
    assert!(said.to_string().contains("one and two"), "{said}");
    // Neither was asked.
    for backend in [&one, &two] {
        assert_eq!(backend.count("resources/read"), 0);
    }
    for (server, backend) in [("one", &one), ("two", &two)] {
        let uri = format!("mainstay+{server}:{PAGE}");
        let read = client.result("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["contents"][0]["text"], PAGE, "{read}");
        assert_eq!(backend.count("resources/read"), 1);
    }
    // What one server has works as ever, and so does a server alone.
    let read = client
        .result("resources/read", json!({"uri": "ui://app/own"}))
        .await;
    assert_eq!(read["contents"][0]["text"], "ui://app/own");
    let own = gateway.client_at("/servers/two/mcp").await;
    let read = own.result("resources/read", json!({"uri": PAGE})).await;
    assert_eq!(read["contents"][0]["text"], PAGE);
}

/// A page that is in no list is its whose tools name it.
#[tokio::test]
async fn a_page_is_looked_for_where_a_tool_names_it() {
    let other = Backend::start(Kind::Http, &[]).await;
    let owner = Backend::start(Kind::Http, &["--tool", TOOL]).await;
    let gateway = Gateway::of(&[("other", &other), ("owner", &owner)]).await;
    let client = gateway.client().await;
    client.error("resources/read", json!({"uri": PAGE})).await;
    assert_eq!(owner.count("resources/read"), 1);
    assert_eq!(other.count("resources/read"), 0);
}
