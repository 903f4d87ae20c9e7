//! The sending side of a connection, over any transport.

use std::sync::Arc;

use mainstay_core::ids::ServerName;

use crate::{
    Asker, Exchange, Interruption, InterruptionKind, LineWriter,
    exchanges::{
        exchange::{PipedExchange, cancelled},
        pending::{Broken, Pending},
    },
    http_sse::sse_link::{SseExchange, SseLink},
    modern::{modern_exchange::ModernExchange, modern_link::ModernLink},
    streamable::{
        http_exchange::{HttpExchange, Purpose},
        http_link::HttpLink,
    },
};

/// Cloning shares it.
#[derive(Clone, Debug)]
pub enum Link {
    Piped {
        pending: Arc<Pending>,
        writer: Arc<LineWriter>,
    },
    Http(Arc<HttpLink>),
    Modern(Arc<ModernLink>),
    Sse(Arc<SseLink>),
}

impl Link {
    /// The transport in use: `stdio`, `http` or `sse`.
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Piped { .. } => "stdio",
            Self::Http(_) | Self::Modern(_) => "http",
            Self::Sse(_) => "sse",
        }
    }

    /// Sends the request that `render` writes for the id given to it.
    pub async fn start(
        &self,
        asker: Option<Asker>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        match self {
            Self::Piped { pending, writer } => {
                let exchange = PipedExchange::start(pending, writer, asker, None, render).await;
                exchange.map(Exchange::from)
            }
            Self::Http(link) => {
                let purpose = match asker {
                    Some(_) => Purpose::Call,
                    None => Purpose::Own,
                };
                let (id, response) = link.request(render);
                Ok(HttpExchange::new(Arc::clone(link), id, purpose, response).into())
            }
            Self::Modern(link) => Ok(ModernExchange::start(link, asker.is_none(), render)?.into()),
            Self::Sse(link) => {
                let lost = |_: Broken| Interruption::not_sent(InterruptionKind::Lost);
                Ok(SseExchange::start(link, asker, render)
                    .map_err(lost)?
                    .into())
            }
        }
    }

    /// Sends a request of our own over a connection of its own. `None` if the transport has only one.
    pub fn start_afresh(
        &self,
        render: impl FnOnce(&str) -> String,
    ) -> Option<Result<Exchange, Interruption>> {
        match self {
            Self::Http(link) => {
                let (id, response) = link.request_afresh(render);
                let exchange = HttpExchange::new(Arc::clone(link), id, Purpose::Own, response);
                Some(Ok(exchange.into()))
            }
            Self::Modern(link) => {
                let exchange = ModernExchange::start_afresh(link, render);
                Some(exchange.map(Exchange::from).map_err(Interruption::from))
            }
            Self::Piped { .. } | Self::Sse(_) => None,
        }
    }

    /// No open connection is used again, if the transport has more than one.
    pub fn forget_connections(&self) {
        match self {
            Self::Http(link) => link.forget_connections(),
            Self::Modern(link) => link.forget_connections(),
            Self::Piped { .. } | Self::Sse(_) => {}
        }
    }

    /// Sends a notification or an answer. A failure is the connection's, and is reported there.
    pub async fn send(&self, server: &ServerName, text: String) {
        match self {
            Self::Piped { pending, writer } => {
                pending.sent_answerless();
                if writer.send(&text).await.is_err() {
                    tracing::debug!(%server, "a message for a closed connection was dropped");
                }
            }
            Self::Http(link) => link.send(text).await,
            Self::Modern(link) => link.send(text).await,
            Self::Sse(link) => link.send(text).await,
        }
    }

    /// Gives a request up: the server is told, and a late answer is dropped.
    pub async fn cancel(&self, server: &ServerName, exchange: Exchange, reason: &str) {
        let id = exchange.id;
        drop(exchange);
        // The end of the stream tells a modern server.
        if !matches!(self, Self::Modern(_)) {
            self.send(server, cancelled(server, id, reason)).await;
        }
    }

    pub fn is_over(&self) -> bool {
        match self {
            Self::Piped { pending, .. } => pending.is_ended(),
            Self::Http(link) => link.is_over(),
            Self::Modern(link) => link.is_over(),
            Self::Sse(link) => link.is_over(),
        }
    }
}
