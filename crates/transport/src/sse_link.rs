//! The sending side of a connection over HTTP+SSE, and one request on it.

use std::{pin::Pin, sync::Arc};

use mainstay_core::{era::Era, ids::ServerName, message::Method};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Asker, Interruption, InterruptionKind, ServerMessage, detect,
    http_client::{self, Target, Template},
    http1::Responding,
    pending::{Broken, Pending, Ticket},
    session_doubt::{PROOF_LIMIT, PROOF_PAUSE, Refused},
};

/// The sending side of one connection.
pub struct SseLink {
    endpoint: Target,
    post: Template,
    server: ServerName,
    pub pending: Arc<Pending>,
    /// Cancelled when the server does not know the session of the stream any more.
    pub expired: CancellationToken,
    /// When the session last gave proof that it lives. Held while it is asked for.
    proved_at: tokio::sync::Mutex<Option<Instant>>,
}

impl std::fmt::Debug for SseLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SseLink")
            .field("endpoint", &self.endpoint.uri())
            .finish_non_exhaustive()
    }
}

impl SseLink {
    /// `endpoint` is where to post, as the server's `endpoint` event said.
    pub fn new(server: ServerName, endpoint: Target) -> Self {
        let post = endpoint.template("POST", &[("content-type", "application/json")]);
        let pending = Arc::new(Pending::new(server.clone()));
        Self {
            endpoint,
            post,
            server,
            pending,
            expired: CancellationToken::new(),
            proved_at: tokio::sync::Mutex::default(),
        }
    }

    /// Posts a notification or an answer.
    pub async fn send(&self, text: String) {
        self.pending.sent_unasking();
        let status = self.deliver(&text).await;
        if let Some(refused) = status.and_then(Refused::notification) {
            self.loses_session(&refused).await;
        }
    }

    async fn deliver(&self, text: &str) -> Option<u16> {
        http_client::deliver(&self.server, &self.endpoint, &self.post, text).await
    }

    /// Whether the session is lost in which a message was refused in this way. A server may forget a session
    /// whose stream goes on: a `ping` shows whether it still takes messages.
    async fn loses_session(&self, refused: &Refused) -> bool {
        let mut proved_at = self.proved_at.lock().await;
        if self.is_over() {
            return true;
        }
        if proved_at.is_some_and(|at| at.elapsed() < PROOF_PAUSE) {
            return false;
        }
        let Ok(ticket) = self.pending.register(None, None) else {
            return true;
        };
        let ping = detect::own_request(Era::Legacy, &ticket.id.to_string(), Method::Ping, None);
        let status = timeout(PROOF_LIMIT, self.deliver(&ping)).await;
        let is_lost = status
            .ok()
            .flatten()
            .and_then(Refused::notification)
            .is_some();
        if is_lost {
            let server = &self.server;
            tracing::info!(%server, %refused, "the server does not know its session any more");
            self.expired.cancel();
        } else {
            *proved_at = Some(Instant::now());
        }
        is_lost
    }

    pub fn is_over(&self) -> bool {
        self.expired.is_cancelled() || self.pending.is_ended()
    }
}

type Accepting = Pin<Box<dyn Future<Output = Result<(), Interruption>> + Send>>;

/// A request that was posted. Its answer comes on the stream.
pub struct SseExchange {
    ticket: Ticket,
    /// The POST itself, until it has been answered.
    post: Option<Accepting>,
}

impl std::fmt::Debug for SseExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SseExchange")
            .field("id", &self.ticket.id)
            .finish_non_exhaustive()
    }
}

impl SseExchange {
    /// Posts the request that `render` writes for the id given to it.
    pub fn start(
        link: &Arc<SseLink>,
        asker: Option<Asker>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Self, Broken> {
        let ticket = link.pending.register(asker, None)?;
        let text = render(&ticket.id.to_string());
        let posted = link.endpoint.send_body(&link.post, &text);
        let post: Accepting = Box::pin(accept(Arc::clone(link), posted));
        Ok(Self {
            ticket,
            post: Some(post),
        })
    }

    pub fn id(&self) -> u64 {
        self.ticket.id
    }

    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// The next message about this request. Cancel-safe.
    pub async fn next(&mut self) -> Result<ServerMessage, Interruption> {
        let lost = |broken: Broken| Interruption::sent(broken.into());
        if let Some(post) = &mut self.post {
            let accepted = tokio::select! {
                biased;
                said = self.ticket.next() => return said.map_err(lost),
                accepted = post => accepted,
            };
            self.post = None;
            accepted?;
        }
        self.ticket.next().await.map_err(lost)
    }
}

/// Waits until the server has taken a request.
async fn accept(link: Arc<SseLink>, posted: Responding) -> Result<(), Interruption> {
    let posted = posted.await;
    let response = posted.map_err(|error| http_client::interruption(&error))?;
    let status = response.head.status;
    if http_client::is_redirect(status) {
        return Err(link.endpoint.redirected(&response.head));
    }
    let body = http_client::error_text(response).await;
    if http_client::is_success(status) {
        return Ok(());
    }
    if let Some(refused) = Refused::notification(status)
        && link.loses_session(&refused).await
    {
        return Err(Interruption {
            state: refused.state,
            kind: InterruptionKind::SessionExpired(refused.to_string()),
        });
    }
    Err(http_client::refused(status, body.as_bytes()))
}
