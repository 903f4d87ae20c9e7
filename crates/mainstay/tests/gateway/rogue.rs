//! A Streamable HTTP server that can answer calls with any bytes.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::client::value;

/// Starts a server with one tool, `act`, and returns its entry. `answer` gets the id of a call, and
/// returns the HTTP response. The connection ends after the response.
pub async fn start(answer: fn(&Value) -> String) -> Value {
    start_resumable(move |request| match request {
        RogueRequest::Call(id) => answer(id),
        RogueRequest::Rest(_) => METHOD_NOT_ALLOWED_RESPONSE.to_owned(),
    })
    .await
}

/// A request that the test answers.
pub enum RogueRequest<'a> {
    /// A call of `act` with this id.
    Call(&'a Value),
    /// A request to resume a stream after this event.
    Rest(&'a str),
}

const METHOD_NOT_ALLOWED_RESPONSE: &str =
    "HTTP/1.1 405 Method Not Allowed\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Starts a server with resumable streams. Returns its entry.
pub async fn start_resumable(
    answer: impl Fn(RogueRequest) -> String + Send + Sync + 'static,
) -> Value {
    start_scripted(move |input| match input {
        RogueInput::Rest(event) => Some(RogueReply::Http(answer(RogueRequest::Rest(event)))),
        RogueInput::Message(message) if message["method"] == "tools/call" => {
            Some(RogueReply::Http(answer(RogueRequest::Call(&message["id"]))))
        }
        RogueInput::Message(_) => None,
    })
    .await
}

/// A request to a scripted server.
pub enum RogueInput<'a> {
    Message(&'a Value),
    /// A request to resume a stream after this event.
    Rest(&'a str),
}

/// The reply of a scripted server.
pub enum RogueReply {
    /// A complete HTTP response.
    Http(String),
    /// A complete HTTP response, after this delay.
    Late(Duration, String),
    /// No response.
    Never,
    /// The chunks of a response. It ends when the channel is closed.
    Pieces(mpsc::UnboundedReceiver<String>),
    /// The beginning of a response. An endless sequence of `x` follows. Counts the bytes that were
    /// sent.
    Endless(String, Arc<EndlessProgress>),
}

/// The progress of a response without end.
#[derive(Debug, Default)]
pub struct EndlessProgress {
    pub bytes: AtomicUsize,
    /// True after the client has closed the connection.
    pub is_over: AtomicBool,
}

/// Starts a server that follows `script`, and returns its entry. If `script` returns `None`, the
/// server answers as if it had one tool, `act`.
pub async fn start_scripted(
    script: impl Fn(RogueInput) -> Option<RogueReply> + Send + Sync + 'static,
) -> Value {
    start_with(Arc::new(script)).await
}

type Script = Arc<dyn Fn(RogueInput) -> Option<RogueReply> + Send + Sync>;

async fn start_with(script: Script) -> Value {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&script)));
        }
    });
    json!({"type": "http", "url": format!("http://{address}/mcp")})
}

/// Starts a server that refuses every request with this text. Returns its entry.
pub async fn start_unwilling(reason: &str) -> Value {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": reason}});
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            let mut length = 0;
            while stream
                .read_line(&mut line)
                .await
                .is_ok_and(|line_length| line_length > 2)
            {
                if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = text.trim().parse().expect("a number");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            // Ignore the error: a broken connection ends the request.
            stream.read_exact(&mut body).await.ok();
            let id = serde_json::from_slice::<Value>(&body).unwrap_or_default()["id"].take();
            let mut error = error.clone();
            error["id"] = id;
            let answer = http("application/json", &error.to_string());
            stream.write_all(answer.as_bytes()).await.ok();
            stream.shutdown().await.ok();
        }
    });
    json!({"type": "http", "url": format!("http://{address}/mcp")})
}

/// Handles one request. `None` if the connection breaks.
async fn serve(stream: TcpStream, script: Script) -> Option<()> {
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
    let message = (!body.is_empty()).then(|| value(std::str::from_utf8(&body).expect("UTF-8")));
    let reply = match (&last_event, &message) {
        (Some(event), _) => script(RogueInput::Rest(event)),
        (None, Some(message)) => script(RogueInput::Message(message)),
        (None, None) => None,
    };
    let response = match reply {
        Some(RogueReply::Http(response)) => response,
        Some(RogueReply::Late(pause, response)) => {
            tokio::time::sleep(pause).await;
            response
        }
        Some(RogueReply::Never) => {
            // Wait until the client closes the connection.
            stream.read_u8().await.ok()?;
            return None;
        }
        Some(RogueReply::Pieces(mut pieces)) => {
            while let Some(piece) = pieces.recv().await {
                stream.write_all(piece.as_bytes()).await.ok()?;
            }
            return stream.shutdown().await.ok();
        }
        Some(RogueReply::Endless(beginning, progress)) => {
            let mut piece = beginning.into_bytes();
            while stream.write_all(&piece).await.is_ok() {
                progress.bytes.fetch_add(piece.len(), Ordering::Relaxed);
                piece = vec![b'x'; 64 * 1024];
            }
            progress.is_over.store(true, Ordering::Relaxed);
            return None;
        }
        None => message
            .as_ref()
            .map_or(METHOD_NOT_ALLOWED_RESPONSE.to_owned(), respond),
    };
    stream.write_all(response.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

fn respond(message: &Value) -> String {
    let id = &message["id"];
    match message["method"].as_str() {
        Some("initialize") => greeting(id, &json!({"tools": {}})),
        Some("tools/list") => {
            let tools = json!([{"name": "act", "inputSchema": {"type": "object"}}]);
            result(id, &json!({"tools": tools}))
        }
        _ => ACCEPTED_RESPONSE.to_owned(),
    }
}

const ACCEPTED_RESPONSE: &str =
    "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The result of `initialize` from a server with these capabilities.
pub fn greeting(id: &Value, capabilities: &Value) -> String {
    let answer = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "serverInfo": {"name": "rogue", "version": "1"},
    });
    result(id, &answer)
}

pub fn result(id: &Value, result: &Value) -> String {
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
    http("application/json", &answer.to_string())
}

pub fn error(id: &Value, code: i64, message: &str) -> String {
    let error = json!({"code": code, "message": message});
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
    http("application/json", &answer.to_string())
}

/// An HTTP response without `content-length`.
pub fn http(kind: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\n\r\n{body}")
}

pub fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}
