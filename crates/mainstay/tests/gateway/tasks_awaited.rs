//! Servers that turn calls into tasks (SEP-2663), with clients that do not support tasks. Mainstay
//! polls each task until it ends.

use fake_server::gate::GateMode;
use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, failure, text},
    gateway::{Gateway, soon, until},
    modern::{Modern, key},
    records::Recorded,
};

const TASKS: &[&str] = &["--revisions", "2026-07-28", "--tasks"];

async fn both_kinds() -> [Backend; 2] {
    [
        Backend::start(BackendKind::Stdio, TASKS).await,
        Backend::start(BackendKind::Http, TASKS).await,
    ]
}

/// The number of received calls that declare the task extension.
fn task_count(backend: &Backend) -> usize {
    let declares = |call: &&Value| {
        let capabilities = &call["params"]["_meta"][key("clientCapabilities")];
        capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object()
    };
    let calls = backend.of_method("tools/call");
    calls.iter().filter(declares).count()
}

/// Connects a client that accepts forms.
async fn client_with_forms(gateway: &Gateway, path: &str) -> Http {
    let mut client = gateway.stranger(path);
    client
        .initialize_with(&json!({"elicitation": {"form": {}}}))
        .await;
    client
}

/// The client gets the result of the task as the answer to its call. The call runs once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_any_age_gets_the_result() {
    for backend in both_kinds().await {
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, tool) in [("/mcp", "x__task"), ("/servers/x/mcp", "task")] {
            let client = client_with_forms(&gateway, path).await;
            let final_result = client.call(tool, json!({"ms": 1})).await;
            assert_eq!(text(&final_result), "the task is done", "{path}");
            assert!(final_result.get("resultType").is_none(), "{final_result}");
            let failing_params = json!({"name": tool, "arguments": {"fail": true}});
            let error = client.error("tools/call", failing_params).await;
            assert_eq!(error["code"], -32603, "{error}");
            assert_eq!(error["message"], "the task failed");
        }
        let body = json!({"tool": "x/task", "arguments": {"ms": 1}});
        let (status, answer) = gateway.rest().post("/api/mcp-tools/call", body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(text(&answer["result"]), "the task is done");
        assert_eq!(task_count(&backend), 5, "one for each call");
    }
}

/// If a server needs no task for a call, it answers directly.
#[tokio::test]
async fn a_task_that_need_not_be_is_none() {
    let backend = Backend::start(BackendKind::Http, TASKS).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let final_result = client.call("x__task", json!({"optional": true})).await;
    assert_eq!(text(&final_result), "done at once");
    assert_eq!(backend.count("tools/call"), 1);
    assert_eq!(backend.count("tasks/get"), 0);
}

/// If the client's revision has tasks, the client gets an error that names the extension
/// (SEP-2663).
#[tokio::test]
async fn a_client_that_could_declare_tasks_gets_an_error() {
    let backend = Backend::start(BackendKind::Http, TASKS).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, tool) in [("/mcp", "x__task"), ("/servers/x/mcp", "task")] {
        let client = Modern::at(&gateway, path);
        let params = json!({"name": tool, "arguments": {}});
        let (status, error) = client.error("tools/call", params).await;
        assert_eq!((status, &error["code"]), (400, &json!(-32021)), "{path}");
    }
    assert_eq!(task_count(&backend), 0);
}

/// The client gets each question of a task once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_asks_its_client() {
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    for backend in both_kinds().await {
        let fixture = Recorded::with_backend(&backend).await;
        let client = client_with_forms(&fixture.gateway, "/mcp").await;
        let params = json!({"name": "x__task", "arguments": {"ask": true}}).to_string();
        let request = client.request_text("tools/call", &params);
        let mut stream = client.begin(request).await;
        let question = stream.message().await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let response = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
        client.post(response.to_string()).await;
        let final_message = stream.message().await;
        assert!(
            text(&final_message["result"]).contains("Ada"),
            "{final_message}"
        );
        assert_eq!(backend.count("tasks/update"), 1);
        assert_eq!(task_count(&backend), 1);
        // The server has refused the first attempt, which did not declare the extension.
        let record = fixture.latest().await;
        assert_eq!(
            (record.attempts, &record.earlier[..]),
            (1, &[][..]),
            "{record:?}"
        );
    }
}

/// A client that waits for a task gets progress notifications (K16).
#[tokio::test]
async fn a_task_at_work_is_progress() {
    let backend = Backend::start(BackendKind::Http, TASKS).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let arguments = json!({"ms": 100});
    let params =
        json!({"name": "x__task", "arguments": arguments, "_meta": {"progressToken": "t"}});
    let texts = client.exchange("tools/call", &params.to_string()).await;
    let messages: Vec<Value> = texts
        .iter()
        .map(|text| crate::client::value(text))
        .collect();
    let (last_message, earlier_messages) = messages.split_last().expect("a response");
    assert_eq!(text(&last_message["result"]), "the task is done");
    let steps: Vec<u64> = earlier_messages
        .iter()
        .map(|message| {
            assert_eq!(message["method"], "notifications/progress", "{message}");
            assert_eq!(message["params"]["progressToken"], "t");
            message["params"]["progress"].as_u64().expect("a number")
        })
        .collect();
    assert!(
        steps.len() >= 2 && steps.is_sorted_by(|a, b| a < b),
        "{steps:?}"
    );
}

/// A cancellation or a timeout of the call cancels the task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_ends_early_ends_its_task() {
    for kind in [BackendKind::Stdio, BackendKind::Http] {
        let backend = Backend::start(kind, TASKS)
            .await
            .option("timeout", 1000)
            .option("maxTimeoutMs", 1500);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let request = client.request_text(
            "tools/call",
            &json!({"name": "x__task", "arguments": {"ms": 600_000}}).to_string(),
        );
        let id = crate::client::value(&request)["id"].clone();
        let call = client.post(request);
        let cancel = async {
            backend.until_count("tasks/get", 1).await;
            client.cancel(&id).await;
        };
        soon("a cancelled call", async { tokio::join!(call, cancel) }).await;
        backend.until_count("tasks/cancel", 1).await;

        let late_result = client.call("x__task", json!({"ms": 600_000})).await;
        assert_eq!(
            failure(&late_result)["kind"],
            "call_timeout",
            "{late_result}"
        );
        backend.until_count("tasks/cancel", 2).await;
    }
}

/// If the server dies, the outcome of the task is unknown. The call is not repeated (invariant 6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_lost_is_an_unknown_outcome() {
    let backend = Backend::start(BackendKind::Stdio, TASKS).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (client, other_client) = (gateway.client().await, gateway.client().await);
    let call = client.call("x__task", json!({"ms": 600_000}));
    let crash = async {
        backend.until_count("tasks/get", 2).await;
        other_client.call("x__crash", json!({})).await
    };
    let (lost_result, _) = soon("a lost task", async { tokio::join!(call, crash) }).await;
    assert_eq!(
        failure(&lost_result)["kind"],
        "outcome_unknown",
        "{lost_result}"
    );
    assert_eq!(task_count(&backend), 1);
}

/// A task survives a lost connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_outlives_its_connection() {
    let (backend, gate) = Backend::gated(BackendKind::Http, TASKS).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let call = client.call("x__task", json!({"ms": 500}));
    let trouble = async {
        backend.until_count("tasks/get", 1).await;
        gate.set(GateMode::Reset).await.expect("the gate stands");
        until("a refusal", || !gate.refusals().is_empty()).await;
        gate.set(GateMode::Forward).await.expect("the gate stands");
    };
    let (final_result, ()) = soon("a task", async { tokio::join!(call, trouble) }).await;
    assert_eq!(text(&final_result), "the task is done");
    assert_eq!(task_count(&backend), 1);
}
