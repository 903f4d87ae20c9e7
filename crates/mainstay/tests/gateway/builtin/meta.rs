//! Own tools of the group `meta` (K9, O1–O6), and the size of their list for a thousand tools.

use serde_json::{Value, json};

use super::{call_failing, call_ok, result_json};
use crate::{
    backend::{Backend, BackendKind},
    client::{Http, failure, names, text, value},
    gateway::{Gateway, until},
    modern::Modern,
    rest_client::never_retry,
};

/// The maximum size of the profile's `tools/list` result, in bytes.
const MAX_LIST: usize = 9_000;

const TOOLS: [&str; 6] = [
    "search_tools",
    "describe_tool",
    "execute_tool",
    "list_servers",
    "reconnect_server",
    "read_object",
];

async fn meta(gateway: &Gateway) -> Http {
    gateway.client_at("/mcp/meta").await
}

fn execute(tool: &str, arguments: &Value) -> Value {
    json!({"name": "execute_tool", "arguments": {"name": tool, "arguments": arguments}})
}

/// A client lists six own tools instead of a thousand tools.
#[expect(clippy::print_stdout, reason = "the figure is what the test is for")]
#[tokio::test]
async fn a_thousand_tools_cost_six() {
    let many_backend = Backend::start(BackendKind::Http, &["--tools", "1000"]).await;
    let gateway = Gateway::with_servers(&[("many", &many_backend)]).await;
    let client = meta(&gateway).await;
    let result = client.ask("tools/list", "{}").await;
    println!("tools/list of profile meta: {} bytes", result.len());
    assert!(result.len() < MAX_LIST, "{} bytes", result.len());
    assert_eq!(names(&value(&result)["result"]["tools"]), TOOLS);
    let modern = Modern::at(&gateway, "/mcp/meta");
    let listed_result = modern.result("tools/list", json!({})).await;
    assert_eq!(names(&listed_result["tools"]), TOOLS);

    let search =
        json!({"name": "search_tools", "arguments": {"query": "returns name", "limit": 50}});
    let search_answer = client.ask("tools/call", &search.to_string()).await;
    assert!(
        search_answer.len() <= 16_000,
        "{} bytes",
        search_answer.len()
    );
    let (search_answer, _) = result_json(&value(&search_answer)["result"]);
    let tools = search_answer["tools"].as_array().expect("a list");
    let has_schema = |tool: &Value| tool["inputSchema"]["type"] == "object";
    assert!(
        tools.len() == 50 && tools.iter().all(has_schema),
        "{search_answer}"
    );
    assert!(
        search_answer["more"].as_u64() > Some(900),
        "{search_answer}"
    );
    let search_answer = call_ok(&client, "search_tools", json!({"query": "tool_777"})).await;
    assert_eq!(
        search_answer["tools"][0]["name"], "many__tool_777",
        "{search_answer}"
    );
}

/// A client searches for a tool, reads its schema and calls it.
#[tokio::test]
async fn tools_are_found_described_and_called() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::stdio().await);
    let gateway = Gateway::with_servers(&[("one", &first_backend), ("two", &second_backend)]).await;
    let client = meta(&gateway).await;
    let matching_result = call_ok(
        &client,
        "search_tools",
        json!({"query": "add two numbers", "server": "two"}),
    )
    .await;
    assert_eq!(
        matching_result["tools"][0]["name"], "two__add",
        "{matching_result}"
    );
    assert_eq!(matching_result["tools"][0]["server"], "two");
    let described_result = call_ok(&client, "describe_tool", json!({"name": "two__add"})).await;
    assert_eq!(described_result["tool"]["name"], "two__add");
    assert_eq!(described_result["status"], "connected");
    assert_eq!(
        described_result["tool"]["inputSchema"],
        matching_result["tools"][0]["inputSchema"]
    );
    for name in [
        json!({"name": "two__add"}),
        json!({"name": "two/add"}),
        json!({"server": "two", "tool": "add"}),
        json!({"server": "two", "name": "two__add"}),
    ] {
        let mut arguments = name.clone();
        arguments["arguments"] = json!({"a": 2, "b": 40});
        let sum = client.call_text("execute_tool", arguments).await;
        assert_eq!(sum, "42", "{name}");
    }
    assert_eq!(
        (first_backend.runs("add"), second_backend.runs("add")),
        (0, 4)
    );
    let empty_result = call_ok(&client, "search_tools", json!({"query": "zyxwv"})).await;
    assert_eq!(
        (&empty_result["tools"], &empty_result["more"]),
        (&json!([]), &json!(0)),
        "{empty_result}"
    );
    // A client cannot call a tool that the profile hides.
    let error = client
        .error("tools/call", json!({"name": "two__add"}))
        .await;
    assert_eq!(error["code"], -32602, "{error}");
}

/// Errors about unknown names and invalid arguments (K2).
#[tokio::test]
async fn errors_name_tools_that_cannot_be_called() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = meta(&gateway).await;
    for (tool, arguments, kind) in [
        (
            "execute_tool",
            json!({"name": "x__nothing"}),
            "tool_not_found",
        ),
        ("execute_tool", json!({"name": "nothing"}), "tool_not_found"),
        (
            "execute_tool",
            json!({"server": "x", "name": "nothing"}),
            "tool_not_found",
        ),
        (
            "execute_tool",
            json!({"server": "y", "name": "echo"}),
            "server_not_found",
        ),
        (
            "execute_tool",
            json!({"name": "search_tools"}),
            "tool_not_found",
        ),
        ("execute_tool", json!({}), "invalid_request"),
        (
            "execute_tool",
            json!({"name": "x__echo", "arguments": 1}),
            "invalid_request",
        ),
        (
            "execute_tool",
            json!({"name": "x__echo", "argument": {}}),
            "invalid_request",
        ),
        (
            "describe_tool",
            json!({"name": "x/nothing"}),
            "tool_not_found",
        ),
        (
            "search_tools",
            json!({"query": "x", "server": "y"}),
            "server_not_found",
        ),
        ("reconnect_server", json!({"name": "y"}), "server_not_found"),
    ] {
        let failure = call_failing(&client, tool, arguments.clone()).await;
        assert_eq!(failure["error"], kind, "{tool} {arguments}: {failure}");
    }
    let failure = call_failing(&client, "reconnect_server", json!({"name": "y"})).await;
    assert_eq!(failure["message"], "Server 'y' not found", "O2");
    assert_eq!(backend.count("tools/call"), 0);
}

over_every_transport! {
    /// Arguments and results pass unchanged (invariant 5, K3).
    async fn executed_tools_pass_unchanged(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = meta(&gateway).await;
        let direct = gateway.client_at("/servers/x/mcp").await;
        let weird_result = client.ask("tools/call", &execute("x__weird", &json!({})).to_string()).await;
        let direct_answer = direct.ask("tools/call", r#"{"name":"weird"}"#).await;
        let result = |text: &str| crate::client::raw(text, "result").to_owned();
        assert_eq!(result(&weird_result), result(&direct_answer));
        let params = r#"{"name":"execute_tool","arguments":{"name":"x__echo","arguments":{"text":1.50e1,"ä" : [ ]}}}"#;
        client.ask("tools/call", params).await;
        let sent_result = backend.of_method("tools/call").pop().expect("a call");
        assert_eq!(sent_result["params"]["arguments"], json!({"text": 15.0, "ä": []}), "{sent_result}");
        let failed_result = client.call("execute_tool", json!({"name": "x__error"})).await;
        assert_eq!((&failed_result["isError"], &*text(&failed_result)), (&json!(true), "the tool failed"));
    }

    /// Progress and cancellation work like those of a direct call.
    async fn progress_and_cancellation_are_those_of_the_call(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = meta(&gateway).await;
        let mut params = execute("x__progress", &json!({"steps": 3}));
        params["_meta"] = json!({"progressToken": "mine"});
        let texts = client.exchange("tools/call", &params.to_string()).await;
        let messages: Vec<_> = texts.iter().map(|text| value(text)).collect();
        assert_eq!(messages.len(), 4, "{messages:?}");
        assert!(messages[..3].iter().all(|message| message["params"]["progressToken"] == "mine"), "{messages:?}");
        let id = json!(7);
        let hang_request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": execute("x__hang", &json!({}))});
        let (response, ()) = tokio::join!(client.post(hang_request.to_string()), async {
            let upstream = backend.until_called("hang").await;
            client.cancel(&id).await;
            backend.until_cancelled(&upstream).await;
        });
        assert_eq!(response.json()["id"], 7);
    }

    /// A call leads to an immediate attempt to reconnect. If the attempt fails, the error says so
    /// (K9).
    async fn a_reconnecting_server_is_tried_at_once(kind) {
        let backend = Backend::fickle(kind, &[]).await.option("reconnect", never_retry());
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, plain_client) = (meta(&gateway).await, gateway.client().await);
        backend.leave(&plain_client).await;
        let call_failure = async || {
            let result = client.call("execute_tool", json!({"name": "x__echo"})).await;
            (failure(&result)["kind"] == "server_not_connected").then_some(result)
        };
        let result = crate::gateway::soon("a call that finds no session", async {
            loop {
                if let Some(result) = call_failure().await {
                    return result;
                }
            }
        })
        .await;
        assert!(text(&result).contains("Server 'x' is reconnecting"), "{result}");
        let servers = call_ok(&client, "list_servers", json!({})).await;
        assert_eq!((&servers[0]["status"], &servers[0]["connected"]), (&json!("reconnecting"), &json!(false)), "O5: {servers}");
        assert!(servers[0]["nextRetryMs"].is_number() && servers[0]["lastError"].is_string(), "{servers}");
        let matching_result = call_ok(&client, "search_tools", json!({"query": "echo"})).await;
        assert_eq!(matching_result["tools"][0]["status"], "reconnecting", "{matching_result}");
        backend.come_back().await;
        let text = client.call_text("execute_tool", json!({"name": "x__echo", "arguments": {"text": "back"}})).await;
        assert_eq!(text, "back");
    }

    /// `reconnect_server` replaces the session, whatever the status is (O1–O3).
    async fn reconnect_server_opens_a_new_session(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, rest) = (meta(&gateway).await, gateway.rest());
        client.call("execute_tool", json!({"name": "x__echo"})).await;
        let previous_count = backend.count("initialize");
        let final_result = call_ok(&client, "reconnect_server", json!({"name": "x"})).await;
        assert_eq!(final_result, json!({"success": true, "status": "connected"}));
        assert_eq!(backend.count("initialize"), previous_count + 1);
        rest.done("x", "stop").await;
        let servers = call_ok(&client, "list_servers", json!({})).await;
        assert_eq!(servers[0]["status"], "disconnected", "{servers}");
        let final_result = call_ok(&client, "reconnect_server", json!({"name": "x"})).await;
        assert_eq!(final_result["status"], "connected");
        let servers = call_ok(&client, "list_servers", json!({})).await;
        assert_eq!((&servers[0]["connected"], &servers[0]["healthStatus"]), (&json!(true), &json!("healthy")), "O5: {servers}");
        assert!(servers[0]["toolCount"].as_u64() > Some(3), "O6: {servers}");
    }
}

/// In both eras, a question of a tool reaches the client that executed the tool.
#[tokio::test]
async fn questions_reach_the_client_that_executes() {
    let backend = Backend::http().await.option("serverRequests", "forward");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut client = gateway.stranger("/mcp/meta");
    client.initialize_with(&json!({"sampling": {}})).await;
    let ask = execute("x__ask", &json!({"method": "sampling/createMessage"}));
    let mut stream = client
        .begin(client.request_text("tools/call", &ask.to_string()))
        .await;
    let question = stream.message().await;
    let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"model": "mine"}});
    client.post(reply.to_string()).await;
    assert!(text(&stream.message().await["result"]).contains("mine"));

    let modern = Modern::at(&gateway, "/mcp/meta").able(json!({"sampling": {}}));
    let result = modern.result("tools/call", ask.clone()).await;
    assert_eq!(result["resultType"], "input_required", "{result}");
    let requests = result["inputRequests"].as_object().expect("questions");
    let (key, question) = requests.iter().next().expect("one");
    assert_eq!(question["method"], "sampling/createMessage");
    let mut retry_params = ask;
    retry_params["inputResponses"] = json!({key: {"model": "modern"}});
    retry_params["requestState"] = result["requestState"].clone();
    let answer = modern.result("tools/call", retry_params).await;
    assert!(text(&answer).contains("modern"), "{answer}");
    until("one run", || backend.runs("ask") == 2).await;
}
