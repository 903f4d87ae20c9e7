//! Servers behind Streamable HTTP (revisions 2025-03-26 and later): a POST per message, a GET stream
//! for what the server says unasked, and a session id that holds them together.

use std::{
    sync::{Arc, OnceLock, atomic::{AtomicU64, Ordering}},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use mainstay_core::{config::HttpLaunch, lifecycle::Loss};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Exchange, Frame, Opening, Running, Session,
    events::Events,
    exchange::Way,
    greet,
    http_client::{self, HttpClient},
    http_exchange::{HttpExchange, media_type},
    pending::Pending,
    session::Link,
    unasked::Unasked,
};

pub const SESSION_ID: &str = "mcp-session-id";
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const LAST_EVENT_ID: &str = "last-event-id";

/// What a notification or the end of a session may take.
const SEND_LIMIT: Duration = Duration::from_secs(10);
const GOODBYE_LIMIT: Duration = Duration::from_secs(2);

/// Before a dropped GET stream is opened again, unless the server names another time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Answers to a server's requests that may wait to be posted.
const MAX_OUTGOING: usize = 64;

/// The sending side of one session.
pub struct HttpLink {
    client: HttpClient,
    uri: Uri,
    /// Headers of the first request; later ones bear those of `greeted`.
    first_headers: HeaderMap,
    greeted: OnceLock<Greeted>,
    next_id: AtomicU64,
    pub(super) unasked: Unasked,
    pub(super) max_message_bytes: usize,
    outgoing: mpsc::Sender<String>,
    over: OnceLock<Loss>,
    /// Cancelled when the session is lost.
    lost: CancellationToken,
    /// Cancelled when we end it ourselves.
    stopped: CancellationToken,
}

struct Greeted {
    headers: HeaderMap,
    has_session: bool,
}

impl std::fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpLink").field("uri", &self.uri).finish_non_exhaustive()
    }
}

/// Why no session came about.
#[derive(Debug)]
pub enum Refused {
    /// This may be no Streamable HTTP endpoint at all.
    NotSpoken(String),
    Loss(Loss),
}

impl From<Refused> for Loss {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotSpoken(reason) => Self::ConnectFailed(reason),
            Refused::Loss(loss) => loss,
        }
    }
}

impl From<Loss> for Refused {
    fn from(loss: Loss) -> Self {
        Self::Loss(loss)
    }
}

pub async fn open(opening: &Opening, launch: &HttpLaunch) -> Result<(Session, Running), Refused> {
    let close = opening.stop.close.clone();
    tokio::select! {
        opened = greet_server(opening, launch) => opened,
        () = close.cancelled() => Err(Loss::Disconnected("stopped".to_owned()).into()),
    }
}

async fn greet_server(opening: &Opening, launch: &HttpLaunch) -> Result<(Session, Running), Refused> {
    let (client, uri) = HttpClient::new(launch).map_err(|error| Loss::CannotSpawn(error.to_string()))?;
    let mut headers = client.headers.clone();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let body = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}}"#, opening.initialize);
    let (response, uri) = client
        .request_following(Method::POST, uri, headers.clone(), body.into())
        .await
        .map_err(|error| Loss::ConnectFailed(http_client::deepest(&error)))?;
    let status = response.status();
    let session_id = response.headers().get(SESSION_ID).cloned();
    let (outgoing, answers) = mpsc::channel(MAX_OUTGOING);
    let link = Arc::new(HttpLink {
        client,
        uri,
        first_headers: headers,
        greeted: OnceLock::new(),
        next_id: AtomicU64::new(0),
        unasked: Unasked::new(opening.server.clone(), opening.listener.clone()),
        max_message_bytes: opening.max_message_bytes,
        outgoing,
        over: OnceLock::new(),
        lost: CancellationToken::new(),
        stopped: CancellationToken::new(),
    });
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(Loss::Unauthorized(format!("the server answered HTTP {status}")).into());
        }
        StatusCode::BAD_REQUEST
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::NOT_ACCEPTABLE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::NOT_IMPLEMENTED => {
            let text = http_client::error_text(response.into_body()).await;
            // A JSON-RPC error is said by someone who speaks MCP.
            if let Ok(frame) = Frame::read(text) && frame.error().is_some() {
                return Err(Loss::Rejected(frame.error().unwrap_or_default().to_owned()).into());
            }
            return Err(Refused::NotSpoken(format!("HTTP {status} to initialize")));
        }
        status if !status.is_success() => {
            return Err(Loss::ConnectFailed(format!("HTTP {status} to initialize")).into());
        }
        _ => {}
    }
    let answer = HttpExchange::answered(Arc::clone(&link), 0, response)
        .response()
        .await
        .map_err(|interruption| Refused::NotSpoken(interruption.to_string()))?;
    let greeting = greet(&answer)?;
    link.greeted(session_id, greeting.revision.sends_version_header().then(|| greeting.revision.as_str()));

    let session = Session {
        greeting,
        initialize_answer: answer,
        pid: None,
        server: opening.server.clone(),
        link: Link::Http(Arc::clone(&link)),
    };
    session.initialized().await;
    Ok((session, Box::pin(run(link, answers, opening.stop.close.clone()))))
}

impl HttpExchange {
    async fn response(mut self) -> Result<Frame, super::Interruption> {
        loop {
            let frame = self.next().await?;
            if frame.method().is_none() {
                return Ok(frame);
            }
        }
    }
}

impl HttpLink {
    fn greeted(&self, session_id: Option<HeaderValue>, version: Option<&'static str>) {
        let mut headers = self.first_headers.clone();
        let has_session = session_id.is_some();
        if let Some(id) = session_id {
            headers.insert(SESSION_ID, id);
        }
        if let Some(version) = version {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version));
        }
        // Set once, right after the handshake.
        self.greeted.set(Greeted { headers, has_session }).ok();
    }

    fn headers(&self) -> HeaderMap {
        self.greeted.get().map_or(&self.first_headers, |greeted| &greeted.headers).clone()
    }

    pub fn has_session(&self) -> bool {
        self.greeted.get().is_some_and(|greeted| greeted.has_session)
    }

    pub fn start(self: &Arc<Self>, render: impl FnOnce(&str) -> String) -> Exchange {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let body = Bytes::from(render(&id.to_string()));
        let response = self.client.request(Method::POST, self.uri.clone(), self.headers(), body);
        Exchange { id, way: Way::Http(Box::new(HttpExchange::new(Arc::clone(self), id, response))) }
    }

    /// Posts a notification or an answer.
    pub async fn send(&self, text: String) {
        let request = self.client.request(Method::POST, self.uri.clone(), self.headers(), text.into());
        match timeout(SEND_LIMIT, request).await {
            Ok(Ok(response)) if response.status().is_success() => {}
            Ok(Ok(response)) => tracing::debug!(status = %response.status(), "a notification was refused"),
            Ok(Err(error)) => tracing::debug!(error = http_client::deepest(&error), "a notification was lost"),
            Err(_) => tracing::debug!("a notification was not taken in time"),
        }
    }

    /// Has a message posted by the session's own task.
    pub fn send_later(&self, text: String) {
        if self.outgoing.try_send(text).is_err() {
            tracing::warn!("an answer to the server was dropped: too many are waiting");
        }
    }

    /// The session is lost; the first reason counts.
    pub fn lose(&self, loss: Loss) {
        if self.over.set(loss).is_ok() {
            self.lost.cancel();
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.get().is_some()
    }

    /// Resolves when we end the session. A lost session does not end the calls in flight: each has
    /// its own connection, and says by itself how it fared.
    pub async fn stopped(&self) {
        self.stopped.cancelled().await;
    }

    async fn goodbye(&self) {
        if self.has_session() {
            let request = self.client.request(Method::DELETE, self.uri.clone(), self.headers(), Bytes::new());
            timeout(GOODBYE_LIMIT, request).await.ok();
        }
    }

    /// Listens to what the server says unasked, as long as it offers a stream for it.
    async fn listen(&self) {
        let nobody = Pending::default();
        let mut last_event = None::<String>;
        let mut wait = FIRST_RETRY;
        loop {
            let mut headers = self.headers();
            headers.remove(header::CONTENT_TYPE);
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            if let Some(id) = last_event.as_deref().and_then(|id| HeaderValue::from_str(id).ok()) {
                headers.insert(LAST_EVENT_ID, id);
            }
            match self.client.request(Method::GET, self.uri.clone(), headers, Bytes::new()).await {
                Ok(response) if response.status().is_success() && media_type(response.headers()) == "text/event-stream" => {
                    let mut events = Events::new(response.into_body(), self.max_message_bytes);
                    while let Some(Ok(event)) = events.next().await {
                        wait = event.retry.map_or(FIRST_RETRY, Duration::from_millis).min(LAST_RETRY);
                        last_event = event.id.or(last_event);
                        if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                            self.heard(data, &nobody);
                        }
                    }
                }
                // 405 is normal: no stream is offered. Other refusals will not change either.
                Ok(response) if response.status().is_client_error() || response.status().is_success() => return,
                Ok(_) => {}
                Err(error) if error.is_connect() => {
                    self.lose(Loss::Disconnected(http_client::deepest(&error)));
                    return;
                }
                Err(_) => {}
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LAST_RETRY);
        }
    }

    fn heard(&self, data: String, nobody: &Pending) {
        match Frame::read(data.into()) {
            Ok(frame) => {
                if let Some(answer) = self.unasked.sort(frame, nobody) {
                    self.send_later(answer);
                }
            }
            Err(error) => tracing::warn!(%error, "an event that is no JSON-RPC message was skipped"),
        }
    }
}

/// Keeps a session until it is lost or closed.
async fn run(link: Arc<HttpLink>, mut answers: mpsc::Receiver<String>, close: CancellationToken) -> Loss {
    let posting = async {
        while let Some(text) = answers.recv().await {
            link.send(text).await;
        }
    };
    let listening = async {
        link.listen().await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = close.cancelled() => {
            link.lose(Loss::Disconnected("stopped".to_owned()));
            link.stopped.cancel();
            link.goodbye().await;
        }
        () = link.lost.cancelled() => {}
        () = posting => {}
        () = listening => {}
    }
    link.over.get().cloned().unwrap_or_else(|| Loss::Disconnected("its task ended".to_owned()))
}
