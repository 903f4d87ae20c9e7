//! The handle of a server. All other tasks use it.

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

/// Commands that may be queued for a supervisor. The supervisor handles each of them without
/// waiting.
const MAX_COMMANDS: usize = 256;

/// Time that an operator's command may take in addition to the server's own limits: to end the old
/// session and to read the lists of the new one.
const OPERATION_GRACE: Duration = Duration::from_secs(40);

/// The handle of a server for all other tasks.
#[derive(Debug)]
pub struct ServerHandle {
    pub name: ServerName,
    pub log: Arc<ServerLog>,
    config: Arc<ArcSwap<ServerConfig>>,
    /// True if the configuration isolates clients. Cached, because every call on a profile reads
    /// it.
    isolated: AtomicBool,
    /// There is only one client, and the shared session belongs to it.
    is_shared_by_one: bool,
    /// State that is shared with the supervisor's task.
    handles: CallerHandles,
    pub(super) view: watch::Receiver<ServerView>,
    pub(super) commands: mpsc::Sender<SupervisorCommand>,
    started_at: Instant,
    next_isolated: AtomicU64,
    queue: Arc<Queue>,
    /// Receives the messages of shared sessions outside of calls.
    listener: Arc<dyn Listener>,
    legacy_twin: LegacyTwin,
    /// Counts and times of the server's calls.
    pub figures: Arc<Figures>,
    /// The sources of credentials of all servers.
    pub(super) credential_sources: Option<Arc<dyn CredentialSources>>,
    /// Location of the server's entry: the command line, a file or another configuration.
    pub(super) entry_place: EntryPlace,
}

/// Starts supervising a server. The task ends after [`Server::end`], when all sessions of the
/// server have ended.
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
    // Each log line names its server, whatever module writes it. A span that the log filter leaves
    // out costs nothing.
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

    /// Receives the views to come. The channel closes when the server's supervisor has ended.
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

    /// True if the server's list of this kind has this item, as far as known.
    pub fn has(&self, kind: ListKind, key: &str) -> bool {
        let catalog = self.catalog();
        catalog.is_some_and(|catalog| catalog.item(kind, key).is_some())
    }

    /// The current configuration. A reload may replace it.
    pub fn config(&self) -> Guard<Arc<ServerConfig>> {
        self.config.load()
    }

    /// True if the server is known to speak only the modern era, which has no sessions.
    pub fn opens_no_sessions(&self) -> bool {
        self.eras().legacy == Some(false)
    }

    /// True if each client has an isolated session on profiles, too.
    pub fn is_isolated(&self) -> bool {
        self.isolated.load(Ordering::Relaxed)
    }

    /// True if this principal has a login of its own, and with it sessions of its own.
    pub fn has_own_login(&self, principal: &Principal) -> bool {
        self.config().login_owner(principal).is_some()
    }

    /// True if a person has to log in to the server for this principal.
    pub fn needs_login(&self, principal: &Principal) -> bool {
        let sources = self.credential_sources.as_ref();
        sources.is_some_and(|sources| sources.needs_login(&self.config(), principal))
    }

    /// Begins a login of this principal at the server. The error is for people.
    pub async fn offer_login(&self, principal: &Principal) -> Result<OfferedLogin, String> {
        let Some(sources) = &self.credential_sources else {
            return Err("this Mainstay keeps no logins".to_owned());
        };
        let config = Arc::clone(&self.config());
        sources.offer_login(&config, principal).await
    }

    /// True if no second client may use the shared session: the server has asked the client that
    /// owns it a question, so the session may depend on the answers.
    pub fn knows_its_client(&self) -> bool {
        self.handles.has_asked.load(Ordering::Relaxed)
    }

    /// Requests that wait for a call of the only client. `None` if several clients share the
    /// session.
    pub fn held_requests(&self) -> Option<&Arc<HeldRequests>> {
        self.is_shared_by_one.then_some(&self.handles.held_requests)
    }

    /// True if clients of `/servers/NAME/mcp` share one session: the configuration says so, or the
    /// server opens no sessions.
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

    /// The eras that the server speaks, as far as they are known.
    pub fn eras(&self) -> Eras {
        self.view.borrow().eras
    }

    /// True if the operator wants this server up.
    pub fn is_desired_up(&self) -> bool {
        self.view.borrow().is_desired_up
    }

    /// True if clients see what the server offers. With isolated sessions, the shared session, from
    /// which the lists come, may be down meanwhile.
    pub fn is_offered(&self) -> bool {
        self.view.borrow().is_offered()
            || self.is_desired_up() && self.config().isolation == Some(Isolation::Session)
    }

    /// The transport of the last session, else the configured one: `stdio`, `http` or `sse`.
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

    /// The shared session for callers of this era. A stateless server is addressed in the caller's
    /// era if it supports that era. All other servers have one session for both eras.
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

    /// Waits until `deadline` for one attempt if the server is on its way up. All callers share the
    /// attempt. A scheduled attempt is brought forward.
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
        // Wait for the attempt under way, else for the next one.
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
                // A session whose loss has not been noticed yet counts as connected.
                let is_up = state == SessionState::Connected;
                // Mainstay is starting, and has not started this server yet.
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

    /// True if an attempt waits for attempts of other servers.
    pub fn waits_for_its_turn(&self) -> bool {
        let view = self.view.borrow();
        view.status.attempting && view.status.begun_at.is_none()
    }

    /// Gives the server's start precedence over other starts, because a caller waits for it.
    fn hasten_start(&self) {
        self.handles.requested.send_replace(true);
    }

    /// Resolves when lists need not wait for the server: it has lists of an earlier run, its first
    /// attempt is over, or `wait` has passed since its start.
    pub async fn settled(&self, wait: Duration) {
        self.until(wait, |view| view.attempted || view.has_kept_lists)
            .await;
    }

    /// Resolves when the first attempt of this run is over, or `wait` has passed since the server's start.
    pub async fn tried(&self, wait: Duration) {
        self.until(wait, |view| view.attempted).await;
    }

    async fn until(&self, wait: Duration, condition: impl Fn(&ServerView) -> bool) {
        let mut view = self.view.clone();
        // The time has passed or the supervisor has ended. Both end the wait.
        timeout_at(
            self.started_at + wait,
            view.wait_for(|view| condition(view)),
        )
        .await
        .ok();
    }

    /// Waits up to `limit` for a crash of the shared session's process at or after `since`.
    pub async fn crash_since(&self, since: SystemTime, limit: Duration) -> Option<Crash> {
        let mut view = self.view.clone();
        let is_recent = |crash: &Crash| crash.is_shared && crash.at >= since;
        let last = |view: &ServerView| view.crashes.last.filter(is_recent);
        let crashed_view = timeout(limit, view.wait_for(|view| last(view).is_some())).await;
        last(&*crashed_view.ok()?.ok()?)
    }

    /// True if [`Server::tried`] would resolve at once.
    pub fn is_tried(&self, wait: Duration) -> bool {
        self.view.borrow().attempted
            || self.started_at + wait <= Instant::now()
            || self.view.has_changed().is_err()
    }

    /// Resolves when the lists of the session that is open, or is being opened, have been read; at
    /// once if there is none; after `limit` in any case. If the server was never listed, starts it
    /// like a call does, because the client may go on to call it. Returns false if `limit` passed
    /// first.
    pub async fn listed(&self, limit: Duration) -> bool {
        let mut view = self.view.clone();
        let listing = async {
            if self.catalog().is_none() {
                // If the server is down, no lists will follow.
                self.next_session().await.ok();
            }
            // The supervisor may have ended.
            view.wait_for(|view| !view.is_to_be_listed()).await.ok();
        };
        timeout(limit, listing).await.is_ok()
    }

    /// Carries out an operator's command. Returns when it is done or has failed. After a start,
    /// waits for the lists, too. Does not start a server that is disabled or waits for approval.
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
            // A later command ends the wait for this one.
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

    /// Applies a new configuration. Opens a new session if the server is now reached in another
    /// way.
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

    /// Returns an isolated session that is opened at its first use.
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

    /// Returns the legacy session that all clients share while the shared session is modern. It
    /// does not count as a client's session, and is not closed to make room for one.
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

    /// Queues a request of this server, with its cause, until a person answers it.
    pub fn queue(&self, cause: Cause, mut question: ServerQuestion) {
        question.keep_waiting(None);
        self.queue.enter(&self.name, Some(cause), question);
    }

    /// Lists a question that a client of this name is asked.
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

    /// The oldest open question of this server, and their number.
    pub fn open_question(&self) -> Option<(OpenQuestion, usize)> {
        self.queue.open_questions().oldest_of(&self.name)
    }

    /// Requests an immediate probe of the shared session.
    pub fn request_probe(&self) {
        self.send_command(SupervisorCommand::RequestProbe(SessionKey::Shared));
    }

    /// Reports that a call was answered after calls that failed. The supervisor updates the health
    /// at once.
    pub fn call_answered(&self) {
        self.send_command(SupervisorCommand::CallAnswered);
    }

    /// Reports that the machine has resumed from sleep.
    pub fn resumed(&self) {
        self.send_command(SupervisorCommand::Resumed);
    }

    /// Ends every session of this server. The supervisor's task ends when they are gone.
    pub async fn end(&self) {
        self.legacy_twin.close();
        // The supervisor may have ended already.
        self.commands.send(SupervisorCommand::End).await.ok();
    }

    /// Resolves when the supervisor's task has ended.
    pub async fn gone(&self) {
        let mut views = self.changes();
        // The channel closes with the supervisor.
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
