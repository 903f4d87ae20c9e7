//! `GET /api/about`: facts about the daemon.

use std::sync::Arc;

use mainstay_core::config;
use mainstay_gateway::GatewayOptions;
use serde_json::json;

use crate::{
    backend::Backend,
    gateway::{Gateway, config as configured, found},
    rest_client::TOKEN,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_daemon_tells_of_itself_and_of_its_journal() {
    let backend = Backend::stdio().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = mainstay_journal_store::open(folder.path(), &config::Journal::default());
    let options = GatewayOptions {
        state: Some(folder.path().to_owned()),
        journal: Some(Arc::new(journal.expect("a journal"))),
        ..GatewayOptions::default()
    };
    let settings = json!({"ui": {"externalTools": false}});
    let gateway = Gateway::with_options(&configured(&[("x", &backend)], settings), options).await;
    let rest = gateway.rest();
    let about_answer = rest.get("/api/about").await;
    assert_eq!(about_answer["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(about_answer["pid"], std::process::id());
    assert_eq!(about_answer["listen"], json!([gateway.address.to_string()]));
    assert_eq!(
        about_answer["stateDirectory"],
        folder.path().to_str().expect("UTF-8")
    );
    assert_eq!(about_answer["externalTools"], false);
    assert_eq!(about_answer["configuration"], json!({"writable": false}));
    let revisions = about_answer["revisions"].as_array().expect("a list");
    assert_eq!(revisions.last(), Some(&"2026-07-28".into()));
    assert!(
        about_answer["startedAt"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    let platform = about_answer["platform"].as_str().expect("a text");
    assert!(platform.starts_with(std::env::consts::OS), "{platform}");
    if cfg!(target_os = "linux") {
        assert!(
            about_answer["memoryBytes"].as_u64() > Some(1_000_000),
            "{about_answer}"
        );
    }
    let journal = &about_answer["journal"];
    assert_eq!(journal["enabled"], true);
    assert_eq!(journal["durability"], "relaxed");
    assert_eq!(journal["records"], 0, "{journal}");
    assert!(journal["bytes"].as_u64() > Some(0), "{journal}");
    assert!(
        journal.get("error").is_none() && journal.get("oldest").is_none(),
        "{journal}"
    );

    gateway
        .client()
        .await
        .call_text("x__echo", json!({"text": "hello"}))
        .await;
    let journal = found("the call to be on record", async || {
        let journal = rest.get("/api/about").await["journal"].clone();
        (journal["records"] == 1).then_some(journal)
    })
    .await;
    assert!(journal["oldest"].is_string(), "{journal}");
    assert_eq!(journal["lost"], 0);
    assert!(!rest.get("/api/about").await.to_string().contains(TOKEN));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_without_a_journal_says_so() {
    let gateway = Gateway::with_servers(&[]).await;
    let about_answer = gateway.rest().get("/api/about").await;
    let journal = json!({"enabled": false, "durability": "off", "lost": 0});
    assert_eq!(about_answer["journal"], journal);
    assert_eq!(about_answer["externalTools"], true);
    assert!(
        about_answer.get("stateDirectory").is_none(),
        "{about_answer}"
    );
    gateway.stop().await;
}
