//! The handle of an isolated upstream session, which belongs to one client.

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
};
use mainstay_transport::{Listener, Session};
use tokio::{
    sync::{Mutex, oneshot},
    time::{Instant, timeout_at},
};

use super::{
    command::{Command, OpenIsolated},
    held_requests::HeldRequests,
    server::Server,
    session_key::{IsolatedSessionId, SessionKey},
    session_settings::SessionSettings,
    usage::{Usage, UseGuard},
};

/// One client's own upstream session: opened at its first use, opened anew when it was lost or made
/// room for another, closed when this handle is dropped.
#[derive(Debug)]
pub struct IsolatedSession {
    pub server: Arc<Server>,
    /// What its client has set, whichever upstream session it is at present.
    pub settings: Arc<SessionSettings>,
    pub held_requests: Arc<HeldRequests>,
    id: IsolatedSessionId,
    usage: Arc<Usage>,
    /// Whether `maxSessions` is for it.
    counts: bool,
    initialize: Arc<str>,
    listener: Arc<dyn Listener>,
    /// Whether its supervisor has ever been asked for a session.
    asked: AtomicBool,
    /// Whether there was a session before.
    opened: AtomicBool,
    /// A queue: one caller restores a new session, the others wait until it is restored.
    restoring: Mutex<()>,
}

impl IsolatedSession {
    pub(super) fn new(
        server: Arc<Server>,
        id: IsolatedSessionId,
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
            initialize,
            listener,
            asked: AtomicBool::new(false),
            opened: AtomicBool::new(false),
            restoring: Mutex::default(),
        }
    }

    /// Keeps the session from making room for another while the guard is there.
    pub fn begin(&self) -> UseGuard {
        self.usage.begin()
    }

    /// The session, if it is open.
    pub fn live_session(&self) -> Option<Arc<Session>> {
        self.usage.live_session()
    }

    /// The live session; opens one if there is none. A caller that uses it for more than its handshake
    /// holds a [`UseGuard`] of it from before to the end.
    pub async fn session(&self, deadline: Instant) -> Result<Arc<Session>, Failure> {
        if let Some(session) = self.live_session() {
            return Ok(session);
        }
        let _use = self.begin();
        timeout_at(deadline, self.open()).await.unwrap_or_else(|_| {
            let message = format!(
                "Server '{}' did not open a session in time",
                self.server.name
            );
            Err(Failure::new(FailureKind::ConnectFailed, message).of_server(&self.server.name))
        })
    }

    async fn open(&self) -> Result<Arc<Session>, Failure> {
        let (reply, answer) = oneshot::channel();
        let open = Command::OpenIsolated(OpenIsolated {
            id: self.id,
            usage: Arc::clone(&self.usage),
            counts: self.counts,
            initialize: Arc::clone(&self.initialize),
            listener: Arc::clone(&self.listener),
            reply,
        });
        self.asked.store(true, Ordering::Relaxed);
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
            self.settings.tell_missed(&session, &self.listener);
        }
        Ok(session)
    }

    /// Asks for log messages from this level on, in the session that is open and in those to come.
    pub async fn set_log_level(&self, level: LogLevel) {
        self.settings.set_log_level(level);
        let _use = self.begin();
        if let Some(session) = self.live_session() {
            self.settings.apply_log_level(&session, level).await;
        }
    }

    /// Probes this session at once.
    pub fn request_probe(&self) {
        self.server
            .tell(Command::RequestProbe(SessionKey::Isolated(self.id)));
    }

    /// Closes the session, if one is open; the next use opens another.
    pub fn close(&self) {
        if self.asked.load(Ordering::Relaxed) {
            self.usage.release(true);
            self.server.tell(Command::ReleaseIsolated);
        }
    }

    /// Closes the session if it has been idle for so long.
    pub fn close_idle(&self, idle: Duration) {
        if self.is_idle(idle) && self.usage.close_if_unused() && self.asked.load(Ordering::Relaxed)
        {
            self.server.tell(Command::ReleaseIsolated);
        }
    }

    /// Whether it has been idle for so long.
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
