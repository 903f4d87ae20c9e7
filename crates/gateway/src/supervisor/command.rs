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
    /// Starts the server. Does nothing if it is up.
    Start,
    Stop,
    /// Opens a new session, whatever the state is.
    Reconnect,
}

/// A command to the supervisor of a server.
#[derive(Debug)]
pub enum SupervisorCommand {
    /// A call waits for the shared session.
    CallWaiting,
    /// A call was answered after calls that failed.
    CallAnswered,
    /// A call failed in a way that makes its session suspect. Probe the session now.
    RequestProbe(SessionKey),
    /// The machine has resumed from sleep.
    Resumed,
    /// Replies with the epoch of the attempt to wait for.
    Operate(Operation, oneshot::Sender<Epoch>),
    Configure(Arc<ServerConfig>),
    OpenIsolated(OpenIsolated),
    /// Clients have released their isolated sessions: see [`Usage`].
    ReleaseIsolated,
    /// Ends all sessions, and then the supervisor.
    End,
}

/// The request for an isolated session, while a client waits for it.
#[derive(Debug)]
pub struct OpenIsolated {
    pub id: IsolatedSessionId,
    pub usage: Arc<Usage>,
    /// True if the session counts for `maxSessions`.
    pub counts: bool,
    /// The principal of the client, whose credentials the session has.
    pub principal: Principal,
    pub initialize: Arc<str>,
    pub listener: Arc<dyn Listener>,
    pub reply: oneshot::Sender<Result<Arc<UpstreamSession>, Failure>>,
}
