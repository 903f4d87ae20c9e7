//! Stored catalogs list the tools of servers that are not connected, also after a restart (G13,
//! G17).

use http::{Method, StatusCode};
use mainstay_gateway::GatewayOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::{Backend, BackendKind},
    client::Http,
    gateway::{Gateway, config, found, soon},
    rest_client::prompt_retry,
};

async fn run(config_json: &Value, folder: &TempDir) -> Gateway {
    let options = GatewayOptions {
        catalogs: Some(folder.path().to_owned()),
        ..GatewayOptions::default()
    };
    Gateway::with_options(config_json, options).await
}

/// Settings with which list requests wait for a first attempt longer than a test runs.
fn patient_settings() -> Value {
    json!({"startup": {"waitMs": 600_000}})
}

/// Stored lists are served at once, but `/readyz` waits for an attempt in the present run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_lists_do_not_make_a_second_run_ready() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let backend = Backend::start(BackendKind::Stdio, &["--handshake-delay", "1500"]).await;
    let config_json = config(&[("x", &backend)], patient_settings());
    let gateway = run(&config_json, &folder).await;
    let tools = gateway.client().await.tools().await;
    gateway.stop().await;

    let gateway = run(&config_json, &folder).await;
    let client = gateway.stranger("/readyz");
    let readiness = async || {
        client
            .send(Method::GET, client.headers("*/*"), "")
            .await
            .status
    };
    assert_eq!(readiness().await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(gateway.client().await.tools().await, tools);
    let server = gateway.rest().server("x").await;
    assert_eq!(server["connected"], false, "{server}");
    assert_eq!(readiness().await, StatusCode::SERVICE_UNAVAILABLE);
    found("readiness", async || {
        (readiness().await == StatusCode::OK).then_some(())
    })
    .await;
    let server = gateway.rest().server("x").await;
    assert_eq!(server["connected"], true, "{server}");
    gateway.stop().await;
}

async fn until_listed(client: &Http, tool: &str) {
    let listing = async { while !client.tools().await.contains(&tool.to_owned()) {} };
    soon(&format!("{tool} to be listed"), listing).await;
}

over_every_transport! {
    /// While a server starts or is down, clients get the stored lists. The server is then marked
    /// `listsStale`.
    async fn the_next_run_lists_what_the_last_one_knew(kind) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", prompt_retry()).option("connectTimeoutMs", 1000);
        let config_json = config(&[("x", &backend)], patient_settings());
        let gateway = run(&config_json, &folder).await;
        let client = gateway.client().await;
        let tools = client.tools().await;
        assert!(tools.contains(&"x__echo".to_owned()));
        backend.leave(&client).await;
        gateway.stop().await;

        let gateway = run(&config_json, &folder).await;
        let client = gateway.client().await;
        assert_eq!(client.tools().await, tools);
        let server = gateway.rest().server("x").await;
        assert_eq!((&server["connected"], &server["listsStale"]), (&json!(false), &json!(true)), "{server}");

        backend.come_back().await;
        backend.offer(2);
        gateway.rest().until("x", "listed anew", |server| server["listsStale"] == false).await;
        let expected = [tools.as_slice(), &["x__tool_1".to_owned(), "x__tool_2".to_owned()]].concat();
        until_listed(&client, "x__tool_2").await;
        assert_eq!(client.tools().await.len(), expected.len());
        client.assert_echo("x__echo").await;
    }

    /// A reconnect is announced only if a list has changed.
    async fn a_reconnect_is_announced_if_the_lists_differ(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", prompt_retry());
        let calm_backend = Backend::http().await;
        let gateway = Gateway::with_servers(&[("x", &backend), ("calm", &calm_backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        let mut stream = client.listen().await;
        rest.done("x", "reconnect").await;
        client.call("calm__change_prompts", json!({})).await;
        assert_eq!(stream.message().await["method"], "notifications/prompts/list_changed");
        backend.offer(1);
        rest.done("x", "reconnect").await;
        assert_eq!(stream.message().await["method"], "notifications/tools/list_changed");
        assert_eq!(client.call_text("x__tool_1", json!({})).await, "tool_1");
    }
}

/// While a server hangs in its handshake, its stored catalog is served.
#[tokio::test]
async fn a_server_that_hangs_at_start_is_listed_as_it_was() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let backend = Backend::start(kind, &[]).await;
        let config_json = config(&[("x", &backend)], patient_settings());
        let gateway = run(&config_json, &folder).await;
        let tools = gateway.client().await.tools().await;
        gateway.stop().await;
        backend.fake().edit(|script| script.hang_at_start = true);
        let gateway = run(&config_json, &folder).await;
        assert_eq!(gateway.client().await.tools().await, tools);
        let server = gateway.rest().server("x").await;
        assert_eq!(server["status"], "connecting", "{server}");
    }
}

/// Another server with the same name does not get the stored catalog.
#[tokio::test]
async fn another_server_of_the_same_name_begins_without() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (first_backend, other_backend) = (Backend::http().await, Backend::http().await);
    let gateway = run(&config(&[("x", &first_backend)], json!({})), &folder).await;
    gateway.client().await.assert_echo("x__echo").await;
    gateway.stop().await;
    other_backend
        .fake()
        .edit(|script| script.hang_at_start = true);
    let settings = json!({"startup": {"waitMs": 100}});
    let gateway = run(&config(&[("x", &other_backend)], settings), &folder).await;
    assert_eq!(gateway.client().await.tools().await, Vec::<String>::new());
}
