//! The parameters for opening a session, and the parts that the openers of all transports share.

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

/// The most bytes of all lists of one server: all pages of all four kinds together. It equals the default limit
/// of one message. The lists of known servers have less than a hundredth of it.
pub const MAX_LIST_BYTES: usize = 64 * 1024 * 1024;

/// The most bytes of a server's answer to `initialize` or `server/discover`. The answer is stored as long
/// as its session, and clients of the transparent endpoint get all of it.
pub const MAX_GREETING: usize = 1024 * 1024;

/// Resolves to the reason of the loss once the connection, with everything that it started, has ended.
pub type RunningConnection = Pin<Box<dyn Future<Output = Loss> + Send>>;

/// The parameters for opening a session.
#[derive(Clone, Debug)]
pub struct Opening {
    pub server: ServerName,
    pub lineage: Lineage,
    /// Identifies this opening among all openings of this Mainstay. The server's processes carry it as a
    /// mark.
    pub tag: String,
    pub launch: Launch,
    /// Credentials in addition to the headers of the configuration, for a server over HTTP.
    pub credentials: Option<Arc<dyn CredentialSource>>,
    pub approach: Approach,
    /// The `params` of `initialize`, as JSON text.
    pub initialize: Arc<str>,
    /// True if another revision is tried after the server has refused the one in `initialize`.
    pub steps_down: bool,
    pub max_message_bytes: usize,
    /// After a silence of this length a server is suspect, even while calls are in flight.
    pub hang_after: Duration,
    /// Receives the server's messages that belong to no call.
    pub listener: Arc<dyn Listener>,
    /// The server's log.
    pub log: Arc<ServerLog>,
    /// Signs of work of the server's process before the handshake.
    pub signs: Arc<SignsOfWork>,
    /// Limits the attempts that the connection makes by itself.
    pub attempt_limiter: Arc<AttemptLimiter>,
    pub stop: Stop,
}

impl Opening {
    /// Returns the sink for answers to the server's questions. It works while the connection lasts.
    pub fn reply_sink(&self, queue: ReplyQueue) -> ReplySink {
        ReplySink::new(self.server.clone(), queue, self.stop.over.clone())
    }

    /// Adds the server's name to all events inside. Enter it only around rare work: entering a span costs
    /// time, and the tasks that carry messages name the server in each event.
    ///
    /// The span has the highest level, so that a filter that shows an event does not hide its server.
    pub fn span(&self) -> Span {
        tracing::error_span!("transport", server = %self.server)
    }
}

/// Asks a connection to end: `close` in order, `kill` at once.
#[derive(Clone, Debug)]
pub struct Stop {
    pub close: CancellationToken,
    pub kill: CancellationToken,
    /// Cancelled when the connection has ended or is about to end: the server awaits no answer any more.
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
    /// A signal for one of several connections. It is also given when `self` is given.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            close: self.close.child_token(),
            kill: self.kill.child_token(),
            over: self.over.child_token(),
        }
    }
}

/// The `params` of Mainstay's own `initialize`.
pub fn own_initialize(revision: Revision, capabilities: &ClientCapabilities) -> Arc<str> {
    format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{},"clientInfo":{{"name":"mainstay","version":"{}"}}}}"#,
        capabilities.raw(),
        env!("CARGO_PKG_VERSION"),
    )
    .into()
}
