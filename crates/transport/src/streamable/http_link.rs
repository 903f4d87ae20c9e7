//! The sending side of a session over Streamable HTTP (revisions 2025-03-26 to 2025-11-25).

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mainstay_core::{
    era::{Era, Greeting},
    lifecycle::Loss,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    AttemptLimiter, Budget, Liveness, Opening, detect,
    exchanges::{message_router::MessageRouter, reply_sink::ReplyQueue},
    http::{
        credentials::Sending,
        http_client::{self, HttpTarget, POST_HEADERS, RequestTemplate},
    },
    logs::ServerLog,
    streamable::{
        get_stream::StreamState,
        http_exchange::{HttpExchange, Purpose},
        session_doubt::{MAX_PROOF, ProofTurns, Refused, SessionDoubt, SessionProof},
    },
};

pub const SESSION_ID: &str = "mcp-session-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const LAST_EVENT_ID: &str = "last-event-id";

/// The maximum number of consecutive calls that are refused as a whole. At this number the session counts as
/// lost, even if its proof succeeds.
const MOST_REFUSED: u32 = 3;

/// The time limit for the DELETE that ends a session.
pub const DELETE_LIMIT: Duration = Duration::from_secs(2);

/// The sending side of one session.
pub struct HttpLink {
    pub target: HttpTarget,
    /// The target of GET requests. A server may redirect them to another URL than POST requests.
    pub stream_target: HttpTarget,
    greeted: OnceLock<Greeted>,
    next_id: AtomicU64,
    pub router: MessageRouter,
    pub max_message_bytes: usize,
    pub liveness: Arc<Liveness>,
    pub attempt_limiter: Arc<AttemptLimiter>,
    /// Notified when the open connections must no longer be used. The GET stream then reconnects.
    pub forgotten: Notify,
    /// The state of the GET stream, shown in the server's details.
    pub stream_state: Mutex<StreamState>,
    log: Arc<ServerLog>,
    proofs: ProofTurns,
    over: OnceLock<Loss>,
    /// Cancelled when the session is lost. Calls in flight continue: each has its own connection, and reports
    /// the end of that connection.
    lost: CancellationToken,
}

/// The results of the handshake that all later requests need.
struct Greeted {
    post: RequestTemplate,
    session_id: Option<String>,
    version: Option<&'static str>,
    proof: SessionProof,
}

impl std::fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpLink")
            .field("uri", &self.target.uri())
            .finish_non_exhaustive()
    }
}

impl HttpLink {
    /// Creates a link to an endpoint, before the handshake. Answers to the server's requests go to
    /// `outgoing`.
    pub fn new(opening: &Opening, target: HttpTarget, outgoing: mpsc::Sender<String>) -> Self {
        Self {
            stream_target: target.at((*target.uri()).clone()),
            target,
            greeted: OnceLock::new(),
            next_id: AtomicU64::new(0),
            router: MessageRouter::new(
                opening.reply_sink(ReplyQueue::Posts(outgoing)),
                Arc::clone(&opening.listener),
                Arc::clone(&opening.log),
            ),
            max_message_bytes: opening.max_message_bytes,
            liveness: Arc::new(Liveness::new(opening.hang_after)),
            attempt_limiter: Arc::clone(&opening.attempt_limiter),
            forgotten: Notify::new(),
            stream_state: Mutex::default(),
            log: Arc::clone(&opening.log),
            proofs: ProofTurns::default(),
            over: OnceLock::new(),
            lost: CancellationToken::new(),
        }
    }

    /// Stores the results of the handshake. All later requests carry the session id and the protocol version.
    pub fn set_greeted(&self, session_id: Option<String>, greeting: &Greeting) {
        let revision = greeting.revision;
        let version = revision.sends_version_header().then(|| revision.as_str());
        let mut headers = POST_HEADERS.to_vec();
        headers.extend(session_id.as_deref().map(|id| (SESSION_ID, id)));
        headers.extend(version.map(|version| (PROTOCOL_VERSION, version)));
        let post = self.target.template("POST", &headers);
        // The cell is empty: the handshake sets it once.
        self.greeted
            .set(Greeted {
                post,
                session_id,
                version,
                proof: SessionProof::for_capabilities(greeting.capabilities),
            })
            .ok();
    }

    /// The head of every POST after the handshake.
    fn post(&self) -> RequestTemplate {
        self.greeted.get().map_or_else(
            || self.target.template("POST", &POST_HEADERS),
            |greeted| greeted.post.clone(),
        )
    }

    /// The head of a request without a body.
    fn bare<'a>(
        &'a self,
        method: &'static str,
        mut headers: Vec<(&str, &'a str)>,
    ) -> RequestTemplate {
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

    /// Posts a request. `render` gets the id of the request and returns its text. Returns the id and the
    /// response.
    pub fn request(&self, render: impl FnOnce(&str) -> String) -> (u64, Sending) {
        self.request_by(HttpTarget::send_body, render)
    }

    /// Like [`Self::request`], but on a new connection.
    pub fn request_afresh(&self, render: impl FnOnce(&str) -> String) -> (u64, Sending) {
        self.request_by(HttpTarget::send_body_afresh, render)
    }

    fn request_by(
        &self,
        send: impl FnOnce(&HttpTarget, &RequestTemplate, &str) -> Sending,
        render: impl FnOnce(&str) -> String,
    ) -> (u64, Sending) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let response = send(&self.target, &self.post(), &render(&id.to_string()));
        (id, response)
    }

    /// True after the handshake: all revisions with a handshake define the resumption of streams.
    pub fn can_resume(&self) -> bool {
        self.greeted.get().is_some()
    }

    /// Requests the events of a stream after the event `last_event`.
    pub fn resume(&self, last_event: &str) -> Sending {
        let headers = vec![("accept", "text/event-stream"), (LAST_EVENT_ID, last_event)];
        // Use a new connection. An idle connection may already be closed, and another attempt would miss the
        // time that the server named.
        self.stream_target.send_afresh(&self.bare("GET", headers))
    }

    /// Makes later requests use new connections. The GET stream reconnects.
    pub fn forget_connections(&self) {
        self.target.forget_connections();
        self.forgotten.notify_one();
    }

    /// Posts a notification or an answer.
    pub async fn send(self: &Arc<Self>, text: String) {
        let server = self.router.server();
        let status = http_client::deliver(server, &self.target, &self.post(), &text).await;
        if let Some(refused) = status.and_then(Refused::of_status)
            && self.has_session()
        {
            Arc::clone(self).loses_session(refused, None).await;
        }
    }

    /// Opens the GET stream. With `last_event`, the stream continues after that event.
    pub fn get_stream(&self, last_event: Option<&str>) -> Sending {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(last_event.map(|id| (LAST_EVENT_ID, id)));
        // Use a new connection: an idle one may be closed already, and its failure would say nothing about
        // the server.
        self.stream_target.send_afresh(&self.bare("GET", headers))
    }

    /// Marks the session as lost. Only the first reason is stored.
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

    /// The reason that the session is over.
    pub fn reason(&self) -> Loss {
        let reason = self.over.get().cloned();
        reason.unwrap_or_else(|| Loss::Disconnected("its task ended".to_owned()))
    }

    /// Ends the session in order, by DELETE.
    pub async fn delete_session(&self) {
        if self.has_session() {
            let target = self.target.at((*self.target.uri()).clone());
            let delete = self.bare("DELETE", Vec::new());
            timeout(DELETE_LIMIT, target.follow(&delete, None))
                .await
                .ok();
        }
    }

    /// Checks the session after a request in it was refused. Requests `proof`, or by default the proof that
    /// was chosen at the handshake. Resolves to `true` if the session is lost.
    pub async fn loses_session(
        self: Arc<Self>,
        refused: Refused,
        proof: Option<SessionProof>,
    ) -> bool {
        let Some(greeted) = self.greeted.get() else {
            return false;
        };
        let proof = proof.unwrap_or(greeted.proof);
        // Some servers answer list requests in any session but refuse calls, so a proof would show nothing.
        let is_useless =
            refused.is_unaddressed_error() && self.liveness.failed_in_row() >= MOST_REFUSED - 1;
        let shows_loss = async {
            let doubt = self.prove(proof).await;
            SessionProof::shows_loss(doubt.as_ref(), &refused)
        };
        let is_lost = is_useless || self.proofs.is_lost(|| self.is_over(), shows_loss).await;
        if is_lost && !self.is_over() {
            let server = self.router.server();
            tracing::info!(%server, %refused, "the server does not know its session any more");
            self.log.note(&refused.log_line());
            self.lose(Loss::SessionExpired);
        }
        is_lost
    }

    /// Requests the proof. Returns the remaining doubt about the session, or `None` if the session lives.
    async fn prove(self: &Arc<Self>, proof: SessionProof) -> Option<SessionDoubt> {
        let (id, response) =
            self.request(|id| detect::own_request(Era::Legacy, id, proof.method(), None));
        let mut exchange = HttpExchange::new(Arc::clone(self), id, Purpose::Proof, response);
        exchange.set_budget(Budget::new(MAX_PROOF));
        exchange.proof().await
    }
}
