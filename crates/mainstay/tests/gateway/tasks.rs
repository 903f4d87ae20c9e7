//! The tasks extension of 2026-07-28 on the aggregate (SEP-2663).

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

/// A client at the aggregate that declares the extension.
fn able(gateway: &Gateway) -> Modern {
    Modern::at(gateway, "/mcp").able(json!({"extensions": {EXTENSION: {}}}))
}

fn id(task: &Value) -> String {
    task["taskId"].as_str().expect("a task's name").to_owned()
}

/// Waits until the task has this status, and returns the task.
async fn until_status(client: &Modern, id: &str, status: &str) -> Value {
    let reached = async {
        loop {
            let task = client.result("tasks/get", json!({"taskId": id})).await;
            assert_eq!(task["taskId"], id, "{task}");
            if task["status"] == status {
                return task;
            }
        }
    };
    soon(&format!("status {status}"), reached).await
}

/// Both directions: the client has Mainstay's name of a task, and the server has its own. The name is valid on
/// any connection, and keeps the tasks of two servers apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_led_to_its_server() {
    for kind in [BackendKind::Stdio, BackendKind::Http] {
        let (x, y) = (
            Backend::start(kind, TASKS).await,
            Backend::start(kind, TASKS).await,
        );
        let gateway = Gateway::with_servers(&[("x", &x), ("y", &y)]).await;
        let client = able(&gateway);
        for (server, backend) in [("x", &x), ("y", &y)] {
            let tool = format!("{server}__task");
            let created = client.call(&tool, json!({"ms": 1})).await;
            assert_eq!(created["resultType"], "task", "{created}");
            let name = id(&created);
            let other = able(&gateway);
            let done = until_status(&other, &name, "completed").await;
            assert_eq!(done["resultType"], "complete", "{done}");
            assert_eq!(text(&done["result"]), "the task is done");
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
    let client = able(&gateway);
    let task_name = id(&client.call("x__task", json!({"ask": true})).await);
    let task = until_status(&client, &task_name, "input_required").await;
    let (key, _) = task["inputRequests"]
        .as_object()
        .and_then(|requests| requests.iter().next())
        .expect("a question");
    let answers = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    let update = json!({"taskId": task_name, "inputResponses": answers});
    client.result("tasks/update", update).await;
    let done = until_status(&client, &task_name, "completed").await;
    assert!(text(&done["result"]).contains("Ada"), "{done}");

    let long = id(&client.call("x__task", json!({"ms": 600_000})).await);
    client.result("tasks/cancel", json!({"taskId": long})).await;
    until_status(&client, &long, "cancelled").await;

    let failing = id(&client.call("x__task", json!({"fail": true})).await);
    let failed = until_status(&client, &failing, "failed").await;
    assert_eq!(failed["error"]["code"], -32603);
}

/// Section 5: only Mainstay's names are known, nothing works without the extension, and methods outside of the
/// extension are unknown. The server gets none of these requests.
#[tokio::test]
async fn what_is_no_request_about_a_task_is_refused() {
    let backend = Backend::start(BackendKind::Http, TASKS).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = able(&gateway);
    let name = id(&client.call("x__task", json!({"ms": 600_000})).await);
    let original_name = name.split_once('/').expect("a server").1;
    let forged = format!("{}-x/{original_name}", "0".repeat(32));
    let other = name.replacen("-x/", "-y/", 1);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for bad in ["", original_name, &forged, &other, &name[1..]] {
            let params = json!({"taskId": bad, "inputResponses": {}});
            let (_, error) = client.error(method, params).await;
            assert_eq!(error["code"], -32602, "{method} {bad}");
        }
        let (_, error) = client.error(method, json!({})).await;
        assert_eq!(error["code"], -32602, "{method}");
        let unable = Modern::at(&gateway, "/mcp");
        let (status, error) = unable.error(method, json!({"taskId": name})).await;
        assert_eq!((status, &error["code"]), (400, &json!(-32021)), "{method}");
        let required = &error["data"]["requiredCapabilities"];
        assert_eq!(*required, json!({"extensions": {EXTENSION: {}}}));
        let mut request = client.request(method, json!({"taskId": name}));
        let wrong = http::HeaderValue::from_static("another");
        request.0.insert("mcp-name", wrong);
        let response = client.send(request).await.whole().await;
        assert_eq!(response.json()["error"]["code"], -32020, "{method}");
        assert_eq!(backend.count(method), 0);
    }
    for method in ["tasks/result", "tasks/list"] {
        let (status, error) = client.error(method, json!({"taskId": name})).await;
        assert_eq!((status, &error["code"]), (404, &json!(-32601)), "{method}");
    }
    let unable = Modern::at(&gateway, "/mcp");
    let listen = json!({"notifications": {"taskIds": [name]}});
    let (_, error) = unable.error("subscriptions/listen", listen).await;
    assert_eq!(error["code"], -32021);
}

#[tokio::test]
async fn the_extension_is_offered_where_a_server_has_it() {
    let (with, without) = (
        Backend::start(BackendKind::Http, TASKS).await,
        Backend::start(BackendKind::Http, &["--revisions", "2026-07-28"]).await,
    );
    for (servers, offered) in [
        (&[("y", &without)][..], Value::Null),
        (&[("x", &with), ("y", &without)][..], json!({})),
    ] {
        let gateway = Gateway::with_servers(servers).await;
        let client = Modern::at(&gateway, "/mcp");
        let found = client.result("server/discover", json!({})).await;
        assert_eq!(found["capabilities"]["extensions"][EXTENSION], offered);
    }
}

/// A stream has news of the tasks that it names, of any server, under Mainstay's names. Names of no task are
/// not acknowledged. When the client's stream ends, the upstream streams end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_hears_of_tasks() {
    let (x, y) = (
        Backend::start(BackendKind::Stdio, TASKS).await,
        Backend::start(BackendKind::Http, TASKS).await,
    );
    let gateway = Gateway::with_servers(&[("x", &x), ("y", &y)]).await;
    let client = able(&gateway);
    let slow = json!({"ms": 300});
    let (first, second) = (
        id(&client.call("x__task", slow.clone()).await),
        id(&client.call("y__task", slow.clone()).await),
    );
    let filter = json!({"taskIds": [first, "nobodys", second]});
    let mut stream = client
        .begin("subscriptions/listen", json!({"notifications": filter}))
        .await;
    let acknowledged = stream.message().await;
    let honoured = &acknowledged["params"]["notifications"];
    assert_eq!(*honoured, json!({"taskIds": [first, second]}));
    let listen = &acknowledged["params"]["_meta"][key("subscriptionId")];
    let mut done = Vec::new();
    while done.len() < 2 {
        let news = soon("news of a task", stream.message()).await;
        assert_eq!(news["method"], "notifications/tasks", "{news}");
        assert_eq!(news["params"]["_meta"][key("subscriptionId")], *listen);
        assert_eq!(news["params"]["status"], "completed", "{news}");
        assert_eq!(text(&news["params"]["result"]), "the task is done");
        done.push(id(&news["params"]));
    }
    done.sort();
    let mut named = [first, second];
    named.sort();
    assert_eq!(done, named);
    drop(stream);
    for backend in [&x, &y] {
        until("the server's stream to end", || backend.given_up() > 0).await;
    }
}

/// Changes of a task during a time in which its server cannot report them are reported afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happened_meanwhile_is_told() {
    let (backend, gate) = Backend::gated(BackendKind::Http, TASKS).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = able(&gateway);
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
