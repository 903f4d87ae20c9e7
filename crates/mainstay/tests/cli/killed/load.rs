//! Clients that call continuously and remember the answers.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use fake_server::Fake;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mainstay_core::record::Cid;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::{net::TcpStream, task::JoinSet};

/// The names of the servers. The first is a process that dies with the daemon, the second is remote
/// and survives.
pub const PROCESS: &str = "process";
pub const REMOTE: &str = "remote";

/// The number of clients. It is large enough for several calls in one commit.
const CLIENTS: u32 = 8;

const REVISION: &str = "2025-06-18";
const SESSION: &str = "mcp-session-id";

/// A call that was sent.
#[derive(Debug)]
pub struct SentCall {
    pub arguments: Cid,
    pub sent: Instant,
    pub answered: Option<CallAnswer>,
}

#[derive(Debug)]
pub struct CallAnswer {
    pub at: Instant,
    /// The CID of the received result.
    pub result: Cid,
}

pub fn config(remote: &Fake, journal: &serde_json::Value) -> String {
    json!({
        "mcpServers": {
            PROCESS: {"command": fake_server::binary()},
            REMOTE: {"type": "http", "url": remote.url()},
        },
        "journal": journal,
    })
    .to_string()
}

/// Clients that call until their connections break. Each has its own connection.
pub struct Load(JoinSet<Vec<SentCall>>);

impl Load {
    /// Starts the clients. Each round has other arguments, so its calls are distinct.
    pub fn begin(url: &str, round: u32) -> Self {
        let authority: Arc<str> = url.trim_start_matches("http://").into();
        let client_task = |client| call_until_it_breaks(Arc::clone(&authority), round, client);
        Self((0..CLIENTS).map(client_task).collect())
    }

    /// Waits until the connections have ended. Returns all calls.
    pub async fn end(self) -> Vec<SentCall> {
        self.0.join_all().await.into_iter().flatten().collect()
    }
}

async fn call_until_it_breaks(authority: Arc<str>, round: u32, client: u32) -> Vec<SentCall> {
    let mut calls = Vec::new();
    let Some(mut connection) = Connection::open(authority).await else {
        return calls;
    };
    let server = [PROCESS, REMOTE][client as usize % 2];
    for number in client * 8.. {
        let arguments = arguments(round, client, number);
        let params = format!(r#"{{"name":"{server}__echo","arguments":{arguments}}}"#);
        let mut call = SentCall {
            arguments: Cid::for_content(arguments.as_bytes()),
            sent: Instant::now(),
            answered: None,
        };
        let result = connection.ask("tools/call", &params).await;
        call.answered = result.map(|result| CallAnswer {
            at: Instant::now(),
            result: Cid::for_content(result.get().as_bytes()),
        });
        let is_over = call.answered.is_none();
        calls.push(call);
        if is_over {
            break;
        }
    }
    calls
}

/// Arguments of various sizes. Some are large enough to be stored as files (64 KiB).
fn arguments(round: u32, client: u32, number: u32) -> String {
    let padding = match number % 64 {
        7 => 100_000,
        39 => 40_000,
        _ => 0,
    };
    format!(
        r#"{{"text":"{round}.{client}.{number}.{}"}}"#,
        "x".repeat(padding)
    )
}

struct Connection {
    authority: Arc<str>,
    sender: http1::SendRequest<Full<Bytes>>,
    session: Option<String>,
    last_id: u64,
    /// Held so that the connection's task keeps running.
    _driver: JoinSet<()>,
}

impl Connection {
    /// Opens a connection with a session. `None` if the daemon has gone.
    async fn open(authority: Arc<str>) -> Option<Self> {
        let stream = TcpStream::connect(&*authority).await.ok()?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        let mut tasks = JoinSet::new();
        // Ignore this error: the request reports it as well.
        tasks.spawn(async { drop(driver.await) });
        let mut connection = Self {
            authority,
            sender,
            session: None,
            last_id: 0,
            _driver: tasks,
        };
        let params = json!({
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": {"name": "load", "version": "1"},
        });
        connection.ask("initialize", &params.to_string()).await?;
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        connection.post(initialized.to_owned()).await?;
        Some(connection)
    }

    /// Sends a request, and returns its result. `None` if the daemon has gone.
    async fn ask(&mut self, method: &str, params: &str) -> Option<Box<RawValue>> {
        #[derive(Deserialize)]
        struct Response {
            id: u64,
            result: Option<Box<RawValue>>,
            error: Option<Box<RawValue>>,
        }
        self.last_id += 1;
        let id = self.last_id;
        let body = self
            .post(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
            ))
            .await?;
        // A longer call is answered by an event stream.
        let text = body.lines().rfind(|line| line.contains(r#""jsonrpc""#));
        let text = text.unwrap_or_else(|| panic!("no answer: {body}"));
        let text = text.strip_prefix("data:").unwrap_or(text);
        let response: Response = serde_json::from_str(text).expect("a response");
        assert_eq!(response.id, id);
        let result = response.result;
        let result = result.unwrap_or_else(|| panic!("{:?}", response.error));
        assert!(!result.get().contains("mainstay/error"), "{result}");
        Some(result)
    }

    async fn post(&mut self, body: String) -> Option<String> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/mcp")
            .header(header::HOST, &*self.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", REVISION);
        if let Some(session) = &self.session {
            request = request.header(SESSION, session);
        }
        let request = request.body(Full::from(body)).expect("a request");
        self.sender.ready().await.ok()?;
        let response = self.sender.send_request(request).await.ok()?;
        let status = response.status();
        if let Some(session) = response.headers().get(SESSION) {
            self.session = Some(session.to_str().expect("ASCII").to_owned());
        }
        let body = response.into_body().collect().await.ok()?.to_bytes();
        let body = String::from_utf8(body.to_vec()).expect("UTF-8");
        assert!(status.is_success(), "{status}: {body}");
        Some(body)
    }
}
