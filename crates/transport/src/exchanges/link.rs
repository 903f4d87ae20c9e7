//! The sending side of a connection, over any transport.

use mainstay_core::{ids::ServerName, message::Method};

use crate::{
    Asker, Exchange, Interruption, PossibleSuspect, StreamState,
    exchanges::{exchange::cancelled, multiplexed::Multiplexed, per_request::PerRequest},
    streamable::http_exchange::Purpose,
};

/// Cloning shares it.
#[derive(Clone, Debug)]
pub enum Link {
    /// One line carries many exchanges.
    Multiplexed(Multiplexed),
    /// Each exchange is an HTTP request of its own.
    PerRequest(PerRequest),
}

impl Link {
    /// The transport in use: `stdio`, `http` or `sse`.
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Multiplexed(line) => line.transport,
            Self::PerRequest(_) => "http",
        }
    }

    /// Sends a client's request, which `render` writes for the id given to it. `work` is what a crash may come of.
    pub async fn start(
        &self,
        asker: Asker,
        work: impl FnOnce() -> Option<PossibleSuspect>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        Ok(match self {
            Self::Multiplexed(line) => line.start(Some(asker), work, render).await?.into(),
            Self::PerRequest(link) => link.start(Purpose::Call, render)?.into(),
        })
    }

    /// Sends a request of our own, which `render` writes for the id given to it.
    pub async fn ask(
        &self,
        method: Method,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        Ok(match self {
            Self::Multiplexed(line) => line.start(None, || None, render).await?.into(),
            Self::PerRequest(link) => link.start(Purpose::of_own(method), render)?.into(),
        })
    }

    /// Sends a request of our own over a connection of its own. `None` if the transport has only one.
    pub fn start_afresh(
        &self,
        render: impl FnOnce(&str) -> String,
    ) -> Option<Result<Exchange, Interruption>> {
        match self {
            Self::Multiplexed(_) => None,
            Self::PerRequest(link) => Some(link.start_afresh(render).map(Exchange::from)),
        }
    }

    /// No open connection is used again, if the transport has more than one.
    pub fn forget_connections(&self) {
        if let Self::PerRequest(link) = self {
            link.forget_connections();
        }
    }

    /// Sends a notification or an answer. A failure is the connection's, and is reported there.
    pub async fn send(&self, server: &ServerName, text: String) {
        match self {
            Self::Multiplexed(line) => line.send(server, text).await,
            Self::PerRequest(link) => link.send(text).await,
        }
    }

    /// Gives a request up: the server is told, and a late answer is dropped.
    pub async fn cancel(&self, server: &ServerName, exchange: Exchange, reason: &str) {
        let id = exchange.id;
        drop(exchange);
        // The end of the stream tells a server without sessions.
        if !self.is_stateless() {
            self.send(server, cancelled(server, id, reason)).await;
        }
    }

    /// The state of the stream for messages that belong to no call. `None` where they need no stream of their own.
    pub fn stream_state(&self) -> Option<StreamState> {
        match self {
            Self::Multiplexed(_) => None,
            Self::PerRequest(link) => link.stream_state(),
        }
    }

    /// The server knows no session.
    pub fn is_stateless(&self) -> bool {
        match self {
            Self::Multiplexed(_) => false,
            Self::PerRequest(link) => link.is_stateless(),
        }
    }

    /// The calls in flight when the server's process ended, the latest first. Given out once.
    pub fn take_lost(&self) -> Vec<PossibleSuspect> {
        match self {
            Self::Multiplexed(line) => line.take_lost(),
            Self::PerRequest(_) => Vec::new(),
        }
    }

    pub fn is_over(&self) -> bool {
        match self {
            Self::Multiplexed(line) => line.is_over(),
            Self::PerRequest(link) => link.is_over(),
        }
    }
}
