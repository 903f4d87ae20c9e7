//! Document 002 with the preset `bounded`: five attempts, and the routes of the document.

use futures_util::future::join_all;
use http::StatusCode;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::environment::ConfigurationSource;
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use super::{
    assert_echo, brief_retry, call, client_entry, kinds, server_events, tools, until_unlisted,
};
use crate::{
    backend::{Backend, BackendKind},
    client::names,
    gateway::{Gateway, until},
};

async fn start_with_preset(servers: &[(&str, &Backend)]) -> Gateway {
    super::start_with_preset("bounded", servers).await
}

/// Asserts that the answer is a refusal with this status and error.
fn assert_refused(answer: &(StatusCode, Value), status: StatusCode, error: &str) {
    assert_eq!(
        (answer.0, &answer.1["error"]),
        (status, &json!(error)),
        "{}",
        answer.1
    );
}

over_every_transport! {
    async fn a_server_connects_and_its_tools_are_called(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let rest = gateway.rest();
        assert_echo(&rest, "x").await;
        let entry = client_entry(&rest, "x").await;
        assert_eq!(entry["status"], "connected", "{entry}");
        assert!(entry["connected_at"].is_f64() && entry["error"].is_null(), "{entry}");
        let listed_tools = tools(&rest, "x").await;
        assert!(listed_tools.contains(&"x/echo".to_owned()), "{listed_tools:?}");
        assert_eq!(entry["tools"], json!(listed_tools));
        let (status, answer) = call(&rest, "x/pid", json!({})).await;
        assert_eq!((status, &answer["result"]["isError"]), (StatusCode::OK, &Value::Null), "{answer}");
        let health = rest.get("/api/health").await;
        assert_eq!(health["servers"][0]["status"], "healthy", "{health}");
        assert!(health["servers"][0]["pingMs"].is_u64(), "{health}");
    }

    /// A disconnected server keeps its name and status. After a reconnect, its new tools are listed
    /// (F9, F10, J8, Y16).
    async fn a_disconnected_server_is_kept_and_comes_back(kind) {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let rest = gateway.rest();
        assert_echo(&rest, "x").await;
        let process = rest.server("x").await["pid"].as_i64();
        let (status, answer) = rest.post("/api/mcp-clients/x/disconnect", json!({})).await;
        assert_eq!((status, &answer["status"]), (StatusCode::OK, &json!("ok")), "{answer}");
        match kind {
            BackendKind::Stdio => {
                let process = process.and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
                test_kill_process(process.expect("a process id")).expect_err("it has ended");
            }
            BackendKind::Http => until("no session upstream", || backend.fake().sessions() == 0).await,
            BackendKind::Sse => until("no stream upstream", || backend.fake().streams() == 0).await,
        }
        let entry = client_entry(&rest, "x").await;
        assert_eq!((&entry["status"], &entry["tools"]), (&json!("disconnected"), &json!([])), "{entry}");
        assert_eq!(tools(&rest, "x").await, Vec::<String>::new());
        let read_response = rest.post("/api/mcp-resources/read", json!({"server": "x", "uri": "fake://text"})).await;
        for answer in [call(&rest, "x/echo", json!({})).await, read_response] {
            assert_refused(&answer, StatusCode::SERVICE_UNAVAILABLE, "server_not_connected");
            assert_eq!(answer.1["server"], "x", "{}", answer.1);
        }
        let health = rest.get("/api/health?server=x").await;
        let (status, message) = (&health["servers"][0]["status"], &health["servers"][0]["message"]);
        let stopped_text = "disconnected: it is stopped; start it by \"mainstay start x\"";
        assert_eq!((status, message), (&json!("error"), &json!(stopped_text)), "{health}");

        backend.offer(1);
        let (status, answer) = rest.post("/api/mcp-clients/x/reconnect", json!({})).await;
        assert_eq!((status, &answer["status"], &answer["name"]), (StatusCode::OK, &json!("ok"), &json!("x")), "{answer}");
        assert!(answer["tools"].as_array().is_some_and(|tools| tools.contains(&json!("x/tool_1"))), "{answer}");
        assert!(tools(&rest, "x").await.contains(&"x/tool_1".to_owned()));
        assert_echo(&rest, "x").await;
    }

    /// Every one of several concurrent connects and disconnects gets a state or a reason. One
    /// working session remains.
    async fn connects_and_disconnects_at_once_end_well(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let rest = gateway.rest();
        assert_echo(&rest, "x").await;
        let entry = json!({"name": "x", "replace": true});
        let mut connect = backend.entry.clone();
        connect.as_object_mut().expect("an object").extend(entry.as_object().expect("an object").clone());
        let all_attempts = (0..18).map(|turn| {
            let (rest, connect) = (&rest, connect.clone());
            async move {
                match turn % 3 {
                    0 => rest.post("/api/mcp-clients/x/disconnect", json!({})).await,
                    1 => rest.post("/api/mcp-clients/connect", connect).await,
                    _ => rest.post("/api/mcp-clients/x/reconnect", json!({})).await,
                }
            }
        });
        for (status, answer) in futures_util::future::join_all(all_attempts).await {
            let is_settled = status == StatusCode::OK && answer["status"] == "ok";
            let is_overtaken = answer["error"] == "connect_failed";
            assert!(is_settled || is_overtaken, "{status} {answer}");
        }
        let (status, answer) = rest.post("/api/mcp-clients/x/reconnect", json!({})).await;
        assert_eq!((status, &answer["status"]), (StatusCode::OK, &json!("ok")), "{answer}");
        assert_echo(&rest, "x").await;
        match kind {
            BackendKind::Stdio => assert!(rest.server("x").await["pid"].is_u64()),
            BackendKind::Http => until("one session upstream", || backend.fake().sessions() == 1).await,
            BackendKind::Sse => until("one stream upstream", || backend.fake().streams() == 1).await,
        }
    }

    /// A disconnect ends the calls in flight (K10).
    async fn a_disconnect_ends_the_call_in_flight(kind) {
        let backend = Backend::start(kind, &[]).await;
        let calm_backend = Backend::http().await;
        let gateway = start_with_preset(&[("x", &backend), ("calm", &calm_backend)]).await;
        let rest = gateway.rest();
        assert_echo(&rest, "x").await;
        let (answer, calm_answer, ()) = tokio::join!(
            call(&rest, "x/hang", json!({})),
            call(&rest, "calm/sleep", json!({"ms": 700})),
            async {
                backend.until_called("hang").await;
                calm_backend.until_called("sleep").await;
                rest.post("/api/mcp-clients/x/disconnect", json!({})).await;
            }
        );
        assert!(answer.0.is_server_error(), "{}", answer.1);
        assert_eq!((answer.1["error"].as_str(), &answer.1["server"]), (Some("outcome_unknown"), &json!("x")));
        assert_eq!(calm_answer.0, StatusCode::OK, "{}", calm_answer.1);
    }

    /// A lost server is tried again after a second. A call waits for this attempt (G14).
    async fn a_lost_server_comes_back(kind) {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        if kind != BackendKind::Stdio {
            // The loss is noticed only by a failed call.
            let (status, answer) = call(&rest, "x/echo", json!({})).await;
            assert!(status.is_server_error(), "{answer}");
        }
        let is_waiting = |server: &Value| server["status"] == "reconnecting" && server["nextRetryMs"].is_u64();
        rest.until("x", "waiting", is_waiting).await;
        backend.come_back().await;
        assert_echo(&rest, "x").await;
        let events = server_events(&rest, "x").await;
        assert_eq!(kinds(&events)[..3], ["server_connected", "server_disconnected", "server_reconnecting"]);
        let (_, retry_event) = &events.iter().find(|(kind, _)| kind == "server_reconnecting").expect("it is there");
        assert!((900..=1000).contains(&retry_event["nextRetryMs"].as_u64().unwrap_or_default()), "{retry_event}");
        assert_eq!((kinds(&events).last(), &retry_event["attempt"]), (Some(&"server_reconnected"), &json!(1)));
    }

    /// After five attempts the status is `failed`. A manual reconnect makes five more attempts
    /// (G14, F10).
    async fn after_five_attempts_it_has_failed(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", brief_retry());
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        for round in 1..=2 {
            backend.leave(&client).await;
            // Over HTTP, the loss is noticed only by a failed call.
            call(&rest, "x/echo", json!({})).await;
            rest.until_status("x", "failed").await;
            until_unlisted(&client, &rest, "x").await;
            let entry = client_entry(&rest, "x").await;
            assert_eq!((&entry["status"], &entry["tools"]), (&json!("failed"), &json!([])), "{entry}");
            assert!(entry["error"].is_string(), "{entry}");
            let events = server_events(&rest, "x").await;
            let attempts = events.iter().filter(|(kind, _)| kind == "server_reconnecting");
            let attempts: Vec<_> = attempts.map(|(_, data)| data["attempt"].as_u64().unwrap_or_default()).collect();
            assert_eq!(attempts, [1, 2, 3, 4, 5].repeat(round));
            backend.come_back().await;
            let (status, answer) = rest.post("/api/mcp-clients/x/reconnect", json!({})).await;
            assert_eq!(status, StatusCode::OK, "{answer}");
            assert_echo(&rest, "x").await;
        }
    }

    /// Without `auto_reconnect`, a lost server stays disconnected, with its reason (F8, Y3).
    async fn a_lost_server_that_is_not_to_come_back_is_disconnected(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("auto_reconnect", false);
        let gateway = start_with_preset(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        // The loss may be noticed only by the first call.
        for _ in 0..2 {
            call(&rest, "x/echo", json!({})).await;
        }
        let answer = call(&rest, "x/echo", json!({})).await;
        assert_refused(&answer, StatusCode::SERVICE_UNAVAILABLE, "server_not_connected");
        assert_eq!(answer.1["status"], "disconnected", "{}", answer.1);
        until_unlisted(&client, &rest, "x").await;
        let entry = client_entry(&rest, "x").await;
        assert_eq!((&entry["status"], &entry["tools"]), (&json!("disconnected"), &json!([])), "{entry}");
        assert!(entry["error"].is_string(), "{entry}");
        assert!(rest.server("x").await["nextRetryMs"].is_null());
        backend.come_back().await;
        let (status, answer) = rest.post("/api/mcp-clients/x/reconnect", json!({})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_echo(&rest, "x").await;
        assert_eq!(backend.count("notifications/initialized"), 2);
    }
}

/// A first attempt that fails is not repeated. The status has the reason (F7, E6, E7).
#[tokio::test]
async fn a_first_attempt_that_fails_is_an_error() {
    let mut missing_backend = Backend::stdio().await;
    missing_backend.entry = json!({"command": "no-such-command-anywhere"});
    let mut servers = vec![
        ("missing", missing_backend, "command not found"),
        (
            "crashes",
            Backend::start(BackendKind::Stdio, &["--crash-at-start", "7"]).await,
            "code 7",
        ),
    ];
    for kind in BackendKind::ALL {
        let [rejects, hanging_case, absent_case] = match kind {
            BackendKind::Stdio => ["stdio-rejects", "stdio-hangs", ""],
            BackendKind::Http => ["http-rejects", "http-hangs", "http-away"],
            BackendKind::Sse => ["sse-rejects", "sse-hangs", "sse-away"],
        };
        servers.push((
            rejects,
            Backend::start(kind, &["--initialize-error"]).await,
            "initialize",
        ));
        let hanging_backend = Backend::start(kind, &["--hang-at-start"]).await;
        servers.push((
            hanging_case,
            hanging_backend.option("connectTimeoutMs", 400),
            "no handshake within 400 ms",
        ));
        if kind != BackendKind::Stdio {
            let removed_backend = Backend::start(kind, &[]).await;
            removed_backend
                .fake()
                .refuse(true)
                .await
                .expect("the fake runs");
            servers.push((absent_case, removed_backend, "cannot connect"));
        }
    }
    let listed: Vec<_> = servers
        .iter()
        .map(|(name, backend, _)| (*name, backend))
        .collect();
    let gateway = start_with_preset(&listed).await;
    let rest = gateway.rest();
    for (name, _, reason) in &servers {
        rest.until_status(name, "error").await;
        let entry = client_entry(&rest, name).await;
        assert_eq!(
            (&entry["status"], &entry["tools"]),
            (&json!("error"), &json!([])),
            "{name}: {entry}"
        );
        let error = entry["error"].as_str().expect("a reason");
        assert!(error.contains(reason), "{name}: {error}");
        assert!(rest.server(name).await["nextRetryMs"].is_null(), "{name}");
        assert_eq!(
            kinds(&server_events(&rest, name).await),
            ["server_failed"],
            "{name}"
        );
    }
}

/// If a configuration exists but has no servers, all lists are empty (M1–M4, B7).
#[tokio::test]
async fn without_servers_every_list_is_empty() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("servers.json");
    std::fs::write(&path, r#"{"servers":{}}"#).expect("written");
    let origin = ConfigurationSource {
        flag: Some(path),
        ..ConfigurationSource::default()
    };
    let options = GatewayOptions {
        origin: Some(origin),
        ..GatewayOptions::default()
    };
    let gateway = Gateway::with_options(&json!({"servers": {}}), options).await;
    let rest = gateway.rest();
    assert_eq!(rest.get("/api/mcp-clients").await, json!({"clients": {}}));
    assert_eq!(rest.get("/api/mcp-tools").await, json!({"tools": []}));
    assert_eq!(
        rest.get("/api/mcp-resources").await,
        json!({"resources": []})
    );
    assert_refused(
        &call(&rest, "x/echo", json!({})).await,
        StatusCode::NOT_FOUND,
        "server_not_found",
    );
}

/// Two servers have separate tools and resources. Calls to both may be concurrent (J4, J15, K13).
#[tokio::test]
async fn two_servers_stand_side_by_side() {
    let (first_backend, second_backend) = (
        Backend::stdio().await,
        Backend::start(BackendKind::Sse, &[]).await,
    );
    let gateway = start_with_preset(&[("one", &first_backend), ("two", &second_backend)]).await;
    let rest = gateway.rest();
    for server in ["one", "two"] {
        assert_echo(&rest, server).await;
    }
    let all_response = names(&rest.get("/api/mcp-tools").await["tools"]);
    for server in ["one", "two"] {
        let listed_tools = tools(&rest, server).await;
        assert!(
            listed_tools.contains(&format!("{server}/echo")),
            "{listed_tools:?}"
        );
        assert!(
            listed_tools
                .iter()
                .all(|tool| tool.starts_with(&format!("{server}/")) && all_response.contains(tool))
        );
        let resources = rest
            .get(&format!("/api/mcp-resources?server={server}"))
            .await;
        let resources = resources["resources"].as_array().expect("a list");
        assert_eq!(resources.len(), 2);
        assert!(
            resources
                .iter()
                .all(|resource| resource["server"] == server),
            "{resources:?}"
        );
    }
    let resources = rest.get("/api/mcp-resources").await["resources"].clone();
    let owners: Vec<_> = resources
        .as_array()
        .expect("a list")
        .iter()
        .map(|resource| &resource["server"])
        .collect();
    assert_eq!(owners, ["one", "one", "two", "two"]);

    let calls = (0..40).map(|n| {
        let (rest, server) = (&rest, ["one", "two"][n % 2]);
        async move {
            call(
                rest,
                &format!("{server}/echo"),
                json!({"text": n.to_string()}),
            )
            .await
        }
    });
    for (n, (status, answer)) in join_all(calls).await.into_iter().enumerate() {
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], n.to_string());
    }
    assert_eq!(
        (first_backend.runs("echo"), second_backend.runs("echo")),
        (21, 21)
    );
}

/// A server without tools connects. Calls of unknown tools get an error (J9).
#[tokio::test]
async fn a_server_without_tools_is_connected() {
    let backend = Backend::start(BackendKind::Stdio, &["--no-tools"]).await;
    let gateway = start_with_preset(&[("x", &backend)]).await;
    let rest = gateway.rest();
    rest.until_status("x", "connected").await;
    assert_eq!(tools(&rest, "x").await, Vec::<String>::new());
    assert_refused(
        &call(&rest, "x/nothing", json!({})).await,
        StatusCode::NOT_FOUND,
        "tool_not_found",
    );
}

/// Tool names may use any alphabet, definitions may lack a schema, and a server may have the name
/// of an own tool (J12–J14, Y4).
#[tokio::test]
async fn odd_tools_are_listed_and_called() {
    let flags = [
        "--tool",
        r#"{"name":"größe_測る","inputSchema":{"type":"object"}}"#,
        "--tool",
        r#"{"name":"bare"}"#,
    ];
    let backend = Backend::start(BackendKind::Stdio, &flags).await;
    let gateway = start_with_preset(&[("breakpoint", &backend)]).await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    let listed_tools = tools(&rest, "breakpoint").await;
    for original in ["größe_測る", "bare", "echo"] {
        let name = format!("breakpoint/{original}");
        assert!(listed_tools.contains(&name), "{listed_tools:?}");
        let (status, answer) = call(&rest, &name, json!({"text": original})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], original, "{answer}");
    }
    let exposed_tools = client.tools().await;
    assert!(
        exposed_tools.contains(&"breakpoint__bare".to_owned()),
        "{exposed_tools:?}"
    );
    let altered_tool = exposed_tools
        .iter()
        .find(|tool| tool.starts_with("breakpoint__gr"));
    let altered_tool = altered_tool.expect("a legal name for it");
    assert!(altered_tool.is_ascii(), "{altered_tool}");
    assert_eq!(
        client.call_text(altered_tool, json!({})).await,
        "größe_測る"
    );
    // A name without a slash is refused. Its suffix `echo` does not match a tool.
    assert_refused(
        &call(&rest, "breakpoint_echo", json!({})).await,
        StatusCode::BAD_REQUEST,
        "invalid_tool_name",
    );
}

/// The path of a URL is not changed (E2).
#[tokio::test]
async fn a_slash_at_the_end_of_a_url_is_the_servers_business() {
    let (plain_backend, mut header_backend) = (
        Backend::start(BackendKind::Sse, &[]).await,
        Backend::start(BackendKind::Sse, &[]).await,
    );
    let url = format!("{}/", header_backend.fake().url());
    header_backend.entry["url"] = url.into();
    let gateway =
        start_with_preset(&[("without", &plain_backend), ("with", &header_backend)]).await;
    let rest = gateway.rest();
    for (name, backend, path) in [
        ("without", &plain_backend, "/sse"),
        ("with", &header_backend, "/sse/"),
    ] {
        assert_echo(&rest, name).await;
        let received_requests = backend.fake().received();
        assert!(
            received_requests
                .iter()
                .any(|request| request.verb == "GET" && request.path == path),
            "{name}"
        );
    }
}
