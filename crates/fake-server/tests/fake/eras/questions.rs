//! Tests of questions in the modern era: `input_required` and the retry.

use fake_server::{Fake, Script};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::http::start;
use crate::common::modern::{ask, call, request, request_as, retry};
use crate::common::{parse, text, within};

async fn answer(fake: &Fake, message: &Value) -> Value {
    ask(&fake.url(), message).await.1
}

#[tokio::test]
async fn a_tool_asks_and_its_retry_ends_it() {
    within(async {
        let fake = start(Script::default()).await;
        for (tool, key, method) in [
            ("ask_sampling", "sampling", "sampling/createMessage"),
            ("ask_elicitation", "form", "elicitation/create"),
            ("ask_url", "url", "elicitation/create"),
            ("url_required", "url", "elicitation/create"),
            ("ask_roots", "roots", "roots/list"),
            ("ask", "sampling", "sampling/createMessage"),
        ] {
            let first = call(1, tool, &json!({}));
            let question = answer(&fake, &first).await;
            assert_eq!(question["result"]["inputRequests"][key]["method"], method);
            assert_eq!(question["result"]["ttlMs"], Value::Null);
            assert_eq!(fake.finished(tool), 0);
            let responses = json!({key: {"z": 1, "a": 1.0}, "unknown": {}});
            let final_answer = answer(&fake, &retry(2, &first, &question, &responses)).await;
            assert_eq!(
                final_answer["result"]["resultType"], "complete",
                "{final_answer}"
            );
            assert_eq!(
                text(&final_answer),
                format!(r#"{{"{key}":{{"z":1,"a":1.0}}}}"#)
            );
            assert_eq!((fake.runs(tool), fake.finished(tool)), (2, 1));
        }
        let url = answer(&fake, &call(3, "ask_url", &json!({}))).await;
        let params = &url["result"]["inputRequests"]["url"]["params"];
        assert_eq!(
            (&params["mode"], &params["elicitationId"]),
            (&json!("url"), &Value::Null)
        );
    })
    .await;
}

#[tokio::test]
async fn rounds_follow_each_other_and_missing_answers_are_asked_for_again() {
    within(async {
        let fake = start(Script::default()).await;
        let first = call(1, "ask_in_turn", &json!({"x": 1}));
        let form = answer(&fake, &first).await;
        let sampling_question =
            answer(&fake, &retry(2, &first, &form, &json!({"form": {"n": 1}}))).await;
        let questions = sampling_question["result"]["inputRequests"]
            .as_object()
            .expect("asked");
        assert_eq!(questions.keys().collect::<Vec<_>>(), ["sampling"]);
        let second_answer = answer(&fake, &retry(3, &first, &sampling_question, &json!({}))).await;
        let final_answer = answer(
            &fake,
            &retry(4, &first, &second_answer, &json!({"sampling": {"n": 2}})),
        )
        .await;
        assert_eq!(
            parse(text(&final_answer)),
            json!({"form": {"n": 1}, "sampling": {"n": 2}})
        );

        let first = call(5, "ask_together", &json!({}));
        let both_questions = answer(&fake, &first).await;
        assert_eq!(
            both_questions["result"]["inputRequests"]
                .as_object()
                .map(serde_json::Map::len),
            Some(2)
        );
        let rest = answer(
            &fake,
            &retry(6, &first, &both_questions, &json!({"sampling": {}})),
        )
        .await;
        let questions = rest["result"]["inputRequests"].as_object().expect("asked");
        assert_eq!(questions.keys().collect::<Vec<_>>(), ["form"]);
        let final_answer = answer(&fake, &retry(7, &first, &rest, &json!({"form": {}}))).await;
        assert_eq!(
            parse(text(&final_answer)),
            json!({"form": {}, "sampling": {}})
        );

        let first = call(8, "ask_nothing", &json!({}));
        let state = answer(&fake, &first).await;
        assert_eq!(state["result"]["inputRequests"], Value::Null);
        let final_answer = answer(&fake, &retry(9, &first, &state, &json!({}))).await;
        assert_eq!(text(&final_answer), "{}");

        let first = call(10, "ask_without_state", &json!({}));
        let form = answer(&fake, &first).await;
        assert_eq!(form["result"]["requestState"], Value::Null);
        let final_answer = answer(&fake, &retry(11, &first, &form, &json!({"form": {}}))).await;
        assert_eq!(text(&final_answer), r#"{"form":{}}"#);

        let first = call(12, "ask_again", &json!({}));
        let mut question = answer(&fake, &first).await;
        for id in 13..30 {
            question = answer(&fake, &retry(id, &first, &question, &json!({"form": {}}))).await;
        }
        assert_eq!(question["result"]["resultType"], "input_required");
        assert_eq!(fake.finished("ask_again"), 0);
    })
    .await;
}

#[tokio::test]
async fn a_retry_that_is_not_exact_fails_loudly() {
    within(async {
        let fake = start(Script::default()).await;
        let first = call(1, "ask_elicitation", &json!({"text": "a"}));
        let question = answer(&fake, &first).await;
        let right_retry = retry(2, &first, &question, &json!({"form": {}}));
        let state = right_retry["params"]["requestState"]
            .as_str()
            .expect("a text")
            .to_owned();
        let changed_retry = |pointer: &str, value: Value| {
            let mut changed_retry = right_retry.clone();
            *changed_retry.pointer_mut(pointer).expect("there") = value;
            changed_retry
        };
        let mut stateless = right_retry.clone();
        stateless["params"]
            .as_object_mut()
            .expect("an object")
            .shift_remove("requestState");
        for wrong_retry in [
            stateless,
            changed_retry("/params/requestState", json!(state.trim())),
            changed_retry("/params/requestState", json!(format!("{state}x"))),
            changed_retry("/params/arguments/text", json!("b")),
            changed_retry("/params/name", json!("ask_sampling")),
            changed_retry("/id", json!(1)),
        ] {
            let refusal = answer(&fake, &wrong_retry).await;
            assert_eq!(refusal["error"]["code"], -32602, "{wrong_retry} {refusal}");
            let message = refusal["error"]["message"].as_str().expect("a text");
            assert!(message.starts_with("broken retry: "), "{message}");
            assert_eq!(refusal["error"]["data"]["given"], json!([state]));
        }
        assert_eq!(fake.finished("ask_elicitation"), 0);
        let mut invented_call = call(9, "ask_without_state", &json!({}));
        invented_call["params"]["requestState"] = json!("mine");
        assert_eq!(answer(&fake, &invented_call).await["error"]["code"], -32602);
        assert_eq!(text(&answer(&fake, &right_retry).await), r#"{"form":{}}"#);
        // A second run counts.
        answer(&fake, &changed_retry("/id", json!(3))).await;
        assert_eq!(fake.finished("ask_elicitation"), 2);
    })
    .await;
}

#[tokio::test]
async fn prompts_and_resources_ask_too() {
    within(async {
        let fake = start(Script::default()).await;
        let prompt = request(1, "prompts/get", &json!({"name": "ask_name"}));
        let question = answer(&fake, &prompt).await;
        let final_answer = answer(&fake, &retry(2, &prompt, &question, &json!({"form": {}}))).await;
        assert_eq!(
            final_answer["result"]["messages"][0]["content"]["text"],
            r#"{"form":{}}"#
        );
        assert_eq!(fake.finished("ask_name"), 1);

        let resource = request(3, "resources/read", &json!({"uri": "fake://asked"}));
        let question = answer(&fake, &resource).await;
        assert_eq!(question["result"]["ttlMs"], Value::Null);
        let responses = json!({"roots": {"roots": []}});
        let final_answer = answer(&fake, &retry(4, &resource, &question, &responses)).await;
        assert_eq!(
            final_answer["result"]["contents"][0]["text"],
            r#"{"roots":{"roots":[]}}"#
        );
        assert_eq!(final_answer["result"]["contents"][0]["uri"], "fake://asked");
        assert_eq!(fake.finished("fake://asked"), 1);
        for (method, expected_item) in [
            ("prompts/list", "ask_name"),
            ("resources/list", "fake://asked"),
        ] {
            let list = answer(&fake, &request(5, method, &json!({}))).await;
            assert!(list.to_string().contains(expected_item), "{list}");
        }
    })
    .await;
}

#[tokio::test]
async fn errors_name_missing_capabilities() {
    within(async {
        let fake = start(Script::default()).await;
        for (tool, declared_capabilities, missing_capability) in [
            ("ask_sampling", json!({}), json!({"sampling": {}})),
            (
                "ask_elicitation",
                json!({"elicitation": {"url": {}}}),
                json!({"elicitation": {"form": {}}}),
            ),
            (
                "ask_url",
                json!({"elicitation": {}}),
                json!({"elicitation": {"url": {}}}),
            ),
            ("ask_roots", json!({"sampling": {}}), json!({"roots": {}})),
            (
                "ask_in_turn",
                json!({}),
                json!({"elicitation": {"form": {}}, "sampling": {}}),
            ),
        ] {
            let message = request_as(
                &declared_capabilities,
                1,
                "tools/call",
                &json!({"name": tool}),
            );
            let (status, refusal) = ask(&fake.url(), &message).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{tool}");
            assert_eq!(refusal["error"]["code"], -32021, "{tool}");
            assert_eq!(
                refusal["error"]["data"]["requiredCapabilities"], missing_capability,
                "{tool}"
            );
        }
        let form = json!({"elicitation": {}});
        let message = request_as(&form, 1, "tools/call", &json!({"name": "ask_elicitation"}));
        assert_eq!(
            answer(&fake, &message).await["result"]["resultType"],
            "input_required"
        );
    })
    .await;
}
