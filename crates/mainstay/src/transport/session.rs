//! One upstream session: the handshake's result, and a way to send.

use std::sync::Arc;

use mainstay_core::{
    era::Greeting,
    ids::ServerName,
    message::{self, Method},
};
use tokio::time::Instant;

use super::{
    Exchange, Frame, Interruption, InterruptionKind,
    exchange::{Way, cancelled},
    lines::LineWriter,
    pending::{Asker, Pending},
    sse::SseLink,
    streamable_http::HttpLink,
    vitals::Vitals,
};

/// A live connection that has greeted. Shared by everyone who calls; it outlives its connection,
/// and then says so ([`Session::is_over`]).
#[derive(Debug)]
pub struct Session {
    pub greeting: Greeting,
    /// The server's whole answer to `initialize`.
    pub initialize_answer: Frame,
    /// The process, for a stdio server.
    pub pid: Option<u32>,
    pub vitals: Arc<Vitals>,
    pub(super) server: ServerName,
    pub(super) link: Link,
}

/// Cloning shares it.
#[derive(Clone, Debug)]
pub(super) enum Link {
    Piped {
        pending: Arc<Pending>,
        writer: Arc<LineWriter>,
    },
    Http(Arc<HttpLink>),
    Sse(Arc<SseLink>),
}

impl Link {
    /// Sends the request that `render` writes for the id given to it.
    pub(super) async fn start(
        &self,
        asker: Option<Asker>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        let lost = |_| Interruption::not_sent(InterruptionKind::Lost);
        match self {
            Self::Piped { pending, writer } => {
                let ticket = pending.register(asker).map_err(lost)?;
                let id = ticket.id;
                let text = render(&id.to_string());
                let mark = writer
                    .send(&text)
                    .await
                    .map_err(|_| Interruption::not_sent(InterruptionKind::Lost))?;
                Ok(Exchange {
                    in_flight: None,
                    id,
                    way: Way::Piped {
                        ticket,
                        writer: Arc::clone(writer),
                        mark,
                    },
                })
            }
            Self::Http(link) => Ok(link.start(asker, render)),
            Self::Sse(link) => link.start(asker, render).map_err(lost),
        }
    }

    /// Sends a notification or an answer; that it could not be sent is the connection's trouble,
    /// which is reported elsewhere.
    pub(super) async fn send(&self, text: String) {
        match self {
            Self::Piped { writer, .. } => {
                if writer.send(&text).await.is_err() {
                    tracing::debug!("a message for a closed connection was dropped");
                }
            }
            Self::Http(link) => link.send(text).await,
            Self::Sse(link) => link.send(text).await,
        }
    }

    /// Sends an answer without waiting: whoever reads what a server says must not be held up.
    pub(super) fn reply(&self, text: String) {
        let taken = match self {
            Self::Piped { writer, .. } => matches!(writer.try_send(&text), Ok(Some(_))),
            Self::Http(link) => link.send_later(text),
            Self::Sse(link) => link.send_later(text),
        };
        if !taken {
            tracing::warn!("an answer to the server was dropped: it does not read");
        }
    }
}

/// A request of our own, as JSON text.
fn request(id: &str, method: Method, params: Option<&str>) -> String {
    let params = params
        .map(|params| format!(r#","params":{params}"#))
        .unwrap_or_default();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{}"{params}}}"#,
        method.name()
    )
}

impl Session {
    /// Sends the call that `render` writes for the id (JSON text) given to it. The server may be at
    /// work on it until `deadline`, and ask the client who makes it.
    pub async fn call(
        &self,
        asker: Asker,
        deadline: Instant,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        let in_flight = self.vitals.call(deadline);
        let mut exchange = self.link.start(Some(asker), render).await?;
        exchange.in_flight = Some(in_flight);
        Ok(exchange)
    }

    /// A request of our own.
    pub async fn ask(&self, method: Method, params: Option<&str>) -> Result<Frame, Interruption> {
        let exchange = self
            .link
            .start(None, |id| request(id, method, params))
            .await?;
        exchange.response().await
    }

    /// The same over a connection of its own, where the transport has more than one: a server may
    /// live behind a connection that does not. After an answer, the others are not used again.
    pub async fn ask_afresh(&self, method: Method) -> Option<Result<Frame, Interruption>> {
        let Link::Http(link) = &self.link else {
            return None;
        };
        let exchange = link.start_afresh(|id| request(id, method, None));
        let answer = exchange.response().await;
        if answer.is_ok() {
            link.forget_connections();
        }
        Some(answer)
    }

    /// Sends a notification, as JSON text on one line.
    pub async fn notify(&self, text: String) {
        self.link.send(text).await;
    }

    /// Gives a request up: the server is told, and a late answer finds nobody (K7).
    pub async fn cancel(&self, exchange: Exchange, reason: &str) {
        let text = cancelled(&self.server, exchange.id, reason);
        drop(exchange);
        self.link.send(text).await;
    }

    /// Says that the handshake is complete.
    pub(super) async fn initialized(&self) {
        self.link
            .send(message::request(None, Method::Initialized.name(), None))
            .await;
    }

    pub fn is_over(&self) -> bool {
        match &self.link {
            Link::Piped { pending, .. } => pending.is_ended(),
            Link::Http(link) => link.is_over(),
            Link::Sse(link) => link.is_over(),
        }
    }
}
