//! Document 003 with the preset `desktop`: servers start and stop only by hand.

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

async fn start_with_preset(servers: &[(&str, &Backend)]) -> Gateway {
    super::start_with_preset("desktop", servers).await
}

/// A person starts, uses, stops and restarts a server (C3, C11, C13).
#[tokio::test]
async fn a_server_is_started_used_and_stopped() {
    let backend = Backend::stdio().await.option("autoStart", false);
    let gateway = start_with_preset(&[("x", &backend)]).await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    assert_eq!(rest.server("x").await["status"], "disconnected");

    let start_answer = rest.done("x", "start").await;
    assert_eq!(
        (&start_answer["success"], &start_answer["status"]),
        (&json!(true), &json!("connected")),
        "{start_answer}"
    );
    assert_echo(&rest, "x").await;
    let previous_pid = pid(&client, "x__pid").await;
    // Starting a server that runs succeeds and changes nothing (C3).
    let second_answer = rest.done("x", "start").await;
    assert_eq!(second_answer["status"], "connected", "{second_answer}");
    assert_eq!(
        pid(&client, "x__pid").await,
        previous_pid,
        "the same process"
    );
    let (status, answer) = rest.operate("nobody", "start").await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::NOT_FOUND, &json!("server_not_found")),
        "{answer}"
    );

    let restart_answer = rest.done("x", "restart").await;
    assert_eq!(restart_answer["status"], "connected", "{restart_answer}");
    assert_ne!(
        pid(&client, "x__pid").await,
        previous_pid,
        "another process"
    );
    let events = server_events(&rest, "x").await;
    assert_eq!(
        kinds(&events),
        [
            "server_connected",
            "server_disconnected",
            "server_connected"
        ]
    );
    let stop_event = events
        .iter()
        .find(|(kind, _)| kind == "server_disconnected");
    assert_eq!(stop_event.expect("it is there").1["wasIntentional"], true);

    for _ in 0..2 {
        let stop_answer = rest.done("x", "stop").await;
        assert_eq!(
            (&stop_answer["status"], &stop_answer["tools"]),
            (&json!("disconnected"), &json!([])),
            "{stop_answer}"
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
            .is_some_and(|text| text.contains("'x'")),
        "{answer}"
    );
}

/// Servers with `autoStart` start together with Mainstay (C14, A19–A21).
#[tokio::test]
async fn auto_start_servers_start_with_mainstay() {
    let (starting_backend, waiting_backend) = (
        Backend::stdio().await,
        Backend::stdio().await.option("autoStart", false),
    );
    let disabled_backend = Backend::stdio().await.option("enabled", false);
    let gateway = start_with_preset(&[
        ("starts", &starting_backend),
        ("waits", &waiting_backend),
        ("off", &disabled_backend),
    ])
    .await;
    let rest = gateway.rest();
    rest.until_status("starts", "connected").await;
    for name in ["waits", "off"] {
        assert_eq!(rest.server(name).await["status"], "disconnected", "{name}");
    }
    assert_eq!(
        (
            waiting_backend.received().len(),
            disabled_backend.received().len()
        ),
        (0, 0)
    );
}

/// A crash is counted and reported. The server is not started again (C7, C9, C10).
#[tokio::test]
async fn a_crash_is_counted_and_left_to_a_person() {
    let backend = Backend::stdio().await;
    let gateway = start_with_preset(&[("x", &backend)]).await;
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

/// A failed start has a reason (C6, K8).
#[tokio::test]
async fn a_failed_start_has_a_reason() {
    let mut missing_backend = Backend::stdio().await;
    missing_backend.entry = json!({"command": "no-such-command-anywhere"});
    let dying_backend = Backend::start(
        BackendKind::Stdio,
        &["--crash-at-start", "7", "--stderr", "no licence found"],
    )
    .await;
    let gateway =
        start_with_preset(&[("missing", &missing_backend), ("dying", &dying_backend)]).await;
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
                .is_some_and(|text| text.contains(reason)),
            "{answer}"
        );
        let server = rest.server(name).await;
        assert_eq!(server["status"], "error", "{server}");
        assert!(
            server["lastError"]
                .as_str()
                .is_some_and(|text| text.contains(reason)),
            "{server}"
        );
    }
    assert!(
        rest.server("dying").await["stderr"]
            .to_string()
            .contains("no licence found")
    );
}

/// After a failure of the network, a remote server stays disconnected.
#[tokio::test]
async fn a_network_that_fails_is_a_disconnect() {
    for kind in [BackendKind::Http, BackendKind::Sse] {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = start_with_preset(&[("x", &backend)]).await;
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

/// Tools are listed once after the start, and only for servers that run (J3, J5, J6).
#[tokio::test]
async fn tools_are_read_once_and_go_with_their_server() {
    let (first_backend, second_backend) = (Backend::stdio().await, Backend::http().await);
    let gateway = start_with_preset(&[("one", &first_backend), ("two", &second_backend)]).await;
    let rest = gateway.rest();
    for server in ["one", "two"] {
        rest.until(server, "listed", |server| server["toolsReady"] == true)
            .await;
    }
    let all_response = rest.get("/api/mcp-tools").await["tools"].clone();
    let tool_count = |server: &str, all_response: &Value| {
        let tools = all_response.as_array().expect("a list").iter();
        tools.filter(|tool| tool["server"] == server).count()
    };
    assert!(tool_count("one", &all_response) > 20 && tool_count("two", &all_response) > 20);
    let echo = &all_response[0];
    assert_eq!(echo["original_name"], "echo");
    assert!(
        echo["description"].is_string() && echo["input_schema"].is_object(),
        "{echo}"
    );
    for _ in 0..3 {
        assert_eq!(rest.get("/api/mcp-tools").await["tools"], all_response);
    }
    assert_eq!(
        (
            first_backend.count("tools/list"),
            second_backend.count("tools/list")
        ),
        (1, 1)
    );

    rest.done("one", "stop").await;
    let remaining_response = rest.get("/api/mcp-tools").await["tools"].clone();
    assert_eq!(
        (
            tool_count("one", &remaining_response),
            tool_count("two", &remaining_response)
        ),
        (0, tool_count("two", &all_response))
    );
    assert_eq!(tools(&rest, "one").await, Vec::<String>::new());
    rest.done("one", "start").await;
    assert_eq!(
        (
            tool_count("one", &rest.get("/api/mcp-tools").await["tools"]),
            first_backend.count("tools/list")
        ),
        (tool_count("one", &all_response), 2)
    );
}

/// Starts a server with two legal tool names and three illegal ones.
async fn start_oddly_named() -> Backend {
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

/// Only names that match `^[a-zA-Z0-9_-]{1,64}$` are exposed. The log names the hidden tools (J12,
/// Y4).
#[tokio::test]
async fn tools_of_illegal_names_are_hidden() {
    let backend = start_oddly_named().await;
    let settings = json!({"preset": "desktop", "ownTools": ["meta", "external"], "profiles": {"bare": {"naming": "none"}}});
    let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    assert_echo(&rest, "x").await;
    let long_text = "x".repeat(65);
    let is_hidden = |tool: &String| {
        tool.contains("read file")
            || tool.contains("read/file")
            || tool.contains("xxx")
            || tool.contains("read_file")
    };

    let transparent_client = gateway.client_at("/servers/x/mcp").await;
    let modern = Modern::at(&gateway, "/servers/x/mcp");
    let modern = names(&modern.result("tools/list", json!({})).await["tools"]);
    for (door, listed_tools) in [
        ("/mcp", client.tools().await),
        (
            "/mcp/bare",
            gateway.client_at("/mcp/bare").await.tools().await,
        ),
        ("/servers/x/mcp", transparent_client.tools().await),
        ("/servers/x/mcp of 2026-07-28", modern),
        (
            "stdio",
            names(&gateway.pipe().await.result("tools/list", json!({})).await["tools"]),
        ),
        ("/api/mcp-tools", tools(&rest, "x").await),
    ] {
        let legal_tools = listed_tools
            .iter()
            .filter(|tool| tool.contains("read-file") || tool.contains("ReadFile123"));
        assert_eq!(legal_tools.count(), 2, "{door}: {listed_tools:?}");
        assert!(
            !listed_tools.iter().any(is_hidden),
            "{door}: {listed_tools:?}"
        );
    }
    let matching_result = client
        .call_text("search_tools", json!({"query": "read file"}))
        .await;
    assert!(
        matching_result.contains("read-file") && !matching_result.contains("read file\""),
        "{matching_result}"
    );

    for tool in [
        "x/read file",
        "x__read file",
        "mcp__x__read/file",
        &format!("x/{long_text}"),
    ] {
        client.error("tools/call", json!({"name": tool})).await;
        let (status, answer) = call(&rest, tool, json!({})).await;
        assert_ne!(status, StatusCode::OK, "{tool}: {answer}");
        let external_result = client
            .call("external_call_tool", json!({"tool": tool}))
            .await;
        assert_eq!(
            external_result["isError"], true,
            "{tool}: {external_result}"
        );
    }
    let (status, answer) = call(&rest, "x/read file", json!({})).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::NOT_FOUND, &json!("tool_not_found"))
    );
    transparent_client
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
        json!(["read file", "read/file", long_text]),
        "{server}"
    );
    assert_eq!(server["hiddenToolCount"], 3, "{server}");
    assert_eq!(
        server["toolCount"],
        tools(&rest, "x").await.len(),
        "{server}"
    );
}

/// If names need not be strict, tools get legal aliases. A reload applies the setting (Y4).
#[tokio::test]
async fn names_need_not_be_strict() {
    let backend = start_oddly_named().await;
    let file = File::with_servers(&[("x", &backend)]);
    let loose_settings = json!({"preset": "desktop", "strictToolNames": false});
    file.write_with(&[("x", &backend)], loose_settings);
    let gateway = file.run().await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    assert_echo(&rest, "x").await;
    let all_tools = tools(&rest, "x").await;
    assert!(
        all_tools.contains(&"x/read file".to_owned()),
        "{all_tools:?}"
    );
    assert_eq!(
        client.call_text("x/read file", json!({})).await,
        "read file"
    );
    assert_eq!(rest.server("x").await["hiddenToolCount"], 0);

    file.write_with(&[("x", &backend)], json!({"preset": "desktop"}));
    reload(&gateway).await;
    assert_eq!(tools(&rest, "x").await.len(), all_tools.len() - 3);
    assert_eq!(rest.server("x").await["hiddenToolCount"], 3);
    client
        .error("tools/call", json!({"name": "x/read file"}))
        .await;
}

/// Calls end with a result, an error, or the timeout (K3, K5, K8).
#[tokio::test]
async fn calls_end_with_a_result_or_a_reason() {
    let backend = Backend::stdio().await.option("timeout", 1000);
    let gateway = start_with_preset(&[("x", &backend)]).await;
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
    let timeout_answer =
        json!({"success": false, "error": "JSON-RPC request timeout after 1000ms"});
    assert_eq!((status, &answer), (StatusCode::OK, &timeout_answer));
    let call_count = async || backend.of_method("tools/call").len();
    let calls_before = call_count().await;
    let stop_task = async {
        let is_sent = async || (call_count().await > calls_before).then_some(());
        found("the call", is_sent).await;
        rest.done("x", "stop").await;
    };
    let (answer, ()) = tokio::join!(rest.post(execute, json!({})), stop_task);
    assert_eq!(answer.1["error"], "Server x is stopping", "{}", answer.1);
    rest.done("x", "start").await;
    assert_echo(&rest, "x").await;
}

/// For invalid arguments, the client gets the server's own error, with its text and code. The
/// server still runs.
#[tokio::test]
async fn invalid_arguments_are_an_error() {
    let backend = Backend::stdio().await;
    let gateway = start_with_preset(&[("x", &backend)]).await;
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

/// A listener receives status changes (I8).
#[tokio::test]
async fn a_change_of_status_is_told() {
    let backend = Backend::stdio().await;
    let gateway = start_with_preset(&[("x", &backend)]).await;
    let (client, rest) = (gateway.client().await, gateway.rest());
    kill(&pid(&client, "x__pid").await);
    let events = until_event(&rest, "x", "server_failed").await;
    assert_eq!(
        kinds(&events),
        ["server_connected", "server_disconnected", "server_failed"]
    );
    assert_eq!(events.last().expect("it is there").1["status"], "crashed");
}
