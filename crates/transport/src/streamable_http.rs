//! Servers behind Streamable HTTP (revisions 2025-03-26 to 2025-11-25): a POST for each message, a GET
//! stream for what belongs to no call, and a session id that holds them together.

use std::{
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mainstay_core::{config::HttpLaunch, era::Eras, lifecycle::Loss};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::logs::{MESSAGE, pause};

use super::{
    Asker, Budget, Exchange, Frame, MAX_GREETING, Opening, Running, Said, Session, Unreadable,
    detect::{Unopened, refused_initialize},
    events::{Events, StreamBroken},
    exchange::Way,
    greet,
    http_client::{self, Target, Template},
    http_exchange::HttpExchange,
    http1::{self, Responding},
    message_router::MessageRouter,
    pending::Pending,
    refusals,
    session::Link,
    turns::Turns,
    vitals::Vitals,
};

pub const SESSION_ID: &str = "mcp-session-id";
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) const POST_HEADERS: [(&str, &str); 2] = [
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
];

/// How long a new session waits for its GET stream. Some servers send no head before the first event.
const STREAM_LIMIT: Duration = Duration::from_secs(1);

/// What the end of a session may take.
const GOODBYE_LIMIT: Duration = Duration::from_secs(2);

/// Before a dropped GET stream is opened again, unless the server names another time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Answers to a server's requests that may wait to be posted.
const MAX_OUTGOING: usize = 64;

/// The sending side of one session.
pub struct HttpLink {
    target: Target,
    greeted: OnceLock<Greeted>,
    next_id: AtomicU64,
    pub(super) router: MessageRouter,
    pub(super) max_message_bytes: usize,
    pub(super) vitals: Arc<Vitals>,
    outgoing: mpsc::Sender<String>,
    turns: Arc<Turns>,
    /// The connections that stand are not to be trusted: the stream gets a new one.
    forgotten: Notify,
    over: OnceLock<Loss>,
    /// Cancelled when the session is lost. Calls in flight go on: each has its own connection, and
    /// says by itself how it fared.
    lost: CancellationToken,
}

/// What the handshake settled for all later requests.
struct Greeted {
    post: Template,
    session_id: Option<String>,
    version: Option<&'static str>,
}

impl std::fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpLink")
            .field("uri", &self.target.uri)
            .finish_non_exhaustive()
    }
}

/// Why no session came about.
#[derive(Debug)]
pub enum Refused {
    /// This may be no Streamable HTTP endpoint at all.
    NotSpoken(refusals::Refusal),
    Unopened(Unopened),
}

impl From<Refused> for Unopened {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotSpoken(refusal) => Self {
                loss: Loss::ConnectFailed(refusal.whole()),
                eras: Eras {
                    modern: None,
                    legacy: Some(false),
                },
            },
            Refused::Unopened(unopened) => unopened,
        }
    }
}

impl From<Loss> for Refused {
    fn from(loss: Loss) -> Self {
        Self::Unopened(loss.into())
    }
}

pub async fn open(opening: &Opening, launch: &HttpLaunch) -> Result<(Session, Running), Refused> {
    let mut greeting = pin!(greet_server(opening, launch));
    tokio::select! {
        opened = &mut greeting => return opened,
        () = opening.stop.close.cancelled() => {}
    }
    // By now the server may keep a session for us, and only its answer tells which one to end.
    let farewell = async {
        if let Ok((_, running)) = greeting.await {
            running.await;
        }
    };
    timeout(GOODBYE_LIMIT, farewell).await.ok();
    Err(Loss::Disconnected("stopped".to_owned()).into())
}

async fn greet_server(
    opening: &Opening,
    launch: &HttpLaunch,
) -> Result<(Session, Running), Refused> {
    let target = Target::new(launch, Some(opening.lineage.chain()))
        .map_err(|error| Loss::Misconfigured(error.to_string()))?;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}}"#,
        opening.initialize
    );
    let uri = target.uri.clone();
    let (response, target) = target
        .follow("POST", &POST_HEADERS, Some(&body))
        .await
        .map_err(|error| refusals::unanswered(&uri, &error))?;
    let uri = target.uri.clone();
    let status = response.head.status;
    let session_id = response.head.get(SESSION_ID).map(str::to_owned);
    let (outgoing, answers) = mpsc::channel(MAX_OUTGOING);
    let link = Arc::new(HttpLink {
        target,
        greeted: OnceLock::new(),
        next_id: AtomicU64::new(0),
        router: MessageRouter::new(
            opening.server.clone(),
            opening.listener.clone(),
            Arc::clone(&opening.log),
        ),
        max_message_bytes: opening.max_message_bytes,
        vitals: Arc::new(Vitals::new(opening.hang_after)),
        outgoing,
        turns: Arc::clone(&opening.turns),
        forgotten: Notify::new(),
        over: OnceLock::new(),
        lost: CancellationToken::new(),
    });
    match status {
        200..300 if is_page(&response.head) => {
            let text = http_client::error_text(response).await;
            let refusal = refusals::Refusal::new(&uri, status, "initialize", &text);
            return Err(Refused::NotSpoken(refusal));
        }
        200..300 => {}
        401 | 403 => return Err(refusals::unauthorized(&response.head, launch).into()),
        // 508: a Mainstay that was led back to itself.
        400 | 404 | 405 | 406 | 415 | 501 | 508 => {
            let text = http_client::error_text(response).await;
            if let Some(loss) = refusals::wants_tls(&uri, &text) {
                return Err(loss.into());
            }
            // A JSON-RPC error shows a server that speaks MCP.
            if let Ok(frame) = Frame::read(text.clone().into())
                && let Some(error) = frame.error()
            {
                let loss = Loss::Rejected(error.to_owned());
                return Err(Refused::Unopened(refused_initialize(&frame, loss)));
            }
            let refusal = refusals::Refusal::new(&uri, status, "initialize", &text);
            return Err(Refused::NotSpoken(refusal));
        }
        _ => {
            let loss = http_client::unavailable(&uri, response, "initialize").await;
            return Err(loss.into());
        }
    }
    let answer = HttpExchange::answered(Arc::clone(&link), 0, response, Budget::new(MAX_GREETING))
        .response()
        .await
        .map_err(|interruption| {
            let refusal = refusals::Refusal::unreadable(&uri, interruption.to_string());
            Refused::NotSpoken(refusal)
        })?;
    let greeting =
        greet(&answer).map_err(|loss| Refused::Unopened(refused_initialize(&answer, loss)))?;
    link.greeted(
        session_id,
        greeting
            .revision
            .sends_version_header()
            .then(|| greeting.revision.as_str()),
    );

    let session = Session {
        greeting,
        initialize_answer: answer,
        eras: Eras {
            modern: None,
            legacy: Some(true),
        },
        pid: None,
        vitals: Arc::clone(&link.vitals),
        server: opening.server.clone(),
        link: Link::Http(Arc::clone(&link)),
        listening: None,
    };
    session.initialized().await;
    // A server that is asked something may ask back at once, and many drop what they say on a stream
    // that is not open yet.
    let (unanswered, answered) = oneshot::channel();
    let mut running: Running = Box::pin(run(link, answers, opening.stop.close.clone(), unanswered));
    tokio::select! {
        loss = &mut running => return Err(loss.into()),
        _ = timeout(STREAM_LIMIT, answered) => {}
    }
    Ok((session, running))
}

fn is_page(head: &http1::Head) -> bool {
    let kind = head.get("content-type");
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/html"))
}

impl HttpExchange {
    async fn response(mut self) -> Result<Frame, super::Interruption> {
        loop {
            if let Said::Message(frame) = self.next().await?
                && frame.method().is_none()
            {
                return Ok(frame);
            }
        }
    }
}

impl HttpLink {
    fn greeted(&self, session_id: Option<String>, version: Option<&'static str>) {
        let mut headers = POST_HEADERS.to_vec();
        headers.extend(session_id.as_deref().map(|id| (SESSION_ID, id)));
        headers.extend(version.map(|version| (PROTOCOL_VERSION, version)));
        let post = self.target.template("POST", &headers);
        // Set once, right after the handshake.
        self.greeted
            .set(Greeted {
                post,
                session_id,
                version,
            })
            .ok();
    }

    /// The head of every POST after the handshake.
    fn post(&self) -> Template {
        self.greeted.get().map_or_else(
            || self.target.template("POST", &POST_HEADERS),
            |greeted| greeted.post.clone(),
        )
    }

    /// The head of a request without a body.
    fn bare<'a>(&'a self, method: &str, mut headers: Vec<(&str, &'a str)>) -> Template {
        if let Some(greeted) = self.greeted.get() {
            headers.extend(greeted.session_id.as_deref().map(|id| (SESSION_ID, id)));
            headers.extend(greeted.version.map(|version| (PROTOCOL_VERSION, version)));
        }
        self.target.template(method, &headers)
    }

    pub fn has_session(&self) -> bool {
        self.greeted
            .get()
            .is_some_and(|greeted| greeted.session_id.is_some())
    }

    pub fn start(
        self: &Arc<Self>,
        asker: Option<Asker>,
        render: impl FnOnce(&str) -> String,
    ) -> Exchange {
        self.post_by(Target::send_body, asker.is_some(), render)
    }

    /// Over a connection of its own.
    pub fn start_afresh(self: &Arc<Self>, render: impl FnOnce(&str) -> String) -> Exchange {
        self.post_by(Target::send_body_afresh, false, render)
    }

    fn post_by(
        self: &Arc<Self>,
        send: impl FnOnce(&Target, &Template, &str) -> Responding,
        is_call: bool,
        render: impl FnOnce(&str) -> String,
    ) -> Exchange {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let response = send(&self.target, &self.post(), &render(&id.to_string()));
        Exchange {
            id,
            way: Way::Http(Box::new(HttpExchange::new(
                Arc::clone(self),
                id,
                is_call,
                response,
            ))),
            in_flight: None,
        }
    }

    /// Whether a stream can be asked for again, as all revisions with a handshake know it.
    pub(super) fn resumes(&self) -> bool {
        self.greeted.get().is_some()
    }

    /// Asks for what came on a stream after this event.
    pub(super) fn resume(&self, last_event: &str) -> Responding {
        let headers = vec![("accept", "text/event-stream"), (LAST_EVENT_ID, last_event)];
        // One that lay idle may be closed already, and the server has named the time.
        self.target.send_afresh(&self.bare("GET", headers))
    }

    /// No connection that stands is used again.
    pub fn forget_connections(&self) {
        self.target.forget_connections();
        self.forgotten.notify_one();
    }

    /// Posts a notification or an answer.
    pub async fn send(&self, text: String) {
        http_client::deliver(&self.target, &self.post(), &text).await;
    }

    /// Has a message posted by the session's own task; `false` if too many wait already.
    pub fn send_later(&self, text: String) -> bool {
        self.outgoing.try_send(text).is_ok()
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

    async fn goodbye(&self) {
        if self.has_session() {
            timeout(
                GOODBYE_LIMIT,
                self.target.send(&self.bare("DELETE", Vec::new())),
            )
            .await
            .ok();
        }
    }

    /// Listens to what the server says unasked, as long as it offers a stream for it. Drops
    /// `unanswered` once the server has said whether it does.
    async fn listen(self: &Arc<Self>, unanswered: oneshot::Sender<()>) {
        let mut unanswered = Some(unanswered);
        let nobody = Pending::default();
        let mut last_event = None::<String>;
        let mut wait = FIRST_RETRY;
        let mut offered = false;
        loop {
            let mut headers = vec![("accept", "text/event-stream")];
            headers.extend(last_event.as_deref().map(|id| (LAST_EVENT_ID, id)));
            // One that lay idle may be closed already, and say nothing about the server.
            let get = self.target.send_afresh(&self.bare("GET", headers));
            let answered = tokio::select! {
                answered = get => answered,
                () = self.forgotten.notified() => continue,
            };
            drop(unanswered.take());
            match answered {
                Ok(response) if response.head.is_success() && response.head.is_event_stream => {
                    offered = true;
                    let mut events = Events::new(response, self.max_message_bytes);
                    loop {
                        let event = tokio::select! {
                            event = events.next() => event,
                            () = self.forgotten.notified() => break,
                        };
                        let event = match event {
                            Some(Ok(event)) => event,
                            Some(Err(error @ StreamBroken::TooLarge { .. })) => {
                                if let Some(times) = self.router.fault() {
                                    tracing::warn!(server = %self.router.server(), %error, times, "a notification was dropped");
                                }
                                continue;
                            }
                            Some(Err(StreamBroken::Broken(_))) | None => break,
                        };
                        wait = event
                            .retry
                            .map_or(FIRST_RETRY, Duration::from_millis)
                            .min(LAST_RETRY);
                        last_event = event.id.or(last_event);
                        if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                            let (length, read) = (data.len(), Frame::of_server_aside(data).await);
                            pause(self.heard(length, read, &nobody)).await;
                        }
                    }
                }
                // There was a stream, so it is the session that is gone: the server has restarted.
                Ok(response) if response.head.status == 404 && offered && self.has_session() => {
                    self.lose(Loss::SessionExpired);
                    return;
                }
                // 405 is normal: no stream is offered. Other refusals will not change either.
                Ok(response) if response.head.status < 500 => return,
                // The server is gone. One that takes a connection and drops it may never have known
                // GET; but one whose stream was cut before as well is gone.
                Err(error) if offered || matches!(error, http1::Error::Connect(_)) => {
                    self.lose(Loss::Disconnected(error.to_string()));
                    return;
                }
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(wait).await;
            // Streams that were cut together are not opened again together.
            self.turns.take().await;
            wait = (wait * 2).min(LAST_RETRY);
        }
    }

    /// Returns how long to wait before more is read.
    fn heard(
        self: &Arc<Self>,
        length: usize,
        read: Result<Frame, Unreadable>,
        nobody: &Pending,
    ) -> Duration {
        match read {
            Ok(frame) => {
                self.vitals.hear();
                let link = Link::Http(Arc::clone(self));
                self.router.sort(frame, nobody, &link)
            }
            Err(error) => {
                tracing::debug!(server = %self.router.server(), %error, "an event that is no JSON-RPC message was skipped");
                self.router.count(length + MESSAGE)
            }
        }
    }
}

/// Keeps a session until it is lost or closed.
async fn run(
    link: Arc<HttpLink>,
    mut answers: mpsc::Receiver<String>,
    close: CancellationToken,
    unanswered: oneshot::Sender<()>,
) -> Loss {
    let posting = async {
        while let Some(text) = answers.recv().await {
            link.send(text).await;
        }
    };
    let listening = async {
        link.listen(unanswered).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = close.cancelled() => {
            link.lose(Loss::Disconnected("stopped".to_owned()));
            link.goodbye().await;
        }
        () = link.lost.cancelled() => {}
        () = posting => {}
        () = listening => {}
    }
    link.over
        .get()
        .cloned()
        .unwrap_or_else(|| Loss::Disconnected("its task ended".to_owned()))
}
