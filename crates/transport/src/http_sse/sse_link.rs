//! The sending side of a connection over HTTP+SSE.

use std::{pin::Pin, sync::Arc};

use mainstay_core::{era::Era, ids::ServerName, message::Method};
use tokio_util::sync::CancellationToken;

use crate::{
    Frame, Interruption, InterruptionKind, detect,
    exchanges::pending::PendingRequests,
    http::{
        credentials::Sending,
        http_client::{self, HttpTarget, RequestTemplate},
    },
    logs::ServerLog,
    streamable::session_doubt::{ProofTurns, Refused},
};

/// The sending side of one connection.
pub struct SseLink {
    endpoint: HttpTarget,
    post: RequestTemplate,
    server: ServerName,
    pub pending: Arc<PendingRequests>,
    /// Cancelled when the server has forgotten the session of the stream.
    pub expired: CancellationToken,
    proofs: ProofTurns,
    log: Arc<ServerLog>,
}

impl std::fmt::Debug for SseLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SseLink")
            .field("endpoint", &self.endpoint.uri())
            .finish_non_exhaustive()
    }
}

impl SseLink {
    /// `endpoint` is the URL for POSTs, from the server's `endpoint` event.
    pub fn new(server: ServerName, endpoint: HttpTarget, log: Arc<ServerLog>) -> Self {
        let post = endpoint.template("POST", &[("content-type", "application/json")]);
        let pending = Arc::new(PendingRequests::new(server.clone()));
        Self {
            endpoint,
            post,
            server,
            pending,
            expired: CancellationToken::new(),
            proofs: ProofTurns::default(),
            log,
        }
    }

    /// Posts a request.
    pub fn post(self: &Arc<Self>, text: &str) -> Accepting {
        let posted = self.endpoint.send_body(&self.post, text);
        Box::pin(accept(Arc::clone(self), posted))
    }

    /// Posts a notification or an answer.
    pub async fn send(&self, text: String) {
        self.pending.note_answerless();
        let status = self.deliver(&text).await;
        if let Some(refused) = status.and_then(Refused::of_status) {
            self.loses_session(&refused).await;
        }
    }

    async fn deliver(&self, text: &str) -> Option<u16> {
        http_client::deliver(&self.server, &self.endpoint, &self.post, text).await
    }

    /// Checks the session after a message in it was refused. A server may forget a session whose stream is
    /// still open: a `ping` shows if the server still accepts messages. Resolves to `true` if the session is
    /// lost.
    async fn loses_session(&self, refused: &Refused) -> bool {
        let shows_loss = async {
            let Ok(ticket) = self.pending.register(None, None) else {
                return true;
            };
            let id = ticket.id.to_string();
            let ping = detect::own_request(Era::Legacy, &id, Method::Ping, None);
            let template = &self.post;
            let Ok(response) = self.endpoint.follow(template, Some(&ping)).await else {
                return false;
            };
            let status = response.head.status;
            let body = http_client::error_text(response).await;
            // A server that knows the session answers on the stream.
            let is_refused =
                Frame::of_server(body.into()).is_ok_and(|frame| frame.error().is_some());
            match status {
                200..300 => is_refused,
                _ => Refused::of_status(status).is_some(),
            }
        };
        let is_lost = self.proofs.is_lost(|| self.is_over(), shows_loss).await;
        if is_lost && !self.is_over() {
            let server = &self.server;
            tracing::info!(%server, %refused, "the server does not know its session any more");
            self.log.note(&refused.log_line());
            self.expired.cancel();
        }
        is_lost
    }

    pub fn is_over(&self) -> bool {
        self.expired.is_cancelled() || self.pending.is_ended()
    }
}

/// Resolves once the server has accepted a request. The value is the answer, if it came in the body of the
/// HTTP response.
pub type Accepting = Pin<Box<dyn Future<Output = Result<Option<Frame>, Interruption>> + Send>>;

/// Waits until the server has accepted a request. Some servers send the answer in the body of the HTTP
/// response. Most of these answers refuse the session.
async fn accept(link: Arc<SseLink>, posted: Sending) -> Result<Option<Frame>, Interruption> {
    let posted = posted.await;
    let response = posted.map_err(|error| http_client::interruption(&error))?;
    let status = response.head.status;
    if http_client::is_redirect(status) {
        return Err(link.endpoint.redirected(&response.head));
    }
    let body = http_client::error_text(response).await;
    let answer = Frame::of_server(body.clone().into())
        .ok()
        .filter(Frame::is_response);
    let is_success = http_client::is_success(status);
    let is_refused = answer
        .as_ref()
        .is_some_and(|answer| answer.error().is_some());
    if is_success && !is_refused {
        return Ok(answer);
    }
    if let Some(refused) = Refused::of_status(status)
        && link.loses_session(&refused).await
    {
        return Err(Interruption {
            state: refused.state,
            kind: InterruptionKind::SessionExpired(refused.to_string()),
        });
    }
    if is_success {
        return Ok(answer);
    }
    Err(http_client::refused(status, body.as_bytes()))
}
