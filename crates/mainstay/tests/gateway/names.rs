//! Names of tools, prompts and resources that exist at two servers (J4, Y4).

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, names},
    gateway::Gateway,
};

async fn start_two(settings: Value) -> (Gateway, [Backend; 2]) {
    let backends = [
        Backend::http().await,
        Backend::start(BackendKind::Sse, &[]).await,
    ];
    let gateway =
        Gateway::with_settings(&[("one", &backends[0]), ("two", &backends[1])], settings).await;
    (gateway, backends)
}

/// The number of runs of `echo` at each server.
fn echo_counts(backends: &[Backend; 2]) -> [u64; 2] {
    [0, 1].map(|index| backends[index].fake().runs("echo"))
}

async fn unknown_tool(client: &Http, tool: &str) -> Value {
    let error = client
        .error("tools/call", json!({"name": tool, "arguments": {}}))
        .await;
    assert_eq!(error["code"], -32602, "{error}");
    error
}

/// Two servers may have a tool of the same name. Both tools can be called (J4).
#[tokio::test]
async fn the_same_tool_of_two_servers_is_two_tools() {
    let (gateway, backends) = start_two(json!({})).await;
    let client = gateway.client().await;
    let tools = client.tools().await;
    assert!(tools.contains(&"one__echo".to_owned()) && tools.contains(&"two__echo".to_owned()));
    client.assert_echo("one__echo").await;
    assert_eq!(echo_counts(&backends), [1, 0]);
    client.assert_echo("two__echo").await;
    assert_eq!(echo_counts(&backends), [1, 1]);
    let prompts = names(&client.result("prompts/list", json!({})).await["prompts"]);
    assert_eq!(
        prompts,
        ["one__greet", "one__plain", "two__greet", "two__plain"]
    );
}

/// Another spelling of a name is accepted if only one tool matches (Y4).
#[tokio::test]
async fn other_spellings_lead_to_the_same_tool() {
    let (gateway, backends) = start_two(json!({})).await;
    let client = gateway.client().await;
    for tool in ["two__echo", "two/echo", "mcp__two__echo"] {
        client.assert_echo(tool).await;
    }
    assert_eq!(echo_counts(&backends), [0, 3]);
    let error = unknown_tool(&client, "echo").await;
    assert_eq!(
        error["data"]["candidates"],
        json!(["one__echo", "two__echo"]),
        "{error}"
    );
}

/// `naming` selects the form of names. If two servers share a bare name, it is not listed.
#[tokio::test]
async fn naming_is_a_choice() {
    for (naming, echo, extra_tool) in [
        ("slash", "one/echo", "one/tool_1"),
        ("mcp_prefix", "mcp__one__echo", "mcp__one__tool_1"),
        ("none", "one__echo", "tool_1"),
    ] {
        let first_backend = Backend::start(BackendKind::Http, &["--tools", "1"]).await;
        let second_backend = Backend::http().await;
        let settings = json!({"naming": naming});
        let gateway = Gateway::with_settings(
            &[("one", &first_backend), ("two", &second_backend)],
            settings,
        )
        .await;
        let client = gateway.client().await;
        let tools = client.tools().await;
        assert!(
            tools.contains(&echo.to_owned()) && tools.contains(&extra_tool.to_owned()),
            "{tools:?}"
        );
        assert!(!tools.contains(&"echo".to_owned()));
        client.assert_echo(echo).await;
        assert_eq!(client.call_text(extra_tool, json!({})).await, "tool_1");
        let error = unknown_tool(&client, "echo").await;
        let message = error["message"].as_str().expect("words");
        assert!(
            message.contains("one") && message.contains("two"),
            "{message}"
        );
    }
}

/// If servers share a URI, it leads to the first server of the configuration.
/// `mainstay+<server>:<uri>` selects another one.
#[tokio::test]
async fn the_same_uri_of_two_servers_is_two_resources() {
    let (gateway, backends) = start_two(json!({})).await;
    let client = gateway.client().await;
    let listed_result = client.result("resources/list", json!({})).await;
    let uris: Vec<_> = listed_result["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|resource| &resource["uri"])
        .collect();
    assert_eq!(
        uris,
        [
            "fake://text",
            "fake://blob",
            "mainstay+two:fake://text",
            "mainstay+two:fake://blob"
        ]
    );
    for (uri, read_count) in [
        ("fake://text", [1, 0]),
        ("mainstay+two:fake://text", [1, 1]),
        ("mainstay+one:fake://text", [2, 1]),
        ("mainstay+two:fake://item/7", [2, 2]),
        ("fake://item/7", [3, 2]),
    ] {
        client.result("resources/read", json!({"uri": uri})).await;
        assert_eq!(
            [0, 1].map(|index| backends[index].count("resources/read")),
            read_count,
            "{uri}"
        );
    }
    for backend in &backends {
        for read_request in backend.of_method("resources/read") {
            assert!(
                read_request["params"]["uri"]
                    .as_str()
                    .expect("a URI")
                    .starts_with("fake://"),
                "{read_request}"
            );
        }
    }
}

/// Mainstay looks for the owner of a URI first in the lists, then in the templates. Then it sends
/// requests to the servers.
#[tokio::test]
async fn an_unlisted_resource_is_looked_for() {
    let bare_backend = Backend::start(BackendKind::Http, &["--no-resources"]).await;
    let other_backend = Backend::http().await;
    let gateway =
        Gateway::with_servers(&[("bare", &bare_backend), ("other", &other_backend)]).await;
    let client = gateway.client().await;
    client
        .result("resources/read", json!({"uri": "fake://item/1"}))
        .await;
    assert_eq!(
        (
            bare_backend.count("resources/read"),
            other_backend.count("resources/read")
        ),
        (0, 1)
    );
    let error = client
        .error("resources/read", json!({"uri": "nobody://knows"}))
        .await;
    assert_eq!(
        (&error["code"], &error["data"]["uri"]),
        (&json!(-32002), &json!("nobody://knows"))
    );
    assert_eq!(other_backend.count("resources/read"), 2);
}

/// An unknown tool gets −32602, with the status of its server (K2).
#[tokio::test]
async fn an_unknown_tool_names_the_state_of_its_server() {
    let (gateway, _backends) = start_two(json!({})).await;
    let client = gateway.client().await;
    let error = unknown_tool(&client, "one__nothing").await;
    let message = error["message"].as_str().expect("words");
    assert!(
        message.contains("one__nothing") && message.contains("'one' is connected"),
        "{message}"
    );
    assert_eq!(error["data"]["kind"], "tool_not_found");
    assert_eq!(error["data"]["server"], "one");
    let error = unknown_tool(&client, "three__nothing").await;
    assert_eq!(error["data"]["kind"], "tool_not_found");
    let error = client
        .error("prompts/get", json!({"name": "one__nothing"}))
        .await;
    assert_eq!(
        (&error["code"], &error["data"]["kind"]),
        (&json!(-32602), &json!("prompt_not_found"))
    );
    for params in [json!({}), json!({"name": 7}), json!({"name": null})] {
        let error = client.error("tools/call", params.clone()).await;
        assert_eq!(error["code"], -32602, "{params}");
    }
}

/// A disabled tool is not listed, and no spelling can call it.
#[tokio::test]
async fn a_disabled_tool_is_not_there() {
    let backend = Backend::http()
        .await
        .option("disabledTools", json!(["echo", "weird"]));
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let tools = client.tools().await;
    assert!(!tools.contains(&"x__echo".to_owned()) && !tools.contains(&"x__weird".to_owned()));
    for tool in ["x__echo", "x/echo", "mcp__x__echo", "echo"] {
        unknown_tool(&client, tool).await;
    }
    let transparent_client = gateway.client_at("/servers/x/mcp").await;
    assert!(
        !transparent_client
            .tools()
            .await
            .contains(&"echo".to_owned())
    );
    transparent_client
        .error("tools/call", json!({"name": "echo"}))
        .await;
    assert_eq!(backend.fake().runs("echo"), 0);
    assert_eq!(
        client.call_text("x__add", json!({"a": 1, "b": 1})).await,
        "2"
    );
}

/// Names longer than `maxNameLength` are shortened. They stay distinct and lead to the right tools
/// (J12).
#[tokio::test]
async fn long_names_are_shortened_and_found() {
    let backend = Backend::start(BackendKind::Http, &["--tools", "3"]).await;
    let settings = json!({"maxNameLength": 16});
    let gateway = Gateway::with_settings(&[("a-rather-long-name", &backend)], settings).await;
    let client = gateway.client().await;
    let tools = client.tools().await;
    assert!(tools.iter().all(|tool| tool.len() <= 16), "{tools:?}");
    let distinct: std::collections::HashSet<_> = tools.iter().collect();
    assert_eq!(distinct.len(), tools.len());
    let mut tool_names = Vec::new();
    for tool in &tools[tools.len() - 3..] {
        tool_names.push(client.call_text(tool, json!({})).await);
    }
    assert_eq!(tool_names, ["tool_1", "tool_2", "tool_3"]);
}
