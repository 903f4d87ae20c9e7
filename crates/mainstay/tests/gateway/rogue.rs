//! A backend on Streamable HTTP that answers calls with whatever bytes a test wants.

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
    start_scripted(move |heard| match heard {
        Heard::Rest(event) => Some(Reply::Http(answer(Asked::Rest(event)))),
        Heard::Message(message) if message["method"] == "tools/call" => {
            Some(Reply::Http(answer(Asked::Call(&message["id"]))))
        }
        Heard::Message(_) => None,
    })
    .await
}

/// What a scripted server hears.
pub enum Heard<'a> {
    Message(&'a Value),
    /// A client wants what came on a stream after this event.
    Rest(&'a str),
}

/// What it does then.
pub enum Reply {
    /// These bytes are the whole HTTP response.
    Http(String),
    /// The same after a while.
    Late(Duration, String),
    /// No byte ever comes.
    Never,
    /// The response comes piece by piece, and ends with the channel.
    Pieces(mpsc::UnboundedReceiver<String>),
    /// The response begins with this, and goes on with as many `x` as are taken, which are counted.
    Endless(String, Arc<Taken>),
}

/// What was taken of an endless response.
#[derive(Debug, Default)]
pub struct Taken {
    pub bytes: AtomicUsize,
    /// The client has hung up.
    pub is_over: AtomicBool,
}

/// The entry of a server that does what `script` says, and where it says nothing has one tool, `act`.
pub async fn start_scripted(
    script: impl Fn(Heard) -> Option<Reply> + Send + Sync + 'static,
) -> Value {
    start_with(Arc::new(script)).await
}

type Script = Arc<dyn Fn(Heard) -> Option<Reply> + Send + Sync>;

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

/// The entry of a server that refuses whatever it is asked, in these words.
pub async fn unwilling(words: &str) -> Value {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": words}});
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            let mut length = 0;
            while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
                if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = text.trim().parse().expect("a number");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            // A connection that breaks is its client's business.
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

/// Serves one request. A connection that breaks is its client's business.
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
        (Some(event), _) => script(Heard::Rest(event)),
        (None, Some(message)) => script(Heard::Message(message)),
        (None, None) => None,
    };
    let response = match reply {
        Some(Reply::Http(response)) => response,
        Some(Reply::Late(pause, response)) => {
            tokio::time::sleep(pause).await;
            response
        }
        Some(Reply::Never) => {
            // Until the client hangs up.
            stream.read_u8().await.ok()?;
            return None;
        }
        Some(Reply::Pieces(mut pieces)) => {
            while let Some(piece) = pieces.recv().await {
                stream.write_all(piece.as_bytes()).await.ok()?;
            }
            return stream.shutdown().await.ok();
        }
        Some(Reply::Endless(beginning, taken)) => {
            let mut piece = beginning.into_bytes();
            while stream.write_all(&piece).await.is_ok() {
                taken.bytes.fetch_add(piece.len(), Ordering::Relaxed);
                piece = vec![b'x'; 64 * 1024];
            }
            taken.is_over.store(true, Ordering::Relaxed);
            return None;
        }
        None => message.as_ref().map_or(NOT_ALLOWED.to_owned(), respond),
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
        _ => ACCEPTED.to_owned(),
    }
}

const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The answer to `initialize` of a server with these capabilities.
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

/// A response whose body ends with its connection.
pub fn http(kind: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\n\r\n{body}")
}

pub fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}
