//! Messages to clients without a session, during a call and on a listen stream (2026-07-28, "Streamable HTTP",
//! "Subscriptions", "Cancellation", "Logging").

use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Stream, text},
    gateway::{Gateway, until},
    modern::{Modern, key},
};

const PATHS: [(&str, &str); 2] = [("/mcp", "x__"), ("/servers/x/mcp", "")];

/// All messages about a request.
async fn messages(client: &Modern, method: &str, params: Value) -> Vec<Value> {
    let response = client.ask(method, params).await;
    assert_eq!(response.status, 200, "{}", response.text);
    let messages = response.messages();
    messages
        .iter()
        .map(|message| crate::client::value(message))
        .collect()
}

/// Opens a listen stream. Returns it with the filter that the server honours.
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
    /// Progress arrives under the client's token, on the call's own stream, before the result.
    async fn progress_comes_before_the_result(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = Modern::at(&gateway, path);
            let tool = format!("{prefix}progress");
            let mut params = json!({"name": tool, "arguments": {"steps": 3, "intervalMs": 1}});
            let silent = messages(&client, "tools/call", params.clone()).await;
            assert_eq!(silent.len(), 1, "{silent:?}");
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

    /// A log message reaches only the request that asked for its level.
    async fn logs_come_where_they_are_asked_for(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = Modern::at(&gateway, path);
            let log = |level: &str| {
                json!({"name": format!("{prefix}log"), "arguments": {"n": 2, "level": level}})
            };
            let with = |params: &Value, requested: &str| {
                let mut params = params.clone();
                params["_meta"] = json!({key("logLevel"): requested});
                params
            };
            for (level, requested, expected) in [
                ("error", None, 0),
                ("error", Some("warning"), 2),
                ("info", Some("warning"), 0),
                // Messages that the server leaves out until it is told the level.
                ("debug", Some("debug"), 2),
                ("debug", None, 0),
                ("debug", Some("info"), 0),
            ] {
                let params = log(level);
                let params = requested.map_or(params.clone(), |requested| with(&params, requested));
                let sent_messages = messages(&client, "tools/call", params).await;
                let logs = sent_messages.iter().filter(|sent| sent["method"] == "notifications/message");
                assert_eq!(logs.count(), expected, "{level} where {requested:?} is wanted: {sent_messages:?}");
            }
        }
    }

    /// A client cancels by closing the stream, before the head of the answer and after it.
    async fn closing_the_stream_cancels(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = Modern::at(&gateway, path);
            let params = json!({"name": format!("{prefix}hang")});
            let before = backend.cancelled().len();
            let calls = backend.calls_of("hang").len();
            tokio::select! {
                _ = client.begin("tools/call", params.clone()) => panic!("it hangs"),
                () = until("the call", || backend.calls_of("hang").len() > calls) => {}
            }
            until("the cancellation", || backend.cancelled().len() > before).await;
            // After a second of silence there is a stream.
            let stream = client.begin("tools/call", params).await;
            assert_eq!(stream.status, StatusCode::OK);
            drop(stream);
            until("the other cancellation", || backend.cancelled().len() > before + 1).await;
            let cancelled = backend.cancelled();
            assert!(backend.calls_of("hang").iter().all(|id| cancelled.contains(id)));
            let result = client.call(&format!("{prefix}echo"), json!({"text": "on"})).await;
            assert_eq!(text(&result), "on");
        }
    }

    /// The acknowledgement names the honoured filter. Then the requested messages arrive, with a tag, and no
    /// others. A server without listeners gets an unsubscribe.
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
            let (mut stream, id, honoured) = listen(&client, expected).await;
            assert_eq!(honoured["toolsListChanged"], true, "{honoured}");
            assert_eq!(honoured.get("promptsListChanged"), None);
            assert_eq!(honoured.get("moonChanged"), None);
            assert_eq!(honoured["resourceSubscriptions"][0], "fake://text");
            let (mut other, _, _) = listen(&client, json!({"promptsListChanged": true})).await;
            assert_eq!(call("touch", json!({"uri": "fake://text"})).await, "1 sessions told");
            let message = stream.message().await;
            assert_eq!(message["method"], "notifications/resources/updated");
            assert_eq!(message["params"]["uri"], "fake://text");
            assert_eq!(message["params"]["_meta"][key("subscriptionId")], id);
            call("change_prompts", json!({})).await;
            let message = other.message().await;
            assert_eq!(message["method"], "notifications/prompts/list_changed");
            call("change_tools", json!({})).await;
            let message = stream.message().await;
            assert_eq!(message["method"], "notifications/tools/list_changed", "{message}");
            assert_eq!(message["params"]["_meta"][key("subscriptionId")], id);
            let unsubscribed = backend.count("resources/unsubscribe");
            drop(stream);
            until("the end of the subscription", || {
                backend.count("resources/unsubscribe") > unsubscribed
            })
            .await;
            call("change_tools", json!({"remove": true})).await;
        }
    }
}

/// Two streams for one resource share one subscription upstream, which ends with the last stream.
#[tokio::test]
async fn subscriptions_are_shared() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, prefix) in PATHS {
        let client = Modern::at(&gateway, path);
        let before = backend.count("resources/subscribe");
        let expected = json!({"resourceSubscriptions": ["fake://text"]});
        let (one, _, _) = listen(&client, expected.clone()).await;
        let (mut two, _, _) = listen(&client, expected).await;
        assert_eq!(backend.count("resources/subscribe"), before + 1);
        drop(one);
        // The other stream continues.
        let touch = json!({"uri": "fake://text"});
        client.call(&format!("{prefix}touch"), touch.clone()).await;
        assert_eq!(two.message().await["params"]["uri"], "fake://text");
        drop(two);
        until("the end of the subscription", || {
            backend.count("resources/unsubscribe") > before
        })
        .await;
    }
}

/// A listener that leaves does not silence a new one.
#[tokio::test]
async fn who_comes_as_another_leaves_hears() {
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

/// At a stop a stream is completed properly.
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
        let last = stream.message().await;
        assert_eq!(last["id"], id);
        assert_eq!(last["result"]["resultType"], "complete", "{last}");
        assert_eq!(last["result"]["_meta"][key("subscriptionId")], id);
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

/// A pooled session that is lost returns for its listeners. They get notifications that everything may have
/// changed.
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

/// SEP-414: the trace context of a client reaches the server unchanged.
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

/// On a pipe, modern requests run beside each other, and beside a session. A notification cancels one of them,
/// which then gets no more messages.
#[tokio::test]
async fn one_pipe_serves_both_eras() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = Modern::at(&gateway, "/mcp");
    let ask = |method: &str, params: Value| client.request(method, params).1;
    let mut pipe = gateway.silent_pipe();
    let discover = ask("server/discover", json!({}));
    pipe.send(discover.to_string()).await;
    let found = pipe.message().await;
    assert_eq!(found["id"], discover["id"]);
    assert_eq!(found["result"]["resultType"], "complete", "{found}");
    // A request without a description of the client belongs to neither era.
    pipe.send(r#"{"jsonrpc":"2.0","id":"bare","method":"server/discover"}"#)
        .await;
    let refused = pipe.message().await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
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
    // A listen stream and two calls. One call is cancelled, and the stream at the end.
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
    let hang = ask("tools/call", json!({"name": "x__hang"}));
    pipe.send(hang.to_string()).await;
    let upstream = backend.until_called("hang").await;
    let mut twice = ask("tools/list", json!({}));
    twice["id"] = hang["id"].clone();
    pipe.send(twice.to_string()).await;
    assert_eq!(pipe.message().await["error"]["code"], -32600);
    pipe.send(crate::client::cancelled(&hang["id"])).await;
    backend.until_cancelled(&upstream).await;
    let change = ask("tools/call", json!({"name": "x__change_tools"}));
    pipe.send(change.to_string()).await;
    let mut tagged = 0;
    let mut received = Vec::new();
    while tagged == 0 || received.len() < 3 {
        let message = pipe.message().await;
        assert_ne!(message["id"], hang["id"]);
        if message["params"]["_meta"][key("subscriptionId")] == listen["id"] {
            tagged += 1;
        }
        received.push(message);
    }
    // The session gets the message without a tag, the stream with one.
    let changes = received
        .iter()
        .filter(|message| message["method"] == "notifications/tools/list_changed");
    assert_eq!((tagged, changes.count()), (1, 2), "{received:?}");
    pipe.send(crate::client::cancelled(&listen["id"])).await;
    let rest = pipe.close().await;
    assert!(rest.is_empty(), "{rest:?}");
}
