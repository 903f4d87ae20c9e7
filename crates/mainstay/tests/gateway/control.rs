//! Servers are added, replaced, removed, switched and approved at run time
//! (docs/dev/requirements.md, sections A, B, K and M).

use http::StatusCode;
use mainstay_config::Approval;
use serde_json::{Map, Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{LATEST, initialize},
    gateway::{Gateway, soon},
    rest_client::Rest,
    world::{SECRET, TestConfig, entry_with, none, ok, refused},
};

async fn connect(rest: &Rest, body: Value) -> (StatusCode, Value) {
    rest.post("/api/mcp-clients/connect", body).await
}

over_every_transport! {
    /// The answer to a connect request contains the server's tools. Afterwards the server is
    /// listed, and its name is taken (M6, A26).
    async fn a_server_is_connected_and_its_name_is_taken(kind) {
        let world = none();
        let gateway = world.run().await;
        let rest = gateway.rest();
        let client = gateway.client().await;
        let backend = Backend::start(kind, &[]).await;
        let answer = ok(connect(&rest, entry_with(&backend, json!({"name": "new"}))).await);
        assert_eq!((&answer["status"], &answer["name"]), (&json!("ok"), &json!("new")));
        let tools = answer["tools"].as_array().expect("a list");
        assert!(tools.contains(&json!("new/echo")), "{tools:?}");
        client.assert_echo("new__echo").await;
        let answer = connect(&rest, entry_with(&backend, json!({"name": "new"}))).await;
        let answer = refused(StatusCode::CONFLICT, "duplicate_name", answer);
        assert_eq!(answer["name"], "new");
        assert_eq!(rest.server("new").await["ephemeral"], true);
        // The name of a disconnected server is also taken (Y18).
        ok(rest.post("/api/mcp-clients/new/disconnect", json!({})).await);
        let answer = connect(&rest, entry_with(&backend, json!({"name": "new"}))).await;
        refused(StatusCode::CONFLICT, "duplicate_name", answer);
        let answer = ok(rest.delete("/api/mcp-clients/new").await);
        assert_eq!(answer, json!({"status": "ok", "name": "new"}));
        assert_eq!(rest.names().await, Vec::<String>::new());
        let answer = rest.delete("/api/mcp-clients/new").await;
        refused(StatusCode::NOT_FOUND, "server_not_found", answer);
    }

    /// If a replacement cannot connect, the old server stays (Y18).
    async fn a_replacement_that_fails_leaves_what_was_there(kind) {
        let (first, second_backend) = (Backend::start(kind, &[]).await, Backend::start(kind, &[]).await);
        let world = TestConfig::new_json(&json!({"mcpServers": {"one": first.entry}}));
        let gateway = world.run().await;
        let rest = gateway.rest();
        rest.until_status("one", "connected").await;
        let invalid_entry = json!({"name": "one", "replace": true, "command": "no-such-program-anywhere"});
        let answer = refused(StatusCode::BAD_GATEWAY, "connect_failed", connect(&rest, invalid_entry).await);
        assert_eq!(answer["name"], "one");
        assert!(answer["message"].as_str().is_some_and(|text| text.contains("no-such-program")), "{answer}");
        // The entry that failed is neither stored nor retried.
        let members = ["status", "attempt", "nextRetryMs"].map(|key| &answer[key]);
        assert!(members.iter().all(|member| member.is_null()), "{answer}");
        let client = gateway.client().await;
        client.assert_echo("one__echo").await;
        ok(rest.post("/api/mcp-clients/one/disconnect", json!({})).await);
        let sessions = first.count("initialize");
        let invalid_entry = json!({"name": "one", "replace": true, "command": "no-such-program-anywhere"});
        refused(StatusCode::BAD_GATEWAY, "connect_failed", connect(&rest, invalid_entry).await);
        assert_eq!(rest.server("one").await["status"], "disconnected");
        assert_eq!(first.count("initialize"), sessions, "it was not to be up");
        ok(connect(&rest, entry_with(&second_backend, json!({"name": "one", "replace": true}))).await);
        client.assert_echo("one__echo").await;
        assert_eq!(second_backend.runs("echo"), 1);
        assert_eq!(world.value()["mcpServers"]["one"], first.entry, "the file is not touched");
    }
}

/// An invalid entry is refused and not stored (M6, M13).
#[tokio::test]
async fn a_server_that_cannot_connect_is_not_stored() {
    let world = none();
    let gateway = world.run().await;
    let rest = gateway.rest();
    for (body, status, error, expected_text) in [
        (
            json!({"command": "x"}),
            400,
            "missing_parameter",
            "\"name\" is missing",
        ),
        (
            json!({"name": "a b", "command": "x"}),
            400,
            "invalid_config",
            "server name",
        ),
        (
            json!({"name": "n"}),
            400,
            "invalid_config",
            "Invalid configuration: Server n: command is required",
        ),
        (
            json!({"name": "n", "command": "x", "args": "y"}),
            400,
            "invalid_config",
            "Invalid configuration: Server n: args must be an array",
        ),
        (
            json!({"name": "n", "command": "x", "timeout": "y"}),
            400,
            "invalid_config",
            "Invalid configuration: Server n: timeout must be a number",
        ),
        (
            json!({"name": "n", "command": "x", "timeout": 1}),
            400,
            "invalid_config",
            "Invalid configuration: Server n: timeout must be between 1000-300000ms",
        ),
        (
            json!({"name": "n", "transport": "sse"}),
            400,
            "invalid_config",
            "Invalid configuration: Server n: url is required",
        ),
        (
            json!({"name": "n", "command": "x", "persist": "yes"}),
            400,
            "invalid_request",
            "persist",
        ),
        (
            json!({"name": "n", "command": "no-such-program-anywhere"}),
            502,
            "connect_failed",
            "no-such-program",
        ),
        (
            json!({"name": "n", "url": "http://127.0.0.1:1/mcp"}),
            502,
            "connect_failed",
            "",
        ),
    ] {
        let answer = connect(&rest, body.clone()).await;
        let status = StatusCode::from_u16(status).expect("a status");
        let answer = refused(status, error, answer);
        let text = answer["message"].as_str().expect("words");
        assert!(text.contains(expected_text), "{body}: {text}");
    }
    assert_eq!(rest.names().await, Vec::<String>::new());
}

/// Each of several concurrent connect requests for one name gets an answer. Only one of them
/// succeeds (W13).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_name_may_be_fought_over() {
    const ROUNDS: usize = 6;
    let world = none();
    let gateway = world.run().await;
    let backend = Backend::stdio().await;
    let client_rounds = async |mine: usize| {
        let rest = gateway.rest();
        for _ in 0..ROUNDS {
            let (status, answer) = match mine % 4 {
                1 => rest.post("/api/mcp-clients/x/disconnect", json!({})).await,
                3 => rest.delete("/api/mcp-clients/x").await,
                _ => connect(&rest, entry_with(&backend, json!({"name": "x"}))).await,
            };
            let expected = [
                "duplicate_name",
                "connect_failed",
                "server_not_found",
                "shutting_down",
            ];
            let error = answer["error"].as_str().unwrap_or_default();
            assert!(
                status == StatusCode::OK || expected.contains(&error),
                "{answer}"
            );
        }
    };
    let all_clients = futures_util::future::join_all((0..6).map(client_rounds));
    soon("everybody", all_clients).await;
    let rest = gateway.rest();
    let (status, answer) = rest.delete("/api/mcp-clients/x").await;
    assert!(
        status == StatusCode::OK || answer["error"] == "server_not_found",
        "{answer}"
    );
    ok(connect(&rest, entry_with(&backend, json!({"name": "x"}))).await);
    let sessions = backend.count("initialize");
    assert_eq!(rest.names().await, ["x"]);
    // Only one process remains (invariant 9).
    gateway.stop().await;
    assert_eq!(backend.count("initialize"), sessions);
}

/// A name becomes free when all processes of its server have ended (invariant 9).
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_comes_back_when_its_processes_have_gone() {
    let world = none();
    let gateway = world.run().await;
    let rest = gateway.rest();
    let stubborn_backend = Backend::start(
        BackendKind::Stdio,
        &["--ignore-sigterm", "--ignore-stdin-eof"],
    )
    .await;
    let backend = Backend::http().await;
    ok(connect(&rest, entry_with(&stubborn_backend, json!({"name": "x"}))).await);
    let pid = rest.server("x").await["pid"].as_u64().expect("a process");
    let process = std::path::PathBuf::from(format!("/proc/{pid}"));
    assert!(process.exists());
    let (removal, ()) = tokio::join!(rest.delete("/api/servers/x"), async {
        soon("the name to be free", async {
            while !gateway.rest().names().await.is_empty() {}
        })
        .await;
        let rest = gateway.rest();
        ok(connect(&rest, entry_with(&backend, json!({"name": "x"}))).await);
        assert!(!process.exists(), "the old one is still there");
    });
    ok(removal);
}

/// An ephemeral server survives a reload, but not a restart (A33, W20).
#[tokio::test]
async fn an_ephemeral_server_survives_reloads_only() {
    let (stored_backend, new_backend) = (Backend::http().await, Backend::stdio().await);
    let world = TestConfig::new_json(&json!({"mcpServers": {"kept": stored_backend.entry}}));
    let previous_text = world.text();
    let gateway = world.run().await;
    let rest = gateway.rest();
    ok(connect(&rest, entry_with(&new_backend, json!({"name": "new"}))).await);
    ok(rest.post("/api/servers/kept/disable", json!({})).await);
    let pid = rest.server("new").await["pid"].clone();
    ok(rest.post("/api/reload", json!({})).await);
    let other_config =
        json!({"mcpServers": {"kept": stored_backend.entry, "more": stored_backend.entry}});
    std::fs::write(world.file(), other_config.to_string()).expect("written");
    ok(rest.post("/api/reload", json!({})).await);
    assert_eq!(rest.names().await, ["kept", "more", "new"]);
    assert_eq!(rest.server("new").await["pid"], pid, "the same process");
    assert_eq!(rest.server("kept").await["enabled"], false);
    gateway.stop().await;

    std::fs::write(world.file(), previous_text).expect("written");
    let gateway = world.run().await;
    assert_eq!(gateway.rest().names().await, ["kept"]);
    gateway.rest().until_status("kept", "connected").await;
}

/// `persist` writes the entry in the format of the file, and keeps comments (Y10, A27).
#[tokio::test]
async fn persisted_servers_are_written_to_the_file() {
    let backend = Backend::http().await;
    let url = backend.entry["url"].as_str().expect("a URL");
    let written_text = format!(
        "// mine\n{{\n  \"servers\": {{\n    // the first\n    \"one\": {{ \"url\": \"{url}\" }}, // so it is\n  }},\n  \"naming\": \"slash\"\n}}\n"
    );
    let world = TestConfig::new("servers.jsonc", &written_text);
    let gateway = world.run().await;
    let rest = gateway.rest();
    let body = entry_with(
        &backend,
        json!({"name": "two", "persist": true, "comand": "?"}),
    );
    let answer = ok(rest.post("/api/servers", body).await);
    assert_eq!(answer["status"], "connected", "{answer}");
    assert!(
        answer["warnings"][0]
            .as_str()
            .is_some_and(|error_text| error_text.contains("did you mean")),
        "{answer}"
    );
    assert_eq!(rest.server("two").await["ephemeral"], false);
    let text = world.text();
    let head = written_text.split("  },\n").next().expect("a head");
    assert!(text.starts_with(head), "{text}");
    assert!(
        text.contains("\n    \"two\": {\n      \"type\": \"http\",\n"),
        "{text}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let file = std::fs::metadata(world.file()).expect("there");
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
    refused(
        StatusCode::CONFLICT,
        "duplicate_name",
        rest.post(
            "/api/servers",
            entry_with(&backend, json!({"name": "one", "persist": true})),
        )
        .await,
    );

    let sessions = backend.count("initialize");
    ok(rest
        .post("/api/servers/two/disable", json!({"persist": true}))
        .await);
    assert!(
        world.text().contains("\"enabled\": false"),
        "{}",
        world.text()
    );
    assert_eq!(rest.server("two").await["enabled"], false);
    ok(rest
        .post("/api/servers/two/enable", json!({"persist": true}))
        .await);
    rest.until_status("two", "connected").await;
    assert_eq!(backend.count("initialize"), sessions + 1);
    ok(rest.delete("/api/servers/two?persist=true").await);
    assert_eq!(rest.names().await, ["one"]);
    assert_eq!(world.text(), written_text);
    gateway.stop().await;
}

/// A removed server of the file returns after a restart, or when its entry changes.
#[tokio::test]
async fn a_removal_holds_until_the_file_says_something_else() {
    let backend = Backend::stdio().await;
    let world = TestConfig::new_json(&json!({"mcpServers": {"one": backend.entry}}));
    let gateway = world.run().await;
    let rest = gateway.rest();
    rest.until_status("one", "connected").await;
    let client = gateway.client().await;
    ok(rest.delete("/api/servers/one").await);
    assert_eq!(client.tools().await, Vec::<String>::new());
    ok(rest.post("/api/reload", json!({})).await);
    assert_eq!(rest.names().await, Vec::<String>::new());
    let entry = entry_with(&backend, json!({"timeout": 5000}));
    let other_config = json!({"mcpServers": {"one": entry}});
    std::fs::write(world.file(), other_config.to_string()).expect("written");
    ok(rest.post("/api/reload", json!({})).await);
    rest.until_status("one", "connected").await;
}

/// A server that an MCP client added is listed with its command, and is not started.
#[tokio::test]
async fn a_pending_server_cannot_be_started() {
    let backend = Backend::stdio().await;
    let world = none();
    let gateway = world.run().await;
    let (rest, registry) = (gateway.rest(), gateway.registry());
    let mut entry = backend.entry.clone();
    entry["env"] = json!({"KEY": SECRET});
    let Value::Object(entry) = entry else {
        panic!("no entry")
    };
    let new_server = registry
        .read_entry("p", entry, Approval::Pending)
        .await
        .expect("a usable entry");
    registry.add(new_server.runtime).await.expect("added");
    let server = rest.server("p").await;
    assert_eq!(
        (&server["status"], &server["transport"]),
        (&json!("pending"), &json!("stdio"))
    );
    let command = server["pending"]["command"].as_array().expect("a command");
    assert_eq!(command[0], backend.entry["command"]);
    assert_eq!(
        command[1..],
        *backend.entry["args"].as_array().expect("a list")
    );
    // The operator sees all members, because variables can change what the program does.
    assert_eq!(server["pending"]["env"], json!({"KEY": SECRET}));
    assert_eq!(server["pending"]["entry"]["env"], json!({"KEY": SECRET}));
    for operation in ["start", "restart", "reconnect", "enable"] {
        let answer = rest.operate("p", operation).await;
        let answer = refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "server_not_connected",
            answer,
        );
        assert_eq!(answer["status"], "pending", "{answer}");
    }
    let direct = gateway.stranger("/servers/p/mcp");
    direct.post(initialize(LATEST)).await;
    ok(rest.post("/api/reload", json!({})).await);
    let client = gateway.client().await;
    let params = json!({"name": "p__echo", "arguments": {"text": "x"}});
    client.request("tools/call", params).await;
    assert_eq!(backend.received(), Vec::<Value>::new(), "never started");
    let details = rest.get("/api/servers/p").await;
    assert!(!details["entry"].to_string().contains(SECRET), "{details}");

    // An approval must have the digest of the current entry.
    for body in [
        json!({}),
        json!({"digest": null}),
        json!({"digest": "another"}),
    ] {
        let answer = rest.post("/api/servers/p/approve", body).await;
        refused(StatusCode::CONFLICT, "not_as_shown", answer);
    }
    assert_eq!(backend.received(), Vec::<Value>::new(), "never started");
    let digest = &rest.server("p").await["pending"]["digest"];
    let approval = json!({"digest": digest, "persist": true});
    let answer = ok(rest.post("/api/servers/p/approve", approval.clone()).await);
    assert_eq!(answer["status"], "connected", "{answer}");
    assert_eq!(world.value()["mcpServers"]["p"]["env"]["KEY"], SECRET);
    let answer = rest.post("/api/servers/p/approve", approval).await;
    refused(StatusCode::CONFLICT, "not_pending", answer);
}

/// Errors have the texts of document 003 (K8, M11).
#[tokio::test]
async fn a_tool_is_run_as_the_desktop_does() {
    let backend = Backend::stdio().await;
    let entry = entry_with(&backend, json!({"disabledTools": ["sleep"]}));
    let idle_entry = entry_with(&backend, json!({"autoStart": false}));
    let world = TestConfig::new_json(&json!({"mcpServers": {"one": entry, "idle": idle_entry}}));
    let gateway = world.run().await;
    let rest = gateway.rest();
    rest.until_status("one", "connected").await;
    let run = async |server: &str, tool: &str, arguments: Value| {
        let path = format!("/api/servers/{server}/tools/{tool}/call");
        ok(rest.post(&path, json!({"arguments": arguments})).await)
    };
    let answer = run("one", "echo", json!({"text": "hello"})).await;
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(answer["result"]["content"][0]["text"], "hello");
    for (server, tool, expected_text) in [
        (
            "nobody",
            "echo",
            "Server nobody is not running (status: not found)",
        ),
        (
            "idle",
            "echo",
            "Server idle is not running (status: stopped)",
        ),
        ("one", "sleep", "Tool sleep is disabled"),
    ] {
        let answer = run(server, tool, json!({})).await;
        assert_eq!(answer, json!({"success": false, "error": expected_text}));
    }
    let answer = run("one", "no-such-tool", json!({})).await;
    let error = answer["error"].as_str().expect("words");
    assert!(
        error.starts_with("JSON-RPC error: ") && error.contains("(code: -32602)"),
        "{answer}"
    );
    let answer = run("one", "error", json!({})).await;
    assert_eq!(
        answer,
        json!({"success": false, "error": "the tool failed"})
    );
}

/// Without a configuration, requests fail until a server is added (B7, M9).
#[tokio::test]
async fn a_gateway_without_servers_reports_that() {
    let gateway = Gateway::start(&json!({"mcpServers": {}})).await;
    let rest = gateway.rest();
    for path in ["/api/mcp-clients", "/api/mcp-tools", "/api/mcp-resources"] {
        let answer = rest.try_get(path).await;
        refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "mcp_client_not_configured",
            answer,
        );
    }
    for (path, body) in [
        ("/api/mcp-tools/call", json!({"tool": "a/b"})),
        (
            "/api/mcp-resources/read",
            json!({"server": "a", "uri": "b"}),
        ),
        ("/api/mcp-clients/a/disconnect", json!({})),
        ("/api/mcp-clients/a/reconnect", json!({})),
    ] {
        let answer = rest.post(path, body).await;
        refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "mcp_client_not_configured",
            answer,
        );
    }
    assert_eq!(rest.names().await, Vec::<String>::new());
    let backend = Backend::start(BackendKind::Stdio, &[]).await;
    ok(connect(&rest, entry_with(&backend, json!({"name": "first"}))).await);
    assert!(rest.get("/api/mcp-clients").await["clients"]["first"].is_object());
    let answer = rest
        .post(
            "/api/servers",
            entry_with(&backend, json!({"name": "x", "persist": true})),
        )
        .await;
    refused(StatusCode::INTERNAL_SERVER_ERROR, "not_saved", answer);
    // An empty list of servers is a valid configuration (B1).
    let world = none();
    let gateway = world.run().await;
    let clients = gateway.rest().get("/api/mcp-clients").await;
    assert_eq!(clients, json!({"clients": Map::new()}));
}
