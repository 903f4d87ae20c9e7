//! Messages to clients without a session, during calls and on listen streams (2026-07-28,
//! "Streamable HTTP", "Subscriptions", "Cancellation", "Logging").

use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Stream, text},
    gateway::{Gateway, until},
    modern::{Modern, key},
};

const PATHS: [(&str, &str); 2] = [("/mcp", "x__"), ("/servers/x/mcp", "")];

/// Sends a request. Returns all messages about it.
async fn messages(client: &Modern, method: &str, params: Value) -> Vec<Value> {
    let response = client.ask(method, params).await;
    assert_eq!(response.status, 200, "{}", response.text);
    let messages = response.messages();
    messages
        .iter()
        .map(|message| crate::client::value(message))
        .collect()
}

/// Opens a listen stream. Returns the stream, its id, and the accepted filter.
async fn listen(client: &Modern, filter: Value) -> (Stream, Value, Value) {
    let (headers, request) =
        client.request("subscriptions/listen", json!({"notifications": filter}));
    let id = request["id"].clone();
    let mut stream = client.send((headers, request)).await;
    assert_eq!(stream.status, StatusCode::OK);
    assert_eq!(stream.headers[header::CONTENT_TYPE], "text/event-stream");
    assert_eq!(stream.headers["x-accel-buffering"], "no");
    let first = stream.message().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["_meta"][key("subscriptionId")], id);
    (stream, id, first["params"]["notifications"].clone())
}

over_every_transport! {
    /// Progress has the client's token. It arrives on the stream of the call, before the result.
    async fn progress_comes_before_the_result(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = Modern::at(&gateway, path);
            let tool = format!("{prefix}progress");
            let mut params = json!({"name": tool, "arguments": {"steps": 3, "intervalMs": 1}});
            let silent_result = messages(&client, "tools/call", params.clone()).await;
            assert_eq!(silent_result.len(), 1, "{silent_result:?}");
            params["_meta"] = json!({"progressToken": "mine"});
            let messages = messages(&client, "tools/call", params).await;
            assert_eq!(messages.len(), 4, "{messages:?}");
            for (step, message) in messages[..3].iter().enumerate() {
                assert_eq!(message["params"]["progressToken"], "mine");
                assert_eq!(message["params"]["progress"], json!(step + 1));
            }
            assert_eq!(messages[3]["result"]["resultType"], "complete");
        }
    }

    /// Log messages reach only requests that set a log level.
    async fn logs_come_where_they_are_asked_for(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = Modern::at(&gateway, path);
            let log = |level: &str| {
                json!({"name": format!("{prefix}log"), "arguments": {"n": 2, "level": level}})
            };
            let params_with = |params: &Value, level: &str| {
                let mut params = params.clone();
                params["_meta"] = json!({key("logLevel"): level});
                params
            };
            for (level, requested_level, expected) in [
                ("error", None, 0),
                ("error", Some("warning"), 2),
                ("info", Some("warning"), 0),
                // The server sends these messages only at level `debug`.
                ("debug", Some("debug"), 2),
                ("debug", None, 0),
                ("debug", Some("info"), 0),
            ] {
                let params = log(level);
                let params = requested_level.map_or(params.clone(), |requested_level| params_with(&params, requested_level));
                let sent_messages = messages(&client, "tools/call", params).await;
                let logs = sent_messages.iter().filter(|message| message["method"] == "notifications/message");
                assert_eq!(logs.count(), expected, "{level} where {requested_level:?} is wanted: {sent_messages:?}");
            }
        }
    }

    /// If the client closes the stream, the call is cancelled, both before and after the response's
    /// head.
    async fn closing_the_stream_cancels(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = Modern::at(&gateway, path);
            let params = json!({"name": format!("{prefix}hang")});
            let previous_count = backend.cancelled().len();
            let calls = backend.calls_of("hang").len();
            tokio::select! {
                _ = client.begin("tools/call", params.clone()) => panic!("it hangs"),
                () = until("the call", || backend.calls_of("hang").len() > calls) => {}
            }
            until("the cancellation", || backend.cancelled().len() > previous_count).await;
            // The response's head arrives after a second.
            let stream = client.begin("tools/call", params).await;
            assert_eq!(stream.status, StatusCode::OK);
            drop(stream);
            until("the other cancellation", || backend.cancelled().len() > previous_count + 1).await;
            let cancellations = backend.cancelled();
            assert!(backend.calls_of("hang").iter().all(|id| cancellations.contains(id)));
            let result = client.call(&format!("{prefix}echo"), json!({"text": "on"})).await;
            assert_eq!(text(&result), "on");
        }
    }

    /// The acknowledgement contains the accepted filter. Only requested messages arrive, with the
    /// subscription id. When the last listener ends, Mainstay unsubscribes at the server.
    async fn changes_are_told_to_who_listens(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = Modern::at(&gateway, path);
            let call = async |tool: &str, arguments: Value| {
                text(&client.call(&format!("{prefix}{tool}"), arguments).await)
            };
            let uris = json!(["fake://text", "fake://nowhere"]);
            let expected = json!({
                "toolsListChanged": true,
                "promptsListChanged": false,
                "resourceSubscriptions": uris,
                "moonChanged": true,
            });
            let (mut stream, id, honoured_filter) = listen(&client, expected).await;
            assert_eq!(honoured_filter["toolsListChanged"], true, "{honoured_filter}");
            assert_eq!(honoured_filter.get("promptsListChanged"), None);
            assert_eq!(honoured_filter.get("moonChanged"), None);
            assert_eq!(honoured_filter["resourceSubscriptions"][0], "fake://text");
            let (mut other_stream, _, _) = listen(&client, json!({"promptsListChanged": true})).await;
            assert_eq!(call("touch", json!({"uri": "fake://text"})).await, "1 sessions told");
            let message = stream.message().await;
            assert_eq!(message["method"], "notifications/resources/updated");
            assert_eq!(message["params"]["uri"], "fake://text");
            assert_eq!(message["params"]["_meta"][key("subscriptionId")], id);
            call("change_prompts", json!({})).await;
            let message = other_stream.message().await;
            assert_eq!(message["method"], "notifications/prompts/list_changed");
            call("change_tools", json!({})).await;
            let message = stream.message().await;
            assert_eq!(message["method"], "notifications/tools/list_changed", "{message}");
            assert_eq!(message["params"]["_meta"][key("subscriptionId")], id);
            let unsubscribed_count = backend.count("resources/unsubscribe");
            drop(stream);
            until("the end of the subscription", || {
                backend.count("resources/unsubscribe") > unsubscribed_count
            })
            .await;
            call("change_tools", json!({"remove": true})).await;
        }
    }
}

/// Two streams that listen to the same resource share one upstream subscription.
#[tokio::test]
async fn subscriptions_are_shared() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, prefix) in PATHS {
        let client = Modern::at(&gateway, path);
        let subscribes_before = backend.count("resources/subscribe");
        let expected = json!({"resourceSubscriptions": ["fake://text"]});
        let (first_stream, _, _) = listen(&client, expected.clone()).await;
        let (mut second_stream, _, _) = listen(&client, expected).await;
        assert_eq!(backend.count("resources/subscribe"), subscribes_before + 1);
        drop(first_stream);
        // The other stream still gets updates.
        let touch = json!({"uri": "fake://text"});
        client.call(&format!("{prefix}touch"), touch.clone()).await;
        assert_eq!(
            second_stream.message().await["params"]["uri"],
            "fake://text"
        );
        drop(second_stream);
        until("the end of the subscription", || {
            backend.count("resources/unsubscribe") > subscribes_before
        })
        .await;
    }
}

/// When one listener ends, the subscription of another stays.
#[tokio::test]
async fn a_new_listener_survives_the_end_of_another() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, prefix) in PATHS {
        let client = Modern::at(&gateway, path);
        for _ in 0..50 {
            let expected = json!({"resourceSubscriptions": ["fake://text"]});
            let (mut stream, _, _) = listen(&client, expected).await;
            let touch = json!({"uri": "fake://text"});
            client.call(&format!("{prefix}touch"), touch).await;
            assert_eq!(stream.message().await["params"]["uri"], "fake://text");
        }
    }
}

/// At a stop, the stream ends with a result.
#[tokio::test]
async fn stopping_completes_the_streams() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut streams = Vec::new();
    for (path, _) in PATHS {
        let client = Modern::at(&gateway, path);
        streams.push(listen(&client, json!({"toolsListChanged": true})).await);
    }
    gateway.stop().await;
    for (mut stream, id, _) in streams {
        let last_message = stream.message().await;
        assert_eq!(last_message["id"], id);
        assert_eq!(
            last_message["result"]["resultType"], "complete",
            "{last_message}"
        );
        assert_eq!(last_message["result"]["_meta"][key("subscriptionId")], id);
        assert_eq!(stream.next().await, None);
    }
}

#[tokio::test]
async fn a_stream_needs_a_filter_and_a_client_that_reads_it() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, _) in PATHS {
        let client = Modern::at(&gateway, path);
        for params in [
            json!({}),
            json!({"notifications": {"resourceSubscriptions": "x"}}),
        ] {
            let (_, error) = client.error("subscriptions/listen", params).await;
            assert_eq!(error["code"], -32602);
        }
        let params = json!({"notifications": {}});
        let (mut headers, request) = client.request("subscriptions/listen", params);
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::ACCEPT, json);
        let answer = client
            .http
            .send(Method::POST, headers, request.to_string())
            .await;
        assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE);
    }
}

/// If a pooled session is lost, Mainstay opens it again for its listeners. They are notified of
/// changes.
#[tokio::test]
async fn a_lost_server_is_listened_to_again() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = Modern::at(&gateway, "/servers/x/mcp");
    let expected = json!({"toolsListChanged": true, "resourceSubscriptions": ["fake://text"]});
    let (mut stream, _, _) = listen(&client, expected).await;
    client.call("crash", json!({})).await;
    let message = [stream.message().await, stream.message().await];
    assert_eq!(message[0]["method"], "notifications/tools/list_changed");
    assert_eq!(message[1]["method"], "notifications/resources/updated");
    client.call("touch", json!({"uri": "fake://text"})).await;
    let message = stream.message().await;
    assert_eq!(
        message["method"], "notifications/resources/updated",
        "{message}"
    );
}

/// The trace context passes unchanged (SEP-414).
#[tokio::test]
async fn trace_context_is_passed_on() {
    let backend = Backend::start(BackendKind::Http, &[]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (path, prefix) in PATHS {
        let client = Modern::at(&gateway, path);
        let context = json!({"traceparent": parent, "tracestate": "a=1", "baggage": "b=2"});
        let params = json!({"name": format!("{prefix}echo"), "_meta": context});
        client.result("tools/call", params).await;
        let call = backend.of_method("tools/call").pop().expect("a call");
        assert_eq!(call["params"]["_meta"], context);
    }
}

/// A pipe can carry a session and modern requests at the same time. A cancellation notification
/// ends one request.
#[tokio::test]
async fn one_pipe_serves_both_eras() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = Modern::at(&gateway, "/mcp");
    let ask = |method: &str, params: Value| client.request(method, params).1;
    let mut pipe = gateway.silent_pipe();
    let discover = ask("server/discover", json!({}));
    pipe.send(discover.to_string()).await;
    let matching_message = pipe.message().await;
    assert_eq!(matching_message["id"], discover["id"]);
    assert_eq!(
        matching_message["result"]["resultType"], "complete",
        "{matching_message}"
    );
    // A request without client information belongs to neither era.
    pipe.send(r#"{"jsonrpc":"2.0","id":"bare","method":"server/discover"}"#)
        .await;
    let refused_message = pipe.message().await;
    assert_eq!(
        (&refused_message["id"], &refused_message["error"]["code"]),
        (&json!("bare"), &json!(-32602))
    );
    pipe.initialize(crate::client::LATEST).await;
    pipe.assert_echo("x__echo").await;
    let call = ask(
        "tools/call",
        json!({"name": "x__echo", "arguments": {"text": "a"}}),
    );
    pipe.send(call.to_string()).await;
    let message = pipe.message().await;
    assert_eq!(message["id"], call["id"]);
    assert_eq!(message["result"]["resultType"], "complete");
    // Open a listen stream and start two calls. Cancel one call first, and the stream last.
    let listen = ask(
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    pipe.send(listen.to_string()).await;
    let first = pipe.message().await;
    assert_eq!(
        first["params"]["_meta"][key("subscriptionId")],
        listen["id"]
    );
    let hang_request = ask("tools/call", json!({"name": "x__hang"}));
    pipe.send(hang_request.to_string()).await;
    let upstream = backend.until_called("hang").await;
    let mut duplicate_request = ask("tools/list", json!({}));
    duplicate_request["id"] = hang_request["id"].clone();
    pipe.send(duplicate_request.to_string()).await;
    assert_eq!(pipe.message().await["error"]["code"], -32600);
    pipe.send(crate::client::cancelled(&hang_request["id"]))
        .await;
    backend.until_cancelled(&upstream).await;
    let change = ask("tools/call", json!({"name": "x__change_tools"}));
    pipe.send(change.to_string()).await;
    let mut tagged_count = 0;
    let mut received_messages = Vec::new();
    while tagged_count == 0 || received_messages.len() < 3 {
        let message = pipe.message().await;
        assert_ne!(message["id"], hang_request["id"]);
        if message["params"]["_meta"][key("subscriptionId")] == listen["id"] {
            tagged_count += 1;
        }
        received_messages.push(message);
    }
    // The session gets the message without a subscription id, and the stream gets it with one.
    let changes = received_messages
        .iter()
        .filter(|message| message["method"] == "notifications/tools/list_changed");
    assert_eq!(
        (tagged_count, changes.count()),
        (1, 2),
        "{received_messages:?}"
    );
    pipe.send(crate::client::cancelled(&listen["id"])).await;
    let rest = pipe.close().await;
    assert!(rest.is_empty(), "{rest:?}");
}
