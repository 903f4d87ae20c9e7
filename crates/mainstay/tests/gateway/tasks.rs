//! The extension for tasks (2026-07-28) at the aggregate (SEP-2663).

use fake_server::gate::GateMode;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::text,
    gateway::{Gateway, soon, until},
    modern::{Modern, key},
};

const TASKS: &[&str] = &["--revisions", "2026-07-28", "--tasks"];

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A client of the aggregate that declares the extension.
fn task_client(gateway: &Gateway) -> Modern {
    Modern::at(gateway, "/mcp").able(json!({"extensions": {EXTENSION: {}}}))
}

fn id(task: &Value) -> String {
    task["taskId"].as_str().expect("a task's name").to_owned()
}

/// Waits until the task has this status. Returns the task.
async fn until_status(client: &Modern, id: &str, status: &str) -> Value {
    let reached_result = async {
        loop {
            let task = client.result("tasks/get", json!({"taskId": id})).await;
            assert_eq!(task["taskId"], id, "{task}");
            if task["status"] == status {
                return task;
            }
        }
    };
    soon(&format!("status {status}"), reached_result).await
}

/// Clients see only task ids of Mainstay, and each server sees only its own. An id can be used on
/// any connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_led_to_its_server() {
    for kind in [BackendKind::Stdio, BackendKind::Http] {
        let (first_backend, second_backend) = (
            Backend::start(kind, TASKS).await,
            Backend::start(kind, TASKS).await,
        );
        let gateway = Gateway::with_servers(&[("x", &first_backend), ("y", &second_backend)]).await;
        let client = task_client(&gateway);
        for (server, backend) in [("x", &first_backend), ("y", &second_backend)] {
            let tool = format!("{server}__task");
            let created_result = client.call(&tool, json!({"ms": 1})).await;
            assert_eq!(created_result["resultType"], "task", "{created_result}");
            let name = id(&created_result);
            let other_client = task_client(&gateway);
            let final_task = until_status(&other_client, &name, "completed").await;
            assert_eq!(final_task["resultType"], "complete", "{final_task}");
            assert_eq!(text(&final_task["result"]), "the task is done");
            for get in backend.of_method("tasks/get") {
                let original_name = get["params"]["taskId"].as_str().expect("a name");
                assert!(
                    name.len() > original_name.len() + 32 && name.ends_with(original_name),
                    "{name}"
                );
            }
            assert_eq!(backend.runs("task"), 1);
        }
    }
}

#[tokio::test]
async fn a_task_is_answered_and_cancelled() {
    let backend = Backend::start(BackendKind::Http, TASKS).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = task_client(&gateway);
    let task_name = id(&client.call("x__task", json!({"ask": true})).await);
    let task = until_status(&client, &task_name, "input_required").await;
    let (key, _) = task["inputRequests"]
        .as_object()
        .and_then(|requests| requests.iter().next())
        .expect("a question");
    let answers = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    let update = json!({"taskId": task_name, "inputResponses": answers});
    client.result("tasks/update", update).await;
    let final_task = until_status(&client, &task_name, "completed").await;
    assert!(text(&final_task["result"]).contains("Ada"), "{final_task}");

    let long_result = id(&client.call("x__task", json!({"ms": 600_000})).await);
    client
        .result("tasks/cancel", json!({"taskId": long_result}))
        .await;
    until_status(&client, &long_result, "cancelled").await;

    let failing_result = id(&client.call("x__task", json!({"fail": true})).await);
    let failed_task = until_status(&client, &failing_result, "failed").await;
    assert_eq!(failed_task["error"]["code"], -32603);
}

/// Unknown ids, requests without the extension, and unknown methods are refused. The server gets no
/// request (section 5).
#[tokio::test]
async fn invalid_task_requests_are_refused() {
    let backend = Backend::start(BackendKind::Http, TASKS).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = task_client(&gateway);
    let name = id(&client.call("x__task", json!({"ms": 600_000})).await);
    let original_name = name.split_once('/').expect("a server").1;
    let forged_text = format!("{}-x/{original_name}", "0".repeat(32));
    let other_name = name.replacen("-x/", "-y/", 1);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for bad_id in ["", original_name, &forged_text, &other_name, &name[1..]] {
            let params = json!({"taskId": bad_id, "inputResponses": {}});
            let (_, error) = client.error(method, params).await;
            assert_eq!(error["code"], -32602, "{method} {bad_id}");
        }
        let (_, error) = client.error(method, json!({})).await;
        assert_eq!(error["code"], -32602, "{method}");
        let incapable_client = Modern::at(&gateway, "/mcp");
        let (status, error) = incapable_client
            .error(method, json!({"taskId": name}))
            .await;
        assert_eq!((status, &error["code"]), (400, &json!(-32021)), "{method}");
        let required_capabilities = &error["data"]["requiredCapabilities"];
        assert_eq!(
            *required_capabilities,
            json!({"extensions": {EXTENSION: {}}})
        );
        let mut request = client.request(method, json!({"taskId": name}));
        let wrong_value = http::HeaderValue::from_static("another");
        request.0.insert("mcp-name", wrong_value);
        let response = client.send(request).await.whole().await;
        assert_eq!(response.json()["error"]["code"], -32020, "{method}");
        assert_eq!(backend.count(method), 0);
    }
    for method in ["tasks/result", "tasks/list"] {
        let (status, error) = client.error(method, json!({"taskId": name})).await;
        assert_eq!((status, &error["code"]), (404, &json!(-32601)), "{method}");
    }
    let incapable_client = Modern::at(&gateway, "/mcp");
    let listen = json!({"notifications": {"taskIds": [name]}});
    let (_, error) = incapable_client.error("subscriptions/listen", listen).await;
    assert_eq!(error["code"], -32021);
}

#[tokio::test]
async fn the_extension_is_offered_where_a_server_has_it() {
    let (task_backend, plain_backend) = (
        Backend::start(BackendKind::Http, TASKS).await,
        Backend::start(BackendKind::Http, &["--revisions", "2026-07-28"]).await,
    );
    for (servers, offered_capability) in [
        (&[("y", &plain_backend)][..], Value::Null),
        (
            &[("x", &task_backend), ("y", &plain_backend)][..],
            json!({}),
        ),
    ] {
        let gateway = Gateway::with_servers(servers).await;
        let client = Modern::at(&gateway, "/mcp");
        let matching_result = client.result("server/discover", json!({})).await;
        assert_eq!(
            matching_result["capabilities"]["extensions"][EXTENSION],
            offered_capability
        );
    }
}

/// A listen stream can have updates of tasks of all servers. Unknown ids are not acknowledged. The
/// upstream streams end together with the client's stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_gets_task_updates() {
    let (first_backend, second_backend) = (
        Backend::start(BackendKind::Stdio, TASKS).await,
        Backend::start(BackendKind::Http, TASKS).await,
    );
    let gateway = Gateway::with_servers(&[("x", &first_backend), ("y", &second_backend)]).await;
    let client = task_client(&gateway);
    let slow_arguments = json!({"ms": 300});
    let (first, second_id) = (
        id(&client.call("x__task", slow_arguments.clone()).await),
        id(&client.call("y__task", slow_arguments.clone()).await),
    );
    let filter = json!({"taskIds": [first, "nobodys", second_id]});
    let mut stream = client
        .begin("subscriptions/listen", json!({"notifications": filter}))
        .await;
    let acknowledged_message = stream.message().await;
    let honoured_filter = &acknowledged_message["params"]["notifications"];
    assert_eq!(*honoured_filter, json!({"taskIds": [first, second_id]}));
    let listen = &acknowledged_message["params"]["_meta"][key("subscriptionId")];
    let mut final_ids = Vec::new();
    while final_ids.len() < 2 {
        let news = soon("news of a task", stream.message()).await;
        assert_eq!(news["method"], "notifications/tasks", "{news}");
        assert_eq!(news["params"]["_meta"][key("subscriptionId")], *listen);
        assert_eq!(news["params"]["status"], "completed", "{news}");
        assert_eq!(text(&news["params"]["result"]), "the task is done");
        final_ids.push(id(&news["params"]));
    }
    final_ids.sort();
    let mut task_ids = [first, second_id];
    task_ids.sort();
    assert_eq!(final_ids, task_ids);
    drop(stream);
    for backend in [&first_backend, &second_backend] {
        until("the server's stream to end", || {
            backend.cancelled_count() > 0
        })
        .await;
    }
}

/// If a task changes while its server is disconnected, the change is reported later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missed_task_changes_are_reported() {
    let (backend, gate) = Backend::gated(BackendKind::Http, TASKS).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = task_client(&gateway);
    let task_name = id(&client
        .call("x__task", json!({"ms": 300, "ask": true}))
        .await);
    let filter = json!({"notifications": {"taskIds": [task_name]}});
    let mut stream = client.begin("subscriptions/listen", filter).await;
    assert!(stream.message().await["params"]["notifications"]["taskIds"].is_array());
    gate.set(GateMode::Reset).await.expect("the gate stands");
    until("refusals", || gate.refusals().len() > 2).await;
    gate.set(GateMode::Forward).await.expect("the gate stands");
    let news = soon("news", stream.message()).await;
    assert_eq!(news["params"]["taskId"], task_name, "{news}");
    assert!(news["params"].get("resultType").is_none(), "{news}");
    let news = if news["params"]["status"] == "working" {
        soon("more news", stream.message()).await
    } else {
        news
    };
    assert_eq!(news["params"]["status"], "input_required", "{news}");
}
