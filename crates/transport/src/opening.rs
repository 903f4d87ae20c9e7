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

/// The maximum size, in bytes, of all lists of one server: all pages of all four kinds together. It equals
/// the default limit of one message. Known servers use less than a hundredth of it.
pub const MAX_LIST_BYTES: usize = 64 * 1024 * 1024;

/// The maximum size, in bytes, of a server's answer to `initialize` or `server/discover`. The answer is
/// stored while its session lives, and clients of the transparent endpoint get all of it.
pub const MAX_GREETING: usize = 1024 * 1024;

/// A future that resolves to the loss once the connection and everything that it started have ended.
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
    /// True if Mainstay tries another revision after the server has refused the one in `initialize`.
    pub steps_down: bool,
    pub max_message_bytes: usize,
    /// The silence after which the server may hang. Calls in flight do not excuse a longer silence.
    pub hang_after: Duration,
    /// Receives the server's messages that belong to no call.
    pub listener: Arc<dyn Listener>,
    /// The server's log.
    pub log: Arc<ServerLog>,
    /// Signs of work of the server's process before the handshake.
    pub signs: Arc<SignsOfWork>,
    /// Limits the rate of the attempts that the connection makes by itself.
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

/// The signals that end a connection: `close` in order, `kill` at once.
#[derive(Clone, Debug)]
pub struct Stop {
    pub close: CancellationToken,
    pub kill: CancellationToken,
    /// Cancelled when the connection has ended or is about to end. From then on the server expects no
    /// answers.
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
    /// Returns the stop signals for one of several connections. A signal of `self` also reaches the child.
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
