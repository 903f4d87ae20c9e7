//! A plain MCP client over every transport, which shares no code with Mainstay.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::{mpsc, oneshot},
    task::JoinSet,
};

/// The address of a server.
#[derive(Debug, Clone)]
pub enum PeerTarget {
    /// Streamable HTTP.
    Http(String),
    /// HTTP+SSE.
    Sse(String),
    Process {
        program: PathBuf,
        args: Vec<String>,
        env: BTreeMap<String, String>,
    },
}

/// The reason that a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no session, so that no call was sent.
    #[error("no session: {0}")]
    NoSession(String),
    /// The connection or the session is lost. A new peer is needed.
    #[error("lost: {0}")]
    Lost(String),
    /// The server has answered with an error.
    #[error("refused: {0}")]
    Refused(String),
    #[error("no answer in time")]
    Late,
}

#[expect(clippy::needless_pass_by_value, reason = "errors are handed over")]
fn lost(reason: impl ToString) -> CallError {
    CallError::Lost(reason.to_string())
}

/// One session with a server.
pub struct PlainPeer {
    way: Way,
    next_id: AtomicU64,
    /// The tasks that read and write. They end with the peer.
    _tasks: JoinSet<()>,
    _child: Option<Child>,
}

enum Way {
    Posts {
        http: Http,
        session: Option<String>,
    },
    /// Requests are POSTs, and the answers arrive on a stream.
    Stream {
        http: Http,
        waiting: Waiting,
    },
    Lines {
        outgoing: mpsc::UnboundedSender<String>,
        waiting: Waiting,
    },
}

struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

/// Waiters by id. `None` after the end of the connection. The lock is held only for an operation on the map.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<Option<Waiters>>>);

type Waiters = HashMap<u64, oneshot::Sender<Value>>;

impl Waiting {
    fn open() -> Self {
        Self(Arc::new(Mutex::new(Some(HashMap::new()))))
    }

    fn register(&self, id: u64) -> Result<oneshot::Receiver<Value>, CallError> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.0.lock();
        let waiting = waiting
            .as_mut()
            .ok_or_else(|| lost("the stream has ended"))?;
        waiting.insert(id, sender);
        Ok(receiver)
    }

    /// Passes an answer to its waiter. Other messages are ignored.
    fn receive(&self, text: &str) {
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            return;
        };
        let id = message["id"]
            .as_u64()
            .filter(|_| message["method"].is_null());
        let mut waiting = self.0.lock();
        if let Some(waiter) = id.and_then(|id| waiting.as_mut()?.remove(&id)) {
            // The waiter may have stopped waiting.
            let _ = waiter.send(message);
        }
    }

    fn end(&self) {
        *self.0.lock() = None;
    }
}

impl PlainPeer {
    /// Connects, and performs the handshake.
    pub async fn open(target: &PeerTarget) -> Result<Self, CallError> {
        let mut tasks = JoinSet::new();
        let mut child = None;
        let way = match target {
            PeerTarget::Http(url) => Way::Posts {
                http: Http::new(url.clone()),
                session: None,
            },
            PeerTarget::Sse(url) => subscribe(url, &mut tasks).await?,
            PeerTarget::Process { program, args, env } => {
                let mut process = Command::new(program)
                    .args(args)
                    .envs(env)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .kill_on_drop(true)
                    .spawn()
                    .map_err(lost)?;
                let output = process.stdin.take().ok_or_else(|| lost("no stdin"))?;
                let input = process.stdout.take().ok_or_else(|| lost("no stdout"))?;
                child = Some(process);
                lines(input, output, &mut tasks)
            }
        };
        let mut peer = Self {
            way,
            next_id: AtomicU64::new(1),
            _tasks: tasks,
            _child: child,
        };
        peer.greet().await?;
        Ok(peer)
    }

    async fn greet(&mut self) -> Result<(), CallError> {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "chaos", "version": "1"},
        });
        if let Way::Posts { http, session } = &mut self.way {
            let body = request(0, "initialize", &params);
            let response = http.post(None, body).await?;
            let id = response.headers().get("mcp-session-id");
            *session = id.and_then(|id| id.to_str().ok()).map(str::to_owned);
            result(answer(response, 0).await?)?;
        } else {
            result(self.ask("initialize", &params).await?)?;
        }
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
        match &self.way {
            Way::Posts { http, session } => {
                http.post(session.as_deref(), initialized).await?;
            }
            Way::Stream { http, .. } => {
                http.post(None, initialized).await?;
            }
            Way::Lines { outgoing, .. } => outgoing.send(initialized).map_err(lost)?,
        }
        Ok(())
    }

    /// Calls a tool, and returns its result.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Result<Value, CallError> {
        let params = json!({"name": tool, "arguments": arguments});
        let result = result(self.ask("tools/call", &params).await?)?;
        if result["isError"] == json!(true) {
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            return Err(CallError::Refused(text.to_owned()));
        }
        Ok(result)
    }

    async fn ask(&self, method: &str, params: &Value) -> Result<Value, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let body = request(id, method, params);
        match &self.way {
            Way::Posts { http, session } => {
                answer(http.post(session.as_deref(), body).await?, id).await
            }
            Way::Stream { http, waiting } => {
                let answer = waiting.register(id)?;
                http.post(None, body).await?;
                answer.await.map_err(|_| lost("the stream broke off"))
            }
            Way::Lines { outgoing, waiting } => {
                let answer = waiting.register(id)?;
                outgoing.send(body).map_err(lost)?;
                answer.await.map_err(|_| lost("the pipe broke"))
            }
        }
    }
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn result(mut message: Value) -> Result<Value, CallError> {
    if let Some(error) = message.get("error") {
        return Err(CallError::Refused(error["message"].to_string()));
    }
    Ok(message["result"].take())
}

impl Http {
    fn new(url: String) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            url,
        }
    }

    async fn post(
        &self,
        session: Option<&str>,
        body: String,
    ) -> Result<Response<Incoming>, CallError> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        if let Some(session) = session {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-06-18");
        }
        let request = request.body(Full::from(body)).map_err(lost)?;
        let response = self.client.request(request).await.map_err(lost)?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => Err(lost("the session is unknown")),
            status => Err(CallError::Refused(status.to_string())),
        }
    }
}

/// Reads the message with this id from a JSON body or a stream of events.
async fn answer(response: Response<Incoming>, id: u64) -> Result<Value, CallError> {
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = frame.map_err(lost)?.into_data().unwrap_or_default();
        text.extend_from_slice(&data);
        // Do not wait for the end of the stream, which may stay open for long.
        if let Some(found) = find(&text, id) {
            return Ok(found);
        }
    }
    Err(lost("the answer broke off"))
}

fn find(text: &[u8], id: u64) -> Option<Value> {
    let parse = |text: &[u8]| {
        let message: Value = serde_json::from_slice(text).ok()?;
        (message["id"] == json!(id) && message["method"].is_null()).then_some(message)
    };
    let mut lines = text.split(|byte| *byte == b'\n');
    parse(text).or_else(|| lines.find_map(|line| parse(line.strip_prefix(b"data: ")?)))
}

/// Opens the stream of HTTP+SSE, and reads the URL for POSTs.
async fn subscribe(url: &str, tasks: &mut JoinSet<()>) -> Result<Way, CallError> {
    let mut http = Http::new(url.to_owned());
    let request = Request::builder()
        .uri(url)
        .header(header::ACCEPT, "text/event-stream")
        .body(Full::default())
        .map_err(lost)?;
    let response = http.client.request(request).await.map_err(lost)?;
    if !response.status().is_success() {
        return Err(lost(response.status()));
    }
    let waiting = Waiting::open();
    let (endpoint, address) = oneshot::channel();
    tasks.spawn({
        let waiting = waiting.clone();
        async move {
            events(response.into_body(), endpoint, &waiting).await;
            waiting.end();
        }
    });
    let endpoint = address.await.map_err(|_| lost("the stream broke off"))?;
    let origin = url.strip_suffix("/sse").unwrap_or(url);
    http.url = format!("{origin}{endpoint}");
    Ok(Way::Stream { http, waiting })
}

/// Reads events. The first has the URL for POSTs, and the others are messages. Every event has one line of
/// data here.
async fn events(mut body: Incoming, endpoint: oneshot::Sender<String>, waiting: &Waiting) {
    let mut endpoint = Some(endpoint);
    let mut unread = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        unread.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let Some(data) = line.trim_end().strip_prefix("data: ") else {
                continue;
            };
            match endpoint.take() {
                // The caller may have stopped waiting.
                Some(endpoint) => drop(endpoint.send(data.to_owned())),
                None => waiting.receive(data),
            }
        }
    }
}

fn lines(
    input: impl AsyncRead + Unpin + Send + 'static,
    mut output: impl AsyncWrite + Unpin + Send + 'static,
    tasks: &mut JoinSet<()>,
) -> Way {
    let waiting = Waiting::open();
    let (outgoing, mut queue) = mpsc::unbounded_channel::<String>();
    tasks.spawn(async move {
        while let Some(line) = queue.recv().await {
            if output
                .write_all(format!("{line}\n").as_bytes())
                .await
                .is_err()
            {
                return;
            }
        }
    });
    tasks.spawn({
        let waiting = waiting.clone();
        async move {
            let mut input = BufReader::new(input);
            let mut line = Vec::new();
            while input
                .read_until(b'\n', &mut line)
                .await
                .is_ok_and(|length| length > 0)
            {
                // Skip garbage before the message. The garbage may be long.
                if let Some(start) = line.iter().position(|byte| *byte == b'{') {
                    waiting.receive(&String::from_utf8_lossy(&line[start..]));
                }
                line.clear();
            }
            waiting.end();
        }
    });
    Way::Lines { outgoing, waiting }
}
