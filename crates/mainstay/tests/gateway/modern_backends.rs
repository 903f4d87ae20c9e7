//! Servers of 2026-07-28 behind the gateway, and how it finds out which era a server speaks (protocol
//! brief, sections 2, 4 and 6).

use serde_json::json;

use crate::{
    backend::{Backend, Kind},
    gateway::Gateway,
};

const MODERN: &[&str] = &["--revisions", "2026-07-28"];

/// Both transports that it has.
const KINDS: [Kind; 2] = [Kind::Stdio, Kind::Http];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_server_is_connected_and_its_lists_are_there() {
    for kind in KINDS {
        let backend = Backend::start(kind, MODERN).await;
        let gateway = Gateway::of(&[("x", &backend)]).await;
        let server = gateway.rest().until_status("x", "connected").await;
        let client = gateway.client().await;
        assert!(
            client.tools().await.contains(&"x__echo".to_owned()),
            "{kind:?} {server}"
        );
        client.hears("x__echo").await;
        for method in ["initialize", "notifications/initialized", "ping"] {
            // A legacy client in front of an HTTP server of unknown taste may try.
            assert!(
                kind == Kind::Http || backend.count(method) == 0,
                "{kind:?} {method}"
            );
        }
        let meta = &backend.of_method("tools/list")[0]["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/clientInfo"]["name"],
            json!("mainstay")
        );
    }
}
