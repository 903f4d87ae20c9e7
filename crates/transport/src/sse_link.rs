//! The sending side of a connection over HTTP+SSE, and one request on it.

use std::sync::Arc;

use mainstay_core::ids::ServerName;

use super::{
    Asker, Frame, Interruption, InterruptionKind, ServerMessage,
    http_client::{self, Target, Template},
    http1::{Error, Responding, Response},
    pending::{Broken, Pending, Ticket},
};

/// The sending side of one connection.
pub struct SseLink {
    endpoint: Target,
    post: Template,
    server: ServerName,
    pub pending: Arc<Pending>,
}

impl std::fmt::Debug for SseLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SseLink")
            .field("endpoint", &self.endpoint.uri)
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
        }
    }

    /// Posts a notification or an answer.
    pub async fn send(&self, text: String) {
        self.pending.sent_unasking();
        http_client::deliver(&self.server, &self.endpoint, &self.post, &text).await;
    }

    pub fn is_over(&self) -> bool {
        self.pending.is_ended()
    }
}

/// A request that was posted. Its answer comes on the stream.
pub struct SseExchange {
    ticket: Ticket,
    /// The POST itself, until it has been answered.
    post: Option<Responding>,
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
        link: &SseLink,
        asker: Option<Asker>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Self, Broken> {
        let ticket = link.pending.register(asker, None)?;
        let text = render(&ticket.id.to_string());
        let post = Some(link.endpoint.send_body(&link.post, &text));
        Ok(Self { ticket, post })
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
            let answered = tokio::select! {
                biased;
                said = self.ticket.next() => return said.map_err(lost),
                answered = post => answered,
            };
            self.post = None;
            accepted(answered).await?;
        }
        self.ticket.next().await.map_err(lost)
    }
}

async fn accepted(answered: Result<Response, Error>) -> Result<(), Interruption> {
    let response = answered.map_err(|error| http_client::interruption(&error))?;
    let status = response.head.status;
    let body = http_client::error_text(response).await;
    if (200..300).contains(&status) {
        return Ok(());
    }
    let is_message = Frame::read(body.clone().into()).is_ok();
    let kind = InterruptionKind::Refused {
        status,
        body,
        is_message,
    };
    Err(match status {
        404 => Interruption::not_sent(InterruptionKind::SessionExpired),
        401 | 429 => Interruption::not_sent(kind),
        _ => Interruption::sent(kind),
    })
}
