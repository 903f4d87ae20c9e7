//! Document 003 under `desktop`: a person starts and stops servers. No server returns by itself.

use http::StatusCode;
use serde_json::{Value, json};

use super::{assert_echo, call, kinds, server_events, tools, until_event, until_unlisted};
use crate::{
    backend::{Backend, BackendKind},
    client::names,
    gateway::{Gateway, found},
    loss::{kill, pid},
    modern::Modern,
    reloading::{File, reload},
};

async fn under(servers: &[(&str, &Backend)]) -> Gateway {
    super::under("desktop", servers).await
}

/// C3, C11, C13: a person starts, uses, stops and restarts a server.
#[tokio::test]
async fn a_server_is_started_used_and_stopped() {
    let backend = Backend::stdio().await.option("autoStart", false);
    let gateway = under(&[("x", &backend)]).await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    assert_eq!(rest.server("x").await["status"], "disconnected");

    let started = rest.done("x", "start").await;
    assert_eq!(
        (&started["success"], &started["status"]),
        (&json!(true), &json!("connected")),
        "{started}"
    );
    assert_echo(&rest, "x").await;
    let before = pid(&client, "x__pid").await;
    // C3: a start of a running server changes nothing, and is no error.
    let again = rest.done("x", "start").await;
    assert_eq!(again["status"], "connected", "{again}");
    assert_eq!(pid(&client, "x__pid").await, before, "the same process");
    let (status, answer) = rest.operate("nobody", "start").await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::NOT_FOUND, &json!("server_not_found")),
        "{answer}"
    );

    let restarted = rest.done("x", "restart").await;
    assert_eq!(restarted["status"], "connected", "{restarted}");
    assert_ne!(pid(&client, "x__pid").await, before, "another process");
    let events = server_events(&rest, "x").await;
    assert_eq!(
        kinds(&events),
        [
            "server_connected",
            "server_disconnected",
            "server_connected"
        ]
    );
    let stop = events
        .iter()
        .find(|(kind, _)| kind == "server_disconnected");
    assert_eq!(stop.expect("it is there").1["wasIntentional"], true);

    for _ in 0..2 {
        let stopped = rest.done("x", "stop").await;
        assert_eq!(
            (&stopped["status"], &stopped["tools"]),
            (&json!("disconnected"), &json!([])),
            "{stopped}"
        );
    }
    assert!(rest.server("x").await["pid"].is_null());
    let (status, answer) = call(&rest, "x/echo", json!({})).await;
    assert_eq!(
        (status, &answer["error"]),
        (
            StatusCode::SERVICE_UNAVAILABLE,
            &json!("server_not_connected")
        ),
        "{answer}"
    );
    assert!(
        answer["message"]
            .as_str()
            .is_some_and(|words| words.contains("'x'")),
        "{answer}"
    );
}

/// C14, A19–A21.
#[tokio::test]
async fn who_is_to_be_started_is_started_with_us() {
    let (starts, waits) = (
        Backend::stdio().await,
        Backend::stdio().await.option("autoStart", false),
    );
    let off = Backend::stdio().await.option("enabled", false);
    let gateway = under(&[("starts", &starts), ("waits", &waits), ("off", &off)]).await;
    let rest = gateway.rest();
    rest.until_status("starts", "connected").await;
    for name in ["waits", "off"] {
        assert_eq!(rest.server(name).await["status"], "disconnected", "{name}");
    }
    assert_eq!((waits.received().len(), off.received().len()), (0, 0));
}

/// C7, C9, C10: a crash is counted and reported. A restart is left to a person.
#[tokio::test]
async fn a_crash_is_counted_and_left_to_a_person() {
    let backend = Backend::stdio().await;
    let gateway = under(&[("x", &backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    for crashes in 1..=2 {
        kill(&pid(&client, "x__pid").await);
        let server = rest.until_status("x", "crashed").await;
        assert_eq!(server["crashCount"], crashes, "{server}");
        assert_eq!(server["exitSignal"], 9, "{server}");
        assert!(
            server["lastCrashAt"].is_string() && server["nextRetryMs"].is_null(),
            "{server}"
        );
        assert_eq!(
            server["lastError"],
            "process exited unexpectedly (signal 9)"
        );
        until_unlisted(&client, &rest, "x").await;
        let (status, answer) = call(&rest, "x/echo", json!({})).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
        assert_eq!(backend.count("initialize"), crashes, "no call starts it");
        rest.done("x", "start").await;
        assert_echo(&rest, "x").await;
    }
}

/// C6, K8: the reason of a failed start is shown.
#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let mut missing = Backend::stdio().await;
    missing.entry = json!({"command": "no-such-command-anywhere"});
    let dying = Backend::start(
        BackendKind::Stdio,
        &["--crash-at-start", "7", "--stderr", "no licence found"],
    )
    .await;
    let gateway = under(&[("missing", &missing), ("dying", &dying)]).await;
    let rest = gateway.rest();
    for (name, reason) in [
        ("missing", "command not found: no-such-command-anywhere"),
        ("dying", "code 7"),
    ] {
        rest.until_status(name, "error").await;
        let (status, answer) = rest.operate(name, "start").await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::BAD_GATEWAY, &json!("connect_failed")),
            "{answer}"
        );
        assert!(
            answer["message"]
                .as_str()
                .is_some_and(|words| words.contains(reason)),
            "{answer}"
        );
        let server = rest.server(name).await;
        assert_eq!(server["status"], "error", "{server}");
        assert!(
            server["lastError"]
                .as_str()
                .is_some_and(|words| words.contains(reason)),
            "{server}"
        );
    }
    assert!(
        rest.server("dying").await["stderr"]
            .to_string()
            .contains("no licence found")
    );
}

/// A remote server whose network fails is disconnected, and stays disconnected.
#[tokio::test]
async fn a_network_that_fails_is_a_disconnect() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        assert_echo(&rest, "x").await;
        backend.leave(&client).await;
        call(&rest, "x/echo", json!({})).await;
        let server = rest.until_status("x", "disconnected").await;
        assert!(
            server["lastError"].is_string() && server["nextRetryMs"].is_null(),
            "{server}"
        );
        backend.come_back().await;
        rest.done("x", "start").await;
        assert_echo(&rest, "x").await;
    }
}

/// J3, J5, J6: tools are read once after the start, stored, listed for all running servers, and removed at the
/// stop.
#[tokio::test]
async fn tools_are_read_once_and_go_with_their_server() {
    let (one, two) = (Backend::stdio().await, Backend::http().await);
    let gateway = under(&[("one", &one), ("two", &two)]).await;
    let rest = gateway.rest();
    for server in ["one", "two"] {
        rest.until(server, "listed", |server| server["toolsReady"] == true)
            .await;
    }
    let all = rest.get("/api/mcp-tools").await["tools"].clone();
    let tool_count = |server: &str, all: &Value| {
        let tools = all.as_array().expect("a list").iter();
        tools.filter(|tool| tool["server"] == server).count()
    };
    assert!(tool_count("one", &all) > 20 && tool_count("two", &all) > 20);
    let echo = &all[0];
    assert_eq!(echo["original_name"], "echo");
    assert!(
        echo["description"].is_string() && echo["input_schema"].is_object(),
        "{echo}"
    );
    for _ in 0..3 {
        assert_eq!(rest.get("/api/mcp-tools").await["tools"], all);
    }
    assert_eq!((one.count("tools/list"), two.count("tools/list")), (1, 1));

    rest.done("one", "stop").await;
    let left = rest.get("/api/mcp-tools").await["tools"].clone();
    assert_eq!(
        (tool_count("one", &left), tool_count("two", &left)),
        (0, tool_count("two", &all))
    );
    assert_eq!(tools(&rest, "one").await, Vec::<String>::new());
    rest.done("one", "start").await;
    assert_eq!(
        (
            tool_count("one", &rest.get("/api/mcp-tools").await["tools"]),
            one.count("tools/list")
        ),
        (tool_count("one", &all), 2)
    );
}

/// A server with two tools whose names document 003 allows, and three others.
async fn oddly_named() -> Backend {
    let names = [
        "read-file",
        "ReadFile123",
        "read file",
        "read/file",
        &"x".repeat(65),
    ];
    let tools =
        names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}).to_string());
    let flags: Vec<&str> = tools.iter().flat_map(|tool| ["--tool", tool]).collect();
    Backend::start(BackendKind::Stdio, &flags).await
}

/// J12, Y4: only names that match `^[a-zA-Z0-9_-]{1,64}$` are exposed at every door. Hidden tools are reported.
#[tokio::test]
async fn tools_of_illegal_names_are_hidden() {
    let backend = oddly_named().await;
    let settings = json!({"preset": "desktop", "ownTools": ["meta", "external"], "profiles": {"bare": {"naming": "none"}}});
    let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    assert_echo(&rest, "x").await;
    let long = "x".repeat(65);
    let is_hidden = |tool: &String| {
        tool.contains("read file")
            || tool.contains("read/file")
            || tool.contains("xxx")
            || tool.contains("read_file")
    };

    let transparent = gateway.client_at("/servers/x/mcp").await;
    let modern = Modern::at(&gateway, "/servers/x/mcp");
    let modern = names(&modern.result("tools/list", json!({})).await["tools"]);
    for (door, listed) in [
        ("/mcp", client.tools().await),
        (
            "/mcp/bare",
            gateway.client_at("/mcp/bare").await.tools().await,
        ),
        ("/servers/x/mcp", transparent.tools().await),
        ("/servers/x/mcp of 2026-07-28", modern),
        (
            "stdio",
            names(&gateway.pipe().await.result("tools/list", json!({})).await["tools"]),
        ),
        ("/api/mcp-tools", tools(&rest, "x").await),
    ] {
        let legal = listed
            .iter()
            .filter(|tool| tool.contains("read-file") || tool.contains("ReadFile123"));
        assert_eq!(legal.count(), 2, "{door}: {listed:?}");
        assert!(!listed.iter().any(is_hidden), "{door}: {listed:?}");
    }
    let found = client
        .call_text("search_tools", json!({"query": "read file"}))
        .await;
    assert!(
        found.contains("read-file") && !found.contains("read file\""),
        "{found}"
    );

    for tool in [
        "x/read file",
        "x__read file",
        "mcp__x__read/file",
        &format!("x/{long}"),
    ] {
        client.error("tools/call", json!({"name": tool})).await;
        let (status, answer) = call(&rest, tool, json!({})).await;
        assert_ne!(status, StatusCode::OK, "{tool}: {answer}");
        let external = client
            .call("external_call_tool", json!({"tool": tool}))
            .await;
        assert_eq!(external["isError"], true, "{tool}: {external}");
    }
    let (status, answer) = call(&rest, "x/read file", json!({})).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::NOT_FOUND, &json!("tool_not_found"))
    );
    transparent
        .error("tools/call", json!({"name": "read file"}))
        .await;
    let (_, answer) = rest
        .post("/api/servers/x/tools/read%20file/call", json!({}))
        .await;
    assert_eq!(answer["error"], "Unknown tool: read file", "{answer}");
    assert_eq!(backend.runs("read file") + backend.runs("read/file"), 0);

    let server = rest.server("x").await;
    assert_eq!(
        server["hiddenTools"],
        json!(["read file", "read/file", long]),
        "{server}"
    );
    assert_eq!(server["hiddenToolCount"], 3, "{server}");
    assert_eq!(
        server["toolCount"],
        tools(&rest, "x").await.len(),
        "{server}"
    );
}

/// Y4: without strict names, tools are exposed under legal names. A change of the setting applies at once.
#[tokio::test]
async fn names_need_not_be_strict() {
    let backend = oddly_named().await;
    let file = File::with_servers(&[("x", &backend)]);
    let loose = json!({"preset": "desktop", "strictToolNames": false});
    file.write_with(&[("x", &backend)], loose);
    let gateway = file.run().await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    assert_echo(&rest, "x").await;
    let all = tools(&rest, "x").await;
    assert!(all.contains(&"x/read file".to_owned()), "{all:?}");
    assert_eq!(
        client.call_text("x/read file", json!({})).await,
        "read file"
    );
    assert_eq!(rest.server("x").await["hiddenToolCount"], 0);

    file.write_with(&[("x", &backend)], json!({"preset": "desktop"}));
    reload(&gateway).await;
    assert_eq!(tools(&rest, "x").await.len(), all.len() - 3);
    assert_eq!(rest.server("x").await["hiddenToolCount"], 3);
    client
        .error("tools/call", json!({"name": "x/read file"}))
        .await;
}

/// K3, K5, K8: unchanged results, the errors of calls, and the time limit of a call.
#[tokio::test]
async fn calls_end_with_a_result_or_a_reason() {
    let backend = Backend::stdio().await.option("timeout", 1000);
    let gateway = under(&[("x", &backend)]).await;
    let rest = gateway.rest();
    let (status, answer) = call(&rest, "x/add", json!({"a": 2, "b": 40})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        answer,
        json!({"result": {"content": [{"type": "text", "text": "42"}]}})
    );
    let (status, answer) = call(&rest, "x/rpc_error", json!({})).await;
    assert_eq!(
        (status, &answer["rpcCode"]),
        (StatusCode::BAD_GATEWAY, &json!(-32050)),
        "{answer}"
    );
    let (status, answer) = call(&rest, "x/add", json!([2, 40])).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_request")),
        "{answer}"
    );
    let (_, answer) = call(&rest, "x/error", json!({})).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(answer["result"]["content"][0]["text"], "the tool failed");
    let (status, answer) = call(&rest, "x/hang", json!({})).await;
    assert_eq!(
        (status, &answer["message"]),
        (StatusCode::GATEWAY_TIMEOUT, &json!("timeout after 1s")),
        "{answer}"
    );
    let execute = "/api/servers/x/tools/hang/call";
    let (status, answer) = rest.post(execute, json!({})).await;
    let words = json!({"success": false, "error": "JSON-RPC request timeout after 1000ms"});
    assert_eq!((status, &answer), (StatusCode::OK, &words));
    let in_flight = async || backend.of_method("tools/call").len();
    let before = in_flight().await;
    let stopping = async {
        let sent = async || (in_flight().await > before).then_some(());
        found("the call", sent).await;
        rest.done("x", "stop").await;
    };
    let (answer, ()) = tokio::join!(rest.post(execute, json!({})), stopping);
    assert_eq!(answer.1["error"], "Server x is stopping", "{}", answer.1);
    rest.done("x", "start").await;
    assert_echo(&rest, "x").await;
}

/// Arguments that the tool's schema forbids are an error, and so are arguments that are no object. The server
/// itself judges the schema, and its text and code reach the caller. The server continues to work.
#[tokio::test]
async fn invalid_arguments_are_an_error() {
    let backend = Backend::stdio().await;
    let gateway = under(&[("x", &backend)]).await;
    let rest = gateway.rest();
    let (status, answer) = call(&rest, "x/add", json!({"a": "two", "b": 40})).await;
    assert_eq!(
        (status, &answer["rpcCode"]),
        (StatusCode::BAD_GATEWAY, &json!(-32602)),
        "{answer}"
    );
    let message = answer["message"].as_str().expect("words");
    assert!(message.contains("a and b must be numbers"), "{answer}");
    let (status, answer) = call(&rest, "x/add", json!("two")).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_request")),
        "{answer}"
    );
    let (status, answer) = call(&rest, "x/add", json!({"a": 2, "b": 40})).await;
    assert_eq!(
        (status, &answer["result"]["content"][0]["text"]),
        (StatusCode::OK, &json!("42")),
        "{answer}"
    );
}

/// I8: a listener gets the change without polling.
#[tokio::test]
async fn a_change_of_status_is_told() {
    let backend = Backend::stdio().await;
    let gateway = under(&[("x", &backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    kill(&pid(&client, "x__pid").await);
    let events = until_event(&rest, "x", "server_failed").await;
    assert_eq!(
        kinds(&events),
        ["server_connected", "server_disconnected", "server_failed"]
    );
    assert_eq!(events.last().expect("it is there").1["status"], "crashed");
}
