//! The sending side of a session over Streamable HTTP (revisions 2025-03-26 to 2025-11-25).

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mainstay_core::lifecycle::Loss;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    AttemptLimiter, Frame, Liveness, Opening,
    events::{Events, StreamBroken},
    http_client::{self, POST_HEADERS, Target, Template},
    http1::{self, Responding},
    message_router::MessageRouter,
    pending::Pending,
    reply_sink::ReplySink,
};
use crate::logs::pause;

pub const SESSION_ID: &str = "mcp-session-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const LAST_EVENT_ID: &str = "last-event-id";

/// The longest time that the end of a session may take.
pub const GOODBYE_LIMIT: Duration = Duration::from_secs(2);

/// Before a dropped GET stream is opened again, unless the server names another time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// The sending side of one session.
pub struct HttpLink {
    target: Target,
    greeted: OnceLock<Greeted>,
    next_id: AtomicU64,
    pub router: MessageRouter,
    pub max_message_bytes: usize,
    pub liveness: Arc<Liveness>,
    attempt_limiter: Arc<AttemptLimiter>,
    /// Notified when open connections are not used again: the stream gets a new one.
    forgotten: Notify,
    over: OnceLock<Loss>,
    /// Cancelled when the session is lost. Calls in flight go on: each has its own connection, and
    /// reports its own end.
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

impl HttpLink {
    /// A link to an endpoint. Its session is not open yet. Answers to the server's requests go to
    /// `outgoing`.
    pub fn new(opening: &Opening, target: Target, outgoing: mpsc::Sender<String>) -> Self {
        Self {
            target,
            greeted: OnceLock::new(),
            next_id: AtomicU64::new(0),
            router: MessageRouter::new(
                ReplySink::posts(opening.server.clone(), outgoing),
                Arc::clone(&opening.listener),
                Arc::clone(&opening.log),
            ),
            max_message_bytes: opening.max_message_bytes,
            liveness: Arc::new(Liveness::new(opening.hang_after)),
            attempt_limiter: Arc::clone(&opening.attempt_limiter),
            forgotten: Notify::new(),
            over: OnceLock::new(),
            lost: CancellationToken::new(),
        }
    }

    /// The session is open. All later requests carry its id and its version.
    pub fn greeted(&self, session_id: Option<String>, version: Option<&'static str>) {
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

    /// Posts the request that `render` writes for the id given to it. Returns that id, and the response.
    pub fn request(&self, render: impl FnOnce(&str) -> String) -> (u64, Responding) {
        self.request_by(Target::send_body, render)
    }

    /// The same over a connection of its own.
    pub fn request_afresh(&self, render: impl FnOnce(&str) -> String) -> (u64, Responding) {
        self.request_by(Target::send_body_afresh, render)
    }

    fn request_by(
        &self,
        send: impl FnOnce(&Target, &Template, &str) -> Responding,
        render: impl FnOnce(&str) -> String,
    ) -> (u64, Responding) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let response = send(&self.target, &self.post(), &render(&id.to_string()));
        (id, response)
    }

    /// Whether a stream can be resumed: all revisions with a handshake know how.
    pub fn resumes(&self) -> bool {
        self.greeted.get().is_some()
    }

    /// Asks for the events of a stream after this one.
    pub fn resume(&self, last_event: &str) -> Responding {
        let headers = vec![("accept", "text/event-stream"), (LAST_EVENT_ID, last_event)];
        // An idle connection may be closed already, and the server has named the time.
        self.target.send_afresh(&self.bare("GET", headers))
    }

    /// No open connection is used again.
    pub fn forget_connections(&self) {
        self.target.forget_connections();
        self.forgotten.notify_one();
    }

    /// Posts a notification or an answer.
    pub async fn send(&self, text: String) {
        http_client::deliver(self.router.server(), &self.target, &self.post(), &text).await;
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

    /// Returns when the session is lost.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// The reason why the session is over.
    pub fn reason(&self) -> Loss {
        let reason = self.over.get().cloned();
        reason.unwrap_or_else(|| Loss::Disconnected("its task ended".to_owned()))
    }

    /// Ends the session in order.
    pub async fn goodbye(&self) {
        if self.has_session() {
            timeout(
                GOODBYE_LIMIT,
                self.target.send(&self.bare("DELETE", Vec::new())),
            )
            .await
            .ok();
        }
    }

    /// Reads the stream of messages that belong to no call, as long as the server offers one. Drops
    /// `unanswered` once the server has said whether it does.
    pub async fn listen(&self, unanswered: oneshot::Sender<()>) {
        let mut unanswered = Some(unanswered);
        let nobody = Pending::new(self.router.server().clone());
        let mut last_event = None::<String>;
        let mut wait = FIRST_RETRY;
        let mut offered = false;
        loop {
            let mut headers = vec![("accept", "text/event-stream")];
            headers.extend(last_event.as_deref().map(|id| (LAST_EVENT_ID, id)));
            // An idle connection may be closed already, which shows nothing about the server.
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
                            let bytes = data.len();
                            let wait = match Frame::of_server_aside(data).await {
                                Ok(frame) => {
                                    self.liveness.hear();
                                    self.router.sort(frame, &nobody)
                                }
                                Err(error) => self.router.skip(bytes, &error),
                            };
                            pause(wait).await;
                        }
                    }
                }
                // There was a stream before, so the session is gone: the server has restarted.
                Ok(response) if response.head.status == 404 && offered && self.has_session() => {
                    self.lose(Loss::SessionExpired);
                    return;
                }
                // 405 is normal: no stream is offered. Other refusals will not change either.
                Ok(response) if response.head.status < 500 => return,
                // The server is gone. A server that accepts a connection and drops it may not know GET.
                // But if it had a stream before, it is gone.
                Err(error) if offered || matches!(error, http1::Error::Connect(_)) => {
                    self.lose(Loss::Disconnected(error.to_string()));
                    return;
                }
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(wait).await;
            // Streams of many servers that broke off together are not opened again together.
            self.attempt_limiter.take().await;
            wait = (wait * 2).min(LAST_RETRY);
        }
    }
}
