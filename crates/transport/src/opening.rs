//! What it takes to open a session, and what the openers of all transports share.

use std::{pin::Pin, sync::Arc, time::Duration};

use mainstay_core::{
    config::Launch,
    era::{ClientCapabilities, Revision},
    ids::ServerName,
    lifecycle::Loss,
};
use mainstay_platform::lineage::Lineage;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    Approach, AttemptLimiter, CredentialSource, Listener, SignsOfWork,
    exchanges::reply_sink::{ReplyQueue, ReplySink},
    logs::ServerLog,
};

/// The most bytes that the lists of one server may have, all pages of all four kinds together. It is as
/// much as one message may have by default. The lists of known servers have less than a hundredth of it.
pub const MAX_LIST_BYTES: usize = 64 * 1024 * 1024;

/// The most bytes of a server's answer to `initialize` or `server/discover`. The answer is kept as long
/// as its session, and clients of the transparent path get it whole.
pub const MAX_GREETING: usize = 1024 * 1024;

/// Resolves to the reason when the connection, with everything it started, is gone.
pub type Running = Pin<Box<dyn Future<Output = Loss> + Send>>;

/// What it takes to open a connection.
#[derive(Clone, Debug)]
pub struct Opening {
    pub server: ServerName,
    pub lineage: Lineage,
    /// Names this opening among all of this Mainstay. A server's processes have it as a mark.
    pub tag: String,
    pub launch: Launch,
    /// Credentials beside the headers of the configuration, where the server is reached over HTTP.
    pub credentials: Option<Arc<dyn CredentialSource>>,
    pub approach: Approach,
    /// The `params` of `initialize`, as JSON text.
    pub initialize: Arc<str>,
    /// Whether another revision is asked for if the server refuses the one in `initialize`.
    pub steps_down: bool,
    pub max_message_bytes: usize,
    /// After a silence of this length a server is suspect, even while calls are in flight.
    pub hang_after: Duration,
    /// Takes the server's messages that belong to no call.
    pub listener: Arc<dyn Listener>,
    /// The server's log.
    pub log: Arc<ServerLog>,
    /// What is seen of its process before the handshake.
    pub signs: Arc<SignsOfWork>,
    /// Limits how often the connection may try again by itself.
    pub attempt_limiter: Arc<AttemptLimiter>,
    pub stop: Stop,
}

impl Opening {
    /// Takes answers to what the server asks, as long as the connection is to last.
    pub fn reply_sink(&self, queue: ReplyQueue) -> ReplySink {
        ReplySink::new(self.server.clone(), queue, self.stop.over.clone())
    }

    /// Puts the server's name beside all events in it. Only around rare work: entering a span costs time,
    /// and the tasks that carry messages name the server in each event.
    ///
    /// It has the highest level, so that a filter that shows an event does not hide its server.
    pub fn span(&self) -> Span {
        tracing::error_span!("transport", server = %self.server)
    }
}

/// Asks a connection to end: `close` politely, `kill` at once.
#[derive(Clone, Debug)]
pub struct Stop {
    pub close: CancellationToken,
    pub kill: CancellationToken,
    /// Cancelled when the connection has ended or is to end: its server awaits no answer any more.
    pub over: CancellationToken,
}

impl Default for Stop {
    fn default() -> Self {
        let close = CancellationToken::new();
        Self {
            over: close.child_token(),
            close,
            kill: CancellationToken::new(),
        }
    }
}

impl Stop {
    /// Asks one of several connections to end. It ends with the others, too.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            close: self.close.child_token(),
            kill: self.kill.child_token(),
            over: self.over.child_token(),
        }
    }
}

/// `params` of an `initialize` of our own.
pub fn own_initialize(revision: Revision, capabilities: &ClientCapabilities) -> Arc<str> {
    format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{},"clientInfo":{{"name":"mainstay","version":"{}"}}}}"#,
        capabilities.raw(),
        env!("CARGO_PKG_VERSION"),
    )
    .into()
}
