//! Every kind of request, at both endpoints and over each transport (J1, J15, K1–K3).

use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, names, text},
    gateway::{Gateway, until},
};

over_every_transport! {
    async fn tools_are_listed_and_called(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in [("/mcp", "x__"), ("/servers/x/mcp", "")] {
            let client = gateway.client_at(path).await;
            let tools = client.tools().await;
            for tool in ["echo", "add", "weird"] {
                assert!(tools.contains(&format!("{prefix}{tool}")), "{tool} in {tools:?}");
            }
            assert_eq!(tools.iter().filter(|tool| tool.starts_with(prefix)).count(), tools.len());
            client.assert_echo(&format!("{prefix}echo")).await;
            let sum = client.call_text(&format!("{prefix}add"), json!({"a": 2, "b": 40})).await;
            assert_eq!(sum, "42");
            // `arguments` may be absent (K1).
            let pid = client.result("tools/call", json!({"name": format!("{prefix}pid")})).await;
            assert!(text(&pid).parse::<u32>().is_ok());
        }
    }

    async fn resources_are_listed_and_read(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for path in ["/mcp", "/servers/x/mcp"] {
            let client = gateway.client_at(path).await;
            let listed_result = client.result("resources/list", json!({})).await;
            assert_eq!(uris(&listed_result["resources"]), ["fake://text", "fake://blob"]);
            let templates = client.result("resources/templates/list", json!({})).await;
            assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "fake://item/{id}");
            for (uri, member, content) in [
                ("fake://text", "text", "the text of the fake"),
                ("fake://blob", "blob", "AAECAwQ="),
                ("fake://item/7", "text", "item 7"),
            ] {
                let read_result = client.result("resources/read", json!({"uri": uri})).await;
                assert_eq!(read_result["contents"][0][member], content, "{uri}");
                assert_eq!(read_result["contents"][0]["uri"], uri);
            }
            let error = client.error("resources/read", json!({"uri": "fake://nothing"})).await;
            assert_eq!(error["code"], -32002, "{error}");
            assert_eq!(error["data"]["uri"], "fake://nothing", "{error}");
        }
    }

    async fn prompts_are_listed_and_got(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in [("/mcp", "x__"), ("/servers/x/mcp", "")] {
            let client = gateway.client_at(path).await;
            let listed_result = client.result("prompts/list", json!({})).await;
            let [greet, plain_name] = ["greet", "plain"].map(|name| format!("{prefix}{name}"));
            assert_eq!(names(&listed_result["prompts"]), [greet.as_str(), plain_name.as_str()]);
            let params = json!({"name": greet, "arguments": {"name": "Ada"}});
            let prompt = client.result("prompts/get", params).await;
            assert_eq!(prompt["messages"][0]["content"]["text"], "Please greet Ada.");
            // The error of the server passes unchanged.
            let error = client.error("prompts/get", json!({"name": greet})).await;
            assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!("missing argument: name")));
        }
    }

    async fn arguments_are_completed(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in [("/mcp", "x__"), ("/servers/x/mcp", "")] {
            let client = gateway.client_at(path).await;
            let prompt = json!({"type": "ref/prompt", "name": format!("{prefix}greet")});
            let template = json!({"type": "ref/resource", "uri": "fake://item/{id}"});
            assert_eq!(completion_values(&client, prompt, "name", "A").await, json!(["Ada", "Alan"]));
            assert_eq!(completion_values(&client, template, "id", "1").await, json!(["1", "10"]));
        }
    }

    /// Each client has its own log level. The server gets the most verbose of them (specification,
    /// "Logging").
    async fn log_messages_are_filtered_by_the_level_of_each_client(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (terse_client, verbose) = (gateway.client().await, gateway.client().await);
        for (client, level, upstream) in [(&terse_client, "error", "error"), (&verbose, "info", "info")] {
            client.result("logging/setLevel", json!({"level": level})).await;
            until("the level upstream", || {
                let levels = backend.of_method("logging/setLevel");
                levels.last().is_some_and(|message| message["params"]["level"] == upstream)
            })
            .await;
        }
        assert_eq!(log_count(&terse_client, "info").await, 0);
        assert_eq!(log_count(&terse_client, "error").await, 2);
        assert_eq!(log_count(&verbose, "info").await, 2);
        // Neither client has requested `debug`.
        assert_eq!(log_count(&verbose, "debug").await, 0);

        let error = terse_client.error("logging/setLevel", json!({"level": "loud"})).await;
        assert_eq!(error["code"], -32602);
    }

    /// At the transparent endpoint, a client sets the level of its own upstream session.
    async fn a_transparent_client_sets_its_own_level(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client_at("/servers/x/mcp").await;
        let other_client = gateway.client_at("/servers/x/mcp").await;
        client.result("logging/setLevel", json!({"level": "error"})).await;
        let count = async |client: &Http| {
            let params = json!({"name": "log", "arguments": {"n": 2, "level": "info"}});
            client.exchange("tools/call", &params.to_string()).await.len() - 1
        };
        assert_eq!((count(&client).await, count(&other_client).await), (0, 2));
    }

    /// Mainstay answers pings itself. It does not forward them (invariant 7).
    async fn pings_are_answered_locally(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, tool) in [("/mcp", "x__ping_client"), ("/servers/x/mcp", "ping_client")] {
            let client = gateway.client_at(path).await;
            assert_eq!(client.result("ping", json!({})).await, json!({}));
            assert_eq!(client.call_text(tool, json!({})).await, r#"{"result":{}}"#);
        }
        let mut pipe = gateway.pipe().await;
        assert_eq!(pipe.result("ping", json!({})).await, json!({}));
        assert_eq!(backend.count("ping"), 0);
    }

    /// If no person can answer a question, the server gets a refusal, and the connection can still
    /// be used (E14).
    async fn a_servers_request_is_refused_and_the_connection_lives_on(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in [("/mcp", "x__"), ("/servers/x/mcp", "")] {
            let client = gateway.client_at(path).await;
            for method in ["sampling/createMessage", "roots/list", "elicitation/create"] {
                let answer = client.call_text(&format!("{prefix}ask"), json!({"method": method})).await;
                assert!(answer.contains("-32601"), "{answer}");
            }
            client.assert_echo(&format!("{prefix}echo")).await;
        }
    }

    /// Answers to concurrent calls may come in any order (E15, K13).
    async fn answers_out_of_order_reach_their_calls(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (client, other_client) = (gateway.client().await, gateway.client().await);
        let (first, second_text) = tokio::join!(client.call_text("x__out_of_order", json!({})), async {
            backend.until_called("out_of_order").await;
            other_client.call_text("x__out_of_order", json!({})).await
        });
        assert_eq!((first.as_str(), second_text.as_str()), ("called first", "called second"));
        let calls = (0..50).map(|n| {
            let client = &client;
            async move { client.call_text("x__echo", json!({"text": n.to_string()})).await }
        });
        let answers = futures_util::future::join_all(calls).await;
        assert!(answers.iter().enumerate().all(|(n, answer)| *answer == n.to_string()));
    }

    /// Large arguments and results pass unchanged (K15).
    async fn large_messages_pass_whole(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let text = "ü🦀".repeat(300_000);
        assert_eq!(client.call_text("x__echo", json!({"text": text})).await, text);
        assert_eq!(client.call_text("x__big", json!({"bytes": 3_000_000})).await.len(), 3_000_000);
        let mut pipe = gateway.pipe().await;
        let result = pipe.call("x__big", json!({"bytes": 3_000_000})).await;
        assert_eq!(text_length(&result), 3_000_000);
    }
}

fn uris(items: &Value) -> Vec<&str> {
    let items = items.as_array().expect("a list").iter();
    items
        .map(|item| item["uri"].as_str().expect("a URI"))
        .collect()
}

fn text_length(result: &Value) -> usize {
    text(result).len()
}

async fn completion_values(client: &Http, reference: Value, name: &str, prefix: &str) -> Value {
    let params = json!({"ref": reference, "argument": {"name": name, "value": prefix}});
    let result = client.result("completion/complete", params).await;
    result["completion"]["values"].clone()
}

/// The number of log messages that a call produces at this level.
async fn log_count(client: &Http, level: &str) -> usize {
    let params = json!({"name": "x__log", "arguments": {"n": 2, "level": level}});
    let messages = client.exchange("tools/call", &params.to_string()).await;
    messages.len() - 1
}

/// A log message outside of calls reaches every client whose level includes it.
#[tokio::test]
async fn log_messages_outside_of_calls_reach_those_who_want_them() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (terse_client, silent_client) = (gateway.client().await, gateway.client().await);
    let (mut stream, mut second_stream) =
        (terse_client.listen().await, silent_client.listen().await);
    until("the stream upstream", || backend.fake().streams() == 1).await;
    terse_client
        .result("logging/setLevel", json!({"level": "warning"}))
        .await;
    backend.until_count("logging/setLevel", 1).await;
    for (level, data) in [("info", "quiet"), ("error", "loud")] {
        let params = json!({"level": level, "data": data});
        let message =
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
        backend.fake().publish(&message.to_string());
    }
    assert_eq!(stream.message().await["params"]["data"], "loud");
    // A client that has set no level gets all messages.
    assert_eq!(second_stream.message().await["params"]["data"], "quiet");
    assert_eq!(second_stream.message().await["params"]["data"], "loud");
}
