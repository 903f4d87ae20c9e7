//! At `/servers/NAME/mcp` no client can use the names of another client's tasks, of both kinds, or of its calls
//! that wait for answers.

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
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A gateway in front of one server `x`, and the tokens of two clients.
struct BoundGateway {
    gateway: Gateway,
    mine: String,
    other: String,
}

impl BoundGateway {
    async fn in_front_of(entry: Value) -> Self {
        let all = json!({"mcpServers": {"x": entry}});
        Self::with_config(&all).await
    }

    async fn with_config(all: &Value) -> Self {
        let tokens = Tokens::from(Secret::new(TOKEN));
        let token = |name| tokens.add(name, None).expect("added").0.expose().to_owned();
        let (mine, other) = (token("mine"), token("other"));
        let gateway =
            Gateway::guarded(all, GatewayOptions::default(), tokens, |address| address).await;
        Self {
            gateway,
            mine,
            other,
        }
    }

    fn modern(&self, path: &str, token: &str) -> Modern {
        let able =
            json!({"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}, "sampling": {}});
        let mut client = Modern::at(&self.gateway, path).able(able);
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

/// The extension of 2026-07-28: by the client's name of a task, and by the server's own name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_at_one_server_is_its_principals() {
    for kind in [BackendKind::Stdio, BackendKind::Http] {
        let backend = Backend::start(kind, TASKS).await;
        let world = BoundGateway::with_config(&config(&[("x", &backend)], json!({}))).await;
        let mine = world.modern("/servers/x/mcp", &world.mine);
        let arguments = json!({"ms": 300});
        let name = id(&mine.call("task", arguments).await);
        let original_name = name.rsplit('/').next().expect("a name").to_owned();
        for token in [&world.other, &TOKEN.to_owned()] {
            let other = world.modern("/servers/x/mcp", token);
            for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                for named in [&name, &original_name] {
                    let params = json!({"taskId": named, "inputResponses": {}});
                    let (_, error) = other.error(method, params).await;
                    assert_eq!(error["code"], -32602, "{method} {named}");
                }
                assert_eq!(backend.count(method), 0);
            }
            let filter = json!({"notifications": {"taskIds": [name, original_name]}});
            let mut stream = other.begin("subscriptions/listen", filter).await;
            let acknowledged = stream.message().await;
            let honoured = &acknowledged["params"]["notifications"]["taskIds"];
            assert!(
                honoured.as_array().is_none_or(Vec::is_empty),
                "{acknowledged}"
            );
        }
        let filter = json!({"notifications": {"taskIds": [name]}});
        let mut stream = mine.begin("subscriptions/listen", filter).await;
        let honoured = &stream.message().await["params"]["notifications"]["taskIds"];
        assert_eq!(*honoured, json!([name]));
        let done = async {
            loop {
                let task = mine.result("tasks/get", json!({"taskId": name})).await;
                assert_eq!(task["taskId"], name, "{task}");
                if task["status"] == "completed" {
                    return task;
                }
            }
        };
        let done = soon("the task", done).await;
        assert_eq!(text(&done["result"]), "the task is done");
        // Over other transports the task may end before the stream is open.
        if kind == BackendKind::Http {
            let task = id(&mine.call("task", json!({"ms": 300, "ask": true})).await);
            let filter = json!({"notifications": {"taskIds": [task]}});
            let mut stream = mine.begin("subscriptions/listen", filter).await;
            stream.message().await;
            let news = soon("news", stream.message()).await;
            assert_eq!(news["params"]["taskId"], task, "{news}");
            let cancelled = json!({"taskId": task});
            mine.result("tasks/cancel", cancelled).await;
        }
        // The endpoint of all servers has the same task.
        let everywhere = world.modern("/mcp", &world.mine);
        let task = everywhere
            .result("tasks/get", json!({"taskId": name}))
            .await;
        assert_eq!(task["status"], "completed");
    }
}

/// The state of a modern server's call: sent to its own endpoint, to that of all servers, and by a client with
/// a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_servers_state_is_its_principals() {
    let backend = Backend::start(BackendKind::Http, &["--revisions", "2026-07-28"]).await;
    let world = BoundGateway::with_config(&config(&[("x", &backend)], json!({}))).await;
    for (path, tool) in [
        ("/servers/x/mcp", "ask_in_turn"),
        ("/mcp", "x__ask_in_turn"),
    ] {
        let mine = world.modern(path, &world.mine);
        let params = json!({"name": tool, "arguments": {}});
        let required = mine.result("tools/call", params.clone()).await;
        let questions = required["inputRequests"].as_object().expect("questions");
        let (key, _) = questions.iter().next().expect("a question");
        let mut next = params;
        next["inputResponses"][key] = json!({"action": "accept", "content": {"name": "Ada"}});
        let state = required["requestState"]
            .as_str()
            .expect("a state")
            .to_owned();
        let calls = backend.count("tools/call");
        let original_state = state
            .split_once('/')
            .map_or(&*state, |(_, original)| original);
        for stolen in [&*state, original_state] {
            next["requestState"] = stolen.into();
            for token in [&world.other, &TOKEN.to_owned()] {
                let other = world.modern(path, token);
                let (_, error) = other.error("tools/call", next.clone()).await;
                assert_eq!(error["code"], -32602, "{path} {stolen}: {error}");
            }
        }
        assert_eq!(backend.count("tools/call"), calls, "{path}");
        // A client with a session has no states. A state that it sends is not passed on.
        if path.starts_with("/servers") {
            let legacy = world.legacy(&world.other).await;
            let text = legacy.request_text("tools/call", &next.to_string());
            let answered = legacy.begin(text);
            let mut stream = soon("a question", answered).await;
            let question = stream.message().await;
            assert!(question["method"].is_string(), "{question}");
            let sent = backend.of_method("tools/call").pop().expect("a call");
            assert!(sent["params"].get("requestState").is_none(), "{sent}");
        }
        next["requestState"] = state.into();
        let going_on = mine.result("tools/call", next).await;
        assert_eq!(going_on["resultType"], "input_required", "{going_on}");
    }
}

/// A server of 2025-11-25 with tasks, and the messages that it received.
async fn tasks_of_2025() -> (Value, Arc<Mutex<Vec<Value>>>) {
    let received = Arc::new(Mutex::new(Vec::<Value>::new()));
    let messages = Arc::clone(&received);
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
        let related = |name: &Value| json!({RELATED: {"taskId": name}});
        let response = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        let one = |result: Value| {
            let response = response(result).to_string();
            Some(rogue::http("application/json", &response))
        };
        match method {
            "initialize" => one(json!({
                "protocolVersion": LATEST,
                "capabilities": {"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}},
                "serverInfo": {"name": "tasks", "version": "1"},
            })),
            "tools/call" if params["task"].is_object() => {
                let name = format!("t-{calls}");
                let status = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task(&name)});
                let question = json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {
                    "message": "?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": related(&json!(name)),
                }});
                let created = response(json!({"task": task(&name)}));
                let events = [status, question, created].map(|message| rogue::event(&message));
                Some(rogue::http("text/event-stream", &events.concat()))
            }
            "tools/call" => one(json!({"content": [], "structuredContent": {"taskId": "t-1"}})),
            "tasks/get" | "tasks/cancel" => one(task(params["taskId"].as_str().expect("a name"))),
            "tasks/result" => one(json!({"content": [], "_meta": related(&params["taskId"])})),
            "tasks/list" => {
                let all = (1..=calls).map(|number| task(&format!("t-{number}")));
                one(json!({"tasks": all.collect::<Vec<_>>()}))
            }
            _ => None,
        }
    };
    let entry = rogue::start_scripted(move |input| match input {
        RogueInput::Message(message) => answer(message).map(RogueReply::Http),
        RogueInput::Rest(_) => None,
    })
    .await;
    (entry, received)
}

/// Tasks of 2025-11-25, in isolated sessions: every message that names one, in both directions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_a_session_is_its_principals() {
    let (entry, received) = tasks_of_2025().await;
    let world = BoundGateway::in_front_of(entry).await;
    let (mine, other) = (
        world.legacy(&world.mine).await,
        world.legacy(&world.other).await,
    );
    let begin = json!({"name": "act", "arguments": {}, "task": {"ttl": 1000}});
    let mut stream = mine.listen().await;
    let texts = mine.exchange("tools/call", &begin.to_string()).await;
    let messages: Vec<Value> = texts.iter().map(|text| value(text)).collect();
    let [question, created] = &messages[..] else {
        panic!("{messages:?}");
    };
    let status = stream.message().await;
    assert_eq!(status["method"], "notifications/tasks/status");
    let name = id(&created["result"]["task"]);
    assert_eq!(id(&status["params"]), name);
    assert_eq!(id(&question["params"]["_meta"][RELATED]), name);
    other.request("tools/call", begin).await;

    let sent = |method: &str| {
        let received = received.lock().expect("no panic");
        let of_method = received
            .iter()
            .filter(|message| message["method"] == method);
        of_method.cloned().collect::<Vec<_>>()
    };
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        for named in [&*name, "t-1", "t-2"] {
            let error = other.error(method, json!({"taskId": named})).await;
            assert_eq!(error["code"], -32602, "{method} {named}");
        }
        assert!(sent(method).is_empty(), "{method}");
        let doubled = format!(r#"{{"taskId":"{name}","taskId":"t-2"}}"#);
        let refused = value(&mine.ask(method, &doubled).await);
        assert_eq!(refused["error"]["code"], -32602, "{method}");
        let result = mine.result(method, json!({"taskId": name})).await;
        let named = match method {
            "tasks/result" => &result["_meta"][RELATED],
            _ => &result,
        };
        assert_eq!(id(named), name, "{method}");
        assert_eq!(sent(method)[0]["params"]["taskId"], "t-1", "{method}");
    }
    // The server lists all tasks. The client gets its own ones.
    let listed = mine.result("tasks/list", json!({})).await;
    let listed: Vec<String> = listed["tasks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(id)
        .collect();
    assert_eq!(listed, std::slice::from_ref(&name));

    // A message about another client's task.
    let about = |named: &str| json!({"name": "act", "arguments": {}, "_meta": {RELATED: {"taskId": named}}});
    for named in [&*name, "t-1"] {
        let error = other.error("tools/call", about(named)).await;
        assert_eq!(error["code"], -32602, "{named}");
    }
    let result = mine.result("tools/call", about(&name)).await;
    // A text that is no task's name belongs to the server, and is unchanged.
    assert_eq!(result["structuredContent"]["taskId"], "t-1");
    let call = sent("tools/call").pop().expect("a call");
    assert_eq!(call["params"]["_meta"][RELATED]["taskId"], "t-1");
    // The answer to a question in a task is checked, too.
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {
        "action": "decline", "_meta": {RELATED: {"taskId": name}},
    }});
    assert_eq!(mine.post(answer.to_string()).await.status, 202);
    let answered = async {
        loop {
            let received = received.lock().expect("no panic").clone();
            let answer = received.into_iter().find(|message| message["id"] == 7);
            if let Some(answer) = answer {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    let answer = soon("the answer", answered).await;
    assert_eq!(answer["result"]["_meta"][RELATED]["taskId"], "t-1");

    // The same names at the endpoint of clients without a session, with the same server.
    let modern = world.modern("/servers/x/mcp", &world.other);
    for named in [&*name, "t-1"] {
        let (_, error) = modern.error("tasks/get", json!({"taskId": named})).await;
        assert_eq!(error["code"], -32602, "{named}");
    }
}
