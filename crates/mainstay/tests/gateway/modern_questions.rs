//! Questions of legacy servers to clients without a session: the call waits after `input_required`, until the
//! client's next attempt has the answers (2026-07-28, "Multi Round-Trip Requests").

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::text,
    gateway::Gateway,
    modern::Modern,
};

const PATH: &str = "/servers/x/mcp";

/// A client that accepts every kind of question.
fn willing(gateway: &Gateway, path: &str) -> Modern {
    let everything = json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}});
    Modern::at(gateway, path).able(everything)
}

async fn legacy(kind: BackendKind) -> Backend {
    Backend::start(kind, &["--revisions", "2025-11-25"]).await
}

/// The questions in a result that requires input.
fn questions(result: &Value) -> Vec<(String, Value)> {
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert!(result.get("ttlMs").is_none(), "{result}");
    let requests = result["inputRequests"].as_object().expect("questions");
    let pairs = requests.iter();
    pairs
        .map(|(key, request)| (key.clone(), request.clone()))
        .collect()
}

fn answer(question: &Value) -> Value {
    match question["method"].as_str() {
        Some("elicitation/create") => json!({"action": "accept", "content": {"name": "Ada"}}),
        Some("sampling/createMessage") => {
            json!({"role": "assistant", "content": {"type": "text", "text": "I am"}, "model": "m"})
        }
        Some("roots/list") => json!({"roots": [{"uri": "file:///a"}]}),
        other => panic!("{other:?} is no question"),
    }
}

/// The parameters of the next attempt, with an answer to every question.
fn next(params: &Value, required: &Value) -> Value {
    let mut params = params.clone();
    for (key, question) in questions(required) {
        params["inputResponses"][&key] = answer(&question);
    }
    params["requestState"] = required["requestState"].clone();
    params
}

/// A server requests roots when its session opens, usually because of the client's first list. The next call
/// asks the client, and is sent when the server has the answer.
#[tokio::test]
async fn roots_that_were_asked_for_before_a_call_are_told_with_it() {
    let backend = legacy(BackendKind::Http).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = willing(&gateway, PATH);
    client.result("tools/list", json!({})).await;
    backend
        .fake()
        .publish(r#"{"jsonrpc":"2.0","id":"early","method":"roots/list"}"#);
    let params = json!({"name": "echo", "arguments": {"text": "later"}});
    let before = Cell::new(0);
    // Calls before the server's request are answered at once.
    let required = crate::gateway::found("a call that asks", async || {
        let result = client.result("tools/call", params.clone()).await;
        let is_asked = result["resultType"] == "input_required";
        before.set(before.get() + usize::from(!is_asked));
        is_asked.then_some(result)
    })
    .await;
    let questions = questions(&required);
    assert_eq!(questions[0].1["method"], "roots/list", "{required}");
    let result = client.result("tools/call", next(&params, &required)).await;
    assert_eq!(result["content"][0]["text"], "later", "{result}");
    crate::gateway::until("the roots", || {
        let received = backend.received();
        received
            .iter()
            .any(|message| message["result"]["roots"][0]["uri"] == "file:///a")
    })
    .await;
    assert_eq!(backend.of_method("tools/call").len(), before.get() + 1);
    // The roots are not requested again.
    let result = client.result("tools/call", params).await;
    assert_eq!(result["resultType"], "complete", "{result}");
}

over_every_transport! {
    /// Each round is a new attempt with a new id. The call upstream is one.
    async fn a_call_goes_on_over_rounds(kind) {
        let backend = legacy(kind).await.option("serverRequests", "forward");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, tool) in [(PATH, "ask_in_turn"), ("/mcp", "x__ask_in_turn")] {
            let client = willing(&gateway, path);
            let params = json!({"name": tool, "arguments": {"a": 1}});
            let first = client.result("tools/call", params.clone()).await;
            let round = questions(&first);
            assert_eq!(round.len(), 1);
            assert_eq!(round[0].1["method"], "elicitation/create");
            assert_eq!(round[0].1["params"]["message"], "What is your name?");
            let second = client.result("tools/call", next(&params, &first)).await;
            let round = questions(&second);
            assert_eq!(round[0].1["method"], "sampling/createMessage");
            let last = client.result("tools/call", next(&params, &second)).await;
            assert_eq!(last["resultType"], "complete", "{last}");
            let text = last.to_string();
            assert!(text.contains("Ada") && text.contains("I am"), "{text}");
        }
        assert_eq!(backend.runs("ask_in_turn"), 2);
    }

    /// Prompts and resources may ask, too, and may ask several questions at once.
    async fn whatever_may_ask_does(kind) {
        let backend = legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing(&gateway, PATH);
        for (method, params) in [
            ("tools/call", json!({"name": "ask_together"})),
            ("tools/call", json!({"name": "ask_roots"})),
            ("tools/call", json!({"name": "ask_url"})),
            ("prompts/get", json!({"name": "ask_name"})),
            ("resources/read", json!({"uri": "fake://asked"})),
        ] {
            // The questions of one round may arrive in two rounds.
            let mut result = client.result(method, params.clone()).await;
            let mut rounds = 0;
            while result["resultType"] == "input_required" {
                for (_, question) in questions(&result) {
                    assert!(question["params"].get("elicitationId").is_none(), "{question}");
                }
                result = client.result(method, next(&params, &result)).await;
                rounds += 1;
            }
            assert!((1..=2).contains(&rounds), "{rounds} rounds of {params}");
            assert_eq!(result["resultType"], "complete");
        }
    }

    /// A question without the client's capability is not asked: the server gets an error, and its own result is
    /// passed on.
    async fn who_declares_nothing_is_asked_nothing(kind) {
        let backend = legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = Modern::at(&gateway, PATH);
        let result = client.call("ask", json!({"method": "sampling/createMessage"})).await;
        assert!(text(&result).contains("-32601"), "{result}");
        let able = Modern::at(&gateway, PATH).able(json!({"roots": {}}));
        let result = able.call("ask", json!({"method": "sampling/createMessage"})).await;
        assert!(text(&result).contains("-32601"), "{result}");
        let declared = backend.of_method("initialize");
        let capabilities_sent = declared.iter().map(|message| &message["params"]["capabilities"]);
        assert!(capabilities_sent.clone().any(|capabilities| *capabilities == json!({"roots": {}})));
        assert!(capabilities_sent.clone().all(|capabilities| capabilities.get("sampling").is_none()));
    }

    /// A state that was changed, that belongs to another call, or that was never issued is refused. The call
    /// that it names still waits.
    async fn a_state_that_is_not_this_calls_is_refused(kind) {
        let backend = legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing(&gateway, PATH);
        let params = json!({"name": "ask_elicitation", "arguments": {"a": 1}});
        let first = client.result("tools/call", params.clone()).await;
        let good = next(&params, &first);
        let state = good["requestState"].as_str().expect("a state").to_owned();
        let with = |change: &dyn Fn(&mut Value)| {
            let mut params = good.clone();
            change(&mut params);
            params
        };
        let mut tampered = state.clone();
        let last = if tampered.pop() == Some('0') { '1' } else { '0' };
        tampered.push(last);
        for (method, wrong) in [
            ("tools/call", with(&|params| params["requestState"] = tampered.clone().into())),
            ("tools/call", with(&|params| params["requestState"] = "somebody else's".into())),
            ("tools/call", with(&|params| params["requestState"] = "".into())),
            ("tools/call", with(&|params| params["arguments"]["a"] = 2.into())),
            ("tools/call", with(&|params| params["name"] = "ask_sampling".into())),
            ("prompts/get", with(&|params| params["name"] = "ask_name".into())),
            ("tools/call", with(&|params| params["requestState"] = 7.into())),
        ] {
            let (_, error) = client.error(method, wrong.clone()).await;
            assert_eq!(error["code"], -32602, "{wrong}");
        }
        // The state is also refused at another endpoint.
        let (_, error) = willing(&gateway, "/mcp").error("tools/call", good.clone()).await;
        assert_eq!(error["code"], -32602);
        let result = client.result("tools/call", good.clone()).await;
        assert!(result.to_string().contains("Ada"), "{result}");
        // The call has been answered, and never runs again.
        let (_, error) = client.error("tools/call", good).await;
        assert_eq!(error["code"], -32602);
        assert_eq!(backend.runs("ask_elicitation"), 1);
        assert_eq!(backend.runs("ask_sampling"), 0);
    }

    /// A question without an answer is asked again, and an answer without a question is ignored.
    async fn a_question_stays_until_it_is_answered(kind) {
        let backend = legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing(&gateway, PATH);
        let params = json!({"name": "ask_elicitation"});
        let first = client.result("tools/call", params.clone()).await;
        let mut silent = next(&params, &first);
        silent["inputResponses"] = json!({"nobody": {"action": "accept"}});
        let again = client.result("tools/call", silent).await;
        assert_eq!(questions(&again), questions(&first));
        let result = client.result("tools/call", next(&params, &again)).await;
        assert_eq!(result["resultType"], "complete");
        assert_eq!(backend.runs("ask_elicitation"), 1);
    }

    /// While one call waits for its answers, other calls of the same client can ask their questions.
    async fn calls_wait_beside_each_other(kind) {
        let backend = legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing(&gateway, PATH);
        let calls = ["a", "b"].map(|name| json!({"name": "ask_elicitation", "arguments": {"it": name}}));
        let mut waiting = Vec::new();
        for params in &calls {
            let required = client.result("tools/call", params.clone()).await;
            waiting.push(next(params, &required));
        }
        for params in waiting {
            let result = client.result("tools/call", params).await;
            assert_eq!(result["resultType"], "complete", "{result}");
        }
    }

    /// T1: a stop does not wait for answers of people.
    async fn stopping_ends_calls_that_wait(kind) {
        let backend = legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing(&gateway, PATH);
        let required = client.result("tools/call", json!({"name": "ask_in_turn"})).await;
        assert_eq!(questions(&required).len(), 1);
        let stopping = Instant::now();
        gateway.stop().await;
        assert!(stopping.elapsed() < Duration::from_secs(5), "{:?}", stopping.elapsed());
    }
}

/// A call whose client does not return ends, and its state with it.
#[tokio::test]
async fn a_call_does_not_wait_for_ever() {
    let backend = legacy(BackendKind::Http).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = willing(&gateway, PATH);
    let params = json!({"name": "ask_elicitation"});
    let first = client.result("tools/call", params.clone()).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(599)).await;
    tokio::time::resume();
    let call = &backend.calls_of("ask_elicitation")[0];
    assert!(backend.cancelled().is_empty());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    backend.until_cancelled(call).await;
    let (_, error) = client.error("tools/call", next(&params, &first)).await;
    assert_eq!(error["code"], -32602);
    assert_eq!(backend.runs("ask_elicitation"), 1);
}
