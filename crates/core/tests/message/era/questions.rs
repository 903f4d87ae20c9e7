//! Tests of questions as requests and as results (2026-07-28, "Multi Round-Trip Requests";
//! 2025-11-25, "URL Elicitation Required Error").

use mainstay_core::{
    era::{
        Revision,
        questions::{self, BadInputRequired, InputRequest, InputRequired},
    },
    message::Method,
};
use proptest::prelude::*;

use crate::json;

#[test]
fn a_request_becomes_an_entry_and_a_request_again() {
    for (legacy_request, params, revision, round_trip) in [
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"mode":"url","elicitationId":"e","url":"https://x","message":"m"}}"#,
            r#"{"mode":"url","url":"https://x","message":"m"}"#,
            Revision::V2025_11_25,
            r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"m","elicitationId":"minted"}}"#,
        ),
        (
            r#"{"id":3,"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{}}}"#,
            r#"{"mode":"form","message":"m","requestedSchema":{}}"#,
            Revision::V2025_06_18,
            r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}"#,
        ),
        (
            r#"{"id":3,"method":"sampling/createMessage","params":{"_meta":{"progressToken":1,"a":2},"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"temperature":1.0}}"#,
            r#"{"_meta":{"a":2},"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"temperature":1.0}"#,
            Revision::V2025_06_18,
            r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"_meta":{"a":2},"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}],"temperature":1.0}}"#,
        ),
        (
            r#"{"id":3,"method":"roots/list"}"#,
            "{}",
            Revision::V2024_11_05,
            r#"{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{}}"#,
        ),
    ] {
        let question = InputRequest::from_request(legacy_request).expect("a question");
        assert_eq!(&*question.params, params);
        assert_eq!(question.to_request("\"q\"", revision, "minted"), round_trip);
    }
    for text in [
        "{}",
        r#"{"method":"ping"}"#,
        r#"{"method":"roots/list","params":[]}"#,
        r#"{"method":7}"#,
    ] {
        assert_eq!(InputRequest::from_request(text), None, "{text}");
    }
}

#[test]
fn a_client_error_cancels_only_an_elicitation() {
    let question = |method| InputRequest {
        method,
        params: "{}".into(),
    };
    assert_eq!(
        question(Method::Elicit).unanswered(),
        Some(r#"{"action":"cancel"}"#)
    );
    assert_eq!(question(Method::CreateMessage).unanswered(), None);
    assert_eq!(question(Method::RootsList).unanswered(), None);
}

#[test]
fn a_result_with_questions_is_recognised() {
    for complete_result in [
        r#"{"resultType":"complete"}"#,
        "{}",
        "7",
        r#"{"inputRequests":{}}"#,
    ] {
        assert_eq!(
            InputRequired::read(complete_result),
            Ok(None),
            "{complete_result}"
        );
    }
    let required =
        |rest: &str| InputRequired::read(&format!(r#"{{"resultType":"input_required"{rest}}}"#));
    assert_eq!(required(""), Err(BadInputRequired::Empty));
    for rest in [
        r#","inputRequests":[]"#,
        r#","inputRequests":{"a":{"method":"tools/call"}}"#,
        r#","inputRequests":{"a":7}"#,
    ] {
        assert_eq!(
            required(rest),
            Err(BadInputRequired::InputRequest),
            "{rest}"
        );
    }
    assert_eq!(
        required(r#","requestState":7"#),
        Err(BadInputRequired::State)
    );
    // A result without questions. The client has to repeat the call with the state.
    let retry_result = required(r#","requestState":"s\u002f""#)
        .expect("well-formed")
        .expect("input required");
    assert!(retry_result.requests.is_empty());
    assert_eq!(retry_result.state.as_deref(), Some(r#""s\u002f""#));
    assert_eq!(
        retry_result.result(),
        r#"{"resultType":"input_required","requestState":"s\u002f"}"#
    );
}

#[test]
fn an_error_with_urls_becomes_a_question() {
    let error = r#"{"code":-32042,"message":"m","data":{"elicitations":[
        {"mode":"url","elicitationId":"e-1","url":"https://a","message":"A"},{"url":"https://b","x":1.0}]}}"#;
    let required = InputRequired::from_error(error).expect("input required");
    assert_eq!(
        required.result(),
        r#"{"resultType":"input_required","inputRequests":{"e-1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a","message":"A"}},"elicitation-1":{"method":"elicitation/create","params":{"url":"https://b","x":1.0,"mode":"url"}}}}"#
    );
    let mut minted_ids = 0;
    let legacy_error = required.to_error(|| {
        minted_ids += 1;
        format!("m-{minted_ids}")
    });
    assert_eq!(
        legacy_error.expect("an error"),
        r#"{"code":-32042,"message":"this request needs a URL to be opened","data":{"elicitations":[{"mode":"url","url":"https://a","message":"A","elicitationId":"m-1"},{"url":"https://b","x":1.0,"mode":"url","elicitationId":"m-2"}]}}"#
    );

    for error in [
        "{}",
        r#"{"code":-32041,"data":{"elicitations":[{"url":"x"}]}}"#,
        r#"{"code":-32042}"#,
        r#"{"code":-32042,"data":{"elicitations":[]}}"#,
        r#"{"code":-32042,"data":{"elicitations":[7]}}"#,
    ] {
        assert_eq!(InputRequired::from_error(error), None, "{error}");
    }
    // The client would repeat the call without the state, or without an answer to the other
    // question.
    let mint = || "m".to_owned();
    let with_state = InputRequired {
        state: Some("\"s\"".into()),
        ..required.clone()
    };
    assert_eq!(with_state.to_error(mint), None);
    let mut mixed_requests = required;
    mixed_requests.requests.push((
        "r".to_owned(),
        InputRequest {
            method: Method::RootsList,
            params: "{}".into(),
        },
    ));
    assert_eq!(mixed_requests.to_error(mint), None);
    assert_eq!(InputRequired::default().to_error(mint), None);
}

#[test]
fn the_next_attempt_is_the_same_request_with_the_answers() {
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"requestState":"old","name":"a","inputResponses":{"old":{}},"arguments":{"n":1.0}}}"#;
    let answers = [(
        "k\"1".to_owned(),
        r#"{"action":"accept","content":{"n":1.0}}"#.into(),
    )];
    assert_eq!(
        questions::answer(request, &answers, Some(r#""s\u002f""#)),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1.0},"inputResponses":{"k\"1":{"action":"accept","content":{"n":1.0}}},"requestState":"s\u002f"}}"#
    );
    // A request without answers and state stays unchanged.
    assert_eq!(
        questions::answer(request, &[], None),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1.0}}}"#
    );
}

#[test]
fn answers_are_read_from_an_attempt() {
    assert_eq!(questions::answers(r#"{"name":"a"}"#), Ok(None));
    for invalid_params in [
        r#"{"inputResponses":[]}"#,
        r#"{"requestState":7}"#,
        r#"{"requestState":null}"#,
    ] {
        assert!(
            questions::answers(invalid_params).is_err(),
            "{invalid_params}"
        );
    }
    let answers =
        questions::answers(r#"{"inputResponses":{"k":{"n":1.0}},"requestState":"s\u002f"}"#);
    let answers = answers.expect("well-formed").expect("answers");
    assert_eq!(answers.get("k"), Some(r#"{"n":1.0}"#));
    assert_eq!(
        (answers.get("x"), answers.state.as_deref()),
        (None, Some("s/"))
    );
    let answers_without_state =
        questions::answers(r#"{"inputResponses":{}}"#).expect("well-formed");
    assert_eq!(answers_without_state.expect("answers").state, None);
}

#[test]
fn three_methods_may_be_answered_with_questions() {
    let askable_methods = ["tools/call", "prompts/get", "resources/read"];
    for name in [
        "tools/list",
        "completion/complete",
        "server/discover",
        "tasks/get",
        "x",
    ]
    .iter()
    .chain(&askable_methods)
    {
        assert_eq!(
            questions::may_ask(Method::from_name(name)),
            askable_methods.contains(name),
            "{name}"
        );
    }
}

proptest! {
    /// Questions and answers keep their JSON text. The state keeps its bytes.
    #[test]
    fn a_round_of_questions_keeps_its_bytes(
        params in prop::collection::vec(json::value(), 1..4),
        state in "\\PC{0,12}",
        keys in any::<u64>(),
    ) {
        let without_breaks = |text: &str| text.replace(['\n', '\r'], "");
        let state = mainstay_core::message::quote(&state);
        let entries: Vec<String> = params
            .iter()
            .enumerate()
            .map(|(index, value)| format!(r#""{keys}-{index}":{{"method":"sampling/createMessage","params":{{"x":{}}}}}"#, without_breaks(value)))
            .collect();
        let text = format!(r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":{state}}}"#, entries.join(","));
        let required = InputRequired::read(&text).expect("well-formed").expect("input required");
        prop_assert_eq!(required.result(), text);

        let answers: Vec<(String, Box<str>)> = required.requests.iter().zip(&params)
            .map(|((key, _), value)| (key.clone(), without_breaks(value).into()))
            .collect();
        let next_request = questions::answer(r#"{"id":1}"#, &answers, required.state.as_deref());
        let sent_params = mainstay_core::message::member(&next_request, "params").expect("params");
        prop_assert_eq!(mainstay_core::message::member(sent_params, "requestState"), Some(&*state));
        let received_answers = questions::answers(sent_params).expect("well-formed").expect("answers");
        prop_assert_eq!(received_answers.responses, answers);
    }
}
