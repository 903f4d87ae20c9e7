//! A raw Streamable HTTP client. It keeps the received bytes and uses no MCP types.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::sleep,
};

use crate::gateway::soon;

pub const LATEST: &str = "2025-11-25";

const ACCEPT: &str = "application/json, text/event-stream";

/// A client of one endpoint. It opens a new connection for each request.
pub struct Http {
    address: SocketAddr,
    path: String,
    pub session: Option<String>,
    /// The bearer token.
    pub token: Option<String>,
    next_id: AtomicU64,
}

/// A complete response.
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

/// A response whose body is not read yet. Dropping it closes the connection.
pub struct Stream {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    unread: Vec<u8>,
    connection: JoinHandle<()>,
}

impl Http {
    pub fn new(address: SocketAddr, path: &str) -> Self {
        Self {
            address,
            path: path.to_owned(),
            session: None,
            token: None,
            next_id: AtomicU64::new(100),
        }
    }

    /// The headers of a correct request.
    pub fn headers(&self, accept: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let host = HeaderValue::from_str(&self.address.to_string()).expect("an address");
        headers.insert(header::HOST, host);
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if let Some(token) = &self.token {
            let bearer = HeaderValue::from_str(&format!("Bearer {token}")).expect("ASCII");
            headers.insert(header::AUTHORIZATION, bearer);
        }
        if let Some(session) = &self.session {
            headers.insert(
                "mcp-session-id",
                HeaderValue::from_str(session).expect("ASCII"),
            );
            headers.insert("mcp-protocol-version", HeaderValue::from_static(LATEST));
        }
        headers
    }

    /// Sends a request, and waits for the head of the response.
    pub async fn send(&self, method: Method, headers: HeaderMap, body: impl Into<Bytes>) -> Stream {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = method;
        *request.uri_mut() = self.path.parse().expect("a path");
        *request.headers_mut() = headers;
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .expect("a connection");
        let connection = tokio::spawn(async move {
            // Ignore the error: it also ends the body.
            connection.await.ok();
        });
        let response = soon("an answer's head", sender.send_request(request)).await;
        let (head, body) = response.expect("an HTTP answer").into_parts();
        Stream {
            status: head.status,
            headers: head.headers,
            body,
            unread: Vec::new(),
            connection,
        }
    }

    /// Posts a message, and waits for the head of the response.
    pub async fn begin(&self, body: impl Into<Bytes>) -> Stream {
        self.send(Method::POST, self.headers(ACCEPT), body).await
    }

    /// Posts a message, and waits for the complete response.
    pub async fn post(&self, body: impl Into<Bytes>) -> Response {
        self.begin(body).await.whole().await
    }

    /// Opens the GET stream, for messages outside of requests.
    pub async fn listen(&self) -> Stream {
        let headers = self.headers("text/event-stream");
        let stream = self.send(Method::GET, headers, Bytes::new()).await;
        assert_eq!(stream.status, StatusCode::OK);
        stream
    }

    /// Requests the messages that follow this event of a stream.
    pub async fn resume(&self, last_event: &str) -> Stream {
        let mut headers = self.headers("text/event-stream");
        let id = HeaderValue::from_str(last_event).expect("ASCII");
        headers.insert("last-event-id", id);
        self.send(Method::GET, headers, Bytes::new()).await
    }

    pub async fn delete(&self) -> StatusCode {
        let stream = self.send(Method::DELETE, self.headers(ACCEPT), Bytes::new());
        stream.await.status
    }

    /// Posts a message, and closes the connection when `readiness` resolves. Returns when the gateway has
    /// noticed.
    pub async fn abandon(&self, body: &str, readiness: impl Future<Output = ()>) {
        let headers = self.headers(ACCEPT);
        let lines = headers.iter().map(|(name, value)| {
            let value = value.to_str().expect("ASCII");
            format!("{name}: {value}\r\n")
        });
        let lines: String = lines.collect();
        let text = format!(
            "POST {} HTTP/1.1\r\ncontent-length: {}\r\n{lines}\r\n{body}",
            self.path,
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        stream.write_all(text.as_bytes()).await.expect("written");
        readiness.await;
        stream.shutdown().await.expect("half closed");
        // Wait, because the gateway checks for closed connections periodically.
        let mut probe = [0; 12];
        soon("the gateway to notice", stream.read_exact(&mut probe))
            .await
            .expect("an interim answer");
        assert_eq!(&probe, b"HTTP/1.1 100");
        drop(stream);
        sleep(Duration::from_millis(150)).await;
    }

    /// Completes the handshake and stores the session id. Returns the result.
    pub async fn initialize(&mut self, revision: &str) -> Value {
        self.greet(&initialize(revision)).await
    }

    /// Like [`Http::initialize`], with these capabilities.
    pub async fn initialize_with(&mut self, capabilities: &Value) -> Value {
        let empty_text = r#""capabilities":{}"#;
        let declared_text = format!(r#""capabilities":{capabilities}"#);
        let text = initialize(LATEST);
        assert!(text.contains(empty_text), "{text}");
        self.greet(&text.replace(empty_text, &declared_text)).await
    }

    /// Completes the handshake with this `initialize` request.
    pub async fn greet(&mut self, initialize: &str) -> Value {
        let response = self.post(initialize.to_owned()).await;
        assert_eq!(response.status, StatusCode::OK, "{}", response.text);
        let session = response
            .headers
            .get("mcp-session-id")
            .expect("a session id");
        self.session = Some(session.to_str().expect("ASCII").to_owned());
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(self.post(initialized).await.status, StatusCode::ACCEPTED);
        response.json()["result"].clone()
    }

    pub fn request_text(&self, method: &str, params: &str) -> String {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    }

    /// Sends a request. Returns all messages about it, the response last.
    pub async fn exchange(&self, method: &str, params: &str) -> Vec<String> {
        let response = self.post(self.request_text(method, params)).await;
        assert_eq!(response.status, StatusCode::OK, "{}", response.text);
        response.messages()
    }

    /// Sends a request. Returns the text of the response.
    pub async fn ask(&self, method: &str, params: &str) -> String {
        self.exchange(method, params)
            .await
            .pop()
            .expect("a response")
    }

    /// Sends a request. Returns the response.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        value(&self.ask(method, &params.to_string()).await)
    }

    /// Sends a request that must succeed. Returns the result.
    pub async fn result(&self, method: &str, params: Value) -> Value {
        let response = self.request(method, params).await;
        assert!(response["result"].is_object(), "{response}");
        response["result"].clone()
    }

    /// Sends a request that must fail. Returns the error.
    pub async fn error(&self, method: &str, params: Value) -> Value {
        let response = self.request(method, params).await;
        assert!(response["error"].is_object(), "{response}");
        response["error"].clone()
    }

    /// Calls a tool. Returns the result.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.result("tools/call", params).await
    }

    /// Calls a tool. Returns the text of the result.
    pub async fn call_text(&self, tool: &str, arguments: Value) -> String {
        text(&self.call(tool, arguments).await)
    }

    /// Asserts that an `echo` tool answers.
    pub async fn assert_echo(&self, tool: &str) {
        assert_eq!(
            self.call_text(tool, json!({"text": "hello"})).await,
            "hello"
        );
    }

    /// The names of all tools.
    pub async fn tools(&self) -> Vec<String> {
        let result = self.result("tools/list", json!({})).await;
        names(&result["tools"])
    }

    pub async fn cancel(&self, id: &Value) {
        let text = cancelled(id);
        assert_eq!(self.post(text).await.status, StatusCode::ACCEPTED);
    }
}

/// One event of a stream. A comment is an event without fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    pub id: Option<String>,
    pub retry: Option<u64>,
    pub data: Option<String>,
}

impl SseEvent {
    fn read(text: &str) -> Self {
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
            Some(lines.next()?.strip_prefix(':')?.trim_start().to_owned())
        };
        Self {
            id: field("id"),
            retry: field("retry").map(|text| text.parse().expect("milliseconds")),
            data: field("data"),
        }
    }

    pub fn id(&self) -> String {
        self.id.clone().unwrap_or_else(|| panic!("no id: {self:?}"))
    }

    /// The message in the event's data.
    pub fn json(&self) -> Value {
        value(self.data.as_deref().expect("data"))
    }
}

impl Stream {
    /// The next message of an event stream. `None` at its end.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let data = self.event().await?.data;
            if let Some(message) = data.filter(|text| !text.is_empty()) {
                return Some(message);
            }
        }
    }

    /// The next event of the stream, with or without data. `None` at the end of the stream.
    pub async fn event(&mut self) -> Option<SseEvent> {
        soon("an event", async {
            loop {
                if let Some(end) = self.unread.windows(2).position(|window| window == b"\n\n") {
                    let event = utf8(self.unread.drain(..end + 2).collect());
                    let event = SseEvent::read(&event);
                    // Skip comments, which only keep the stream alive.
                    if event != SseEvent::default() {
                        return Some(event);
                    }
                    continue;
                }
                self.read().await?;
            }
        })
        .await
    }

    /// The next message. Fails at the end of the stream.
    pub async fn message(&mut self) -> Value {
        value(&self.next().await.expect("the stream goes on"))
    }

    /// The rest of the body, as text.
    pub async fn rest(&mut self) -> String {
        while self.read().await.is_some() {}
        utf8(std::mem::take(&mut self.unread))
    }

    async fn read(&mut self) -> Option<()> {
        let frame = self.body.frame().await?.ok()?;
        if let Some(data) = frame.data_ref() {
            self.unread.extend_from_slice(data);
        }
        Some(())
    }

    pub async fn whole(mut self) -> Response {
        let text = soon("an answer's body", self.rest()).await;
        Response {
            status: self.status,
            headers: std::mem::take(&mut self.headers),
            text,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Response {
    pub fn is_stream(&self) -> bool {
        let kind = self.headers.get(header::CONTENT_TYPE);
        kind.is_some_and(|kind| kind == "text/event-stream")
    }

    /// The JSON-RPC messages in the body, in order.
    pub fn messages(&self) -> Vec<String> {
        if self.is_stream() {
            self.text.split("\n\n").filter_map(data).collect()
        } else {
            vec![self.text.clone()]
        }
    }

    pub fn json(&self) -> Value {
        value(&self.messages().pop().expect("a message"))
    }
}

fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

/// The data of an event. `None` if it has none.
fn data(event: &str) -> Option<String> {
    let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
    let lines: Vec<&str> = lines.map(str::trim_start).collect();
    let data = lines.join("\n");
    (!data.is_empty()).then_some(data)
}

pub fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// The raw text of an object's member.
pub fn raw<'a>(object: &'a str, member: &str) -> &'a str {
    try_raw(object, member).unwrap_or_else(|| panic!("no {member} in {object}"))
}

/// Like [`raw`], but `None` if the member is missing.
pub fn try_raw<'a>(object: &'a str, member: &str) -> Option<&'a str> {
    let members: HashMap<&str, &RawValue> =
        serde_json::from_str(object).unwrap_or_else(|error| panic!("{error} in {object}"));
    members.get(member).map(|raw_value| raw_value.get())
}

/// The text in the result of a tool.
pub fn text(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text in {result}"))
        .to_owned()
}

/// The error data in the result of a failed call (K9).
pub fn failure(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result}");
    &result["_meta"]["mainstay/error"]
}

pub fn names(items: &Value) -> Vec<String> {
    let items = items.as_array().expect("a list").iter();
    items
        .map(|item| item["name"].as_str().expect("a name").to_owned())
        .collect()
}

pub fn initialize(revision: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"tests","version":"1"}}}}}}"#
    )
}

pub fn cancelled(id: &Value) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"enough"}}}}"#
    )
}
