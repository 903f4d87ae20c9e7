//! [`IsolatedSession`]: the handle by which one client uses its isolated upstream session.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mainstay_core::{
    era::LogLevel,
    failure::{Failure, FailureKind},
    principal::Principal,
};
use mainstay_transport::{Listener, UpstreamSession};
use tokio::{
    sync::{Mutex, oneshot},
    time::{Instant, timeout_at},
};

use super::{
    command::{OpenIsolated, SupervisorCommand},
    held_requests::HeldRequests,
    server::ServerHandle,
    session_key::{IsolatedSessionId, SessionKey},
    session_settings::SessionSettings,
    usage::{Usage, UseGuard},
};

/// One client's own upstream session. It is opened at its first use. If it was lost, or closed to
/// make room, the next use reopens it. Dropping the handle closes it.
#[derive(Debug)]
pub struct IsolatedSession {
    pub server: Arc<ServerHandle>,
    /// The client's settings. They outlive each upstream session that is opened.
    pub settings: Arc<SessionSettings>,
    pub held_requests: Arc<HeldRequests>,
    id: IsolatedSessionId,
    usage: Arc<Usage>,
    /// True if the session counts towards `maxSessions`.
    counts: bool,
    principal: Principal,
    initialize: Arc<str>,
    listener: Arc<dyn Listener>,
    /// True if the handle has ever requested a session from the supervisor.
    was_requested: AtomicBool,
    /// True if a session was opened before, so that a new session is a reopening.
    opened: AtomicBool,
    /// Held by the caller that restores the settings of a new session. Other callers wait for it.
    restoring: Mutex<()>,
}

impl IsolatedSession {
    pub(super) fn new(
        server: Arc<ServerHandle>,
        id: IsolatedSessionId,
        principal: Principal,
        initialize: Arc<str>,
        listener: Arc<dyn Listener>,
        settings: Arc<SessionSettings>,
        counts: bool,
    ) -> Self {
        Self {
            server,
            settings,
            held_requests: Arc::default(),
            id,
            usage: Arc::new(Usage::new()),
            counts,
            principal,
            initialize,
            listener,
            was_requested: AtomicBool::new(false),
            opened: AtomicBool::new(false),
            restoring: Mutex::default(),
        }
    }

    /// True if this session's principal has its own login.
    pub fn has_own_login(&self) -> bool {
        let config = self.server.config();
        config.login_owner(&self.principal).is_some()
    }

    /// True if a person has to log in for this session's principal.
    pub fn needs_login(&self) -> bool {
        self.server.needs_login(&self.principal)
    }

    /// Marks the session as in use. While the guard exists, the session is not closed to make room.
    pub fn begin(&self) -> UseGuard {
        self.usage.begin()
    }

    /// The session, if it is open.
    pub fn live_session(&self) -> Option<Arc<UpstreamSession>> {
        self.usage.live_session()
    }

    /// The live session. Opens a session if there is none. A caller that goes on to use the session
    /// must hold a [`UseGuard`] from before this call until the use ends.
    pub async fn session(&self, deadline: Instant) -> Result<Arc<UpstreamSession>, Failure> {
        if let Some(session) = self.live_session() {
            return Ok(session);
        }
        let _use = self.begin();
        timeout_at(deadline, self.open()).await.unwrap_or_else(|_| {
            let message = format!(
                "Server '{}' did not open a session in time",
                self.server.name
            );
            Err(Failure::new(FailureKind::ConnectFailed, message).with_server(&self.server.name))
        })
    }

    async fn open(&self) -> Result<Arc<UpstreamSession>, Failure> {
        let (reply, answer) = oneshot::channel();
        let open = SupervisorCommand::OpenIsolated(OpenIsolated {
            id: self.id,
            usage: Arc::clone(&self.usage),
            counts: self.counts,
            principal: self.principal.clone(),
            initialize: Arc::clone(&self.initialize),
            listener: Arc::clone(&self.listener),
            reply,
        });
        self.was_requested.store(true, Ordering::Relaxed);
        let sent = self.server.commands.send(open).await;
        sent.map_err(|_| shutting_down())?;
        let session = answer.await.map_err(|_| shutting_down())??;
        let _turn = self.restoring.lock().await;
        if self.usage.is_current(&session) {
            return Ok(session);
        }
        self.settings.restore(&session).await;
        self.usage.set_current(Arc::clone(&session));
        if self.opened.swap(true, Ordering::Relaxed) {
            self.settings.notify_missed(&session, &self.listener);
        }
        Ok(session)
    }

    /// Sets the minimum level of log messages, for the open session and for later sessions.
    pub async fn set_log_level(&self, level: LogLevel) {
        self.settings.set_log_level(level);
        let _use = self.begin();
        if let Some(session) = self.live_session() {
            self.settings.apply_log_level(&session, level).await;
        }
    }

    /// Requests an immediate probe of this session.
    pub fn request_probe(&self) {
        self.server
            .send_command(SupervisorCommand::RequestProbe(SessionKey::Isolated(
                self.id,
            )));
    }

    /// Closes the session, if it is open. The next use opens a new session.
    pub fn close(&self) {
        if self.was_requested.load(Ordering::Relaxed) {
            self.usage.release(true);
            self.server.send_command(SupervisorCommand::ReleaseIsolated);
        }
    }

    /// Closes the session if it has been idle for at least this time.
    pub fn close_idle(&self, idle: Duration) {
        if self.is_idle(idle)
            && self.usage.close_if_unused()
            && self.was_requested.load(Ordering::Relaxed)
        {
            self.server.send_command(SupervisorCommand::ReleaseIsolated);
        }
    }

    /// True if the session has been idle for at least this time.
    pub fn is_idle(&self, idle: Duration) -> bool {
        self.usage.is_idle(idle)
    }
}

impl Drop for IsolatedSession {
    fn drop(&mut self) {
        self.close();
    }
}

fn shutting_down() -> Failure {
    Failure::new(FailureKind::ShuttingDown, "Mainstay is shutting down")
}
