//! Profiles select the servers and items of each endpoint.

use http::StatusCode;
use mainstay::daemon::DaemonOptions;
use mainstay_core::config::Secret;
use serde_json::{Value, json, value::RawValue};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, names, raw},
    gateway::{Gateway, config},
    modern::Modern,
    reloading::{File, reload},
};

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";

/// A gateway with the servers `x` and `y` and these profiles.
async fn gateway(first_backend: &Backend, second_backend: &Backend, profiles: Value) -> Gateway {
    Gateway::with_settings(
        &[("x", first_backend), ("y", second_backend)],
        json!({"profiles": profiles}),
    )
    .await
}

/// The tools in the client's list, as raw JSON.
async fn items(client: &Http) -> Vec<String> {
    let answer = client.ask("tools/list", "{}").await;
    let list = raw(raw(&answer, "result"), "tools");
    let items: Vec<&RawValue> = serde_json::from_str(list).expect("a list");
    items.iter().map(|item| item.get().to_owned()).collect()
}

over_every_transport! {
    /// If a profile hides a tool, no spelling can call it.
    async fn a_denied_tool_has_no_callable_spelling(kind) {
        let (first_backend, second_backend) = (Backend::start(kind, &[]).await, Backend::start(kind, &[]).await);
        let profiles = json!({"safe": {"servers": ["y"], "tools": {"deny": ["*/echo"]}}});
        let gateway = gateway(&first_backend, &second_backend, profiles).await;
        let all_client = gateway.client().await;
        for spelling in ["x__echo", "y__echo", "x/echo", "y/echo", "mcp__y__echo"] {
            all_client.assert_echo(spelling).await;
        }
        let (first_runs, second_runs) = (first_backend.runs("echo"), second_backend.runs("echo"));
        let safe_client = gateway.client_at("/mcp/safe").await;
        let modern = Modern::at(&gateway, "/mcp/safe");
        let mut pipe = gateway.pipe_for_profile("safe").await;
        let tools = safe_client.tools().await;
        assert!(tools.iter().all(|tool| tool.starts_with("y__") && tool != "y__echo"), "{tools:?}");
        assert!(tools.contains(&"y__count".to_owned()));
        for spelling in [
            "echo", "y__echo", "y/echo", "mcp__y__echo", "x__echo", "x/echo", "mcp__x__echo",
            "x__count", "Y__echo", "y__echo_", "",
        ] {
            let call = json!({"name": spelling, "arguments": {"text": "hello"}});
            let error = safe_client.error("tools/call", call.clone()).await;
            assert_eq!(error["code"], -32602, "{spelling}: {error}");
            let (_, error) = modern.error("tools/call", call.clone()).await;
            assert_eq!(error["code"], -32602, "{spelling}: {error}");
            let answer = pipe.ask("tools/call", &call.to_string()).await;
            assert!(answer.contains("-32602"), "{spelling}: {answer}");
        }
        assert_eq!((first_backend.runs("echo"), second_backend.runs("echo")), (first_runs, second_runs));
        // The error does not reveal the status of a server outside of the profile.
        let error = safe_client.error("tools/call", json!({"name": "x__echo"})).await;
        assert!(!error.to_string().contains("connected"), "{error}");
        assert_eq!(safe_client.call("y__count", json!({})).await["isError"], Value::Null);
    }

    /// Prompts and resources are those of the profile's servers.
    async fn prompts_and_resources_follow_the_servers(kind) {
        let (first_backend, second_backend) = (Backend::start(kind, &[]).await, Backend::start(kind, &[]).await);
        let gateway = gateway(&first_backend, &second_backend, json!({"one": {"servers": ["y"]}})).await;
        let first_client = gateway.client_at("/mcp/one").await;
        let prompts = names(&first_client.result("prompts/list", json!({})).await["prompts"]);
        assert!(prompts.iter().all(|prompt| prompt.starts_with("y__")), "{prompts:?}");
        let resources = first_client.result("resources/list", json!({})).await;
        // The resource of the other server is not listed.
        assert_eq!(resources["resources"][0]["uri"], "fake://text");
        first_client.result("resources/read", json!({"uri": "fake://text"})).await;
        first_client.result("resources/read", json!({"uri": "fake://item/3"})).await;
        first_client.result("resources/read", json!({"uri": "mainstay+y:fake://text"})).await;
        first_client.result("prompts/get", json!({"name": "plain"})).await;
        assert_eq!((first_backend.count("resources/read"), second_backend.count("resources/read")), (0, 3));
        for (method, params) in [
            ("resources/read", json!({"uri": "mainstay+x:fake://text"})),
            ("resources/read", json!({"uri": "mainstay+x:fake://item/3"})),
            ("resources/subscribe", json!({"uri": "mainstay+x:fake://text"})),
            ("prompts/get", json!({"name": "x__plain"})),
            ("prompts/get", json!({"name": "x/plain"})),
            ("completion/complete", json!({
                "ref": {"type": "ref/prompt", "name": "x__greet"},
                "argument": {"name": "name", "value": "A"}
            })),
            ("completion/complete", json!({
                "ref": {"type": "ref/resource", "uri": "mainstay+x:fake://item/{id}"},
                "argument": {"name": "id", "value": "1"}
            })),
        ] {
            first_client.error(method, params).await;
            assert_eq!(first_backend.count(method), 0, "{method}");
        }
    }

    /// Each client is notified only if its own list has changed.
    async fn only_changed_lists_are_announced(kind) {
        let (first_backend, second_backend) = (Backend::start(kind, &[]).await, Backend::start(kind, &[]).await);
        let profiles = json!({
            "x": {"servers": ["x"]},
            "y": {"servers": ["y"]},
            "blind": {"tools": {"deny": ["*/extra"]}},
        });
        let gateway = gateway(&first_backend, &second_backend, profiles).await;
        let all_client = gateway.client().await;
        let mut streams = Vec::new();
        for name in ["x", "y", "blind", "meta"] {
            let client = gateway.client_at(&format!("/mcp/{name}")).await;
            client.tools().await;
            streams.push((name, client.listen().await));
        }
        let mut pipe = gateway.pipe_for_profile("x").await;
        // This call adds the tool `extra`.
        all_client.call("x__change_tools", json!({})).await;
        assert_eq!(all_client.listen().await.message().await["method"], TOOLS);
        // These lists change only in profiles with `y`.
        all_client.call("y__change_prompts", json!({})).await;
        for (name, stream) in &mut streams {
            let expected = if *name == "x" { TOOLS } else { PROMPTS };
            assert_eq!(stream.message().await["method"], expected, "{name}");
        }
        assert_eq!(pipe.message().await["method"], TOOLS);
    }
}

/// Each profile has its own naming. In one of them, a tool has a configured name and description.
#[tokio::test]
async fn each_profile_has_names_of_its_own() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let profiles = json!({
        "bare": {"servers": ["x"], "naming": "none"},
        "slashed": {"naming": "slash", "rename": {"x/weird": "odd"}, "descriptions": {
            "x/weird": "What \"no\" model holds", "x/echo": "Says it again.",
        }},
    });
    let gateway = gateway(&first_backend, &second_backend, profiles).await;
    let bare_client = gateway.client_at("/mcp/bare").await;
    let slashed_client = gateway.client_at("/mcp/slashed").await;
    bare_client.assert_echo("echo").await;
    slashed_client.assert_echo("x/echo").await;
    slashed_client.ask("tools/call", r#"{"name":"odd"}"#).await;
    assert_eq!(first_backend.runs("weird"), 1);
    assert!(bare_client.tools().await.contains(&"weird".to_owned()));
    let tools = slashed_client.tools().await;
    assert!(tools.contains(&"odd".to_owned()) && !tools.contains(&"x/weird".to_owned()));
    assert!(tools.contains(&"y/weird".to_owned()));

    // Only the name and the description differ (invariant 5).
    let plain_items = items(&bare_client).await;
    let plain_items = plain_items
        .iter()
        .find(|tool| tool.contains("\"weird\""))
        .expect("it");
    let listed_items = items(&slashed_client).await;
    let renamed_tool = listed_items
        .iter()
        .find(|tool| tool.contains("\"odd\""))
        .expect("it");
    let description = raw(plain_items, "description");
    let expected = plain_items
        .replace("\"weird\"", "\"odd\"")
        .replace(description, r#""What \"no\" model holds""#);
    assert_eq!(*renamed_tool, expected);
}

/// With `meta`, the servers' tools are not listed. The instructions name the own tools that replace
/// them.
#[tokio::test]
async fn meta_lists_no_tools_of_servers() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let gateway = gateway(&first_backend, &second_backend, json!({})).await;
    let client = gateway.client_at("/mcp/meta").await;
    let tools = client.tools().await;
    assert!(!tools.iter().any(|tool| tool.contains("echo")), "{tools:?}");
    let error = client.error("tools/call", json!({"name": "x__echo"})).await;
    let message = error["message"].as_str().expect("words");
    assert!(message.contains("execute_tool"), "{message}");
    assert_eq!(first_backend.runs("echo"), 0);
    let prompts = names(&client.result("prompts/list", json!({})).await["prompts"]);
    assert!(prompts.contains(&"x__greet".to_owned()));
    client
        .result("resources/read", json!({"uri": "fake://text"}))
        .await;
}

/// A configured profile can be the one of `/mcp`. REST still shows all servers.
#[tokio::test]
async fn the_default_profile_is_one_of_them() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let gateway = gateway(
        &first_backend,
        &second_backend,
        json!({"default": {"servers": ["y"]}}),
    )
    .await;
    let tools = gateway.client().await.tools().await;
    assert!(
        tools.iter().all(|tool| tool.starts_with("y__")),
        "{tools:?}"
    );
    assert_eq!(gateway.client_at("/mcp/default").await.tools().await, tools);
    let all_text = gateway.rest().get("/api/mcp-tools").await.to_string();
    assert!(
        all_text.contains("x/echo") && all_text.contains("y/echo"),
        "{all_text}"
    );
}

#[tokio::test]
async fn an_unknown_profile_is_not_found() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let gateway = gateway(&first_backend, &second_backend, json!({"one": {}})).await;
    for path in ["/mcp/two", "/mcp/One", "/mcp/one%20"] {
        let client = gateway.stranger(path);
        let answer = client
            .post(crate::client::initialize(crate::client::LATEST))
            .await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        let message = answer.json()["error"]["message"].clone();
        assert!(
            message.as_str().expect("words").contains("Profile"),
            "{message}"
        );
        let modern = Modern::at(&gateway, path);
        let answer = modern.ask("tools/list", json!({})).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
}

/// A session is valid only at its own endpoint, even after a restart.
#[tokio::test]
async fn a_session_is_of_one_profile() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let settings = json!({"profiles": {"one": {"servers": ["y"]}, "two": {}}});
    let config = config(&[("x", &first_backend), ("y", &second_backend)], settings);
    let run = async || {
        let options = DaemonOptions {
            session_key: Some(Secret::new("a key that is kept")),
            ..DaemonOptions::default()
        };
        Gateway::with_options(&config, options).await
    };
    let gateway = run().await;
    let client = gateway.client_at("/mcp/one").await;
    let session = client.session.clone();
    let later_run = run().await;
    for (gateway, place) in [(&gateway, "in its own run"), (&later_run, "in a later run")] {
        for (path, expected) in [
            ("/mcp", StatusCode::NOT_FOUND),
            ("/mcp/two", StatusCode::NOT_FOUND),
            ("/servers/y/mcp", StatusCode::NOT_FOUND),
            ("/mcp/one", StatusCode::OK),
        ] {
            let mut client = gateway.stranger(path);
            client.session.clone_from(&session);
            let answer = client.post(client.request_text("tools/list", "{}")).await;
            assert_eq!(answer.status, expected, "{path} {place}");
            assert_eq!(answer.text.contains("y__echo"), expected == StatusCode::OK);
            assert!(!answer.text.contains("x__echo"), "{path} {place}");
        }
    }
}

/// For clients without a session, discovery and listen streams also depend on the profile
/// (2026-07-28).
#[tokio::test]
async fn a_modern_client_has_the_profile_too() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let gateway = gateway(
        &first_backend,
        &second_backend,
        json!({"one": {"servers": ["y"]}}),
    )
    .await;
    let client = Modern::at(&gateway, "/mcp/one");
    let tools = names(&client.result("tools/list", json!({})).await["tools"]);
    assert!(
        tools.iter().all(|tool| tool.starts_with("y__")),
        "{tools:?}"
    );
    client.call("y__echo", json!({"text": "hello"})).await;
    client.result("server/discover", json!({})).await;
    let expected = json!({"notifications": {
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourceSubscriptions": ["mainstay+x:fake://text", "mainstay+y:fake://text"],
    }});
    let mut stream = client.begin("subscriptions/listen", expected).await;
    let first = stream.message().await;
    assert_eq!(
        first["params"]["notifications"]["resourceSubscriptions"],
        json!(["mainstay+y:fake://text"])
    );
    let all_client = gateway.client().await;
    all_client.call("x__change_tools", json!({})).await;
    assert_eq!(all_client.listen().await.message().await["method"], TOOLS);
    all_client.call("y__change_prompts", json!({})).await;
    assert_eq!(stream.message().await["method"], PROMPTS);
}

/// A reload adds, changes and removes profiles (issue 5, A28).
#[tokio::test]
async fn a_reload_brings_and_takes_profiles() {
    let (first_backend, second_backend) = (
        Backend::http().await,
        Backend::start(BackendKind::Sse, &[]).await,
    );
    let servers = [("x", &first_backend), ("y", &second_backend)];
    let file = File::with_servers(&servers);
    let gateway = file.run().await;
    let all_client = gateway.client().await;
    all_client.assert_echo("y__echo").await;
    let mut unaffected_stream = all_client.listen().await;

    file.write_with(&servers, json!({"profiles": {"new": {"servers": ["x"]}}}));
    let plan = reload(&gateway).await;
    assert!(plan["summary"].to_string().contains("profiles"), "{plan}");
    let client = gateway.client_at("/mcp/new").await;
    let mut stream = client.listen().await;
    client.assert_echo("x__echo").await;
    client.error("tools/call", json!({"name": "y__echo"})).await;

    let profiles = json!({"new": {"tools": {"deny": ["x/echo"]}, "naming": "slash"}});
    file.write_with(&servers, json!({"profiles": profiles}));
    reload(&gateway).await;
    // Skip the announcements of the added server's prompts and resources.
    while stream.message().await["method"] != TOOLS {}
    client.error("tools/call", json!({"name": "x/echo"})).await;
    client.assert_echo("y/echo").await;

    file.write_with(&servers, json!({}));
    reload(&gateway).await;
    while stream.next().await.is_some() {}
    let removed_response = client.post(client.request_text("tools/list", "{}")).await;
    assert_eq!(
        removed_response.status,
        StatusCode::NOT_FOUND,
        "{}",
        removed_response.text
    );
    // The profile at `/mcp` and the servers have not changed.
    all_client.call("x__change_prompts", json!({})).await;
    assert_eq!(unaffected_stream.message().await["method"], PROMPTS);
    assert_eq!(first_backend.count("initialize"), 1);
}

/// A reload can remove the last server, and add a profile.
#[tokio::test]
async fn a_reload_without_servers_has_profiles() {
    let x_backend = Backend::http().await;
    let file = File::with_servers(&[("x", &x_backend)]);
    let gateway = file.run().await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    file.write_with(&[], json!({"profiles": {"new": {}}}));
    reload(&gateway).await;
    assert_eq!(client.tools().await, [""; 0]);
    assert_eq!(gateway.client_at("/mcp/new").await.tools().await, [""; 0]);
    file.write_with(&[("x", &x_backend)], json!({"profiles": {"new": {}}}));
    reload(&gateway).await;
    gateway
        .client_at("/mcp/new")
        .await
        .assert_echo("x__echo")
        .await;
}
