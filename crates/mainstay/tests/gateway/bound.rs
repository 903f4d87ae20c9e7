//! No client can name what belongs to another at `/servers/NAME/mcp`: tasks of both kinds, and the
//! states of calls that wait for answers.

use std::sync::{Arc, Mutex};

use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, Kind},
    client::{Http, LATEST, text, value},
    gateway::{Gateway, config, soon},
    modern::Modern,
    rest_client::TOKEN,
    rogue::{self, Heard, Reply},
};

const TASKS: &[&str] = &["--revisions", "2026-07-28", "--tasks"];
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A gateway in front of one server `x`, and the tokens of two clients.
struct World {
    gateway: Gateway,
    mine: String,
    other: String,
}

impl World {
    async fn before(entry: Value) -> Self {
        let all = json!({"mcpServers": {"x": entry}});
        Self::of(&all).await
    }

    async fn of(all: &Value) -> Self {
        let tokens = Tokens::from(Secret::new(TOKEN));
        let token = |name| tokens.add(name, None).expect("added").0.expose().to_owned();
        let (mine, other) = (token("mine"), token("other"));
        let gateway = Gateway::guarded(all, GatewayOptions::default(), tokens, |it| it).await;
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

/// The extension of 2026-07-28: by the name that its client has, and by the server's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_at_one_server_is_its_principals() {
    for kind in [Kind::Stdio, Kind::Http] {
        let backend = Backend::start(kind, TASKS).await;
        let world = World::of(&config(&[("x", &backend)], json!({}))).await;
        let mine = world.modern("/servers/x/mcp", &world.mine);
        let arguments = json!({"ms": 300});
        let name = id(&mine.call("task", arguments).await);
        let own = name.rsplit('/').next().expect("a name").to_owned();
        for token in [&world.other, &TOKEN.to_owned()] {
            let other = world.modern("/servers/x/mcp", token);
            for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                for named in [&name, &own] {
                    let params = json!({"taskId": named, "inputResponses": {}});
                    let (_, error) = other.error(method, params).await;
                    assert_eq!(error["code"], -32602, "{method} {named}");
                }
                assert_eq!(backend.count(method), 0);
            }
            let wanted = json!({"notifications": {"taskIds": [name, own]}});
            let mut stream = other.begin("subscriptions/listen", wanted).await;
            let acknowledged = stream.message().await;
            let honoured = &acknowledged["params"]["notifications"]["taskIds"];
            assert!(
                honoured.as_array().is_none_or(Vec::is_empty),
                "{acknowledged}"
            );
        }
        let wanted = json!({"notifications": {"taskIds": [name]}});
        let mut stream = mine.begin("subscriptions/listen", wanted).await;
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
        // It may have been done before the stream was heard.
        if kind == Kind::Http {
            let asking = id(&mine.call("task", json!({"ms": 300, "ask": true})).await);
            let wanted = json!({"notifications": {"taskIds": [asking]}});
            let mut stream = mine.begin("subscriptions/listen", wanted).await;
            stream.message().await;
            let news = soon("news", stream.message()).await;
            assert_eq!(news["params"]["taskId"], asking, "{news}");
            let cancelled = json!({"taskId": asking});
            mine.result("tasks/cancel", cancelled).await;
        }
        // At the door of all servers it is the same task.
        let everywhere = world.modern("/mcp", &world.mine);
        let task = everywhere
            .result("tasks/get", json!({"taskId": name}))
            .await;
        assert_eq!(task["status"], "completed");
    }
}

/// A modern server's own state: through its own door, through that of all servers, and out of the mouth
/// of a client with a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_servers_state_is_its_principals() {
    let backend = Backend::start(Kind::Http, &["--revisions", "2026-07-28"]).await;
    let world = World::of(&config(&[("x", &backend)], json!({}))).await;
    for (path, tool) in [
        ("/servers/x/mcp", "ask_in_turn"),
        ("/mcp", "x__ask_in_turn"),
    ] {
        let mine = world.modern(path, &world.mine);
        let params = json!({"name": tool, "arguments": {}});
        let asked = mine.result("tools/call", params.clone()).await;
        let questions = asked["inputRequests"].as_object().expect("questions");
        let (key, _) = questions.iter().next().expect("a question");
        let mut next = params;
        next["inputResponses"][key] = json!({"action": "accept", "content": {"name": "Ada"}});
        let state = asked["requestState"].as_str().expect("a state").to_owned();
        let calls = backend.count("tools/call");
        let own = state.split_once('/').map_or(&*state, |(_, own)| own);
        for stolen in [&*state, own] {
            next["requestState"] = stolen.into();
            for token in [&world.other, &TOKEN.to_owned()] {
                let other = world.modern(path, token);
                let (_, error) = other.error("tools/call", next.clone()).await;
                assert_eq!(error["code"], -32602, "{path} {stolen}: {error}");
            }
        }
        assert_eq!(backend.count("tools/call"), calls, "{path}");
        // A client with a session has no states: what it brings of one is not passed on.
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

/// A server of 2025-11-25 that has tasks, and what it was sent.
async fn tasks_of_2025() -> (Value, Arc<Mutex<Vec<Value>>>) {
    let heard = Arc::new(Mutex::new(Vec::<Value>::new()));
    let kept = Arc::clone(&heard);
    let answer = move |message: &Value| {
        let (id, params) = (&message["id"], &message["params"]);
        let method = message["method"].as_str().unwrap_or("response");
        let mut kept = kept.lock().expect("no panic");
        kept.push(message.clone());
        let begun = kept.iter().filter(|it| it["params"]["task"].is_object());
        let begun = begun.count();
        drop(kept);
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
                let name = format!("t-{begun}");
                let status = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task(&name)});
                let asked = json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {
                    "message": "?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": related(&json!(name)),
                }});
                let created = response(json!({"task": task(&name)}));
                let events = [status, asked, created].map(|it| rogue::event(&it));
                Some(rogue::http("text/event-stream", &events.concat()))
            }
            "tools/call" => one(json!({"content": [], "structuredContent": {"taskId": "t-1"}})),
            "tasks/get" | "tasks/cancel" => one(task(params["taskId"].as_str().expect("a name"))),
            "tasks/result" => one(json!({"content": [], "_meta": related(&params["taskId"])})),
            "tasks/list" => {
                let all = (1..=begun).map(|number| task(&format!("t-{number}")));
                one(json!({"tasks": all.collect::<Vec<_>>()}))
            }
            _ => None,
        }
    };
    let entry = rogue::start_scripted(move |heard| match heard {
        Heard::Message(message) => answer(message).map(Reply::Http),
        Heard::Rest(_) => None,
    })
    .await;
    (entry, heard)
}

/// Tasks of 2025-11-25, in sessions of their own: every place where one is named, in both directions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_a_session_is_its_principals() {
    let (entry, heard) = tasks_of_2025().await;
    let world = World::before(entry).await;
    let (mine, other) = (
        world.legacy(&world.mine).await,
        world.legacy(&world.other).await,
    );
    let begin = json!({"name": "act", "arguments": {}, "task": {"ttl": 1000}});
    let mut unasked = mine.listen().await;
    let said = mine.exchange("tools/call", &begin.to_string()).await;
    let said: Vec<Value> = said.iter().map(|it| value(it)).collect();
    let [asked, created] = &said[..] else {
        panic!("{said:?}");
    };
    let status = unasked.message().await;
    assert_eq!(status["method"], "notifications/tasks/status");
    let name = id(&created["result"]["task"]);
    assert_eq!(id(&status["params"]), name);
    assert_eq!(id(&asked["params"]["_meta"][RELATED]), name);
    other.request("tools/call", begin).await;

    let sent = |method: &str| {
        let heard = heard.lock().expect("no panic");
        let of_method = heard.iter().filter(|it| it["method"] == method);
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
    // The server answers with all tasks; the client's own are shown.
    let listed = mine.result("tasks/list", json!({})).await;
    let listed: Vec<String> = listed["tasks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(id)
        .collect();
    assert_eq!(listed, std::slice::from_ref(&name));

    // A message of another's task.
    let about = |named: &str| json!({"name": "act", "arguments": {}, "_meta": {RELATED: {"taskId": named}}});
    for named in [&*name, "t-1"] {
        let error = other.error("tools/call", about(named)).await;
        assert_eq!(error["code"], -32602, "{named}");
    }
    let result = mine.result("tools/call", about(&name)).await;
    // What is no name of a task is the server's.
    assert_eq!(result["structuredContent"]["taskId"], "t-1");
    let call = sent("tools/call").pop().expect("a call");
    assert_eq!(call["params"]["_meta"][RELATED]["taskId"], "t-1");
    // So is the answer to a question in a task.
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {
        "action": "decline", "_meta": {RELATED: {"taskId": name}},
    }});
    assert_eq!(mine.post(answer.to_string()).await.status, 202);
    let answered = async {
        loop {
            let heard = heard.lock().expect("no panic").clone();
            let answer = heard.into_iter().find(|it| it["id"] == 7);
            if let Some(answer) = answer {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    let answer = soon("the answer", answered).await;
    assert_eq!(answer["result"]["_meta"][RELATED]["taskId"], "t-1");

    // The same names at the endpoint of clients without a session, in front of the same server.
    let modern = world.modern("/servers/x/mcp", &world.other);
    for named in [&*name, "t-1"] {
        let (_, error) = modern.error("tasks/get", json!({"taskId": named})).await;
        assert_eq!(error["code"], -32602, "{named}");
    }
}
