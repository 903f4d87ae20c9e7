//! `/servers/<name>/mcp`: each client session has one upstream session, and items keep their names
//! (docs/dev/design.md, "Client sessions").

use http::StatusCode;
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, raw, value},
    gateway::{Gateway, until},
};

const PATH: &str = "/servers/x/mcp";

fn is_alive(pid: &str) -> bool {
    let pid = pid
        .parse()
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    test_kill_process(pid).is_ok()
}

#[tokio::test]
async fn each_client_of_a_stdio_server_has_its_own_process() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let shared_pid = gateway.client().await.call_text("x__pid", json!({})).await;
    let (first_client, second_client) =
        (gateway.client_at(PATH).await, gateway.client_at(PATH).await);
    let pids = [
        first_client.call_text("pid", json!({})).await,
        second_client.call_text("pid", json!({})).await,
    ];
    assert!(pids[0] != pids[1] && !pids.contains(&shared_pid));
    assert_eq!(first_client.call_text("pid", json!({})).await, pids[0]);

    assert!(first_client.delete().await.is_success());
    until("the process to end", || !is_alive(&pids[0])).await;
    assert_eq!(second_client.call_text("pid", json!({})).await, pids[1]);
    assert!(is_alive(&shared_pid));
}

#[tokio::test]
async fn each_client_of_a_remote_server_has_its_own_session() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        gateway.client().await.assert_echo("x__echo").await;
        assert_eq!(backend.fake().sessions(), 1);
        let (first_client, second_client) =
            (gateway.client_at(PATH).await, gateway.client_at(PATH).await);
        assert_eq!(backend.fake().sessions(), 3);
        first_client.assert_echo("echo").await;
        assert!(first_client.delete().await.is_success());
        // HTTP+SSE has no DELETE. A fake notices the closed stream when it sends its next message.
        until("the session upstream to end", || match kind {
            BackendKind::Http => backend.fake().sessions() == 2,
            _ => backend.fake().streams() == 2,
        })
        .await;
        second_client.assert_echo("echo").await;
    }
}

over_every_transport! {
    /// Lists, pages and cursors are byte for byte those of the server.
    async fn lists_are_the_servers_own_bytes(kind) {
        let flags = ["--tools", "20", "--page-size", "7"];
        let reference = Backend::start(BackendKind::Http, &flags).await;
        let mut direct = Http::new(reference.fake().address(), "/mcp");
        direct.initialize(LATEST).await;
        let backend = Backend::start(kind, &flags).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client_at(PATH).await;
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            let mut params = "{}".to_owned();
            loop {
                let expected = direct.ask(method, &params).await;
                let matching_response = client.ask(method, &params).await;
                assert_eq!(raw(&matching_response, "result"), raw(&expected, "result"));
                let cursor = value(&matching_response)["result"]["nextCursor"].clone();
                if cursor == Value::Null {
                    break;
                }
                params = json!({"cursor": cursor}).to_string();
            }
        }
        let error = client.error("tools/list", json!({"cursor": "foreign"})).await;
        assert_eq!(error["message"], "invalid cursor");
    }

    /// Requests with unknown methods, unknown notifications and calls of unknown tools are
    /// forwarded.
    async fn unknown_requests_are_forwarded(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client_at(PATH).await;
        let error = client.error("vendor/method", json!({"deep": {"er": 1}})).await;
        assert_eq!(error, json!({"code": -32601, "message": "method not found: vendor/method"}));
        let error = client.error("tools/call", json!({"name": "x__echo"})).await;
        assert_eq!(error["message"], "unknown tool: x__echo");
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/vendor","params":{"a":1}}"#;
        assert_eq!(client.post(notification).await.status, StatusCode::ACCEPTED);
        backend.until_count("notifications/vendor", 1).await;
        assert_eq!(backend.of_method("notifications/vendor")[0]["params"], json!({"a": 1}));
    }

    /// After a loss, the next request opens a new session.
    async fn a_lost_session_is_opened_anew(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, other_client) = (gateway.client_at(PATH).await, gateway.client().await);
        let crashed_result = client.call("crash", json!({})).await;
        assert_eq!(crate::client::failure(&crashed_result)["kind"], "outcome_unknown", "{crashed_result}");
        client.assert_echo("echo").await;
        other_client.assert_echo("x__echo").await;
    }
}

/// At the transparent endpoint, a lost session is replaced without an error (E11).
#[tokio::test]
async fn a_forgotten_session_is_opened_anew() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client_at(PATH).await;
    client.assert_echo("echo").await;
    backend.fake().expire_sessions();
    client.assert_echo("echo").await;
    assert_eq!(backend.fake().runs("echo"), 2);
}

/// The upstream session declares the client's capabilities, except for questions that Mainstay
/// refuses (E14).
#[tokio::test]
async fn capabilities_are_declared_as_far_as_they_are_honoured() {
    let declared_capabilities = json!({"sampling": {}, "elicitation": {}, "roots": {"listChanged": true}, "experimental": {"v": {}}});
    assert_declares(
        Backend::http().await,
        &declared_capabilities,
        &declared_capabilities,
    )
    .await;
    let deaf_backend = Backend::http().await.option("serverRequests", "reject");
    assert_declares(
        deaf_backend,
        &declared_capabilities,
        &json!({"experimental": {"v": {}}}),
    )
    .await;
}

async fn assert_declares(backend: Backend, client_capabilities: &Value, upstream: &Value) {
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let params = json!({
        "protocolVersion": LATEST,
        "capabilities": client_capabilities,
        "clientInfo": {"name": "declares", "version": "3", "title": "Much"},
    });
    let text = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    gateway.stranger(PATH).post(text.to_string()).await;
    let greetings = backend.of_method("initialize");
    let initialize = greetings
        .iter()
        .find(|initialize| initialize["params"]["clientInfo"]["name"] == "declares");
    let params_received = &initialize.expect("an initialize of the client")["params"];
    assert_eq!(params_received["capabilities"], *upstream);
    assert_eq!(params_received["clientInfo"], params["clientInfo"]);
}
