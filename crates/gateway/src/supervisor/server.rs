//! [`ServerHandle`]: the handle by which all other tasks use a server and its supervisor.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use arc_swap::{ArcSwap, Guard};
use mainstay_core::{
    catalog::{ListKind, ServerCatalog},
    config::{Isolation, ServerConfig},
    era::{Era, Eras},
    failure::{Failure, FailureKind},
    ids::{Epoch, ServerName},
    lifecycle::SessionState,
    principal::Principal,
    trouble::EntryPlace,
};
use mainstay_transport::{Listener, ServerQuestion, UpstreamSession, logs::ServerLog};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tracing::Instrument as _;

use super::{
    command::{Operation, SupervisorCommand},
    declared,
    fleet::Fleet,
    held_requests::HeldRequests,
    isolated_session::IsolatedSession,
    legacy_twin::LegacyTwin,
    open_questions::{Answerer, OpenQuestion},
    queue::{Cause, Queue},
    server_view::{Crash, ServerView},
    session_key::{IsolatedSessionId, SessionKey},
    session_settings::SessionSettings,
    suspect_calls::SuspectCalls,
    task::{CallerHandles, Task},
};
use crate::{
    credential_sources::{CredentialSources, OfferedLogin},
    metrics::Figures,
};

/// Maximum number of commands in a supervisor's queue. The supervisor handles each command without
/// waiting.
const MAX_COMMANDS: usize = 256;

/// Time that an operator's command may take in addition to the server's own time limits. Covers the
/// end of the old session and the listing of the new session.
const OPERATION_GRACE: Duration = Duration::from_secs(40);

/// The handle of a server. Its supervisor's task owns the sessions and publishes the view.
#[derive(Debug)]
pub struct ServerHandle {
    pub name: ServerName,
    pub log: Arc<ServerLog>,
    config: Arc<ArcSwap<ServerConfig>>,
    /// True if the configuration isolates clients. Cached, because every call on a profile reads
    /// it.
    isolated: AtomicBool,
    /// True if there is only one client (`mainstay mcp`). The shared session is then that client's.
    is_shared_by_one: bool,
    /// State that is shared with the supervisor's task.
    handles: CallerHandles,
    pub(super) view: watch::Receiver<ServerView>,
    pub(super) commands: mpsc::Sender<SupervisorCommand>,
    started_at: Instant,
    next_isolated: AtomicU64,
    queue: Arc<Queue>,
    /// Receives messages of the server outside of calls, for sessions that clients share.
    listener: Arc<dyn Listener>,
    legacy_twin: LegacyTwin,
    /// Counts and durations of the server's calls.
    pub figures: Arc<Figures>,
    /// The sources of credentials of all servers.
    pub(super) credential_sources: Option<Arc<dyn CredentialSources>>,
    /// The place of the server's entry: the command line, a file or another configuration.
    pub(super) entry_place: EntryPlace,
}

/// Starts the supervisor of a server. Its task ends after [`ServerHandle::end`], when all sessions
/// of the server have ended.
pub fn supervise(
    config: Arc<ServerConfig>,
    fleet: Arc<Fleet>,
) -> (Arc<ServerHandle>, JoinHandle<()>) {
    let (commands, inbox) = mpsc::channel(MAX_COMMANDS);
    let log = fleet.logs.server(&config.name);
    log.protect(&config);
    let queue = Arc::clone(&fleet.queue);
    let entry_place = fleet.entry_place(&config.name);
    let credential_sources = fleet.credential_sources.clone();
    let is_shared_by_one = fleet.sole.is_some();
    let (name, is_isolated) = (config.name.clone(), !is_shared_by_one && isolates(&config));
    let stored = Arc::new(ArcSwap::new(config));
    let (task, view, listener) = Task::new(Arc::clone(&stored), Arc::clone(&log), fleet);
    let server = Arc::new(ServerHandle {
        name,
        isolated: AtomicBool::new(is_isolated),
        is_shared_by_one,
        handles: task.handles.clone(),
        config: stored,
        log,
        view,
        commands,
        started_at: Instant::now(),
        next_isolated: AtomicU64::new(0),
        queue,
        listener,
        legacy_twin: LegacyTwin::default(),
        figures: Arc::default(),
        credential_sources,
        entry_place,
    });
    // The span adds the server's name to the log lines of every module. A span that the log filter
    // disables costs nothing.
    let span = tracing::debug_span!("supervisor", server = %server.name);
    (server, tokio::spawn(task.run(inbox).instrument(span)))
}

impl ServerHandle {
    /// Calls of the shared session that may have crashed it.
    pub fn suspect_calls(&self) -> &SuspectCalls {
        &self.handles.suspect_calls
    }

    pub fn view(&self) -> ServerView {
        self.view.borrow().clone()
    }

    /// Time at which the server's last message arrived. `None` while the server is not up.
    pub fn last_message_at(&self) -> Option<std::time::Instant> {
        self.view.borrow().last_message_at()
    }

    /// A receiver of later views. The channel closes when the server's supervisor has ended.
    pub fn changes(&self) -> watch::Receiver<ServerView> {
        self.view.clone()
    }

    pub fn catalog(&self) -> Option<Arc<ServerCatalog>> {
        self.view.borrow().catalog.clone()
    }

    /// True if the server lists this tool.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.has(ListKind::Tools, tool)
    }

    /// True if the last list of this kind has this item. False if the server was never listed.
    pub fn has(&self, kind: ListKind, key: &str) -> bool {
        let catalog = self.catalog();
        catalog.is_some_and(|catalog| catalog.item(kind, key).is_some())
    }

    /// The configuration in force. A reload may replace it.
    pub fn config(&self) -> Guard<Arc<ServerConfig>> {
        self.config.load()
    }

    /// True if the server is known to speak only the modern era, which has no protocol sessions.
    pub fn opens_no_sessions(&self) -> bool {
        self.eras().legacy == Some(false)
    }

    /// True if each client has an isolated session even on aggregate endpoints.
    pub fn is_isolated(&self) -> bool {
        self.isolated.load(Ordering::Relaxed)
    }

    /// True if this principal has its own login, and therefore its own sessions.
    pub fn has_own_login(&self, principal: &Principal) -> bool {
        self.config().login_owner(principal).is_some()
    }

    /// True if a person has to log in to the server for this principal.
    pub fn needs_login(&self, principal: &Principal) -> bool {
        let sources = self.credential_sources.as_ref();
        sources.is_some_and(|sources| sources.needs_login(&self.config(), principal))
    }

    /// Begins a login of this principal at the server. The error is a text for people.
    pub async fn offer_login(&self, principal: &Principal) -> Result<OfferedLogin, String> {
        let Some(sources) = &self.credential_sources else {
            return Err("this Mainstay keeps no logins".to_owned());
        };
        let config = Arc::clone(&self.config());
        sources.offer_login(&config, principal).await
    }

    /// True if no second client may use the shared session. The server has asked the only client a
    /// question, so the state of the session may depend on that client's answers.
    pub fn knows_its_client(&self) -> bool {
        self.handles.has_asked.load(Ordering::Relaxed)
    }

    /// Questions of the server that wait for a call of the only client. `None` if there can be
    /// several clients.
    pub fn held_requests(&self) -> Option<&Arc<HeldRequests>> {
        self.is_shared_by_one.then_some(&self.handles.held_requests)
    }

    /// True if the clients of `/servers/NAME/mcp` share one session: the configuration says so, or
    /// the server opens no sessions.
    pub fn shares_its_session(&self) -> bool {
        self.config().isolation == Some(Isolation::Shared) || self.opens_no_sessions()
    }

    /// True if the shared session is modern (2026-07-28), or would be if it were open.
    pub fn speaks_modern(&self) -> bool {
        let view = self.view.borrow();
        match &view.session {
            Some(session) => session.era() == Era::Modern,
            None => view.eras.modern == Some(true),
        }
    }

    /// The eras that the server is known to speak or not to speak.
    pub fn eras(&self) -> Eras {
        self.view.borrow().eras
    }

    /// True if the operator wants this server up.
    pub fn is_desired_up(&self) -> bool {
        self.view.borrow().is_desired_up
    }

    /// True if clients see the server's items. With isolated sessions, the items are visible even
    /// while the shared session, which is used for the lists, is down.
    pub fn is_offered(&self) -> bool {
        self.view.borrow().is_offered()
            || self.is_desired_up() && self.config().isolation == Some(Isolation::Session)
    }

    /// The transport of the last session, or the configured transport if there was no session:
    /// `stdio`, `http` or `sse`.
    pub fn transport(&self) -> &'static str {
        let last_transport = self.view.borrow().last_transport;
        last_transport.unwrap_or_else(|| self.config().transport())
    }

    pub fn live_session(&self) -> Option<Arc<UpstreamSession>> {
        self.view
            .borrow()
            .session
            .clone()
            .filter(|session| !session.is_over())
    }

    /// The shared session for callers of this era. Legacy callers of a stateless server get the
    /// legacy twin, if it can be opened. All other servers have one session for both eras.
    pub async fn session(
        self: &Arc<Self>,
        era: Era,
        deadline: Instant,
    ) -> Result<Arc<UpstreamSession>, Failure> {
        let session = self.shared_session(deadline).await?;
        if era == Era::Legacy && session.is_stateless() {
            let legacy_twin = self.legacy_twin.session(self, deadline).await;
            return Ok(legacy_twin.unwrap_or(session));
        }
        Ok(session)
    }

    /// The live shared session. If there is none, waits until `deadline` for one attempt to open it,
    /// which all callers share. The wait brings a scheduled attempt forward.
    async fn shared_session(&self, deadline: Instant) -> Result<Arc<UpstreamSession>, Failure> {
        if let Some(session) = self.live_session() {
            return Ok(session);
        }
        let since = Instant::now();
        let waiting = self.next_session();
        timeout_at(deadline, waiting)
            .await
            .unwrap_or_else(|_| Err(self.not_in_time(deadline.saturating_duration_since(since))))
    }

    async fn next_session(&self) -> Result<Arc<UpstreamSession>, Failure> {
        self.hasten_start();
        let mut view = self.view.clone();
        // Wait for the attempt that is running, or else for the next attempt.
        let first = {
            let status = &view.borrow_and_update().status;
            if status.attempting {
                status.epoch
            } else {
                status.epoch.next()
            }
        };
        let mut is_announced = false;
        loop {
            if let Some(session) = self.live_session() {
                return Ok(session);
            }
            let (failed, hopeful, on_call) = {
                let view = view.borrow_and_update();
                let status = &view.status;
                let state = status.state;
                // The supervisor may not have noticed the loss of the session yet.
                let is_up = state == SessionState::Connected;
                // Mainstay is starting, and the first attempt of this server has not begun.
                let is_next = view.is_desired_up && status.epoch == Epoch::NONE;
                let hopeful = state.is_hopeful() || is_up || status.attempting || is_next;
                let from = status.calls_from.map(Instant::from_std);
                let on_call = status.on_call && from.is_none_or(|from| from <= Instant::now());
                (view.has_failed(first), hopeful, on_call)
            };
            if failed || !hopeful && !on_call {
                return Err(self.not_connected());
            }
            if on_call && !is_announced {
                is_announced = true;
                self.send_command(SupervisorCommand::CallWaiting);
            }
            if view.changed().await.is_err() {
                return Err(self.not_connected());
            }
        }
    }

    /// True if an attempt is queued behind attempts of other servers.
    pub fn waits_for_its_turn(&self) -> bool {
        let view = self.view.borrow();
        view.status.attempting && view.status.begun_at.is_none()
    }

    /// Moves the server's start ahead of starts that no caller waits for.
    fn hasten_start(&self) {
        self.handles.requested.send_replace(true);
    }

    /// Resolves when lists need not wait for the server any more: the server has lists of an earlier
    /// run, its first attempt is over, or `wait` has passed since its supervisor started.
    pub async fn settled(&self, wait: Duration) {
        self.until(wait, |view| view.attempted || view.has_kept_lists)
            .await;
    }

    /// Resolves when the first attempt of this run is over, or `wait` has passed since the supervisor
    /// started.
    pub async fn tried(&self, wait: Duration) {
        self.until(wait, |view| view.attempted).await;
    }

    async fn until(&self, wait: Duration, condition: impl Fn(&ServerView) -> bool) {
        let mut view = self.view.clone();
        // An error means that the time has passed or the supervisor has ended. Both end the wait.
        timeout_at(
            self.started_at + wait,
            view.wait_for(|view| condition(view)),
        )
        .await
        .ok();
    }

    /// Waits up to `limit` for a crash of the shared session's process at or after `since`. The
    /// supervisor may learn of the crash after the caller.
    pub async fn crash_since(&self, since: SystemTime, limit: Duration) -> Option<Crash> {
        let mut view = self.view.clone();
        let is_recent = |crash: &Crash| crash.is_shared && crash.at >= since;
        let last = |view: &ServerView| view.crashes.last.filter(is_recent);
        let crashed_view = timeout(limit, view.wait_for(|view| last(view).is_some())).await;
        last(&*crashed_view.ok()?.ok()?)
    }

    /// True if [`Self::tried`] would resolve at once.
    pub fn is_tried(&self, wait: Duration) -> bool {
        self.view.borrow().attempted
            || self.started_at + wait <= Instant::now()
            || self.view.has_changed().is_err()
    }

    /// Waits until the lists of the session that is open or opening have been read. Returns at once
    /// if there is no such session. If the server was never listed, starts it like a call does,
    /// because the client may call it next. Returns false if `limit` passed first.
    pub async fn listed(&self, limit: Duration) -> bool {
        let mut view = self.view.clone();
        let listing = async {
            if self.catalog().is_none() {
                // An error means that the server is down. Then there are no lists to wait for.
                self.next_session().await.ok();
            }
            // The supervisor may have ended.
            view.wait_for(|view| !view.is_to_be_listed()).await.ok();
        };
        timeout(limit, listing).await.is_ok()
    }

    /// Carries out an operator's command. Returns when the command is done or has failed. A start
    /// includes the first listing. Refuses to start a server that is disabled or waits for approval.
    pub async fn operate(&self, operation: Operation) -> Result<(), Failure> {
        if operation != Operation::Stop && self.kept_down().is_some() {
            return Err(self.not_connected());
        }
        let limit = self.config().longest_start() + OPERATION_GRACE;
        let operating = async {
            if operation != Operation::Stop {
                self.hasten_start();
            }
            let (reply, answer) = oneshot::channel();
            let command = SupervisorCommand::Operate(operation, reply);
            self.commands.send(command).await.map_err(|_| ended())?;
            let epoch = answer.await.map_err(|_| ended())?;
            let mut view = self.view.clone();
            // A later command may end the wait for this command.
            let view = view
                .wait_for(|view| match operation {
                    Operation::Start | Operation::Reconnect => {
                        view.is_ready(epoch) || view.has_failed(epoch) || !view.is_desired_up
                    }
                    Operation::Stop => {
                        view.status.state == SessionState::Disconnected || view.is_desired_up
                    }
                })
                .await
                .map_err(|_| ended())?;
            match operation {
                Operation::Stop => Ok(()),
                Operation::Start | Operation::Reconnect if view.is_ready(epoch) => Ok(()),
                Operation::Start | Operation::Reconnect => {
                    let reason = view.status.reason.clone();
                    let message = reason.unwrap_or_else(|| "it was stopped".to_owned());
                    let failure = Failure::new(FailureKind::ConnectFailed, message)
                        .with("name", self.name.as_str());
                    Err(view.describe(failure, &self.name))
                }
            }
        };
        let operated = timeout(limit, operating).await;
        operated
            .unwrap_or_else(|_| {
                let message = format!("nothing came of it within {} s", limit.as_secs());
                Err(Failure::new(FailureKind::ConnectFailed, message).with_server(&self.name))
            })
            .map_err(|failure| self.with_stderr(failure))
    }

    /// Applies a new configuration. The supervisor opens a new session if the target has changed.
    pub async fn configure(&self, config: Arc<ServerConfig>) {
        self.log.protect(&config);
        let is_isolated = !self.is_shared_by_one && isolates(&config);
        self.isolated.store(is_isolated, Ordering::Relaxed);
        self.config.store(Arc::clone(&config));
        // The next legacy twin is opened with the new configuration.
        self.legacy_twin.close();
        // The supervisor may have ended.
        self.commands
            .send(SupervisorCommand::Configure(config))
            .await
            .ok();
    }

    /// A new isolated session. It is opened at its first use.
    pub fn isolated_session(
        self: &Arc<Self>,
        principal: &Principal,
        initialize: Arc<str>,
        listener: Arc<dyn Listener>,
        settings: Arc<SessionSettings>,
    ) -> IsolatedSession {
        let id = IsolatedSessionId(self.next_isolated.fetch_add(1, Ordering::Relaxed));
        let principal = principal.clone();
        IsolatedSession::new(
            Arc::clone(self),
            id,
            principal,
            initialize,
            listener,
            settings,
            true,
        )
    }

    /// A new legacy twin: the legacy session that all clients share while the shared session is
    /// modern. It does not count towards the limit of isolated sessions, and is not closed to make
    /// room.
    pub(super) fn twin_session(self: &Arc<Self>) -> IsolatedSession {
        let id = IsolatedSessionId(self.next_isolated.fetch_add(1, Ordering::Relaxed));
        let initialize = declared::initialize(&self.config(), None);
        let (server, listener) = (Arc::clone(self), Arc::clone(&self.listener));
        let settings = SessionSettings::new(&self.name);
        IsolatedSession::new(
            server,
            id,
            Principal::Anonymous,
            initialize,
            listener,
            settings,
            false,
        )
    }

    /// Puts a question of this server into the queue, with its cause, until a person answers it.
    pub fn queue(&self, cause: Cause, mut question: ServerQuestion) {
        question.keep_waiting(None);
        self.queue.enter(&self.name, Some(cause), question);
    }

    /// Adds a question to the open questions. The client of this name is asked it.
    pub fn show_question(
        &self,
        name: Option<&str>,
        principal: &Principal,
        question: &mut ServerQuestion,
    ) {
        let answerer = Answerer::Client {
            name: name.map(str::to_owned),
            principal: principal.clone(),
        };
        let open = self.queue.open_questions();
        open.show(&self.name, answerer, question);
    }

    /// The oldest open question of this server, and the number of its open questions.
    pub fn open_question(&self) -> Option<(OpenQuestion, usize)> {
        self.queue.open_questions().oldest_of(&self.name)
    }

    /// Requests an immediate probe of the shared session.
    pub fn request_probe(&self) {
        self.send_command(SupervisorCommand::RequestProbe(SessionKey::Shared));
    }

    /// Reports that a call was answered after failed calls, so that the supervisor updates the
    /// server's health at once.
    pub fn call_answered(&self) {
        self.send_command(SupervisorCommand::CallAnswered);
    }

    /// Reports that the machine has resumed from sleep.
    pub fn resumed(&self) {
        self.send_command(SupervisorCommand::Resumed);
    }

    /// Ends every session of this server, and then the supervisor's task. Does not wait for the end.
    pub async fn end(&self) {
        self.legacy_twin.close();
        // The supervisor may have ended already.
        self.commands.send(SupervisorCommand::End).await.ok();
    }

    /// Resolves when the supervisor's task has ended.
    pub async fn gone(&self) {
        let mut views = self.changes();
        // The channel closes when the supervisor has ended.
        while views.changed().await.is_ok() {}
    }

    pub(super) fn send_command(&self, command: SupervisorCommand) {
        if let Err(error) = self.commands.try_send(command) {
            tracing::debug!(server = %self.name, %error, "a command was not taken");
        }
    }
}

fn isolates(config: &ServerConfig) -> bool {
    config.isolation == Some(Isolation::Session)
}

fn ended() -> Failure {
    Failure::new(
        FailureKind::ShuttingDown,
        "the server was removed, or Mainstay is shutting down",
    )
}
