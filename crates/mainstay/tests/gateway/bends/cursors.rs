//! Cursors that are numbers, from servers and from clients.

use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    client::names,
    gateway::Gateway,
};

over_every_transport! {
    /// A numeric cursor is sent back to the server as a number.
    async fn a_cursor_that_is_a_number_is_sent_back_as_one(kind) {
        let flags = ["--tools", "20", "--page-size", "7", "--bend", "numeric-cursors"];
        let backend = Backend::start(kind, &flags).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let tools = client.tools().await;
        assert!(tools.len() > 20, "{tools:?}");
        let server = gateway.rest().server("x").await;
        assert_eq!(server["toolCount"], tools.len(), "{server}");
        // The transparent endpoint passes a server's cursor to the client unchanged.
        let client = gateway.client_at("/servers/x/mcp").await;
        let page = client.result("tools/list", json!({})).await;
        assert_eq!(page["nextCursor"], 7, "{page}");
        let next_result = client.result("tools/list", json!({"cursor": 7})).await;
        assert_ne!(names(&next_result["tools"]), names(&page["tools"]));
    }
}

/// Mainstay's own cursors consist of digits. Some clients send them back as numbers.
#[tokio::test]
async fn our_own_cursors_are_taken_as_numbers() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_settings(&[("x", &backend)], json!({"pageSize": 5})).await;
    let client = gateway.client().await;
    let first = client.result("tools/list", json!({})).await;
    let cursor = first["nextCursor"].as_str().expect("a cursor").to_owned();
    let number: u64 = cursor.parse().expect("a number");
    let second_result = client.result("tools/list", json!({"cursor": cursor})).await;
    assert_eq!(
        client.result("tools/list", json!({"cursor": number})).await,
        second_result
    );
    assert_eq!(
        client.result("tools/list", json!({"cursor": null})).await,
        first
    );
    for cursor in [
        json!(100_000),
        json!(-1),
        json!(2.5),
        json!(["5"]),
        json!("x"),
    ] {
        let error = client.error("tools/list", json!({"cursor": cursor})).await;
        assert_eq!(error["code"], -32602, "{cursor}: {error}");
    }
}
