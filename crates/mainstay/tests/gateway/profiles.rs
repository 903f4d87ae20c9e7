//! Profiles: the items that each endpoint shows. No other items can be reached there.

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

/// A gateway with these profiles and the servers `x` and `y`.
async fn gateway(x: &Backend, y: &Backend, profiles: Value) -> Gateway {
    Gateway::with_settings(&[("x", x), ("y", y)], json!({"profiles": profiles})).await
}

/// The items of the client's tools, as raw text.
async fn items(client: &Http) -> Vec<String> {
    let answer = client.ask("tools/list", "{}").await;
    let list = raw(raw(&answer, "result"), "tools");
    let items: Vec<&RawValue> = serde_json::from_str(list).expect("a list");
    items.iter().map(|item| item.get().to_owned()).collect()
}

over_every_transport! {
    /// No spelling reaches a tool that the profile does not list.
    async fn what_is_denied_is_reached_by_no_spelling(kind) {
        let (x, y) = (Backend::start(kind, &[]).await, Backend::start(kind, &[]).await);
        let profiles = json!({"safe": {"servers": ["y"], "tools": {"deny": ["*/echo"]}}});
        let gateway = gateway(&x, &y, profiles).await;
        let all = gateway.client().await;
        for spelling in ["x__echo", "y__echo", "x/echo", "y/echo", "mcp__y__echo"] {
            all.assert_echo(spelling).await;
        }
        let (x_ran, y_ran) = (x.runs("echo"), y.runs("echo"));
        let safe = gateway.client_at("/mcp/safe").await;
        let modern = Modern::at(&gateway, "/mcp/safe");
        let mut pipe = gateway.pipe_for_profile("safe").await;
        let tools = safe.tools().await;
        assert!(tools.iter().all(|tool| tool.starts_with("y__") && tool != "y__echo"), "{tools:?}");
        assert!(tools.contains(&"y__count".to_owned()));
        for spelling in [
            "echo", "y__echo", "y/echo", "mcp__y__echo", "x__echo", "x/echo", "mcp__x__echo",
            "x__count", "Y__echo", "y__echo_", "",
        ] {
            let call = json!({"name": spelling, "arguments": {"text": "hello"}});
            let error = safe.error("tools/call", call.clone()).await;
            assert_eq!(error["code"], -32602, "{spelling}: {error}");
            let (_, error) = modern.error("tools/call", call.clone()).await;
            assert_eq!(error["code"], -32602, "{spelling}: {error}");
            let answer = pipe.ask("tools/call", &call.to_string()).await;
            assert!(answer.contains("-32602"), "{spelling}: {answer}");
        }
        assert_eq!((x.runs("echo"), y.runs("echo")), (x_ran, y_ran));
        // Clients whose profile lacks a server get no status of it.
        let error = safe.error("tools/call", json!({"name": "x__echo"})).await;
        assert!(!error.to_string().contains("connected"), "{error}");
        assert_eq!(safe.call("y__count", json!({})).await["isError"], Value::Null);
    }

    /// Prompts, resources and other items are those of the profile's servers.
    async fn prompts_and_resources_follow_the_servers(kind) {
        let (x, y) = (Backend::start(kind, &[]).await, Backend::start(kind, &[]).await);
        let gateway = gateway(&x, &y, json!({"one": {"servers": ["y"]}})).await;
        let one = gateway.client_at("/mcp/one").await;
        let prompts = names(&one.result("prompts/list", json!({})).await["prompts"]);
        assert!(prompts.iter().all(|prompt| prompt.starts_with("y__")), "{prompts:?}");
        let resources = one.result("resources/list", json!({})).await;
        // No other server has the resource here.
        assert_eq!(resources["resources"][0]["uri"], "fake://text");
        one.result("resources/read", json!({"uri": "fake://text"})).await;
        one.result("resources/read", json!({"uri": "fake://item/3"})).await;
        one.result("resources/read", json!({"uri": "mainstay+y:fake://text"})).await;
        one.result("prompts/get", json!({"name": "plain"})).await;
        assert_eq!((x.count("resources/read"), y.count("resources/read")), (0, 3));
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
            one.error(method, params).await;
            assert_eq!(x.count(method), 0, "{method}");
        }
    }

    /// A client whose list has not changed gets no notification.
    async fn a_change_is_told_where_it_is_one(kind) {
        let (x, y) = (Backend::start(kind, &[]).await, Backend::start(kind, &[]).await);
        let profiles = json!({
            "x": {"servers": ["x"]},
            "y": {"servers": ["y"]},
            "blind": {"tools": {"deny": ["*/extra"]}},
        });
        let gateway = gateway(&x, &y, profiles).await;
        let all = gateway.client().await;
        let mut streams = Vec::new();
        for name in ["x", "y", "blind", "meta"] {
            let client = gateway.client_at(&format!("/mcp/{name}")).await;
            client.tools().await;
            streams.push((name, client.listen().await));
        }
        let mut pipe = gateway.pipe_for_profile("x").await;
        // Adds a tool with the name `extra`.
        all.call("x__change_tools", json!({})).await;
        assert_eq!(all.listen().await.message().await["method"], TOOLS);
        // These change everywhere but at `x`.
        all.call("y__change_prompts", json!({})).await;
        for (name, stream) in &mut streams {
            let expected = if *name == "x" { TOOLS } else { PROMPTS };
            assert_eq!(stream.message().await["method"], expected, "{name}");
        }
        assert_eq!(pipe.message().await["method"], TOOLS);
    }
}

/// Two profiles at once: each has its own names, and one tool has the configured name and description.
#[tokio::test]
async fn each_profile_has_names_of_its_own() {
    let (x, y) = (Backend::http().await, Backend::http().await);
    let profiles = json!({
        "bare": {"servers": ["x"], "naming": "none"},
        "slashed": {"naming": "slash", "rename": {"x/weird": "odd"}, "descriptions": {
            "x/weird": "What \"no\" model holds", "x/echo": "Says it again.",
        }},
    });
    let gateway = gateway(&x, &y, profiles).await;
    let bare = gateway.client_at("/mcp/bare").await;
    let slashed = gateway.client_at("/mcp/slashed").await;
    bare.assert_echo("echo").await;
    slashed.assert_echo("x/echo").await;
    slashed.ask("tools/call", r#"{"name":"odd"}"#).await;
    assert_eq!(x.runs("weird"), 1);
    assert!(bare.tools().await.contains(&"weird".to_owned()));
    let tools = slashed.tools().await;
    assert!(tools.contains(&"odd".to_owned()) && !tools.contains(&"x/weird".to_owned()));
    assert!(tools.contains(&"y/weird".to_owned()));

    // Invariant 5: only the name and the description differ.
    let plain = items(&bare).await;
    let plain = plain
        .iter()
        .find(|tool| tool.contains("\"weird\""))
        .expect("it");
    let listed = items(&slashed).await;
    let renamed = listed
        .iter()
        .find(|tool| tool.contains("\"odd\""))
        .expect("it");
    let description = raw(plain, "description");
    let expected = plain
        .replace("\"weird\"", "\"odd\"")
        .replace(description, r#""What \"no\" model holds""#);
    assert_eq!(*renamed, expected);
}

/// `meta` hides only tools, and says how to reach them.
#[tokio::test]
async fn meta_lists_no_tools_of_servers() {
    let (x, y) = (Backend::http().await, Backend::http().await);
    let gateway = gateway(&x, &y, json!({})).await;
    let client = gateway.client_at("/mcp/meta").await;
    let tools = client.tools().await;
    assert!(!tools.iter().any(|tool| tool.contains("echo")), "{tools:?}");
    let error = client.error("tools/call", json!({"name": "x__echo"})).await;
    let message = error["message"].as_str().expect("words");
    assert!(message.contains("execute_tool"), "{message}");
    assert_eq!(x.runs("echo"), 0);
    let prompts = names(&client.result("prompts/list", json!({})).await["prompts"]);
    assert!(prompts.contains(&"x__greet".to_owned()));
    client
        .result("resources/read", json!({"uri": "fake://text"}))
        .await;
}

/// The configuration may change the profile at `/mcp`. The operator's door still shows everything.
#[tokio::test]
async fn the_default_profile_is_one_of_them() {
    let (x, y) = (Backend::http().await, Backend::http().await);
    let gateway = gateway(&x, &y, json!({"default": {"servers": ["y"]}})).await;
    let tools = gateway.client().await.tools().await;
    assert!(
        tools.iter().all(|tool| tool.starts_with("y__")),
        "{tools:?}"
    );
    assert_eq!(gateway.client_at("/mcp/default").await.tools().await, tools);
    let all = gateway.rest().get("/api/mcp-tools").await.to_string();
    assert!(all.contains("x/echo") && all.contains("y/echo"), "{all}");
}

#[tokio::test]
async fn what_is_no_profile_is_not_found() {
    let (x, y) = (Backend::http().await, Backend::http().await);
    let gateway = gateway(&x, &y, json!({"one": {}})).await;
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

/// A session belongs to its endpoint, also in a later run.
#[tokio::test]
async fn a_session_is_of_one_profile() {
    let (x, y) = (Backend::http().await, Backend::http().await);
    let settings = json!({"profiles": {"one": {"servers": ["y"]}, "two": {}}});
    let config = config(&[("x", &x), ("y", &y)], settings);
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
    let later = run().await;
    for (gateway, place) in [(&gateway, "in its own run"), (&later, "in a later run")] {
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

/// Clients without a session: discovery and the listen stream are the profile's (2026-07-28).
#[tokio::test]
async fn a_modern_client_has_the_profile_too() {
    let (x, y) = (Backend::http().await, Backend::http().await);
    let gateway = gateway(&x, &y, json!({"one": {"servers": ["y"]}})).await;
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
    let all = gateway.client().await;
    all.call("x__change_tools", json!({})).await;
    assert_eq!(all.listen().await.message().await["method"], TOOLS);
    all.call("y__change_prompts", json!({})).await;
    assert_eq!(stream.message().await["method"], PROMPTS);
}

/// Issue 5: a profile can be added, changed and removed without a restart (A28).
#[tokio::test]
async fn a_reload_brings_and_takes_profiles() {
    let (x, y) = (
        Backend::http().await,
        Backend::start(BackendKind::Sse, &[]).await,
    );
    let servers = [("x", &x), ("y", &y)];
    let file = File::with_servers(&servers);
    let gateway = file.run().await;
    let all = gateway.client().await;
    all.assert_echo("y__echo").await;
    let mut unconcerned = all.listen().await;

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
    // Prompts and resources of another server have been added, too.
    while stream.message().await["method"] != TOOLS {}
    client.error("tools/call", json!({"name": "x/echo"})).await;
    client.assert_echo("y/echo").await;

    file.write_with(&servers, json!({}));
    reload(&gateway).await;
    while stream.next().await.is_some() {}
    let gone = client.post(client.request_text("tools/list", "{}")).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND, "{}", gone.text);
    // None of this concerned the profile at `/mcp`, or the servers.
    all.call("x__change_prompts", json!({})).await;
    assert_eq!(unconcerned.message().await["method"], PROMPTS);
    assert_eq!(x.count("initialize"), 1);
}

/// The last server can be removed, and profiles can still be added.
#[tokio::test]
async fn a_reload_without_servers_has_profiles() {
    let x = Backend::http().await;
    let file = File::with_servers(&[("x", &x)]);
    let gateway = file.run().await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    file.write_with(&[], json!({"profiles": {"new": {}}}));
    reload(&gateway).await;
    assert_eq!(client.tools().await, [""; 0]);
    assert_eq!(gateway.client_at("/mcp/new").await.tools().await, [""; 0]);
    file.write_with(&[("x", &x)], json!({"profiles": {"new": {}}}));
    reload(&gateway).await;
    gateway
        .client_at("/mcp/new")
        .await
        .assert_echo("x__echo")
        .await;
}
