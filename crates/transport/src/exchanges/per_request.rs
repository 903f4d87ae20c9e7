//! Links that make one HTTP request for each exchange: Streamable HTTP of both eras.

use std::sync::Arc;

use crate::{
    Budget, Interruption, ServerMessage, StreamState,
    modern::{modern_exchange::ModernExchange, modern_link::ModernLink},
    streamable::{
        http_exchange::{HttpExchange, Purpose},
        http_link::HttpLink,
    },
};

/// The sending side of a connection to one URL. Clones share it.
#[derive(Clone, Debug)]
pub enum PerRequest {
    /// Revisions up to 2025-11-25.
    Legacy(Arc<HttpLink>),
    /// Revision 2026-07-28.
    Modern(Arc<ModernLink>),
}

impl PerRequest {
    /// Sends a request. `render` gets the id of the request and returns its text.
    pub fn start(
        &self,
        purpose: Purpose,
        render: impl FnOnce(&str) -> String,
    ) -> Result<PerRequestExchange, Interruption> {
        Ok(match self {
            Self::Legacy(link) => {
                let (id, response) = link.request(render);
                HttpExchange::new(Arc::clone(link), id, purpose, response).into()
            }
            Self::Modern(link) => {
                ModernExchange::start(link, purpose != Purpose::Call, render)?.into()
            }
        })
    }

    /// Sends a request of Mainstay's own on a new connection.
    pub fn start_afresh(
        &self,
        render: impl FnOnce(&str) -> String,
    ) -> Result<PerRequestExchange, Interruption> {
        Ok(match self {
            Self::Legacy(link) => {
                let (id, response) = link.request_afresh(render);
                HttpExchange::new(Arc::clone(link), id, Purpose::Own, response).into()
            }
            Self::Modern(link) => ModernExchange::start_afresh(link, render)?.into(),
        })
    }

    /// Makes later requests use new connections.
    pub fn forget_connections(&self) {
        match self {
            Self::Legacy(link) => link.forget_connections(),
            Self::Modern(link) => link.forget_connections(),
        }
    }

    /// Sends a notification or an answer. A failure is reported as a failure of the connection.
    pub async fn send(&self, text: String) {
        match self {
            Self::Legacy(link) => link.send(text).await,
            Self::Modern(link) => link.send(text).await,
        }
    }

    /// The state of the stream for messages that belong to no call.
    pub fn stream_state(&self) -> Option<StreamState> {
        match self {
            Self::Legacy(link) => Some(link.stream_state.lock().clone()),
            Self::Modern(_) => None,
        }
    }

    /// True if the server has no sessions. Such a server cancels a request when the client closes the stream
    /// of its answer.
    pub fn is_stateless(&self) -> bool {
        matches!(self, Self::Modern(_))
    }

    pub fn is_over(&self) -> bool {
        match self {
            Self::Legacy(link) => link.is_over(),
            Self::Modern(link) => link.is_over(),
        }
    }
}

/// A request that has an HTTP response of its own.
#[derive(Debug)]
pub enum PerRequestExchange {
    Legacy(Box<HttpExchange>),
    Modern(Box<ModernExchange>),
}

impl From<HttpExchange> for PerRequestExchange {
    fn from(exchange: HttpExchange) -> Self {
        Self::Legacy(Box::new(exchange))
    }
}

impl From<ModernExchange> for PerRequestExchange {
    fn from(exchange: ModernExchange) -> Self {
        Self::Modern(Box::new(exchange))
    }
}

impl PerRequestExchange {
    pub fn id(&self) -> u64 {
        match self {
            Self::Legacy(exchange) => exchange.id(),
            Self::Modern(exchange) => exchange.id(),
        }
    }

    /// Reads no more of the answer than `budget` allows.
    pub fn set_budget(&mut self, budget: Budget) {
        match self {
            Self::Legacy(exchange) => exchange.set_budget(budget),
            Self::Modern(exchange) => exchange.set_budget(budget),
        }
    }

    /// The next message about this request. Cancel-safe.
    pub async fn next(&mut self) -> Result<ServerMessage, Interruption> {
        match self {
            Self::Legacy(exchange) => exchange.next().await,
            Self::Modern(exchange) => exchange.next().await,
        }
    }

    /// Resumes a stream that the server has closed, without waiting for the server's retry delay.
    pub fn resume_now(&mut self) {
        match self {
            Self::Legacy(exchange) => exchange.resume_now(),
            Self::Modern(_) => {}
        }
    }

    /// True if the server answers with a stream.
    pub fn is_stream(&self) -> bool {
        match self {
            Self::Legacy(exchange) => exchange.is_stream(),
            Self::Modern(exchange) => exchange.is_stream(),
        }
    }

    /// The HTTP status of the answer, for a modern server.
    pub fn http_status(&self) -> Option<u16> {
        match self {
            Self::Legacy(_) => None,
            Self::Modern(exchange) => exchange.status(),
        }
    }
}
