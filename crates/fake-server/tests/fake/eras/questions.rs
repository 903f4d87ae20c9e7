//! The questions of tools, prompts and resources in the modern era: `input_required`, and the retry.

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
            let done = answer(&fake, &retry(2, &first, &question, &responses)).await;
            assert_eq!(done["result"]["resultType"], "complete", "{done}");
            assert_eq!(text(&done), format!(r#"{{"{key}":{{"z":1,"a":1.0}}}}"#));
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
        let sampling = answer(&fake, &retry(2, &first, &form, &json!({"form": {"n": 1}}))).await;
        let questions = sampling["result"]["inputRequests"]
            .as_object()
            .expect("asked");
        assert_eq!(questions.keys().collect::<Vec<_>>(), ["sampling"]);
        let again = answer(&fake, &retry(3, &first, &sampling, &json!({}))).await;
        let done = answer(
            &fake,
            &retry(4, &first, &again, &json!({"sampling": {"n": 2}})),
        )
        .await;
        assert_eq!(
            parse(text(&done)),
            json!({"form": {"n": 1}, "sampling": {"n": 2}})
        );

        let first = call(5, "ask_together", &json!({}));
        let both = answer(&fake, &first).await;
        assert_eq!(
            both["result"]["inputRequests"]
                .as_object()
                .map(serde_json::Map::len),
            Some(2)
        );
        let rest = answer(&fake, &retry(6, &first, &both, &json!({"sampling": {}}))).await;
        let questions = rest["result"]["inputRequests"].as_object().expect("asked");
        assert_eq!(questions.keys().collect::<Vec<_>>(), ["form"]);
        let done = answer(&fake, &retry(7, &first, &rest, &json!({"form": {}}))).await;
        assert_eq!(parse(text(&done)), json!({"form": {}, "sampling": {}}));

        let first = call(8, "ask_nothing", &json!({}));
        let state = answer(&fake, &first).await;
        assert_eq!(state["result"]["inputRequests"], Value::Null);
        let done = answer(&fake, &retry(9, &first, &state, &json!({}))).await;
        assert_eq!(text(&done), "{}");

        let first = call(10, "ask_without_state", &json!({}));
        let form = answer(&fake, &first).await;
        assert_eq!(form["result"]["requestState"], Value::Null);
        let done = answer(&fake, &retry(11, &first, &form, &json!({"form": {}}))).await;
        assert_eq!(text(&done), r#"{"form":{}}"#);

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
        let right = retry(2, &first, &question, &json!({"form": {}}));
        let state = right["params"]["requestState"]
            .as_str()
            .expect("a text")
            .to_owned();
        let changed = |pointer: &str, value: Value| {
            let mut changed = right.clone();
            *changed.pointer_mut(pointer).expect("there") = value;
            changed
        };
        let mut stateless = right.clone();
        stateless["params"]
            .as_object_mut()
            .expect("an object")
            .shift_remove("requestState");
        for wrong in [
            stateless,
            changed("/params/requestState", json!(state.trim())),
            changed("/params/requestState", json!(format!("{state}x"))),
            changed("/params/arguments/text", json!("b")),
            changed("/params/name", json!("ask_sampling")),
            changed("/id", json!(1)),
        ] {
            let refused = answer(&fake, &wrong).await;
            assert_eq!(refused["error"]["code"], -32602, "{wrong} {refused}");
            let message = refused["error"]["message"].as_str().expect("a text");
            assert!(message.starts_with("broken retry: "), "{message}");
            assert_eq!(refused["error"]["data"]["given"], json!([state]));
        }
        assert_eq!(fake.finished("ask_elicitation"), 0);
        let mut invented = call(9, "ask_without_state", &json!({}));
        invented["params"]["requestState"] = json!("mine");
        assert_eq!(answer(&fake, &invented).await["error"]["code"], -32602);
        assert_eq!(text(&answer(&fake, &right).await), r#"{"form":{}}"#);
        // A tool that runs twice is counted twice.
        answer(&fake, &changed("/id", json!(3))).await;
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
        let done = answer(&fake, &retry(2, &prompt, &question, &json!({"form": {}}))).await;
        assert_eq!(
            done["result"]["messages"][0]["content"]["text"],
            r#"{"form":{}}"#
        );
        assert_eq!(fake.finished("ask_name"), 1);

        let resource = request(3, "resources/read", &json!({"uri": "fake://asked"}));
        let question = answer(&fake, &resource).await;
        assert_eq!(question["result"]["ttlMs"], Value::Null);
        let responses = json!({"roots": {"roots": []}});
        let done = answer(&fake, &retry(4, &resource, &question, &responses)).await;
        assert_eq!(
            done["result"]["contents"][0]["text"],
            r#"{"roots":{"roots":[]}}"#
        );
        assert_eq!(done["result"]["contents"][0]["uri"], "fake://asked");
        assert_eq!(fake.finished("fake://asked"), 1);
        for (method, listed) in [
            ("prompts/list", "ask_name"),
            ("resources/list", "fake://asked"),
        ] {
            let list = answer(&fake, &request(5, method, &json!({}))).await;
            assert!(list.to_string().contains(listed), "{list}");
        }
    })
    .await;
}

#[tokio::test]
async fn who_cannot_be_asked_is_told_what_is_missing() {
    within(async {
        let fake = start(Script::default()).await;
        for (tool, declared, missing) in [
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
            let message = request_as(&declared, 1, "tools/call", &json!({"name": tool}));
            let (status, refused) = ask(&fake.url(), &message).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{tool}");
            assert_eq!(refused["error"]["code"], -32021, "{tool}");
            assert_eq!(
                refused["error"]["data"]["requiredCapabilities"], missing,
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
