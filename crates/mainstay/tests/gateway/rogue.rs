//! A backend on Streamable HTTP that answers calls with whatever bytes a test wants.

use std::{net::Ipv4Addr, sync::Arc};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::client::value;

/// The entry of a server with one tool, `act`, whose calls `answer` answers: it gets the call's id,
/// and returns an HTTP response, which ends with its connection.
pub async fn start(answer: fn(&Value) -> String) -> Value {
    start_resumable(move |asked| match asked {
        Asked::Call(id) => answer(id),
        Asked::Rest(_) => NOT_ALLOWED.to_owned(),
    })
    .await
}

/// What a test answers.
pub enum Asked<'a> {
    /// A call of `act`, by its id.
    Call(&'a Value),
    /// What came on a stream after this event.
    Rest(&'a str),
}

const NOT_ALLOWED: &str =
    "HTTP/1.1 405 Method Not Allowed\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The same, where a stream may be asked for again.
pub async fn start_resumable(answer: impl Fn(Asked) -> String + Send + Sync + 'static) -> Value {
    let answer = Arc::new(answer);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&answer)));
        }
    });
    json!({"type": "http", "url": format!("http://{address}/mcp")})
}

/// Serves one request. A connection that breaks is its client's business.
async fn serve(
    stream: TcpStream,
    answer: Arc<impl Fn(Asked) -> String + Send + Sync>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let (mut length, mut last_event) = (0, None);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(text) = line.strip_prefix("last-event-id:") {
            last_event = Some(text.trim().to_owned());
        }
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().expect("a number");
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let response = match &last_event {
        Some(event) => answer(Asked::Rest(event)),
        None if body.is_empty() => NOT_ALLOWED.to_owned(),
        None => respond(&value(std::str::from_utf8(&body).expect("UTF-8")), &*answer),
    };
    stream.write_all(response.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

fn respond(message: &Value, answer: &impl Fn(Asked) -> String) -> String {
    let id = &message["id"];
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "rogue", "version": "1"},
        }),
        Some("tools/list") => {
            json!({"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})
        }
        Some("tools/call") => return answer(Asked::Call(id)),
        _ => {
            return "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                .to_owned();
        }
    };
    http(
        "application/json",
        &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
    )
}

/// A response whose body ends with its connection.
pub fn http(kind: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\n\r\n{body}")
}

pub fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}
