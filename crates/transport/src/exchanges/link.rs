//! The sending side of a connection, over any transport.

use mainstay_core::{ids::ServerName, message::Method};

use crate::{
    Asker, Exchange, Interruption, PossibleSuspect, StreamState,
    exchanges::{exchange::cancelled, multiplexed::Multiplexed, per_request::PerRequest},
    streamable::http_exchange::Purpose,
};

/// The sending side of a connection. Clones share it.
#[derive(Clone, Debug)]
pub enum UpstreamLink {
    /// One connection carries many exchanges.
    Multiplexed(Multiplexed),
    /// Each exchange is an HTTP request of its own.
    PerRequest(PerRequest),
}

impl UpstreamLink {
    /// The transport in use: `stdio`, `http` or `sse`.
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Multiplexed(line) => line.transport,
            Self::PerRequest(_) => "http",
        }
    }

    /// Sends a client's request. `render` gets the id of the request and returns its text. `work` describes
    /// the call in case the call crashes the server.
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

    /// Sends a request of Mainstay's own. `render` gets the id of the request and returns its text.
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

    /// Sends a request of Mainstay's own on a new connection. `None` if the transport has only one
    /// connection.
    pub fn start_afresh(
        &self,
        render: impl FnOnce(&str) -> String,
    ) -> Option<Result<Exchange, Interruption>> {
        match self {
            Self::Multiplexed(_) => None,
            Self::PerRequest(link) => Some(link.start_afresh(render).map(Exchange::from)),
        }
    }

    /// Makes later requests use new connections, if the transport has more than one.
    pub fn forget_connections(&self) {
        if let Self::PerRequest(link) = self {
            link.forget_connections();
        }
    }

    /// Sends a notification or an answer. A failure is reported as a failure of the connection.
    pub async fn send(&self, server: &ServerName, text: String) {
        match self {
            Self::Multiplexed(line) => line.send(server, text).await,
            Self::PerRequest(link) => link.send(text).await,
        }
    }

    /// Abandons a request. The server gets a cancellation, and a late answer is dropped.
    pub async fn cancel(&self, server: &ServerName, exchange: Exchange, reason: &str) {
        let id = exchange.id;
        drop(exchange);
        // For a server without sessions, the end of the stream is the cancellation.
        if !self.is_stateless() {
            self.send(server, cancelled(server, id, reason)).await;
        }
    }

    /// The state of the stream for messages that belong to no call. `None` if such messages need no separate
    /// stream.
    pub fn stream_state(&self) -> Option<StreamState> {
        match self {
            Self::Multiplexed(_) => None,
            Self::PerRequest(link) => link.stream_state(),
        }
    }

    /// True if the server has no sessions (2026-07-28).
    pub fn is_stateless(&self) -> bool {
        match self {
            Self::Multiplexed(_) => false,
            Self::PerRequest(link) => link.is_stateless(),
        }
    }

    /// The calls in flight when the server's process ended, the latest first. Only the first call of this
    /// method returns them.
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
