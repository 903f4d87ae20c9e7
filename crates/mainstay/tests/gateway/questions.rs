//! Questions of servers to clients with sessions (E14, Y8).

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

/// Connects a client that accepts every kind of question.
pub async fn willing_client(gateway: &Gateway, path: &str) -> Http {
    let mut client = gateway.stranger(path);
    let all_capabilities =
        json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}});
    client.initialize_with(&all_capabilities).await;
    client
}

/// Calls the server's tool `ask`. Returns the stream of the call, and the question.
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

/// The first question comes before the server's stream is open. It is sent when the stream opens.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_heard_on_a_stream_that_opens_late() {
    let flags = ["--answer", "json", "--get-delay", "300"];
    let backend = Backend::start(BackendKind::Http, &flags).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = willing_client(&gateway, "/servers/x/mcp").await;
    let mut stream = client.listen().await;
    let call = client.call_text("ask", json!({"method": "roots/list"}));
    let answering_message = async {
        let question = stream.message().await;
        assert_eq!(question["method"], "roots/list", "{question}");
        reply(&client, &question, json!({"roots": []})).await;
    };
    let (answer, ()) = tokio::join!(call, answering_message);
    assert!(answer.contains("roots"), "{answer}");
}

over_every_transport! {
    /// The client of an isolated session gets all questions of that session.
    async fn the_client_of_an_isolated_session_is_asked(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing_client(&gateway, "/servers/x/mcp").await;
        for method in [SAMPLING, "elicitation/create", "roots/list"] {
            let (mut stream, question) = open_question(&client, "ask", method).await;
            reply(&client, &question, json!({"answer": method})).await;
            let answer = stream.message().await;
            assert!(text(&answer["result"]).contains(method), "{answer}");
        }
        let greetings = backend.of_method("initialize");
        let offers_sampling = |message: &Value| message["params"]["capabilities"]["sampling"].is_object();
        assert!(greetings.iter().any(offers_sampling), "{greetings:?}");
    }

    /// A refusal of the client passes unchanged. Each of two calls gets the answer to its own
    /// question.
    async fn answers_reach_the_call_that_asked(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing_client(&gateway, "/servers/x/mcp").await;
        let (mut first, first_id) = open_question(&client, "ask", SAMPLING).await;
        let failure = json!({"jsonrpc": "2.0", "id": first_id["id"], "error": {"code": -1, "message": "not today"}});
        client.post(failure.to_string()).await;
        let answer = first.message().await;
        assert!(text(&answer["result"]).contains("not today"), "{answer}");
        if kind == BackendKind::Http {
            let (mut first, first_id) = open_question(&client, "ask", SAMPLING).await;
            let (mut second_stream, second_id) = open_question(&client, "ask", "roots/list").await;
            assert_ne!(first_id["id"], second_id["id"]);
            reply(&client, &second_id, json!({"roots": []})).await;
            reply(&client, &first_id, json!({"model": "m"})).await;
            assert!(text(&second_stream.message().await["result"]).contains("roots"));
            assert!(text(&first.message().await["result"]).contains("model"));
        }
    }

    /// A shared session forwards questions only if `serverRequests` is "forward".
    async fn a_shared_session_asks_where_it_is_told_to(kind) {
        let backend = Backend::start(kind, &[]).await.option("serverRequests", "forward");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, mute_client) = (willing_client(&gateway, "/mcp").await, gateway.client().await);
        client.assert_echo("x__echo").await;
        let declared_capabilities = &backend.of_method("initialize")[0]["params"]["capabilities"];
        assert!(declared_capabilities["sampling"].is_object(), "{declared_capabilities}");
        let (mut stream, question) = open_question(&client, "x__ask", SAMPLING).await;
        reply(&client, &question, json!({"model": "m"})).await;
        assert!(text(&stream.message().await["result"]).contains("model"));
        let answer = mute_client.call_text("x__ask", json!({"method": SAMPLING})).await;
        assert!(answer.contains("-32601"), "{answer}");
        let mut pipe = gateway.pipe().await;
        let answer = pipe.call("x__ask", json!({"method": SAMPLING})).await;
        assert!(text(&answer).contains("-32601"), "{answer}");
    }

    /// With `serverRequests: "reject"`, as in document 002, questions are refused (E14).
    async fn a_server_that_is_not_to_ask_is_refused(kind) {
        let backend = Backend::start(kind, &[]).await.option("serverRequests", "reject");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing_client(&gateway, "/servers/x/mcp").await;
        for method in [SAMPLING, "elicitation/create", "roots/list"] {
            let answer = client.call_text("ask", json!({"method": method})).await;
            assert!(answer.contains("-32601"), "{answer}");
        }
        let declared_capabilities = &backend.of_method("initialize").pop().expect("a greeting")["params"]["capabilities"];
        assert_eq!(*declared_capabilities, json!({}));
        client.assert_echo("echo").await;
    }

    /// The time of a question does not count for the deadline of its call.
    async fn a_pending_question_stops_the_calls_deadline(kind) {
        let backend = Backend::start(kind, &[]).await.option("timeout", 1000);
        let other_backend = Backend::http().await.option("timeout", 1000);
        let gateway = Gateway::with_servers(&[("x", &backend), ("other", &other_backend)]).await;
        let client = willing_client(&gateway, "/servers/x/mcp").await;
        let other_backend = gateway.client().await;
        let (mut stream, question) = open_question(&client, "ask", SAMPLING).await;
        // Wait by two calls to another server. Each takes the same time as the deadline.
        for _ in 0..2 {
            let result = other_backend.call("other__sleep", json!({"ms": 60_000})).await;
            assert_eq!(failure(&result)["kind"], "call_timeout", "{result}");
        }
        reply(&client, &question, json!({"model": "patient"})).await;
        let answer = stream.message().await;
        assert!(text(&answer["result"]).contains("patient"), "{answer}");
        // Without a question, the deadline applies.
        let result = client.call("sleep", json!({"ms": 60_000})).await;
        assert_eq!(failure(&result)["kind"], "call_timeout", "{result}");
    }

    /// If the client disconnects, Mainstay refuses its question.
    async fn a_client_that_goes_refuses_what_it_was_asked(kind) {
        let backend = Backend::start(kind, &[]).await.option("serverRequests", "forward");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing_client(&gateway, "/mcp").await;
        let (_stream, question) = open_question(&client, "x__ask", SAMPLING).await;
        client.delete().await;
        let is_refused = || backend.received().iter().any(|message| message["error"]["message"] == "the client has gone");
        soon("a refusal", async { while !is_refused() { tokio::task::yield_now().await } }).await;
        // A late answer of the client has no effect.
        let late_response = json!({"jsonrpc": "2.0", "id": question["id"], "result": {}});
        let other_client = willing_client(&gateway, "/mcp").await;
        assert_eq!(other_client.post(late_response.to_string()).await.status, StatusCode::ACCEPTED);
        other_client.assert_echo("x__echo").await;
    }

    /// If the client does not declare `roots`, Mainstay answers `roots/list` with the configured
    /// roots.
    async fn configured_roots_answer_for_clients_without(kind) {
        let roots = json!([{"uri": "file:///srv/data", "name": "data"}]);
        let backend = Backend::start(kind, &[]).await.option("roots", roots);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let answer = client.call_text("x__ask", json!({"method": "roots/list"})).await;
        assert!(answer.contains("file:///srv/data"), "{answer}");
    }
}

/// On a shared pipe, Mainstay forwards a question only if exactly one client can have caused it.
#[tokio::test]
async fn a_question_that_two_clients_may_have_caused_is_refused() {
    let backend = Backend::stdio().await.option("serverRequests", "forward");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (first_client, other_client) = (
        willing_client(&gateway, "/mcp").await,
        willing_client(&gateway, "/mcp").await,
    );
    let (answer, result) = tokio::join!(
        async {
            backend.until_called("sleep").await;
            first_client
                .call_text("x__ask", json!({"method": SAMPLING}))
                .await
        },
        other_client.call_text("x__sleep", json!({"ms": 1500}))
    );
    assert!(answer.contains("/servers/x/mcp each client"), "{answer}");
    assert_eq!(result, "slept 1500 ms");
    // The server may still run a cancelled call, and may ask because of it.
    let hang_call =
        first_client.begin(first_client.request_text("tools/call", r#"{"name":"x__hang"}"#));
    tokio::select! {
        _ = hang_call => panic!("it hangs"),
        _ = backend.until_called("hang") => {}
    }
    first_client.delete().await;
    let third_client = willing_client(&gateway, "/mcp").await;
    let answer = third_client
        .call_text("x__ask", json!({"method": SAMPLING}))
        .await;
    for part in ["cancelled or given up", "/servers/x/mcp each client"] {
        assert!(answer.contains(part), "{answer}");
    }
    assert!(!answer.contains("in flight"), "{answer}");
}

/// A question that no client can get waits for an answer over REST (Y8).
#[tokio::test]
async fn unroutable_server_requests_are_answered_by_hand() {
    let backend = Backend::http().await.option("serverRequests", "queue");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    let ask = || client.call_text("x__ask", json!({"method": SAMPLING}));
    let waiting_questions = async || {
        let requests = rest.get("/api/server-requests").await;
        requests["requests"].get(0).cloned()
    };
    let (answer, ()) = tokio::join!(ask(), async {
        let request = found("a request", &waiting_questions).await;
        assert_eq!(
            (&request["server"], &request["method"]),
            (&json!("x"), &json!(SAMPLING))
        );
        assert!(request["params"].is_object(), "{request}");
        // Only one call is in flight, so it is the cause.
        assert_eq!(request["cause"]["name"], "ask", "{request}");
        let path = format!("/api/server-requests/{}", request["id"]);
        let invalid_reply = rest.post(&path, json!({"result": 1})).await;
        assert_eq!(
            invalid_reply.0,
            StatusCode::BAD_REQUEST,
            "{}",
            invalid_reply.1
        );
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
        let request = found("a request", &waiting_questions).await;
        let path = format!("/api/server-requests/{}", request["id"]);
        rest.post(&path, json!({"error": "not today"})).await;
    });
    assert!(answer.contains("not today"), "{answer}");
}

/// On a shared connection, a question does not name its call. The deadlines of all calls in flight
/// wait for the answer.
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
        let waiting_questions = async |count: usize| {
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
        let second_call = async {
            waiting_questions(1).await;
            ask(1).await
        };
        let replies = async {
            let requests = waiting_questions(2).await;
            reply(&requests[0], "the first").await;
            waiting_questions(1).await;
            // This call began later, so its deadline comes later.
            let hang_result = clients[2].call("x__hang", json!({})).await;
            assert_eq!(
                failure(&hang_result)["kind"],
                "call_timeout",
                "{hang_result}"
            );
            reply(&requests[1], "the second").await;
        };
        let (first, second_call, ()) = tokio::join!(ask(0), second_call, replies);
        assert!(first.contains("the first"), "{kind:?}: {first}");
        assert!(
            second_call.contains("the second"),
            "{kind:?}: {second_call}"
        );
        gateway.stop().await;
    }
}

/// After a restart of Mainstay, a revived session still has the client's capabilities.
#[tokio::test]
async fn a_client_can_be_asked_after_a_restart_of_ours() {
    let backend = Backend::http().await.option("serverRequests", "forward");
    let config_json = config(&[("x", &backend)], json!({}));
    let run = async || {
        let session_key = Some(Secret::new("the key of this house"));
        let options = DaemonOptions {
            session_key,
            ..DaemonOptions::default()
        };
        Gateway::with_options(&config_json, options).await
    };
    for (path, tool) in [("/mcp", "x__ask"), ("/servers/x/mcp", "ask")] {
        let gateway = run().await;
        let old_client = willing_client(&gateway, path).await;
        gateway.stop().await;
        let gateway = run().await;
        let mut client = gateway.stranger(path);
        client.session = old_client.session;
        let (mut stream, question) = open_question(&client, tool, SAMPLING).await;
        reply(&client, &question, json!({"model": "still here"})).await;
        assert!(text(&stream.message().await["result"]).contains("still here"));
        gateway.stop().await;
    }
}
