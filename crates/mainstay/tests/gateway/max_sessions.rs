//! `maxSessions`: the longest idle upstream session makes room for another, and is opened again at its
//! client's next request.

use serde_json::{Value, json};

use crate::{
    backend::{Backend, Kind},
    client::{Http, LATEST, failure, initialize},
    gateway::{Gateway, soon, until},
    modern::Modern,
};

const PATH: &str = "/servers/x/mcp";
const UPDATED: &str = "notifications/resources/updated";

/// A server that takes so many sessions beside the shared one.
async fn limited(kind: Kind, sessions: usize) -> (Backend, Gateway) {
    let backend = Backend::start(kind, &[]).await;
    let backend = backend.option("maxSessions", sessions);
    let gateway = Gateway::of(&[("x", &backend)]).await;
    gateway.client().await.hears("x__echo").await;
    (backend, gateway)
}

/// Calls a tool that does not answer, and waits until the server has the call.
async fn occupy(backend: &Backend, client: &Http) -> crate::client::Stream {
    let before = backend.calls_of("sleep").len();
    let params = r#"{"name":"sleep","arguments":{"ms":60000}}"#;
    let text = client.request_text("tools/call", params);
    // The head comes after a second of silence.
    let stream = client.begin(text).await;
    until("the call to arrive", || {
        backend.calls_of("sleep").len() > before
    })
    .await;
    stream
}

/// The kind of error that answers `initialize`; null where there is none.
async fn refusal(gateway: &Gateway) -> Value {
    let answer = gateway.stranger(PATH).post(initialize(LATEST)).await.json();
    answer["error"].clone()
}

over_every_transport! {
    /// Many more clients than sessions: each is greeted, and each is served again later.
    async fn the_longest_idle_session_makes_room(kind) {
        let (_backend, gateway) = limited(kind, 2).await;
        let mut clients = Vec::new();
        for _ in 0..5 {
            let client = gateway.client_at(PATH).await;
            client.hears("echo").await;
            clients.push(client);
        }
        for client in clients.iter().chain(&clients) {
            client.hears("echo").await;
        }
        gateway.client().await.hears("x__echo").await;
    }

    /// The session that was used last stays; the one that was used longest ago goes.
    async fn the_session_used_last_stays(kind) {
        let (backend, gateway) = limited(kind, 2).await;
        let (one, two) = (gateway.client_at(PATH).await, gateway.client_at(PATH).await);
        one.hears("echo").await;
        two.hears("echo").await;
        one.hears("echo").await;
        let opened = backend.count("initialize");
        gateway.client_at(PATH).await;
        assert_eq!(backend.count("initialize"), opened + 1);
        one.hears("echo").await;
        assert_eq!(backend.count("initialize"), opened + 1, "the busier one was closed");
        two.hears("echo").await;
        assert_eq!(backend.count("initialize"), opened + 2);
    }

    /// The server is told again what the client had told its session before.
    async fn a_session_that_is_opened_again_is_as_it_was(kind) {
        let (backend, gateway) = limited(kind, 1).await;
        let client = gateway.client_at(PATH).await;
        let mut stream = client.listen().await;
        client.result("logging/setLevel", json!({"level": "error"})).await;
        for uri in ["fake://text", "fake://blob", "fake://item/1"] {
            client.result("resources/subscribe", json!({"uri": uri})).await;
        }
        client.result("resources/unsubscribe", json!({"uri": "fake://item/1"})).await;
        gateway.client_at(PATH).await.hears("echo").await;

        client.hears("echo").await;
        // What happened meanwhile is unknown: the client is told that it may have missed something.
        let mut told = Vec::new();
        while told.len() < 2 {
            let message = stream.message().await;
            if message["method"] == UPDATED {
                told.push(message["params"]["uri"].clone());
            }
        }
        told.sort_by_key(Value::to_string);
        assert_eq!(told, ["fake://blob", "fake://text"]);
        let own = client.call("subscriptions", json!({})).await;
        let own = &own["structuredContent"];
        // A fake on HTTP+SSE learns late that the session before has gone.
        assert!(own["fake://text"].as_u64().is_some(), "{own}");
        assert_eq!(own["fake://item/1"], Value::Null, "{own}");
        assert_eq!(client.say("log", json!({"level": "info", "n": 2})).await, "0 lines logged");
        assert_eq!(client.say("log", json!({"level": "error", "n": 2})).await, "2 lines logged");
        client.call("touch", json!({"uri": "fake://text"})).await;
        while stream.message().await["params"]["uri"] != "fake://text" {}
        assert_eq!(backend.of_method("logging/setLevel").last().expect("one")["params"]["level"], "error");
    }

    /// A session with a call in flight is never closed for another; the newcomer hears when to come back.
    async fn only_sessions_at_work_refuse_a_newcomer(kind) {
        let (backend, gateway) = limited(kind, 2).await;
        let (one, two) = (gateway.client_at(PATH).await, gateway.client_at(PATH).await);
        let idle = gateway.client_at(PATH).await;
        let _first = occupy(&backend, &one).await;
        let second = occupy(&backend, &two).await;
        let error = refusal(&gateway).await;
        assert_eq!(error["data"]["kind"], "too_many_sessions", "{error}");
        assert!(error["data"]["retryAfterMs"].as_u64().is_some_and(|wait| wait > 0), "{error}");
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("'x'") && message.contains("maxSessions"), "{message}");
        let refused = idle.call("echo", json!({"text": "x"})).await;
        assert_eq!(failure(&refused)["kind"], "too_many_sessions", "{refused}");
        gateway.client().await.hears("x__echo").await;

        drop(second);
        assert!(two.delete().await.is_success());
        soon("room again", async { while refusal(&gateway).await != Value::Null {} }).await;
        soon("the idle client to be served", async {
            while idle.call("echo", json!({"text": "x"})).await["isError"] == true {}
        })
        .await;
    }
}

/// There are never more processes than `maxSessions`, and no call is lost because its session was closed
/// for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_to_the_limit() {
    const CLIENTS: usize = 6;
    const CALLS: usize = 12;
    let (backend, gateway) = limited(Kind::Http, 2).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(gateway.client_at(PATH).await);
    }
    let most = std::sync::atomic::AtomicUsize::new(0);
    let ordering = std::sync::atomic::Ordering::Relaxed;
    let calls = clients.iter().map(async |client| {
        let mut served = 0;
        while served < CALLS {
            let result = client.call("echo", json!({"text": "hello"})).await;
            most.fetch_max(backend.fake().sessions(), ordering);
            if result["isError"] == true {
                assert_eq!(failure(&result)["kind"], "too_many_sessions", "{result}");
            } else {
                served += 1;
            }
        }
    });
    soon("all calls", futures_util::future::join_all(calls)).await;
    assert_eq!(backend.runs("echo"), CLIENTS * CALLS + 1);
    // The shared one, and two more.
    assert!(most.load(ordering) <= 3, "{most:?} sessions at once");
}

/// Clients without a session take part: theirs is closed, and opened again.
#[tokio::test]
async fn pooled_sessions_make_room_too() {
    let (_backend, gateway) = limited(Kind::Stdio, 1).await;
    let legacy = gateway.client_at(PATH).await;
    let stateless = Modern::at(&gateway, PATH);
    for _ in 0..3 {
        let result = stateless.call("echo", json!({"text": "hello"})).await;
        assert_eq!(result["content"][0]["text"], "hello", "{result}");
        legacy.hears("echo").await;
    }
}

/// An operator who stops a server stops its isolated sessions, too, until it is started again.
#[tokio::test]
async fn a_stopped_server_opens_no_sessions() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::of(&[("x", &backend)]).await;
    let client = gateway.client_at(PATH).await;
    client.hears("echo").await;
    gateway.rest().post("/api/servers/x/stop", json!({})).await;
    let refused = client.call("echo", json!({"text": "x"})).await;
    assert_eq!(
        failure(&refused)["kind"],
        "server_not_connected",
        "{refused}"
    );
    gateway.rest().post("/api/servers/x/start", json!({})).await;
    client.hears("echo").await;
}
