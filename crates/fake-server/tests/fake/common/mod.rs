//! Helpers for all transports: a time limit, messages, and a small HTTP client.

pub mod modern;
pub mod peer;

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("within the time limit")
}

/// Waits until the condition is true. The time limit of the test applies.
pub async fn eventually(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub fn initialize(revision: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"},
    }})
    .to_string()
}

pub fn request(id: u32, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

pub fn call(id: u32, tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
    request(id, "tools/call", &params)
}

pub fn notification(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

pub fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("a JSON message")
}

/// Returns the text of a tool result.
pub fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"]
        .as_str()
        .expect("a text result")
}

/// Sends one request over its own connection.
pub async fn send(
    url: &str,
    verb: &str,
    headers: &[(&str, &str)],
    body: String,
) -> hyper::Result<Response<Incoming>> {
    let (authority, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .expect("an http URL");
    let stream = TcpStream::connect(authority).await.expect("connects");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request = Request::builder().method(verb).uri(format!("/{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::<Bytes>::from(body)).expect("a request");
    sender.send_request(request).await
}

pub async fn read(response: Response<Incoming>) -> hyper::Result<String> {
    let body = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec()).expect("UTF-8"))
}

/// Returns the received part of a body, and true if the connection broke.
pub async fn read_until_broken(response: Response<Incoming>) -> (String, bool) {
    let (mut body, mut text) = (response.into_body(), String::new());
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return (text, true);
        };
        let data = frame.into_data().unwrap_or_default();
        text.push_str(std::str::from_utf8(&data).expect("UTF-8"));
    }
    (text, false)
}

/// A stream of server-sent events.
pub struct Stream {
    body: Incoming,
    buffer: String,
}

impl Stream {
    pub fn new(response: Response<Incoming>) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            body: response.into_body(),
            buffer: String::new(),
        }
    }

    /// Returns the data of the next event, `None` at a regular end, or `Err` for a broken stream.
    pub async fn next(&mut self) -> hyper::Result<Option<String>> {
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let data: Vec<&str> = event
                    .lines()
                    .filter_map(|line| line.strip_prefix("data: "))
                    .collect();
                let data = data.join("\n");
                self.buffer = String::from(rest);
                return Ok(Some(data));
            }
            let Some(frame) = self.body.frame().await.transpose()? else {
                return Ok(None);
            };
            let data = frame.into_data().unwrap_or_default();
            self.buffer
                .push_str(std::str::from_utf8(&data).expect("UTF-8"));
        }
    }

    pub async fn message(&mut self) -> Value {
        parse(&self.next().await.expect("unbroken").expect("an event"))
    }
}
