//! One task per server: it owns the server's upstream sessions, performs what their lifecycles
//! decide, and publishes a view of the whole.
//!
//! Calls never pass through this task. It hears of what happened to connections, opens and closes
//! them, and keeps the server's catalog fresh.

mod listing;
mod private;
mod task;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use mainstay_core::{
    catalog::{ListKind, ServerCatalog},
    config::{Launch, ServerConfig},
    failure::{Failure, FailureKind},
    ids::ServerName,
    lifecycle::{Policy, State, Status},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, timeout_at},
};

pub use self::private::Private;
use crate::{
    logs::{Logs, ServerLog},
    transport::{Listener, Notice, Session},
};

/// Commands that may wait for a supervisor; each is handled without waiting for anything.
const MAX_COMMANDS: usize = 256;

/// What a server looks like from outside, as of now.
#[derive(Clone, Debug)]
pub struct View {
    pub status: Status,
    pub session: Option<Arc<Session>>,
    /// The last good one; it stays while the server is being brought back.
    pub catalog: Option<Arc<ServerCatalog>>,
    /// Whether the first attempt, with its listing, is over, however it went.
    pub attempted: bool,
    pub connected_at: Option<SystemTime>,
}

/// What a server's supervisor tells the registry.
#[derive(Debug)]
pub enum Report {
    /// The server's catalog may differ. `announced` are the lists that it said have changed;
    /// `merged` is told when the merged catalog has them.
    CatalogChanged {
        announced: Vec<ListKind>,
        merged: oneshot::Sender<()>,
    },
    /// A new shared session is up: it knows nothing of log levels and subscriptions.
    Opened,
    /// A log message, a changed resource, or another notification that belongs to no call.
    Notice(Notice),
}

/// The handle by which everyone else knows a server.
#[derive(Debug)]
pub struct Server {
    pub name: ServerName,
    pub config: Arc<ServerConfig>,
    pub log: Arc<ServerLog>,
    view: watch::Receiver<View>,
    commands: mpsc::Sender<Command>,
    started_at: Instant,
    next_private: AtomicU64,
}

/// Names one isolated upstream session of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PrivateId(u64);

#[derive(Debug)]
enum Command {
    /// A call waits for the shared session.
    CallWaiting,
    OpenPrivate {
        id: PrivateId,
        initialize: Arc<str>,
        listener: Arc<dyn Listener>,
        reply: oneshot::Sender<Result<Arc<Session>, Failure>>,
    },
    ClosePrivate(PrivateId),
    Stop,
}

/// Starts supervising a server. The task ends after [`Server::stop`], when nothing of the server is
/// left.
pub fn supervise(
    config: Arc<ServerConfig>,
    logs: &Logs,
    reports: mpsc::Sender<(ServerName, Report)>,
) -> (Arc<Server>, JoinHandle<()>) {
    let (commands, inbox) = mpsc::channel(MAX_COMMANDS);
    let log = logs.server(&config.name);
    let policy = Policy {
        seed: seed(&config.name),
        ..config.policy.clone()
    };
    let (task, view) = task::Task::new(Arc::clone(&config), policy, Arc::clone(&log), reports);
    let server = Arc::new(Server {
        name: config.name.clone(),
        config,
        log,
        view,
        commands,
        started_at: Instant::now(),
        next_private: AtomicU64::new(0),
    });
    (server, tokio::spawn(task.run(inbox)))
}

/// Spreads the retries of servers that are lost together.
fn seed(name: &ServerName) -> u64 {
    name.as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

impl Server {
    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// The views to come; the channel closes when the server's supervisor has ended.
    pub fn changes(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    pub fn catalog(&self) -> Option<Arc<ServerCatalog>> {
        self.view.borrow().catalog.clone()
    }

    /// Whether Mainstay means to have this server up.
    pub fn is_wanted(&self) -> bool {
        self.config.connects_at_start()
    }

    pub fn transport(&self) -> &'static str {
        match &self.config.launch {
            Launch::Stdio(_) => "stdio",
            Launch::Http(http) => match http.transport {
                mainstay_core::config::HttpTransport::Sse => "sse",
                _ => "http",
            },
            Launch::Broken(_) => "unknown",
        }
    }

    fn live_session(&self) -> Option<Arc<Session>> {
        self.view
            .borrow()
            .session
            .clone()
            .filter(|session| !session.is_over())
    }

    /// The shared session. If the server is on its way up, waits until `deadline` for one attempt,
    /// which is shared by all callers; a scheduled one is brought forward (G8, K9).
    pub async fn session(&self, deadline: Instant) -> Result<Arc<Session>, Failure> {
        if let Some(session) = self.live_session() {
            return Ok(session);
        }
        let waiting = self.next_session();
        timeout_at(deadline, waiting)
            .await
            .unwrap_or_else(|_| Err(self.not_connected()))
    }

    async fn next_session(&self) -> Result<Arc<Session>, Failure> {
        let mut view = self.view.clone();
        // A session whose loss has not been noticed yet counts one loss more before the attempt.
        let last_loss = {
            let view = view.borrow_and_update();
            view.status.attempt + u32::from(view.session.is_some())
        };
        let mut told = false;
        loop {
            if let Some(session) = self.live_session() {
                return Ok(session);
            }
            let (over, status) = {
                let view = view.borrow_and_update();
                (view.session.is_none(), view.status.clone())
            };
            let waits = status.next_retry.is_some();
            let attempt_failed = waits && status.attempt > last_loss;
            if over && (attempt_failed || !status.state.is_hopeful()) {
                return Err(self.not_connected());
            }
            if waits && !told {
                told = true;
                self.tell(Command::CallWaiting);
            }
            if view.changed().await.is_err() {
                return Err(self.not_connected());
            }
        }
    }

    /// K2, K9: why a call cannot be made, in words and as data.
    pub fn not_connected(&self) -> Failure {
        let status = self.view.borrow().status.clone();
        let state = if self.is_wanted() {
            status.state
        } else {
            State::Disconnected
        };
        // K2, K9: read as sentences.
        let words = match state {
            State::Error => "not connected",
            State::Failed => "down after repeated crashes",
            other => other.as_str(),
        };
        let mut message = format!("Server '{}' is {words}", self.name);
        if let Some(reason) = &status.reason {
            message = format!("{message}: {reason}");
        }
        let mut failure = Failure::new(FailureKind::ServerNotConnected, message)
            .of_server(&self.name)
            .with("status", state.as_str());
        if status.attempt > 0 {
            failure = failure.with("attempt", status.attempt);
        }
        if let Some(reason) = status.reason {
            failure = failure.with("lastError", reason);
        }
        if let Some(retry) = status.next_retry {
            let wait = retry.saturating_duration_since(Instant::now().into_std());
            failure = failure.with(
                "nextRetryMs",
                u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            );
        }
        let stderr = self.log.tail.texts();
        if !stderr.is_empty() {
            failure = failure.with("stderr", stderr);
        }
        failure
    }

    /// Resolves when the first attempt is over, or `wait` has passed since the server's start.
    pub async fn settled(&self, wait: std::time::Duration) {
        let mut view = self.view.clone();
        // Elapsed, or the supervisor has ended: in both cases there is nothing to wait for.
        timeout_at(self.started_at + wait, view.wait_for(|view| view.attempted))
            .await
            .ok();
    }

    /// An isolated session, opened at its first use.
    pub fn private(self: &Arc<Self>, initialize: Arc<str>, listener: Arc<dyn Listener>) -> Private {
        let id = PrivateId(self.next_private.fetch_add(1, Ordering::Relaxed));
        Private::new(Arc::clone(self), id, initialize, listener)
    }

    /// Ends every session of this server; the supervisor's task ends when they are gone.
    pub fn stop(&self) {
        self.tell(Command::Stop);
    }

    fn tell(&self, command: Command) {
        if let Err(error) = self.commands.try_send(command) {
            tracing::debug!(server = %self.name, %error, "a command was not taken");
        }
    }
}
