//! UI pages of tools. If several servers have the same page URI, a client never gets the page of
//! the wrong server.

use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    gateway::Gateway,
};

const PAGE: &str = "ui://app/main";

/// A tool that refers to the page.
const TOOL: &str = r#"{"name":"show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://app/main"}}}"#;

#[tokio::test]
async fn a_page_that_two_servers_have_is_read_by_its_address_alone() {
    let flags = ["--resource", PAGE, "--resource", "ui://app/own"];
    let first_backend = Backend::start(BackendKind::Http, &flags).await;
    let second_backend =
        Backend::start(BackendKind::Http, &["--resource", PAGE, "--tool", TOOL]).await;
    let gateway = Gateway::with_servers(&[("one", &first_backend), ("two", &second_backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    for method in ["resources/read", "resources/subscribe"] {
        let error = client.error(method, json!({"uri": PAGE})).await;
        let text = error["message"].as_str().expect("a text");
        for expected_text in [
            "one and two",
            "mainstay+one:ui://app/main",
            "mainstay+two:ui://app/main",
        ] {
            assert!(text.contains(expected_text), "{text}");
        }
    }
    let (status, answer) = rest.post("/api/resources/read", json!({"uri": PAGE})).await;
    assert_eq!(status, 404, "{answer}");
    assert!(answer.to_string().contains("one and two"), "{answer}");
    // Neither server got a request.
    for backend in [&first_backend, &second_backend] {
        assert_eq!(backend.count("resources/read"), 0);
    }
    for (server, backend) in [("one", &first_backend), ("two", &second_backend)] {
        let uri = format!("mainstay+{server}:{PAGE}");
        let read_result = client.result("resources/read", json!({"uri": uri})).await;
        assert_eq!(read_result["contents"][0]["text"], PAGE, "{read_result}");
        assert_eq!(backend.count("resources/read"), 1);
    }
    // The plain URI is enough if only one server has the page. It is also enough at a server's own
    // endpoint.
    let read_result = client
        .result("resources/read", json!({"uri": "ui://app/own"}))
        .await;
    assert_eq!(read_result["contents"][0]["text"], "ui://app/own");
    let direct = gateway.client_at("/servers/two/mcp").await;
    let read_result = direct.result("resources/read", json!({"uri": PAGE})).await;
    assert_eq!(read_result["contents"][0]["text"], PAGE);
}

/// A page that no list contains is read from the server whose tool refers to it.
#[tokio::test]
async fn an_unlisted_page_is_requested_from_its_tools_server() {
    let other_backend = Backend::start(BackendKind::Http, &[]).await;
    let owner = Backend::start(BackendKind::Http, &["--tool", TOOL]).await;
    let gateway = Gateway::with_servers(&[("other", &other_backend), ("owner", &owner)]).await;
    let client = gateway.client().await;
    client.error("resources/read", json!({"uri": PAGE})).await;
    assert_eq!(owner.count("resources/read"), 1);
    assert_eq!(other_backend.count("resources/read"), 0);
}
