//! HTTP+SSE for clients of revision 2024-11-05 (specification, "Transports"). One stream is one
//! session. Each POST contains one message.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, Stream, cancelled, initialize, value},
    gateway::{Gateway, found, until},
};

const PATHS: [(&str, &str); 2] = [("/sse", "x__"), ("/servers/x/sse", "")];
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// A client with an open stream.
pub struct Sse {
    stream: Stream,
    /// The URL to which the client posts messages.
    message: String,
    post: Http,
    next_id: u64,
}

impl Sse {
    /// Opens a stream. Reads the URL for POST requests from its first event.
    async fn open(gateway: &Gateway, path: &str) -> Self {
        let mut stream = gateway.stranger(path).listen().await;
        let message = stream.next().await.expect("an endpoint");
        Self {
            stream,
            post: gateway.stranger(&message),
            message,
            next_id: 0,
        }
    }

    /// Connects a client and completes its handshake.
    pub async fn greeted(gateway: &Gateway, path: &str) -> Self {
        let mut client = Self::open(gateway, path).await;
        client.initialize(LATEST).await;
        client
    }

    pub async fn initialize(&mut self, revision: &str) -> Value {
        self.accepted(initialize(revision)).await;
        let answer = self.stream.message().await;
        assert_eq!(answer["id"], "hello", "{answer}");
        self.accepted(INITIALIZED).await;
        answer["result"].clone()
    }

    async fn accepted(&self, text: impl Into<String>) {
        let response = self.post.post(text.into()).await;
        assert_eq!(response.status, StatusCode::ACCEPTED, "{}", response.text);
    }

    /// Posts a message that needs no answer.
    pub async fn tell(&self, notification: &str) {
        self.accepted(notification).await;
    }

    /// Posts a request. Returns the next message of the stream.
    pub async fn ask(&mut self, request: &str) -> Value {
        self.accepted(request).await;
        self.stream.message().await
    }

    /// Posts a call. Returns the id of the call.
    pub async fn begin(&mut self, tool: &str, params: Value) -> Value {
        self.next_id += 1;
        let mut params = params;
        params["name"] = tool.into();
        let call =
            json!({"jsonrpc": "2.0", "id": self.next_id, "method": "tools/call", "params": params});
        self.accepted(call.to_string()).await;
        self.next_id.into()
    }

    /// Reads the stream to the response of this request. Returns all messages.
    async fn until_answered(&mut self, id: &Value) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            messages.push(self.stream.message().await);
            if messages
                .last()
                .is_some_and(|last_message| last_message["id"] == *id)
            {
                return messages;
            }
        }
    }

    pub async fn call(&mut self, tool: &str, params: Value) -> Vec<Value> {
        let id = self.begin(tool, params).await;
        self.until_answered(&id).await
    }

    pub async fn assert_echo(&mut self, tool: &str) {
        let answer = self
            .call(tool, json!({"arguments": {"text": "hello"}}))
            .await;
        let [answer] = answer.as_slice() else {
            panic!("{answer:?}");
        };
        assert_eq!(answer["result"]["content"][0]["text"], "hello");
    }
}

#[tokio::test]
async fn the_first_event_says_where_to_post() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, _) in PATHS {
        let (first_client, second_client) =
            tokio::join!(Sse::open(&gateway, path), Sse::open(&gateway, path));
        assert_eq!(
            first_client.stream.headers[header::CONTENT_TYPE],
            "text/event-stream"
        );
        let id = first_client
            .message
            .strip_prefix(&format!("{path}/message?sessionId="));
        assert!(
            id.is_some_and(|id| id.len() >= 32),
            "{}",
            first_client.message
        );
        assert_ne!(first_client.message, second_client.message);
    }
}

/// All waiting messages together have a memory limit. It also counts small messages.
#[tokio::test]
async fn messages_that_wait_are_bounded_together() {
    let backend = Backend::http().await;
    let settings = json!({"http": {"maxBodiesBytes": 400_000}});
    let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
    let client = Sse::greeted(&gateway, "/sse").await;
    let call = |id: u32| {
        let arguments = json!({"text": "a".repeat(50_000)});
        let params = json!({"name": "x__hang", "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    // Buffers grow in powers of two, so six calls take six times 64 KiB.
    for id in 0..6 {
        client.accepted(call(id)).await;
    }
    let response = client.post.post(call(6)).await;
    assert_eq!(
        response.status,
        StatusCode::SERVICE_UNAVAILABLE,
        "{}",
        response.text
    );
    assert_eq!(response.headers[header::RETRY_AFTER], "5");
    // When a call has ended, its memory is available again.
    for id in 0..6 {
        client.tell(&cancelled(&id.into())).await;
    }
    found("room", async || {
        let response = client.post.post(call(7)).await;
        (response.status == StatusCode::ACCEPTED).then_some(())
    })
    .await;
}

#[tokio::test]
async fn any_revision_is_spoken() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, prefix) in PATHS {
        for revision in REVISIONS {
            let mut client = Sse::open(&gateway, path).await;
            let greeting_answer = client.initialize(revision).await;
            assert_eq!(greeting_answer["protocolVersion"], revision, "{path}");
            client.assert_echo(&format!("{prefix}echo")).await;
        }
    }
}

over_every_transport! {
    /// The messages about a call arrive in order, the result last.
    async fn progress_and_logs_come_before_the_result(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let mut client = Sse::greeted(&gateway, path).await;
            let params = json!({"arguments": {"steps": 5}, "_meta": {"progressToken": "own"}});
            let messages = client.call(&format!("{prefix}progress"), params).await;
            let steps: Vec<_> = messages.iter().map(|message| message["params"]["progress"].as_u64()).collect();
            assert_eq!(steps, [Some(1), Some(2), Some(3), Some(4), Some(5), None]);
            assert!(messages[..5].iter().all(|message| message["params"]["progressToken"] == "own"), "{messages:?}");

            let messages = client.call(&format!("{prefix}log"), json!({"arguments": {"n": 3}})).await;
            let lines: Vec<_> = messages.iter().map(|message| message["params"]["data"].as_str()).collect();
            assert_eq!(lines, [Some("line 1"), Some("line 2"), Some("line 3"), None]);
        }
    }

    /// Notifications about changed lists arrive on the stream.
    async fn changes_are_announced(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let mut client = Sse::greeted(&gateway, path).await;
            let id = client.begin(&format!("{prefix}change_tools"), json!({})).await;
            let both_message = [client.stream.message().await, client.stream.message().await];
            let change_message = both_message.iter().find(|message| message["method"] == "notifications/tools/list_changed");
            assert!(change_message.is_some() && both_message.iter().any(|message| message["id"] == id), "{both_message:?}");
        }
    }

    async fn a_call_can_be_cancelled(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let mut client = Sse::greeted(&gateway, "/sse").await;
        let id = client.begin("x__hang", json!({})).await;
        let upstream = backend.until_called("hang").await;
        client.accepted(cancelled(&id)).await;
        backend.until_cancelled(&upstream).await;
        // A cancelled request is not answered (specification, "Cancellation").
        client.assert_echo("x__echo").await;
    }

    /// When the stream closes, its calls, its URL and the upstream session end.
    async fn a_stream_that_closes_ends_its_session(kind) {
        for (path, prefix) in PATHS {
            let backend = Backend::start(kind, &[]).await;
            let gateway = Gateway::with_servers(&[("x", &backend)]).await;
            let other_client = gateway.client().await;
            other_client.assert_echo("x__echo").await;
            let mut client = Sse::greeted(&gateway, path).await;
            client.begin(&format!("{prefix}hang"), json!({})).await;
            let upstream = backend.until_called("hang").await;
            let sessions = || match kind {
                BackendKind::Stdio => 1,
                BackendKind::Http => backend.fake().sessions(),
                BackendKind::Sse => backend.fake().streams(),
            };
            let Sse { stream, post, .. } = client;
            drop(stream);
            if kind == BackendKind::Http || path == "/sse" {
                backend.until_cancelled(&upstream).await;
            }
            until("the upstream session to end", || sessions() == 1).await;
            assert_eq!(post.post(PING).await.status, StatusCode::NOT_FOUND);
            assert_eq!(gateway.sessions(), 1);
            other_client.assert_echo("x__echo").await;
        }
    }
}

/// A question of a server arrives on the stream. The client answers by a POST.
#[tokio::test]
async fn a_server_may_ask() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut client = Sse::open(&gateway, "/servers/x/sse").await;
    let greeting_text =
        initialize(LATEST).replace(r#""capabilities":{}"#, r#""capabilities":{"sampling":{}}"#);
    client.accepted(greeting_text).await;
    client.stream.message().await;
    let arguments = json!({"method": "sampling/createMessage"});
    let id = client.begin("ask", json!({"arguments": arguments})).await;
    let question = client.stream.message().await;
    assert_eq!(question["method"], "sampling/createMessage");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"model": "m"}});
    client.accepted(answer.to_string()).await;
    let answers = client.until_answered(&id).await;
    assert!(answers[0].to_string().contains("model"), "{answers:?}");
}

/// Calls that share a stream may be answered in any order.
#[tokio::test]
async fn many_calls_share_the_stream() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut client = Sse::greeted(&gateway, "/sse").await;
    let mut open_streams = std::collections::HashMap::new();
    for number in 0..50 {
        let text = format!("number {number}");
        let id = client
            .begin("x__echo", json!({"arguments": {"text": text}}))
            .await;
        open_streams.insert(id.to_string(), text);
    }
    while !open_streams.is_empty() {
        let answer = client.stream.message().await;
        let expected = open_streams
            .remove(&answer["id"].to_string())
            .expect("asked, and once");
        assert_eq!(answer["result"]["content"][0]["text"], expected);
    }
}

/// Before the handshake, all requests except pings fail. A second handshake also fails
/// (specification, "Lifecycle").
#[tokio::test]
async fn requests_wait_for_the_handshake() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, prefix) in PATHS {
        let mut client = Sse::open(&gateway, path).await;
        client.accepted(PING).await;
        assert_eq!(client.stream.message().await["result"], json!({}));
        let early_result = client.call(&format!("{prefix}echo"), json!({})).await;
        assert_eq!(early_result[0]["error"]["code"], -32600, "{early_result:?}");
        client.initialize(LATEST).await;
        client.assert_echo(&format!("{prefix}echo")).await;
    }
}

#[tokio::test]
async fn batches_are_taken_where_the_revision_knows_them() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let batch = format!(r#"[{PING},{INITIALIZED},{{"jsonrpc":"2.0","id":2,"method":"ping"}}]"#);
    for revision in REVISIONS {
        let mut client = Sse::open(&gateway, "/sse").await;
        client.initialize(revision).await;
        let response = client.post.post(batch.clone()).await;
        if revision == "2025-03-26" {
            assert_eq!(response.status, StatusCode::ACCEPTED);
            let answers = client.stream.message().await;
            let ids: Vec<_> = answers
                .as_array()
                .expect("a batch")
                .iter()
                .map(|answer| &answer["id"])
                .collect();
            assert_eq!(ids, [1, 2]);
        } else {
            assert_eq!(response.status, StatusCode::BAD_REQUEST, "{revision}");
        }
    }
}

#[tokio::test]
async fn unusable_entries_are_refused_with_a_reason() {
    let (backend, other_backend) = (Backend::http().await, Backend::http().await);
    let settings = json!({"http": {"maxBodyBytes": 4096}});
    let gateway = Gateway::with_settings(&[("x", &backend), ("y", &other_backend)], settings).await;
    for (path, _) in PATHS {
        let mut client = Sse::greeted(&gateway, path).await;
        let send =
            async |path: &str, method: Method, change: &dyn Fn(&mut HeaderMap), body: &str| {
                let http = gateway.stranger(path);
                let mut headers = http.headers("*/*");
                change(&mut headers);
                http.send(method, headers, body.to_owned())
                    .await
                    .whole()
                    .await
            };
        let set = |name: &'static str, text: &'static str| {
            move |headers: &mut HeaderMap| {
                drop(headers.insert(name, HeaderValue::from_static(text)))
            }
        };
        let unchanged_headers = |_: &mut HeaderMap| {};
        let message = client.message.clone();
        let long_text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":"{}"}}}}"#,
            "x".repeat(5000)
        );

        for (sent_body, expected) in [
            ("{", StatusCode::BAD_REQUEST),
            ("", StatusCode::BAD_REQUEST),
            (r#"{"id":1,"method":"ping"}"#, StatusCode::BAD_REQUEST),
            (long_text.as_str(), StatusCode::PAYLOAD_TOO_LARGE),
        ] {
            let answer = send(&message, Method::POST, &unchanged_headers, sent_body).await;
            assert_eq!(answer.status, expected, "{sent_body:.20}");
            assert!(
                answer.json()["error"]["message"].is_string(),
                "{}",
                answer.text
            );
        }
        for (name, text, expected) in [
            (
                "content-type",
                "text/plain",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ),
            (
                "mcp-protocol-version",
                "1999-12-31",
                StatusCode::BAD_REQUEST,
            ),
            ("host", "evil.example", StatusCode::FORBIDDEN),
            ("origin", "https://evil.example", StatusCode::FORBIDDEN),
        ] {
            let answer = send(&message, Method::POST, &set(name, text), PING).await;
            assert_eq!(answer.status, expected, "{name}: {text}");
        }
        for (name, text, expected) in [
            ("accept", "application/json", StatusCode::NOT_ACCEPTABLE),
            ("host", "evil.example", StatusCode::FORBIDDEN),
            ("mainstay-chain", "a,b,c,d", StatusCode::LOOP_DETECTED),
        ] {
            let answer = send(path, Method::GET, &set(name, text), "").await;
            assert_eq!(answer.status, expected, "{name}: {text}");
        }
        // The status 405 tells a client that this endpoint does not support Streamable HTTP
        // (specification, "Backwards Compatibility").
        for (request_path, method, allowed_method) in [
            (path, Method::POST, "GET"),
            (path, Method::DELETE, "GET"),
            (&message, Method::GET, "POST"),
            (&message, Method::PUT, "POST"),
        ] {
            let answer = send(request_path, method, &unchanged_headers, PING).await;
            assert_eq!(
                answer.status,
                StatusCode::METHOD_NOT_ALLOWED,
                "{request_path}"
            );
            assert_eq!(answer.headers[header::ALLOW], allowed_method);
        }
        // The session id is unknown, is missing, or belongs to another endpoint.
        let id = message.split_once('?').expect("a query").1;
        let other_path = if path == "/sse" {
            "/servers/y/sse/message"
        } else {
            "/sse/message"
        };
        for (request_path, expected) in [
            (
                format!("{path}/message?sessionId=0123456789abcdef0123456789abcdef"),
                StatusCode::NOT_FOUND,
            ),
            (format!("{path}/message"), StatusCode::BAD_REQUEST),
            (format!("{other_path}?{id}"), StatusCode::NOT_FOUND),
            (
                format!("/servers/none/sse/message?{id}"),
                StatusCode::NOT_FOUND,
            ),
        ] {
            assert_eq!(
                send(&request_path, Method::POST, &unchanged_headers, PING)
                    .await
                    .status,
                expected,
                "{request_path}"
            );
        }
        assert_eq!(
            send("/servers/none/sse", Method::GET, &unchanged_headers, "")
                .await
                .status,
            StatusCode::NOT_FOUND
        );

        // None of these messages has reached the stream.
        client.accepted(PING).await;
        assert_eq!(
            client.stream.message().await,
            value(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
        );
    }
}

/// A client that does not read may lose notifications, but no result. It does not delay other
/// clients.
#[tokio::test]
async fn a_client_that_does_not_read_loses_no_result() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let other_client = gateway.client().await;
    let mut client = Sse::greeted(&gateway, "/sse").await;
    let token = "t".repeat(4000);
    let params = json!({"arguments": {"steps": 3000}, "_meta": {"progressToken": token}});
    let flood = client.begin("x__progress", params).await;
    let call = client
        .begin("x__echo", json!({"arguments": {"text": "late"}}))
        .await;
    until("the call to run", || backend.fake().runs("echo") == 1).await;
    other_client.assert_echo("x__echo").await;
    let (mut steps, mut answered_ids) = (Vec::new(), Vec::new());
    while answered_ids.len() < 2 {
        let message = client.stream.message().await;
        match message["params"]["progress"].as_u64() {
            Some(step) => steps.push(step),
            None => answered_ids.push(message["id"].clone()),
        }
    }
    assert!(answered_ids.contains(&flood) && answered_ids.contains(&call));
    assert!(steps.is_sorted());
}

/// At a shutdown, each stream ends with a final chunk (T1).
#[tokio::test]
async fn stopping_closes_the_streams() {
    let backend = Backend::http().await;
    let settings = json!({"shutdown": {"graceMs": 100}});
    let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
    let mut silent_client = Sse::open(&gateway, "/sse").await;
    let mut busy_client = Sse::greeted(&gateway, "/servers/x/sse").await;
    busy_client.begin("hang", json!({})).await;
    backend.until_called("hang").await;
    gateway.stop().await;
    assert_eq!(silent_client.stream.next().await, None);
    let answer = busy_client.stream.next().await.expect("the call has ended");
    assert!(answer.contains("outcome_unknown"), "{answer}");
    assert_eq!(busy_client.stream.next().await, None);
}
