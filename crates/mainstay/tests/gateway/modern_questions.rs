//! Legacy servers ask questions of clients without a session. The client gets the result `input_required`,
//! and the call waits for the client's retry (2026-07-28, "Multi Round-Trip Requests").

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
fn willing_client(gateway: &Gateway, path: &str) -> Modern {
    let all_capabilities =
        json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}});
    Modern::at(gateway, path).able(all_capabilities)
}

async fn start_legacy(kind: BackendKind) -> Backend {
    Backend::start(kind, &["--revisions", "2025-11-25"]).await
}

/// The questions in a result of type `input_required`.
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

/// The parameters of the retry. They answer every question.
fn next_params(params: &Value, required_result: &Value) -> Value {
    let mut params = params.clone();
    for (key, question) in questions(required_result) {
        params["inputResponses"][&key] = answer(&question);
    }
    params["requestState"] = required_result["requestState"].clone();
    params
}

/// A legacy server requests roots when its session opens. The next call asks the client for them. It is sent
/// when the server has the roots.
#[tokio::test]
async fn roots_that_were_asked_for_before_a_call_are_told_with_it() {
    let backend = start_legacy(BackendKind::Http).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = willing_client(&gateway, PATH);
    client.result("tools/list", json!({})).await;
    backend
        .fake()
        .publish(r#"{"jsonrpc":"2.0","id":"early","method":"roots/list"}"#);
    let params = json!({"name": "echo", "arguments": {"text": "later"}});
    let calls_before = Cell::new(0);
    // Repeat the call. Until the server has requested roots, a call asks nothing.
    let required_result = crate::gateway::found("a call that asks", async || {
        let result = client.result("tools/call", params.clone()).await;
        let is_asked = result["resultType"] == "input_required";
        calls_before.set(calls_before.get() + usize::from(!is_asked));
        is_asked.then_some(result)
    })
    .await;
    let questions = questions(&required_result);
    assert_eq!(questions[0].1["method"], "roots/list", "{required_result}");
    let result = client
        .result("tools/call", next_params(&params, &required_result))
        .await;
    assert_eq!(result["content"][0]["text"], "later", "{result}");
    crate::gateway::until("the roots", || {
        let messages = backend.received();
        messages
            .iter()
            .any(|message| message["result"]["roots"][0]["uri"] == "file:///a")
    })
    .await;
    assert_eq!(
        backend.of_method("tools/call").len(),
        calls_before.get() + 1
    );
    // The second call does not ask again.
    let result = client.result("tools/call", params).await;
    assert_eq!(result["resultType"], "complete", "{result}");
}

over_every_transport! {
    /// In each round, the client retries with a new id, but the upstream call is the same.
    async fn a_call_goes_on_over_rounds(kind) {
        let backend = start_legacy(kind).await.option("serverRequests", "forward");
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, tool) in [(PATH, "ask_in_turn"), ("/mcp", "x__ask_in_turn")] {
            let client = willing_client(&gateway, path);
            let params = json!({"name": tool, "arguments": {"a": 1}});
            let first = client.result("tools/call", params.clone()).await;
            let round = questions(&first);
            assert_eq!(round.len(), 1);
            assert_eq!(round[0].1["method"], "elicitation/create");
            assert_eq!(round[0].1["params"]["message"], "What is your name?");
            let second_result = client.result("tools/call", next_params(&params, &first)).await;
            let round = questions(&second_result);
            assert_eq!(round[0].1["method"], "sampling/createMessage");
            let last_result = client.result("tools/call", next_params(&params, &second_result)).await;
            assert_eq!(last_result["resultType"], "complete", "{last_result}");
            let text = last_result.to_string();
            assert!(text.contains("Ada") && text.contains("I am"), "{text}");
        }
        assert_eq!(backend.runs("ask_in_turn"), 2);
    }

    /// Calls of tools, prompts and resources can ask several questions, in one round or in two.
    async fn prompts_and_resources_can_ask(kind) {
        let backend = start_legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing_client(&gateway, PATH);
        for (method, params) in [
            ("tools/call", json!({"name": "ask_together"})),
            ("tools/call", json!({"name": "ask_roots"})),
            ("tools/call", json!({"name": "ask_url"})),
            ("prompts/get", json!({"name": "ask_name"})),
            ("resources/read", json!({"uri": "fake://asked"})),
        ] {
            // The questions may arrive in one round or in two.
            let mut result = client.result(method, params.clone()).await;
            let mut rounds = 0;
            while result["resultType"] == "input_required" {
                for (_, question) in questions(&result) {
                    assert!(question["params"].get("elicitationId").is_none(), "{question}");
                }
                result = client.result(method, next_params(&params, &result)).await;
                rounds += 1;
            }
            assert!((1..=2).contains(&rounds), "{rounds} rounds of {params}");
            assert_eq!(result["resultType"], "complete");
        }
    }

    /// If the client lacks the capability, the server gets an error. The result that it then gives is
    /// forwarded.
    async fn a_client_without_capabilities_is_not_asked(kind) {
        let backend = start_legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = Modern::at(&gateway, PATH);
        let result = client.call("ask", json!({"method": "sampling/createMessage"})).await;
        assert!(text(&result).contains("-32601"), "{result}");
        let client_client = Modern::at(&gateway, PATH).able(json!({"roots": {}}));
        let result = client_client.call("ask", json!({"method": "sampling/createMessage"})).await;
        assert!(text(&result).contains("-32601"), "{result}");
        let greetings = backend.of_method("initialize");
        let capabilities_sent = greetings.iter().map(|message| &message["params"]["capabilities"]);
        assert!(capabilities_sent.clone().any(|capabilities| *capabilities == json!({"roots": {}})));
        assert!(capabilities_sent.clone().all(|capabilities| capabilities.get("sampling").is_none()));
    }

    /// A state that was changed, belongs to another client, or is unknown is refused. The call still waits
    /// for its own state.
    async fn a_state_that_is_not_this_calls_is_refused(kind) {
        let backend = start_legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing_client(&gateway, PATH);
        let params = json!({"name": "ask_elicitation", "arguments": {"a": 1}});
        let first = client.result("tools/call", params.clone()).await;
        let valid_params = next_params(&params, &first);
        let state = valid_params["requestState"].as_str().expect("a state").to_owned();
        let params_with = |change: &dyn Fn(&mut Value)| {
            let mut params = valid_params.clone();
            change(&mut params);
            params
        };
        let mut tampered_state = state.clone();
        let last_digit = if tampered_state.pop() == Some('0') { '1' } else { '0' };
        tampered_state.push(last_digit);
        for (method, wrong_params) in [
            ("tools/call", params_with(&|params| params["requestState"] = tampered_state.clone().into())),
            ("tools/call", params_with(&|params| params["requestState"] = "somebody else's".into())),
            ("tools/call", params_with(&|params| params["requestState"] = "".into())),
            ("tools/call", params_with(&|params| params["arguments"]["a"] = 2.into())),
            ("tools/call", params_with(&|params| params["name"] = "ask_sampling".into())),
            ("prompts/get", params_with(&|params| params["name"] = "ask_name".into())),
            ("tools/call", params_with(&|params| params["requestState"] = 7.into())),
        ] {
            let (_, error) = client.error(method, wrong_params.clone()).await;
            assert_eq!(error["code"], -32602, "{wrong_params}");
        }
        // The state is refused at another endpoint.
        let (_, error) = willing_client(&gateway, "/mcp").error("tools/call", valid_params.clone()).await;
        assert_eq!(error["code"], -32602);
        let result = client.result("tools/call", valid_params.clone()).await;
        assert!(result.to_string().contains("Ada"), "{result}");
        // The state of a finished call does not start the call again.
        let (_, error) = client.error("tools/call", valid_params).await;
        assert_eq!(error["code"], -32602);
        assert_eq!(backend.runs("ask_elicitation"), 1);
        assert_eq!(backend.runs("ask_sampling"), 0);
    }

    /// A question without an answer is asked again. An answer without a question is ignored.
    async fn a_question_stays_until_it_is_answered(kind) {
        let backend = start_legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing_client(&gateway, PATH);
        let params = json!({"name": "ask_elicitation"});
        let first = client.result("tools/call", params.clone()).await;
        let mut silent_params = next_params(&params, &first);
        silent_params["inputResponses"] = json!({"nobody": {"action": "accept"}});
        let repeated_result = client.result("tools/call", silent_params).await;
        assert_eq!(questions(&repeated_result), questions(&first));
        let result = client.result("tools/call", next_params(&params, &repeated_result)).await;
        assert_eq!(result["resultType"], "complete");
        assert_eq!(backend.runs("ask_elicitation"), 1);
    }

    /// While one call waits for an answer, other calls can ask questions.
    async fn calls_wait_beside_each_other(kind) {
        let backend = start_legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing_client(&gateway, PATH);
        let calls = ["a", "b"].map(|name| json!({"name": "ask_elicitation", "arguments": {"it": name}}));
        let mut waiting_calls = Vec::new();
        for params in &calls {
            let required_result = client.result("tools/call", params.clone()).await;
            waiting_calls.push(next_params(params, &required_result));
        }
        for params in waiting_calls {
            let result = client.result("tools/call", params).await;
            assert_eq!(result["resultType"], "complete", "{result}");
        }
    }

    /// A stop does not wait for people's answers (T1).
    async fn stopping_ends_calls_that_wait(kind) {
        let backend = start_legacy(kind).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = willing_client(&gateway, PATH);
        let required_result = client.result("tools/call", json!({"name": "ask_in_turn"})).await;
        assert_eq!(questions(&required_result).len(), 1);
        let stopping_time = Instant::now();
        gateway.stop().await;
        assert!(stopping_time.elapsed() < Duration::from_secs(5), "{:?}", stopping_time.elapsed());
    }
}

/// A call that waits ends after a time limit. Its state is then invalid.
#[tokio::test]
async fn a_call_does_not_wait_for_ever() {
    let backend = start_legacy(BackendKind::Http).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = willing_client(&gateway, PATH);
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
    let (_, error) = client
        .error("tools/call", next_params(&params, &first))
        .await;
    assert_eq!(error["code"], -32602);
    assert_eq!(backend.runs("ask_elicitation"), 1);
}
