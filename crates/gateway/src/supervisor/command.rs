//! Commands to a supervisor.

use std::sync::Arc;

use mainstay_core::{config::ServerConfig, failure::Failure, ids::Epoch};
use mainstay_transport::{Listener, Session};
use tokio::sync::oneshot;

use super::{
    session_key::{IsolatedSessionId, SessionKey},
    usage::Usage,
};

/// An operator's command for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Up; nothing happens where it is.
    Start,
    Stop,
    /// Up with a new session, whatever there is.
    Reconnect,
}

/// A command to the supervisor of a server.
#[derive(Debug)]
pub enum Command {
    /// A call waits for the shared session.
    CallWaiting,
    /// A call was answered after calls that failed.
    CallAnswered,
    /// A call went in a way that makes its session suspect: probe it now.
    RequestProbe(SessionKey),
    /// The machine slept.
    Resumed,
    /// The answer is the attempt to look at.
    Operate(Operation, oneshot::Sender<Epoch>),
    Configure(Arc<ServerConfig>),
    OpenIsolated(OpenIsolated),
    /// Clients are done with their sessions: see [`Usage`].
    ReleaseIsolated,
    /// Ends everything, and the supervisor with it.
    End,
}

/// A client waits for its isolated session.
#[derive(Debug)]
pub struct OpenIsolated {
    pub id: IsolatedSessionId,
    pub usage: Arc<Usage>,
    /// Whether `maxSessions` is for it.
    pub counts: bool,
    pub initialize: Arc<str>,
    pub listener: Arc<dyn Listener>,
    pub reply: oneshot::Sender<Result<Arc<Session>, Failure>>,
}
