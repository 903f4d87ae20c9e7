//! Tests of the tasks extension.

use fake_server::{Fake, Script};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::http::start;
use crate::common::modern::{ask, call, request, request_as};
use crate::common::{text, within};

async fn open() -> Fake {
    start(Script {
        tasks: true,
        ..Script::default()
    })
    .await
}

async fn create(fake: &Fake, arguments: &Value) -> Value {
    let (_, created_task) = ask(&fake.url(), &call(1, "task", arguments)).await;
    assert_eq!(
        created_task["result"]["resultType"], "task",
        "{created_task}"
    );
    assert_eq!(created_task["result"]["status"], "working");
    created_task["result"]["taskId"].clone()
}

/// Returns the task once it has this status.
async fn until(fake: &Fake, id: &Value, status: &str) -> Value {
    loop {
        let message = request(2, "tasks/get", &json!({"taskId": id}));
        let (_, mut answer) = ask(&fake.url(), &message).await;
        let task = answer["result"].take();
        assert_eq!(task["resultType"], "complete", "{answer}");
        if task["status"] == status {
            return task;
        }
        let end_states = ["completed", "failed", "cancelled"].map(Value::from);
        assert!(!end_states.contains(&task["status"]), "{task}");
    }
}

#[tokio::test]
async fn a_call_becomes_a_task_and_comes_to_its_end() {
    within(async {
        let fake = open().await;
        let id = create(&fake, &json!({"ms": 20})).await;
        let final_task = until(&fake, &id, "completed").await;
        assert_eq!(
            final_task["result"]["content"][0]["text"],
            "the task is done"
        );
        assert_eq!(fake.finished("task"), 1);
        assert!(final_task["createdAt"].as_str() < final_task["lastUpdatedAt"].as_str());

        let id = create(&fake, &json!({"fail": true})).await;
        let failed_task = until(&fake, &id, "failed").await;
        assert_eq!(failed_task["error"]["code"], -32603);
        assert_eq!(fake.finished("task"), 1);
    })
    .await;
}

#[tokio::test]
async fn a_task_asks_and_is_updated() {
    within(async {
        let fake = open().await;
        let id = create(&fake, &json!({"ask": true})).await;
        let question = until(&fake, &id, "input_required").await;
        assert_eq!(
            question["inputRequests"]["form"]["method"],
            "elicitation/create"
        );
        for (responses, status) in [
            (json!({"nobody": {}}), "input_required"),
            (json!({"form": {"action": "accept"}}), "completed"),
        ] {
            let params = json!({"taskId": id, "inputResponses": responses});
            let (status_code, answer) =
                ask(&fake.url(), &request(3, "tasks/update", &params)).await;
            assert_eq!(status_code, StatusCode::OK);
            assert_eq!(answer["result"]["resultType"], "complete");
            until(&fake, &id, status).await;
        }
        let final_task = until(&fake, &id, "completed").await;
        assert_eq!(
            final_task["result"]["content"][0]["text"],
            r#"{"action":"accept"}"#
        );
    })
    .await;
}

#[tokio::test]
async fn a_task_is_cancelled_and_stays_so() {
    within(async {
        let fake = open().await;
        let id = create(&fake, &json!({"ms": 60_000})).await;
        let cancel = request(3, "tasks/cancel", &json!({"taskId": id}));
        let (_, answer) = ask(&fake.url(), &cancel).await;
        assert_eq!(answer["result"]["resultType"], "complete");
        until(&fake, &id, "cancelled").await;
        assert_eq!(fake.finished("task"), 0);
        let unknown_request = request(4, "tasks/get", &json!({"taskId": "nobody"}));
        assert_eq!(
            ask(&fake.url(), &unknown_request).await.1["error"]["code"],
            -32602
        );
    })
    .await;
}

#[tokio::test]
async fn clients_without_the_extension_get_no_tasks() {
    within(async {
        let fake = open().await;
        let plain_request =
            |id, method: &str, params: Value| request_as(&json!({}), id, method, &params);
        for (method, params) in [
            ("tools/call", json!({"name": "task"})),
            ("tasks/get", json!({"taskId": "nobody"})),
        ] {
            let (status, refusal) = ask(&fake.url(), &plain_request(1, method, params)).await;
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert_eq!(refusal["error"]["code"], -32021);
            assert_eq!(
                refusal["error"]["data"]["requiredCapabilities"],
                json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
            );
        }
        let optional_params = json!({"name": "task", "arguments": {"optional": true}});
        let (_, final_answer) = ask(
            &fake.url(),
            &plain_request(2, "tools/call", optional_params),
        )
        .await;
        assert_eq!(text(&final_answer), "done at once");
    })
    .await;
}
