//! Requests of servers to clients, if both use a revision with `initialize` (E14, Y8).

use http::StatusCode;
use mainstay::daemon::DaemonOptions;
use mainstay_core::config::Secret;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, Stream, failure, text},
    gateway::{Gateway, config, found, soon},
};

pub const SAMPLING: &str = "sampling/createMessage";

/// A client that accepts every kind of question.
pub async fn willing(gateway: &Gateway, path: &str) -> Http {
    let mut client = gateway.stranger(path);
    let everything = json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}});
    client.initialize_with(&everything).await;
    client
}

/// Calls the server's `ask`. Returns the stream and the question.
pub async fn open_question(client: &Http, tool: &str, method: &str) -> (Stream, Value) {
    let params = json!({"name": tool, "arguments": {"method": method}}).to_string();
    let mut stream = client
        .begin(client.request_text("tools/call", &params))
        .await;
    let question = stream.message().await;
    assert_eq!(question["method"], method, "{question}");
    (stream, question)
}

async fn reply(client: &Http, question: &Value, result: Value) {
    let response = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    assert_eq!(
        client.post(response.to_string()).await.status,
        StatusCode::ACCEPTED
    );
}

/// The first call of a session has a question on a stream that the server opens late.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_heard_on_a_stream_that_opens_late() {
    let flags = ["--answer", "json", "--get-delay", "300"];
    let backend = Backend::start(BackendKind::Http, &flags).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = willing(&gateway, "/servers/x/mcp").await;
    let mut stream = client.listen().await;
    let call = client.call_text("ask", json!({"method": "roots/list"}));
    let answering = async {
        let question = stream.message().await;
        assert_eq!(question["method"], "roots/list", "{question}");
        reply(&client, &question, json!({"roots": []})).await;
    };
    let (answer, ()) = tokio::join!(call, answering);
    assert!(answer.contains("roots"), "{answer}");
}

over_every_transport! {
    /// One client has one isolated session. All questions of the server reach that client.
    async fn the_client_of_an_isolated_session_is_asked(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing(&gateway, "/servers/x/mcp").await;
        for method in [SAMPLING, "elicitation/create", "roots/list"] {
            let (mut stream, question) = open_question(&client, "ask", method).await;
            reply(&client, &question, json!({"answer": method})).await;
            let answer = stream.message().await;
            assert!(text(&answer["result"]).contains(method), "{answer}");
        }
        let greetings = backend.of_method("initialize");
        let invites = |message: &Value| message["params"]["capabilities"]["sampling"].is_object();
        assert!(greetings.iter().any(invites), "{greetings:?}");
    }

    /// A client's refusal passes in its own words. A client that gets questions of two calls at once answers
    /// each.
    async fn answers_reach_the_call_that_asked(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing(&gateway, "/servers/x/mcp").await;
        let (mut first, one) = open_question(&client, "ask", SAMPLING).await;
        let failure = json!({"jsonrpc": "2.0", "id": one["id"], "error": {"code": -1, "message": "not today"}});
        client.post(failure.to_string()).await;
        let answer = first.message().await;
        assert!(text(&answer["result"]).contains("not today"), "{answer}");
        if kind == BackendKind::Http {
            let (mut first, one) = open_question(&client, "ask", SAMPLING).await;
            let (mut second, two) = open_question(&client, "ask", "roots/list").await;
            assert_ne!(one["id"], two["id"]);
            reply(&client, &two, json!({"roots": []})).await;
            reply(&client, &one, json!({"model": "m"})).await;
            assert!(text(&second.message().await["result"]).contains("roots"));
            assert!(text(&first.message().await["result"]).contains("model"));
        }
    }

    /// A shared session passes questions on only if the configuration allows it.
    async fn a_shared_session_asks_where_it_is_told_to(kind) {
        let backend = Backend::start(kind, &[]).await.option("serverRequests", "forward");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, mute) = (willing(&gateway, "/mcp").await, gateway.client().await);
        client.assert_echo("x__echo").await;
        let declared = &backend.of_method("initialize")[0]["params"]["capabilities"];
        assert!(declared["sampling"].is_object(), "{declared}");
        let (mut stream, question) = open_question(&client, "x__ask", SAMPLING).await;
        reply(&client, &question, json!({"model": "m"})).await;
        assert!(text(&stream.message().await["result"]).contains("model"));
        let answer = mute.call_text("x__ask", json!({"method": SAMPLING})).await;
        assert!(answer.contains("-32601"), "{answer}");
        let mut pipe = gateway.pipe().await;
        let answer = pipe.call("x__ask", json!({"method": SAMPLING})).await;
        assert!(text(&answer).contains("-32601"), "{answer}");
    }

    /// E14: `serverRequests: "reject"`, as in document 002.
    async fn a_server_that_is_not_to_ask_is_refused(kind) {
        let backend = Backend::start(kind, &[]).await.option("serverRequests", "reject");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing(&gateway, "/servers/x/mcp").await;
        for method in [SAMPLING, "elicitation/create", "roots/list"] {
            let answer = client.call_text("ask", json!({"method": method})).await;
            assert!(answer.contains("-32601"), "{answer}");
        }
        let declared = &backend.of_method("initialize").pop().expect("a greeting")["params"]["capabilities"];
        assert_eq!(*declared, json!({}));
        client.assert_echo("echo").await;
    }

    /// While a question is open, the call's deadline does not advance.
    async fn a_pending_question_stops_the_calls_deadline(kind) {
        let backend = Backend::start(kind, &[]).await.option("timeout", 1000);
        let other = Backend::http().await.option("timeout", 1000);
        let gateway = Gateway::with_servers(&[("x", &backend), ("other", &other)]).await;
        let client = willing(&gateway, "/servers/x/mcp").await;
        let other = gateway.client().await;
        let (mut stream, question) = open_question(&client, "ask", SAMPLING).await;
        // Meanwhile the same time passes elsewhere, twice.
        for _ in 0..2 {
            let result = other.call("other__sleep", json!({"ms": 60_000})).await;
            assert_eq!(failure(&result)["kind"], "call_timeout", "{result}");
        }
        reply(&client, &question, json!({"model": "patient"})).await;
        let answer = stream.message().await;
        assert!(text(&answer["result"]).contains("patient"), "{answer}");
        // Without a question the time passes as usual.
        let result = client.call("sleep", json!({"ms": 60_000})).await;
        assert_eq!(failure(&result)["kind"], "call_timeout", "{result}");
    }

    /// A server does not wait for a client that has gone.
    async fn a_client_that_goes_refuses_what_it_was_asked(kind) {
        let backend = Backend::start(kind, &[]).await.option("serverRequests", "forward");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing(&gateway, "/mcp").await;
        let (_stream, question) = open_question(&client, "x__ask", SAMPLING).await;
        client.delete().await;
        let is_refused = || backend.received().iter().any(|message| message["error"]["message"] == "the client has gone");
        soon("a refusal", async { while !is_refused() { tokio::task::yield_now().await } }).await;
        // A later answer has no question.
        let late = json!({"jsonrpc": "2.0", "id": question["id"], "result": {}});
        let other = willing(&gateway, "/mcp").await;
        assert_eq!(other.post(late.to_string()).await.status, StatusCode::ACCEPTED);
        other.assert_echo("x__echo").await;
    }

    /// The configured roots answer for a client that cannot give its roots.
    async fn configured_roots_answer_for_clients_without(kind) {
        let roots = json!([{"uri": "file:///srv/data", "name": "data"}]);
        let backend = Backend::start(kind, &[]).await.option("roots", roots);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let answer = client.call_text("x__ask", json!({"method": "roots/list"})).await;
        assert!(answer.contains("file:///srv/data"), "{answer}");
    }
}

/// A pipe that many clients share: a question is passed on only if its client is certain.
#[tokio::test]
async fn a_question_that_two_clients_may_have_caused_is_refused() {
    let backend = Backend::stdio().await.option("serverRequests", "forward");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (one, other) = (
        willing(&gateway, "/mcp").await,
        willing(&gateway, "/mcp").await,
    );
    let (answer, result) = tokio::join!(
        async {
            backend.until_called("sleep").await;
            one.call_text("x__ask", json!({"method": SAMPLING})).await
        },
        other.call_text("x__sleep", json!({"ms": 1500}))
    );
    assert!(answer.contains("/servers/x/mcp each client"), "{answer}");
    assert_eq!(result, "slept 1500 ms");
    // A call that was cancelled here may still be running at the server, and may ask.
    let hang = one.begin(one.request_text("tools/call", r#"{"name":"x__hang"}"#));
    tokio::select! {
        _ = hang => panic!("it hangs"),
        _ = backend.until_called("hang") => {}
    }
    one.delete().await;
    let third = willing(&gateway, "/mcp").await;
    let answer = third.call_text("x__ask", json!({"method": SAMPLING})).await;
    for part in ["cancelled or given up", "/servers/x/mcp each client"] {
        assert!(answer.contains(part), "{answer}");
    }
    assert!(!answer.contains("in flight"), "{answer}");
}

/// Y8: a question that no client can be asked waits for an answer by hand.
#[tokio::test]
async fn what_nobody_can_be_asked_is_answered_by_hand() {
    let backend = Backend::http().await.option("serverRequests", "queue");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    let ask = || client.call_text("x__ask", json!({"method": SAMPLING}));
    let waiting = async || {
        let requests = rest.get("/api/server-requests").await;
        requests["requests"].get(0).cloned()
    };
    let (answer, ()) = tokio::join!(ask(), async {
        let request = found("a request", &waiting).await;
        assert_eq!(
            (&request["server"], &request["method"]),
            (&json!("x"), &json!(SAMPLING))
        );
        assert!(request["params"].is_object(), "{request}");
        // Only one call can have caused it.
        assert_eq!(request["cause"]["name"], "ask", "{request}");
        let path = format!("/api/server-requests/{}", request["id"]);
        let wrong = rest.post(&path, json!({"result": 1})).await;
        assert_eq!(wrong.0, StatusCode::BAD_REQUEST, "{}", wrong.1);
        let (status, answer) = rest
            .post(&path, json!({"result": {"model": "by hand"}}))
            .await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let (status, answer) = rest.post(&path, json!({"result": {}})).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::NOT_FOUND, &json!("request_not_found"))
        );
    });
    assert!(answer.contains("by hand"), "{answer}");
    let (answer, ()) = tokio::join!(ask(), async {
        let request = found("a request", &waiting).await;
        let path = format!("/api/server-requests/{}", request["id"]);
        rest.post(&path, json!({"error": "not today"})).await;
    });
    assert!(answer.contains("not today"), "{answer}");
}

/// Calls of several clients share a connection, and a question does not name its call. Each call that was in
/// flight at its arrival waits for the person who answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_a_person_beside_calls_of_other_clients() {
    for kind in [BackendKind::Stdio, BackendKind::Sse] {
        let backend = Backend::start(kind, &[]).await;
        let backend = backend.option("serverRequests", "queue");
        let backend = backend.option("timeout", 2000);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let rest = gateway.rest();
        let clients = [
            gateway.client().await,
            gateway.client().await,
            gateway.client().await,
        ];
        let ask = |client: usize| clients[client].call_text("x__ask", json!({"method": SAMPLING}));
        let waiting = async |count: usize| {
            let requests = async || {
                let listing = rest.get("/api/server-requests").await;
                let requests = listing["requests"].as_array().expect("a list").clone();
                (requests.len() == count).then_some(requests)
            };
            found("the requests", requests).await
        };
        let reply = async |request: &Value, model: &str| {
            let path = format!("/api/server-requests/{}", request["id"]);
            let answer = rest.post(&path, json!({"result": {"model": model}})).await;
            assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
        };
        let second = async {
            waiting(1).await;
            ask(1).await
        };
        let answering = async {
            let requests = waiting(2).await;
            reply(&requests[0], "the first").await;
            waiting(1).await;
            // This call began after the others, so its time ends after theirs.
            let hung = clients[2].call("x__hang", json!({})).await;
            assert_eq!(failure(&hung)["kind"], "call_timeout", "{hung}");
            reply(&requests[1], "the second").await;
        };
        let (first, second, ()) = tokio::join!(ask(0), second, answering);
        assert!(first.contains("the first"), "{kind:?}: {first}");
        assert!(second.contains("the second"), "{kind:?}: {second}");
        gateway.stop().await;
    }
}

/// A restart of Mainstay forgets the client's state, but not its capabilities.
#[tokio::test]
async fn a_client_can_be_asked_after_a_restart_of_ours() {
    let backend = Backend::http().await.option("serverRequests", "forward");
    let all = config(&[("x", &backend)], json!({}));
    let run = async || {
        let session_key = Some(Secret::new("the key of this house"));
        let options = DaemonOptions {
            session_key,
            ..DaemonOptions::default()
        };
        Gateway::with_options(&all, options).await
    };
    for (path, tool) in [("/mcp", "x__ask"), ("/servers/x/mcp", "ask")] {
        let gateway = run().await;
        let before = willing(&gateway, path).await;
        gateway.stop().await;
        let gateway = run().await;
        let mut client = gateway.stranger(path);
        client.session = before.session;
        let (mut stream, question) = open_question(&client, tool, SAMPLING).await;
        reply(&client, &question, json!({"model": "still here"})).await;
        assert!(text(&stream.message().await["result"]).contains("still here"));
        gateway.stop().await;
    }
}
