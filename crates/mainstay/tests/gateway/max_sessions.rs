//! `maxSessions`: to make room, Mainstay closes the idle upstream session of another client. It
//! opens that session again at the client's next request.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, failure, initialize},
    gateway::{Gateway, soon, until},
    modern::Modern,
};

const PATH: &str = "/servers/x/mcp";
const UPDATED: &str = "notifications/resources/updated";

/// A gateway whose server may have this number of sessions in addition to the shared one.
async fn limited_gateway(kind: BackendKind, sessions: usize) -> (Backend, Gateway) {
    let backend = Backend::start(kind, &[]).await;
    let backend = backend.option("maxSessions", sessions);
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    gateway.client().await.assert_echo("x__echo").await;
    (backend, gateway)
}

/// Calls a tool that does not answer. Returns when the server has received the call.
async fn occupy_session(backend: &Backend, client: &Http) -> crate::client::Stream {
    let previous_count = backend.calls_of("sleep").len();
    let params = r#"{"name":"sleep","arguments":{"ms":60000}}"#;
    let text = client.request_text("tools/call", params);
    // The response's head arrives after a second.
    let stream = client.begin(text).await;
    until("the call to arrive", || {
        backend.calls_of("sleep").len() > previous_count
    })
    .await;
    stream
}

/// The kind of failure in the answer to `initialize`. Null if there is none.
async fn refusal(gateway: &Gateway) -> Value {
    let answer = gateway.stranger(PATH).post(initialize(LATEST)).await.json();
    answer["error"].clone()
}

over_every_transport! {
    /// Many more clients than sessions make a handshake and call a tool.
    async fn the_longest_idle_session_makes_room(kind) {
        let (_backend, gateway) = limited_gateway(kind, 2).await;
        let mut clients = Vec::new();
        for _ in 0..5 {
            let client = gateway.client_at(PATH).await;
            client.assert_echo("echo").await;
            clients.push(client);
        }
        for client in clients.iter().chain(&clients) {
            client.assert_echo("echo").await;
        }
        gateway.client().await.assert_echo("x__echo").await;
    }

    /// The session that was used last stays open.
    async fn the_session_used_last_stays(kind) {
        let (backend, gateway) = limited_gateway(kind, 2).await;
        let (first_client, second_client) = (gateway.client_at(PATH).await, gateway.client_at(PATH).await);
        first_client.assert_echo("echo").await;
        second_client.assert_echo("echo").await;
        first_client.assert_echo("echo").await;
        let opened_count = backend.count("initialize");
        gateway.client_at(PATH).await;
        assert_eq!(backend.count("initialize"), opened_count + 1);
        first_client.assert_echo("echo").await;
        assert_eq!(backend.count("initialize"), opened_count + 1, "the busier one was closed");
        second_client.assert_echo("echo").await;
        assert_eq!(backend.count("initialize"), opened_count + 2);
    }

    /// A session that is opened again gets its settings.
    async fn a_session_that_is_opened_again_is_as_it_was(kind) {
        let (backend, gateway) = limited_gateway(kind, 1).await;
        let client = gateway.client_at(PATH).await;
        let mut stream = client.listen().await;
        client.result("logging/setLevel", json!({"level": "error"})).await;
        for uri in ["fake://text", "fake://blob", "fake://item/1"] {
            client.result("resources/subscribe", json!({"uri": uri})).await;
        }
        client.result("resources/unsubscribe", json!({"uri": "fake://item/1"})).await;
        gateway.client_at(PATH).await.assert_echo("echo").await;

        client.assert_echo("echo").await;
        // Notifications may have been lost while the session was closed, so the client gets an
        // update for each resource.
        let mut updates = Vec::new();
        while updates.len() < 2 {
            let message = stream.message().await;
            if message["method"] == UPDATED {
                updates.push(message["params"]["uri"].clone());
            }
        }
        updates.sort_by_key(Value::to_string);
        assert_eq!(updates, ["fake://blob", "fake://text"]);
        let result = client.call("subscriptions", json!({})).await;
        let subscriptions = &result["structuredContent"];
        // A fake on HTTP+SSE notices the end of a session late.
        assert!(subscriptions["fake://text"].as_u64().is_some(), "{subscriptions}");
        assert_eq!(subscriptions["fake://item/1"], Value::Null, "{subscriptions}");
        assert_eq!(client.call_text("log", json!({"level": "info", "n": 2})).await, "0 lines logged");
        assert_eq!(client.call_text("log", json!({"level": "error", "n": 2})).await, "2 lines logged");
        client.call("touch", json!({"uri": "fake://text"})).await;
        while stream.message().await["params"]["uri"] != "fake://text" {}
        assert_eq!(backend.of_method("logging/setLevel").last().expect("one")["params"]["level"], "error");
    }

    /// A session with a call in flight is never closed. The new client gets an error that says when
    /// to retry.
    async fn only_sessions_at_work_refuse_a_newcomer(kind) {
        let (backend, gateway) = limited_gateway(kind, 2).await;
        let (first_client, second_client) = (gateway.client_at(PATH).await, gateway.client_at(PATH).await);
        let idle_client = gateway.client_at(PATH).await;
        let _first = occupy_session(&backend, &first_client).await;
        let second_call = occupy_session(&backend, &second_client).await;
        let error = refusal(&gateway).await;
        assert_eq!(error["data"]["kind"], "too_many_sessions", "{error}");
        assert!(error["data"]["retryAfterMs"].as_u64().is_some_and(|wait| wait > 0), "{error}");
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("'x'") && message.contains("maxSessions"), "{message}");
        let refused_result = idle_client.call("echo", json!({"text": "x"})).await;
        assert_eq!(failure(&refused_result)["kind"], "too_many_sessions", "{refused_result}");
        gateway.client().await.assert_echo("x__echo").await;

        drop(second_call);
        assert!(second_client.delete().await.is_success());
        soon("room again", async { while refusal(&gateway).await != Value::Null {} }).await;
        soon("the idle client to be served", async {
            while idle_client.call("echo", json!({"text": "x"})).await["isError"] == true {}
        })
        .await;
    }
}

/// There are never more processes than `maxSessions` allows, and no call is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_to_the_limit() {
    const CLIENTS: usize = 6;
    const CALLS: usize = 12;
    let (backend, gateway) = limited_gateway(BackendKind::Http, 2).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(gateway.client_at(PATH).await);
    }
    let max_running = std::sync::atomic::AtomicUsize::new(0);
    let ordering = std::sync::atomic::Ordering::Relaxed;
    let calls = clients.iter().map(async |client| {
        let mut served_calls = 0;
        while served_calls < CALLS {
            let result = client.call("echo", json!({"text": "hello"})).await;
            max_running.fetch_max(backend.fake().sessions(), ordering);
            if result["isError"] == true {
                assert_eq!(failure(&result)["kind"], "too_many_sessions", "{result}");
            } else {
                served_calls += 1;
            }
        }
    });
    soon("all calls", futures_util::future::join_all(calls)).await;
    assert_eq!(backend.runs("echo"), CLIENTS * CALLS + 1);
    // At most the shared session and two isolated sessions exist at the same time.
    assert!(
        max_running.load(ordering) <= 3,
        "{max_running:?} sessions at once"
    );
}

/// Pooled sessions are also closed and opened again.
#[tokio::test]
async fn pooled_sessions_make_room_too() {
    let (_backend, gateway) = limited_gateway(BackendKind::Stdio, 1).await;
    let legacy = gateway.client_at(PATH).await;
    let stateless = Modern::at(&gateway, PATH);
    for _ in 0..3 {
        let result = stateless.call("echo", json!({"text": "hello"})).await;
        assert_eq!(result["content"][0]["text"], "hello", "{result}");
        legacy.assert_echo("echo").await;
    }
}

/// A stop of a server closes its isolated sessions. No new session can open.
#[tokio::test]
async fn a_stopped_server_opens_no_sessions() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client_at(PATH).await;
    client.assert_echo("echo").await;
    gateway.rest().post("/api/servers/x/stop", json!({})).await;
    let refused_result = client.call("echo", json!({"text": "x"})).await;
    assert_eq!(
        failure(&refused_result)["kind"],
        "server_not_connected",
        "{refused_result}"
    );
    gateway.rest().post("/api/servers/x/start", json!({})).await;
    client.assert_echo("echo").await;
}
