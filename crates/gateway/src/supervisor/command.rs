//! Commands to a supervisor.

use std::sync::Arc;

use mainstay_core::{config::ServerConfig, failure::Failure, ids::Epoch, principal::Principal};
use mainstay_transport::{Listener, UpstreamSession};
use tokio::sync::oneshot;

use super::{
    session_key::{IsolatedSessionId, SessionKey},
    usage::Usage,
};

/// An operator's command for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Starts the server. Does nothing if the server is up.
    Start,
    Stop,
    /// Opens a new session in every state.
    Reconnect,
}

/// A command to the supervisor of a server.
#[derive(Debug)]
pub enum SupervisorCommand {
    /// A call waits for the shared session.
    CallWaiting,
    /// A call was answered after failed calls.
    CallAnswered,
    /// A call failed in a way that puts this session in doubt. Probe the session at once.
    RequestProbe(SessionKey),
    /// The machine has resumed from sleep.
    Resumed,
    /// An operator's command. The reply is the epoch of the attempt to wait for.
    Operate(Operation, oneshot::Sender<Epoch>),
    Configure(Arc<ServerConfig>),
    OpenIsolated(OpenIsolated),
    /// Clients have released isolated sessions. Their [`Usage`] says which.
    ReleaseIsolated,
    /// Ends all sessions, and then the supervisor's task.
    End,
}

/// The request of a waiting caller for an isolated session.
#[derive(Debug)]
pub struct OpenIsolated {
    pub id: IsolatedSessionId,
    pub usage: Arc<Usage>,
    /// True if the session counts towards `maxSessions`.
    pub counts: bool,
    /// The principal of the client. The session uses the principal's credentials.
    pub principal: Principal,
    pub initialize: Arc<str>,
    pub listener: Arc<dyn Listener>,
    pub reply: oneshot::Sender<Result<Arc<UpstreamSession>, Failure>>,
}
