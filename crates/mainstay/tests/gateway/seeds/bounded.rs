//! Document 002 under `bounded`: five attempts, and its REST routes.

use futures_util::future::join_all;
use http::StatusCode;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::environment::ConfigurationSource;
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use super::{assert_echo, brief, call, client_entry, kinds, server_events, tools, until_unlisted};
use crate::{
    backend::{Backend, BackendKind},
    client::names,
    gateway::{Gateway, until},
};

async fn under(servers: &[(&str, &Backend)]) -> Gateway {
    super::under("bounded", servers).await
}

/// Asserts that a request was refused with this status and error.
fn refused(answer: &(StatusCode, Value), status: StatusCode, error: &str) {
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
        let gateway = under(&[("x", &backend)]).await;
        let rest = gateway.rest();
        assert_echo(&rest, "x").await;
        let entry = client_entry(&rest, "x").await;
        assert_eq!(entry["status"], "connected", "{entry}");
        assert!(entry["connected_at"].is_f64() && entry["error"].is_null(), "{entry}");
        let listed = tools(&rest, "x").await;
        assert!(listed.contains(&"x/echo".to_owned()), "{listed:?}");
        assert_eq!(entry["tools"], json!(listed));
        let (status, answer) = call(&rest, "x/pid", json!({})).await;
        assert_eq!((status, &answer["result"]["isError"]), (StatusCode::OK, &Value::Null), "{answer}");
        let health = rest.get("/api/health").await;
        assert_eq!(health["servers"][0]["status"], "healthy", "{health}");
        assert!(health["servers"][0]["pingMs"].is_u64(), "{health}");
    }

    /// F9, F10, J8, Y16: a disconnected server stays known, with that status. It returns with the offer of that
    /// time.
    async fn a_disconnected_server_is_kept_and_comes_back(kind) {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = under(&[("x", &backend)]).await;
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
        let read = rest.post("/api/mcp-resources/read", json!({"server": "x", "uri": "fake://text"})).await;
        for answer in [call(&rest, "x/echo", json!({})).await, read] {
            refused(&answer, StatusCode::SERVICE_UNAVAILABLE, "server_not_connected");
            assert_eq!(answer.1["server"], "x", "{}", answer.1);
        }
        let health = rest.get("/api/health?server=x").await;
        let (status, message) = (&health["servers"][0]["status"], &health["servers"][0]["message"]);
        let stopped = "disconnected: it is stopped; start it by \"mainstay start x\"";
        assert_eq!((status, message), (&json!("error"), &json!(stopped)), "{health}");

        backend.offer(1);
        let (status, answer) = rest.post("/api/mcp-clients/x/reconnect", json!({})).await;
        assert_eq!((status, &answer["status"], &answer["name"]), (StatusCode::OK, &json!("ok"), &json!("x")), "{answer}");
        assert!(answer["tools"].as_array().is_some_and(|tools| tools.contains(&json!("x/tool_1"))), "{answer}");
        assert!(tools(&rest, "x").await.contains(&"x/tool_1".to_owned()));
        assert_echo(&rest, "x").await;
    }

    /// Clients connect and disconnect one server at the same time. Each gets an answer: the resulting state, or
    /// the reason. Afterwards one session is left, and it works.
    async fn connects_and_disconnects_at_once_end_well(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = under(&[("x", &backend)]).await;
        let rest = gateway.rest();
        assert_echo(&rest, "x").await;
        let entry = json!({"name": "x", "replace": true});
        let mut connect = backend.entry.clone();
        connect.as_object_mut().expect("an object").extend(entry.as_object().expect("an object").clone());
        let all = (0..18).map(|turn| {
            let (rest, connect) = (&rest, connect.clone());
            async move {
                match turn % 3 {
                    0 => rest.post("/api/mcp-clients/x/disconnect", json!({})).await,
                    1 => rest.post("/api/mcp-clients/connect", connect).await,
                    _ => rest.post("/api/mcp-clients/x/reconnect", json!({})).await,
                }
            }
        });
        for (status, answer) in futures_util::future::join_all(all).await {
            let settled = status == StatusCode::OK && answer["status"] == "ok";
            let overtaken = answer["error"] == "connect_failed";
            assert!(settled || overtaken, "{status} {answer}");
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

    /// K10: a disconnect ends the call in flight.
    async fn a_disconnect_ends_the_call_in_flight(kind) {
        let backend = Backend::start(kind, &[]).await;
        let calm = Backend::http().await;
        let gateway = under(&[("x", &backend), ("calm", &calm)]).await;
        let rest = gateway.rest();
        assert_echo(&rest, "x").await;
        let (answer, calm_answer, ()) = tokio::join!(
            call(&rest, "x/hang", json!({})),
            call(&rest, "calm/sleep", json!({"ms": 700})),
            async {
                backend.until_called("hang").await;
                calm.until_called("sleep").await;
                rest.post("/api/mcp-clients/x/disconnect", json!({})).await;
            }
        );
        assert!(answer.0.is_server_error(), "{}", answer.1);
        assert_eq!((answer.1["error"].as_str(), &answer.1["server"]), (Some("outcome_unknown"), &json!("x")));
        assert_eq!(calm_answer.0, StatusCode::OK, "{}", calm_answer.1);
    }

    /// G14: the server returns by itself, a second after the loss. A call waits for that, and does not speed it
    /// up.
    async fn a_lost_server_comes_back(kind) {
        let backend = Backend::fickle(kind, &[]).await;
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        if kind != BackendKind::Stdio {
            // A call shows that the server has gone.
            let (status, answer) = call(&rest, "x/echo", json!({})).await;
            assert!(status.is_server_error(), "{answer}");
        }
        let waits = |server: &Value| server["status"] == "reconnecting" && server["nextRetryMs"].is_u64();
        rest.until("x", "waiting", waits).await;
        backend.come_back().await;
        assert_echo(&rest, "x").await;
        let events = server_events(&rest, "x").await;
        assert_eq!(kinds(&events)[..3], ["server_connected", "server_disconnected", "server_reconnecting"]);
        let (_, trying) = &events.iter().find(|(kind, _)| kind == "server_reconnecting").expect("it is there");
        assert!((900..=1000).contains(&trying["nextRetryMs"].as_u64().unwrap_or_default()), "{trying}");
        assert_eq!((kinds(&events).last(), &trying["attempt"]), (Some(&"server_reconnected"), &json!(1)));
    }

    /// G14, F10: after five attempts the status is `failed`. A reconnect by hand makes five more.
    async fn after_five_attempts_it_has_failed(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", brief());
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        for round in 1..=2 {
            backend.leave(&client).await;
            // A call shows that a server over HTTP has gone.
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

    /// F8, Y3: without `auto_reconnect` a lost server is disconnected, with the reason, until a person
    /// reconnects it.
    async fn a_lost_server_that_is_not_to_come_back_is_disconnected(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("auto_reconnect", false);
        let gateway = under(&[("x", &backend)]).await;
        let (client, rest) = (gateway.client().await, gateway.rest());
        backend.leave(&client).await;
        // The second of two calls finds no server.
        for _ in 0..2 {
            call(&rest, "x/echo", json!({})).await;
        }
        let answer = call(&rest, "x/echo", json!({})).await;
        refused(&answer, StatusCode::SERVICE_UNAVAILABLE, "server_not_connected");
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

/// F7, E6, E7: a failed first attempt is an error with its reason, and is not retried.
#[tokio::test]
async fn a_first_attempt_that_fails_is_an_error() {
    let mut missing = Backend::stdio().await;
    missing.entry = json!({"command": "no-such-command-anywhere"});
    let mut servers = vec![
        ("missing", missing, "command not found"),
        (
            "crashes",
            Backend::start(BackendKind::Stdio, &["--crash-at-start", "7"]).await,
            "code 7",
        ),
    ];
    for kind in BackendKind::ALL {
        let [rejects, hangs, away] = match kind {
            BackendKind::Stdio => ["stdio-rejects", "stdio-hangs", ""],
            BackendKind::Http => ["http-rejects", "http-hangs", "http-away"],
            BackendKind::Sse => ["sse-rejects", "sse-hangs", "sse-away"],
        };
        servers.push((
            rejects,
            Backend::start(kind, &["--initialize-error"]).await,
            "initialize",
        ));
        let hanging = Backend::start(kind, &["--hang-at-start"]).await;
        servers.push((
            hangs,
            hanging.option("connectTimeoutMs", 400),
            "no handshake within 400 ms",
        ));
        if kind != BackendKind::Stdio {
            let gone = Backend::start(kind, &[]).await;
            gone.fake().refuse(true).await.expect("the fake runs");
            servers.push((away, gone, "cannot connect"));
        }
    }
    let listed: Vec<_> = servers
        .iter()
        .map(|(name, backend, _)| (*name, backend))
        .collect();
    let gateway = under(&listed).await;
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

/// M1–M4: without servers every list exists, and is empty. The configuration exists: without one there is
/// nothing to manage (B7).
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
    refused(
        &call(&rest, "x/echo", json!({})).await,
        StatusCode::NOT_FOUND,
        "server_not_found",
    );
}

/// J4, J15, K13: the tools and resources of two servers, together and separately, and calls of both at once.
#[tokio::test]
async fn two_servers_stand_side_by_side() {
    let (one, two) = (
        Backend::stdio().await,
        Backend::start(BackendKind::Sse, &[]).await,
    );
    let gateway = under(&[("one", &one), ("two", &two)]).await;
    let rest = gateway.rest();
    for server in ["one", "two"] {
        assert_echo(&rest, server).await;
    }
    let all = names(&rest.get("/api/mcp-tools").await["tools"]);
    for server in ["one", "two"] {
        let listed = tools(&rest, server).await;
        assert!(listed.contains(&format!("{server}/echo")), "{listed:?}");
        assert!(
            listed
                .iter()
                .all(|tool| tool.starts_with(&format!("{server}/")) && all.contains(tool))
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
    assert_eq!((one.runs("echo"), two.runs("echo")), (21, 21));
}

/// J9: a server without tools is connected. A call of an unknown tool gets an error.
#[tokio::test]
async fn a_server_without_tools_is_connected() {
    let backend = Backend::start(BackendKind::Stdio, &["--no-tools"]).await;
    let gateway = under(&[("x", &backend)]).await;
    let rest = gateway.rest();
    rest.until_status("x", "connected").await;
    assert_eq!(tools(&rest, "x").await, Vec::<String>::new());
    refused(
        &call(&rest, "x/nothing", json!({})).await,
        StatusCode::NOT_FOUND,
        "tool_not_found",
    );
}

/// J12–J14, Y4: tool names in any alphabet, definitions without a schema, and a server with the name of
/// document 002's own tools.
#[tokio::test]
async fn odd_tools_are_listed_and_called() {
    let flags = [
        "--tool",
        r#"{"name":"größe_測る","inputSchema":{"type":"object"}}"#,
        "--tool",
        r#"{"name":"bare"}"#,
    ];
    let backend = Backend::start(BackendKind::Stdio, &flags).await;
    let gateway = under(&[("breakpoint", &backend)]).await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    let listed = tools(&rest, "breakpoint").await;
    for original in ["größe_測る", "bare", "echo"] {
        let name = format!("breakpoint/{original}");
        assert!(listed.contains(&name), "{listed:?}");
        let (status, answer) = call(&rest, &name, json!({"text": original})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], original, "{answer}");
    }
    let exposed = client.tools().await;
    assert!(
        exposed.contains(&"breakpoint__bare".to_owned()),
        "{exposed:?}"
    );
    let altered = exposed
        .iter()
        .find(|tool| tool.starts_with("breakpoint__gr"));
    let altered = altered.expect("a legal name for it");
    assert!(altered.is_ascii(), "{altered}");
    assert_eq!(client.call_text(altered, json!({})).await, "größe_測る");
    // The tool of another server, whose name has the same ending, must not answer.
    refused(
        &call(&rest, "breakpoint_echo", json!({})).await,
        StatusCode::BAD_REQUEST,
        "invalid_tool_name",
    );
}

/// E2: a URL is used exactly as written.
#[tokio::test]
async fn a_slash_at_the_end_of_a_url_is_the_servers_business() {
    let (without, mut with) = (
        Backend::start(BackendKind::Sse, &[]).await,
        Backend::start(BackendKind::Sse, &[]).await,
    );
    let url = format!("{}/", with.fake().url());
    with.entry["url"] = url.into();
    let gateway = under(&[("without", &without), ("with", &with)]).await;
    let rest = gateway.rest();
    for (name, backend, path) in [("without", &without, "/sse"), ("with", &with, "/sse/")] {
        assert_echo(&rest, name).await;
        let received = backend.fake().received();
        assert!(
            received
                .iter()
                .any(|request| request.verb == "GET" && request.path == path),
            "{name}"
        );
    }
}
