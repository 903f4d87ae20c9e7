//! At `/servers/NAME/mcp` a client cannot use the tasks or suspended calls of another client.

use std::sync::{Arc, Mutex};

use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, text, value},
    gateway::{Gateway, config, soon},
    modern::Modern,
    rest_client::TOKEN,
    rogue::{self, RogueInput, RogueReply},
};

const TASKS: &[&str] = &["--revisions", "2026-07-28", "--tasks"];
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const RELATED_TASK_KEY: &str = "io.modelcontextprotocol/related-task";

/// A gateway with one server `x`, and the tokens of two clients.
struct BoundGateway {
    gateway: Gateway,
    mine: String,
    other: String,
}

impl BoundGateway {
    async fn start_gateway(entry: Value) -> Self {
        let config_json = json!({"mcpServers": {"x": entry}});
        Self::with_config(&config_json).await
    }

    async fn with_config(config_json: &Value) -> Self {
        let tokens = Tokens::from(Secret::new(TOKEN));
        let token = |name| tokens.add(name, None).expect("added").0.expose().to_owned();
        let (own_token, other_token) = (token("mine"), token("other"));
        let gateway = Gateway::guarded(config_json, GatewayOptions::default(), tokens, |address| {
            address
        })
        .await;
        Self {
            gateway,
            mine: own_token,
            other: other_token,
        }
    }

    fn modern(&self, path: &str, token: &str) -> Modern {
        let capabilities =
            json!({"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}, "sampling": {}});
        let mut client = Modern::at(&self.gateway, path).able(capabilities);
        client.http.token = Some(token.to_owned());
        client
    }

    async fn legacy(&self, token: &str) -> Http {
        let mut client = self.gateway.stranger("/servers/x/mcp");
        client.token = Some(token.to_owned());
        client
            .initialize_with(&json!({"elicitation": {}, "sampling": {}}))
            .await;
        client
    }
}

fn id(task: &Value) -> String {
    task["taskId"].as_str().expect("a task's name").to_owned()
}

/// Tasks of 2026-07-28, by the id that Mainstay gives them and by the server's id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_at_one_server_is_its_principals() {
    for kind in [BackendKind::Stdio, BackendKind::Http] {
        let backend = Backend::start(kind, TASKS).await;
        let world = BoundGateway::with_config(&config(&[("x", &backend)], json!({}))).await;
        let own_client = world.modern("/servers/x/mcp", &world.mine);
        let arguments = json!({"ms": 300});
        let name = id(&own_client.call("task", arguments).await);
        let original_name = name.rsplit('/').next().expect("a name").to_owned();
        for token in [&world.other, &TOKEN.to_owned()] {
            let other_client = world.modern("/servers/x/mcp", token);
            for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                for task_id in [&name, &original_name] {
                    let params = json!({"taskId": task_id, "inputResponses": {}});
                    let (_, error) = other_client.error(method, params).await;
                    assert_eq!(error["code"], -32602, "{method} {task_id}");
                }
                assert_eq!(backend.count(method), 0);
            }
            let filter = json!({"notifications": {"taskIds": [name, original_name]}});
            let mut stream = other_client.begin("subscriptions/listen", filter).await;
            let acknowledged_message = stream.message().await;
            let honoured_ids = &acknowledged_message["params"]["notifications"]["taskIds"];
            assert!(
                honoured_ids.as_array().is_none_or(Vec::is_empty),
                "{acknowledged_message}"
            );
        }
        let filter = json!({"notifications": {"taskIds": [name]}});
        let mut stream = own_client.begin("subscriptions/listen", filter).await;
        let honoured_ids = &stream.message().await["params"]["notifications"]["taskIds"];
        assert_eq!(*honoured_ids, json!([name]));
        let final_result = async {
            loop {
                let task = own_client
                    .result("tasks/get", json!({"taskId": name}))
                    .await;
                assert_eq!(task["taskId"], name, "{task}");
                if task["status"] == "completed" {
                    return task;
                }
            }
        };
        let final_result = soon("the task", final_result).await;
        assert_eq!(text(&final_result["result"]), "the task is done");
        // Over other transports the task may end before the stream opens.
        if kind == BackendKind::Http {
            let task = id(&own_client
                .call("task", json!({"ms": 300, "ask": true}))
                .await);
            let filter = json!({"notifications": {"taskIds": [task]}});
            let mut stream = own_client.begin("subscriptions/listen", filter).await;
            stream.message().await;
            let news = soon("news", stream.message()).await;
            assert_eq!(news["params"]["taskId"], task, "{news}");
            let cancel_params = json!({"taskId": task});
            own_client.result("tasks/cancel", cancel_params).await;
        }
        // The aggregate endpoint accepts the same task id.
        let aggregate_client = world.modern("/mcp", &world.mine);
        let task = aggregate_client
            .result("tasks/get", json!({"taskId": name}))
            .await;
        assert_eq!(task["status"], "completed");
    }
}

/// The state of a suspended call is accepted from its own client, and refused from others at every
/// endpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_servers_state_is_its_principals() {
    let backend = Backend::start(BackendKind::Http, &["--revisions", "2026-07-28"]).await;
    let world = BoundGateway::with_config(&config(&[("x", &backend)], json!({}))).await;
    for (path, tool) in [
        ("/servers/x/mcp", "ask_in_turn"),
        ("/mcp", "x__ask_in_turn"),
    ] {
        let own_client = world.modern(path, &world.mine);
        let params = json!({"name": tool, "arguments": {}});
        let required_result = own_client.result("tools/call", params.clone()).await;
        let questions = required_result["inputRequests"]
            .as_object()
            .expect("questions");
        let (key, _) = questions.iter().next().expect("a question");
        let mut next_params = params;
        next_params["inputResponses"][key] =
            json!({"action": "accept", "content": {"name": "Ada"}});
        let state = required_result["requestState"]
            .as_str()
            .expect("a state")
            .to_owned();
        let calls = backend.count("tools/call");
        let original_state = state
            .split_once('/')
            .map_or(&*state, |(_, original)| original);
        for state_text in [&*state, original_state] {
            next_params["requestState"] = state_text.into();
            for token in [&world.other, &TOKEN.to_owned()] {
                let other_client = world.modern(path, token);
                let (_, error) = other_client.error("tools/call", next_params.clone()).await;
                assert_eq!(error["code"], -32602, "{path} {state_text}: {error}");
            }
        }
        assert_eq!(backend.count("tools/call"), calls, "{path}");
        // Clients with a session have no such state, so Mainstay drops their `requestState`.
        if path.starts_with("/servers") {
            let legacy = world.legacy(&world.other).await;
            let text = legacy.request_text("tools/call", &next_params.to_string());
            let pending_answer = legacy.begin(text);
            let mut stream = soon("a question", pending_answer).await;
            let question = stream.message().await;
            assert!(question["method"].is_string(), "{question}");
            let sent_result = backend.of_method("tools/call").pop().expect("a call");
            assert!(
                sent_result["params"].get("requestState").is_none(),
                "{sent_result}"
            );
        }
        next_params["requestState"] = state.into();
        let resumed_result = own_client.result("tools/call", next_params).await;
        assert_eq!(
            resumed_result["resultType"], "input_required",
            "{resumed_result}"
        );
    }
}

/// Starts a server of 2025-11-25 with tasks. Also returns the messages that it receives.
async fn tasks_of_2025() -> (Value, Arc<Mutex<Vec<Value>>>) {
    let received_messages = Arc::new(Mutex::new(Vec::<Value>::new()));
    let messages = Arc::clone(&received_messages);
    let answer = move |message: &Value| {
        let (id, params) = (&message["id"], &message["params"]);
        let method = message["method"].as_str().unwrap_or("response");
        let mut messages = messages.lock().expect("no panic");
        messages.push(message.clone());
        let task_calls = messages
            .iter()
            .filter(|call| call["params"]["task"].is_object());
        let calls = task_calls.count();
        drop(messages);
        let task = |name: &str| json!({"taskId": name, "status": "working", "ttl": 1.0});
        let related_meta = |name: &Value| json!({RELATED_TASK_KEY: {"taskId": name}});
        let response = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        let event_reply = |result: Value| {
            let response = response(result).to_string();
            Some(rogue::http("application/json", &response))
        };
        match method {
            "initialize" => event_reply(json!({
                "protocolVersion": LATEST,
                "capabilities": {"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}},
                "serverInfo": {"name": "tasks", "version": "1"},
            })),
            "tools/call" if params["task"].is_object() => {
                let name = format!("t-{calls}");
                let status = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task(&name)});
                let question = json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {
                    "message": "?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": related_meta(&json!(name)),
                }});
                let created_response = response(json!({"task": task(&name)}));
                let events =
                    [status, question, created_response].map(|message| rogue::event(&message));
                Some(rogue::http("text/event-stream", &events.concat()))
            }
            "tools/call" => {
                event_reply(json!({"content": [], "structuredContent": {"taskId": "t-1"}}))
            }
            "tasks/get" | "tasks/cancel" => {
                event_reply(task(params["taskId"].as_str().expect("a name")))
            }
            "tasks/result" => {
                event_reply(json!({"content": [], "_meta": related_meta(&params["taskId"])}))
            }
            "tasks/list" => {
                let all_tasks = (1..=calls).map(|number| task(&format!("t-{number}")));
                event_reply(json!({"tasks": all_tasks.collect::<Vec<_>>()}))
            }
            _ => None,
        }
    };
    let entry = rogue::start_scripted(move |input| match input {
        RogueInput::Message(message) => answer(message).map(RogueReply::Http),
        RogueInput::Rest(_) => None,
    })
    .await;
    (entry, received_messages)
}

/// Tasks of 2025-11-25 in isolated sessions. Covers every message with a task id, in both
/// directions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_a_session_is_its_principals() {
    let (entry, received_messages) = tasks_of_2025().await;
    let world = BoundGateway::start_gateway(entry).await;
    let (own_client, other_client) = (
        world.legacy(&world.mine).await,
        world.legacy(&world.other).await,
    );
    let begin = json!({"name": "act", "arguments": {}, "task": {"ttl": 1000}});
    let mut stream = own_client.listen().await;
    let texts = own_client.exchange("tools/call", &begin.to_string()).await;
    let messages: Vec<Value> = texts.iter().map(|text| value(text)).collect();
    let [question, created_message] = &messages[..] else {
        panic!("{messages:?}");
    };
    let status = stream.message().await;
    assert_eq!(status["method"], "notifications/tasks/status");
    let name = id(&created_message["result"]["task"]);
    assert_eq!(id(&status["params"]), name);
    assert_eq!(id(&question["params"]["_meta"][RELATED_TASK_KEY]), name);
    other_client.request("tools/call", begin).await;

    let sent_ids = |method: &str| {
        let received_messages = received_messages.lock().expect("no panic");
        let method_messages = received_messages
            .iter()
            .filter(|message| message["method"] == method);
        method_messages.cloned().collect::<Vec<_>>()
    };
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        for task_id in [&*name, "t-1", "t-2"] {
            let error = other_client.error(method, json!({"taskId": task_id})).await;
            assert_eq!(error["code"], -32602, "{method} {task_id}");
        }
        assert!(sent_ids(method).is_empty(), "{method}");
        let doubled_text = format!(r#"{{"taskId":"{name}","taskId":"t-2"}}"#);
        let refused_response = value(&own_client.ask(method, &doubled_text).await);
        assert_eq!(refused_response["error"]["code"], -32602, "{method}");
        let result = own_client.result(method, json!({"taskId": name})).await;
        let task_id = match method {
            "tasks/result" => &result["_meta"][RELATED_TASK_KEY],
            _ => &result,
        };
        assert_eq!(id(task_id), name, "{method}");
        assert_eq!(sent_ids(method)[0]["params"]["taskId"], "t-1", "{method}");
    }
    // The server lists all tasks, but the client receives only its own.
    let listed_result = own_client.result("tasks/list", json!({})).await;
    let listed_result: Vec<String> = listed_result["tasks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(id)
        .collect();
    assert_eq!(listed_result, std::slice::from_ref(&name));

    // A message that is related to another client's task is refused.
    let act_params = |task_id: &str| json!({"name": "act", "arguments": {}, "_meta": {RELATED_TASK_KEY: {"taskId": task_id}}});
    for task_id in [&*name, "t-1"] {
        let error = other_client.error("tools/call", act_params(task_id)).await;
        assert_eq!(error["code"], -32602, "{task_id}");
    }
    let result = own_client.result("tools/call", act_params(&name)).await;
    // An unknown task id in a result is not changed.
    assert_eq!(result["structuredContent"]["taskId"], "t-1");
    let call = sent_ids("tools/call").pop().expect("a call");
    assert_eq!(call["params"]["_meta"][RELATED_TASK_KEY]["taskId"], "t-1");
    // An answer to a question of a task is checked in the same way.
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {
        "action": "decline", "_meta": {RELATED_TASK_KEY: {"taskId": name}},
    }});
    assert_eq!(own_client.post(answer.to_string()).await.status, 202);
    let answer_wait = async {
        loop {
            let received_messages = received_messages.lock().expect("no panic").clone();
            let answer = received_messages
                .into_iter()
                .find(|message| message["id"] == 7);
            if let Some(answer) = answer {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    let answer = soon("the answer", answer_wait).await;
    assert_eq!(answer["result"]["_meta"][RELATED_TASK_KEY]["taskId"], "t-1");

    // Clients without a session cannot use these ids either.
    let modern = world.modern("/servers/x/mcp", &world.other);
    for task_id in [&*name, "t-1"] {
        let (_, error) = modern.error("tasks/get", json!({"taskId": task_id})).await;
        assert_eq!(error["code"], -32602, "{task_id}");
    }
}
