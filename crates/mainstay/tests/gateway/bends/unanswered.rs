//! Clients that do not answer questions, and servers that ask in unusual ways.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, text},
    gateway::{Gateway, found},
    modern::Modern,
};

const LEGACY: [&str; 2] = ["--revisions", "2025-11-25"];
const MODERN: [&str; 2] = ["--revisions", "2026-07-28"];

/// Opens a session of a client with these capabilities.
async fn declaring_client(gateway: &Gateway, path: &str, capabilities: Value) -> Http {
    let mut client = gateway.stranger(path);
    client.initialize_with(&capabilities).await;
    client
}

/// Advances the paused clock.
async fn advance_time(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// The clients with open questions, according to the list of requests.
async fn asked_clients(gateway: &Gateway) -> Vec<Value> {
    let requests = gateway.rest().get("/api/server-requests").await;
    requests["clients"].as_array().expect("a list").clone()
}

/// Waits for an open question, and returns it.
async fn open_question(gateway: &Gateway) -> Value {
    let next_question = async || asked_clients(gateway).await.into_iter().next();
    found("an open question", next_question).await
}

async fn until_answered(gateway: &Gateway) {
    let is_answered = async || asked_clients(gateway).await.is_empty().then_some(());
    found("no open question", is_answered).await;
}

/// If a client declares roots but does not answer, its calls wait only for seconds. Mainstay asks
/// the client again when it announces changed roots.
#[tokio::test]
async fn roots_that_nobody_answers_hold_calls_for_seconds() {
    for kind in BackendKind::ALL {
        let flags = [&LEGACY[..], &["--bend", "one-at-a-time"]].concat();
        let backend = Backend::start(kind, &flags).await;
        let backend = backend.option("serverRequests", "forward");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let silent_client = declaring_client(&gateway, "/mcp", json!({"roots": {}})).await;
        let other_client = gateway.client().await;
        let ask = || silent_client.call_text("x__ask", json!({"method": "roots/list"}));
        let (answer, (), ()) = tokio::join!(
            ask(),
            async {
                open_question(&gateway).await;
                other_client.assert_echo("x__echo").await;
            },
            async {
                let question = open_question(&gateway).await;
                assert_eq!(question["method"], "roots/list");
                advance_time(11).await;
            }
        );
        let reason = "the client did not answer roots/list within 10 s";
        assert!(answer.contains(reason), "{kind:?}: {answer}");
        // The second answer is immediate, because Mainstay does not ask the client again.
        let answer = ask().await;
        assert!(answer.contains(reason), "{kind:?}: {answer}");
        let change_notice = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
        silent_client.post(change_notice).await;
        let (answer, ()) = tokio::join!(ask(), async {
            open_question(&gateway).await;
            advance_time(11).await;
        });
        assert!(answer.contains(reason), "{kind:?}: {answer}");
    }
}

/// If a client does not answer, the configured roots replace its own.
#[tokio::test]
async fn configured_roots_stand_in_for_a_silent_client() {
    let roots = json!([{"uri": "file:///srv/data"}]);
    let backend = Backend::start(BackendKind::Http, &LEGACY).await;
    let backend = backend
        .option("roots", roots)
        .option("serverRequests", "forward");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let silent_client = declaring_client(&gateway, "/mcp", json!({"roots": {}})).await;
    let ask = || silent_client.call_text("x__ask", json!({"method": "roots/list"}));
    tokio::join!(ask(), async {
        open_question(&gateway).await;
        advance_time(11).await;
    });
    let answer = ask().await;
    assert!(answer.contains("file:///srv/data"), "{answer}");
}

/// If a modern client answers late, no other call waits for it. Its retry gets the result of the
/// call.
#[tokio::test]
async fn a_modern_client_that_is_late_with_its_roots_finds_the_outcome() {
    let backend = Backend::start(BackendKind::Stdio, &LEGACY).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = Modern::at(&gateway, "/servers/x/mcp").able(json!({"roots": {}}));
    let mut params = json!({"name": "ask", "arguments": {"method": "roots/list"}});
    let required_result = client.result("tools/call", params.clone()).await;
    assert_eq!(
        required_result["resultType"], "input_required",
        "{required_result}"
    );
    open_question(&gateway).await;
    advance_time(11).await;
    until_answered(&gateway).await;
    params["requestState"] = required_result["requestState"].clone();
    let answer = client.result("tools/call", params).await;
    assert!(text(&answer).contains("did not answer in time"), "{answer}");
}

/// Open questions appear in the list of servers, and in the list of requests for the operator.
#[tokio::test]
async fn open_questions_are_shown() {
    let backend = Backend::start(BackendKind::Stdio, &LEGACY).await;
    let backend = backend.option("serverRequests", "forward");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let elicitation = json!({"elicitation": {"form": {}}});
    let client = declaring_client(&gateway, "/mcp", elicitation.clone()).await;
    let params = json!({"name": "x__ask_elicitation"}).to_string();
    let mut stream = client
        .begin(client.request_text("tools/call", &params))
        .await;
    let message = stream.message().await;
    let question = open_question(&gateway).await;
    assert_eq!(question["server"], "x");
    assert_eq!(question["method"], "elicitation/create");
    assert!(
        question["client"].is_string() && question["askedAt"].is_string(),
        "{question}"
    );
    let server = gateway.rest().server("x").await;
    assert_eq!(server["openQuestion"]["count"], 1, "{server}");
    assert_eq!(server["openQuestion"]["client"], question["client"]);
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "decline"}});
    client.post(answer.to_string()).await;
    stream.message().await;
    until_answered(&gateway).await;
    let server = gateway.rest().server("x").await;
    assert!(server.get("openQuestion").is_none(), "{server}");
    // The list also contains questions to clients without a session.
    let modern = Modern::at(&gateway, "/mcp").able(elicitation);
    modern.call("x__ask_elicitation", json!({})).await;
    assert_eq!(open_question(&gateway).await["client"], "tests");
}

/// While one call waits for its client, the server cannot ask the clients of other calls on the
/// same connection. The error gives this reason.
#[tokio::test]
async fn a_parked_call_is_named_to_those_who_cannot_be_asked() {
    let backend = Backend::start(BackendKind::Stdio, &LEGACY).await;
    let backend = backend.option("serverRequests", "forward");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let elicitation = json!({"elicitation": {"form": {}}});
    let parked_client = Modern::at(&gateway, "/mcp").able(elicitation.clone());
    let required_result = parked_client.call("x__ask_elicitation", json!({})).await;
    assert_eq!(
        required_result["resultType"], "input_required",
        "{required_result}"
    );
    let other_client = Modern::at(&gateway, "/mcp").able(elicitation);
    let answer = text(&other_client.call("x__ask_elicitation", json!({})).await);
    for part in ["of several clients", "has waited for", "/servers/x/mcp"] {
        assert!(answer.contains(part), "{answer}");
    }
    assert!(!answer.contains("not supported"), "{answer}");
    // The server's own endpoint uses another connection, so its client can be asked.
    let apart_client =
        Modern::at(&gateway, "/servers/x/mcp").able(json!({"elicitation": {"form": {}}}));
    let required_result = apart_client.call("ask_elicitation", json!({})).await;
    assert_eq!(
        required_result["resultType"], "input_required",
        "{required_result}"
    );
}

/// If a server requires input but asks no question, Mainstay calls it again with growing pauses
/// until the timeout.
#[tokio::test]
async fn input_without_a_question_is_tried_again_with_pauses() {
    for kind in [BackendKind::Stdio, BackendKind::Http] {
        let flags = [&MODERN[..], &["--bend", "endless-input-required"]].concat();
        let backend = Backend::start(kind, &flags).await.option("timeout", 3000);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let capabilities = json!({"elicitation": {"form": {}}, "sampling": {}});
        let client = declaring_client(&gateway, "/mcp", capabilities).await;
        let answer = client.call("x__ask_nothing", json!({})).await.to_string();
        assert!(answer.contains("asked nothing"), "{kind:?}: {answer}");
        let attempts = backend.calls_of("ask_nothing").len();
        assert!((3..=4).contains(&attempts), "{kind:?}: {attempts}");
    }
}

/// If one question in a set is invalid, Mainstay asks none of them.
#[tokio::test]
async fn a_set_of_questions_is_checked_before_one_is_asked() {
    for kind in [BackendKind::Stdio, BackendKind::Http] {
        let flags = [&MODERN[..], &["--bend", "undeclared-questions"]].concat();
        let backend = Backend::start(kind, &flags).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = declaring_client(&gateway, "/mcp", json!({"elicitation": {"form": {}}})).await;
        let params = json!({"name": "x__ask_together"}).to_string();
        let messages = client.exchange("tools/call", &params).await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        let reason = "needs sampling/createMessage, which this client does not take";
        assert!(messages[0].contains(reason), "{messages:?}");
    }
}
