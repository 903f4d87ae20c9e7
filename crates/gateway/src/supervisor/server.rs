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
    lifecycle::State,
    principal::Principal,
    trouble::EntryPlace,
};
use mainstay_transport::{Listener, Question, Session, logs::ServerLog};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tracing::Instrument as _;

use super::{
    command::{Command, Operation},
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
    task::Task,
};
use crate::metrics::Figures;

/// Commands that may wait for a supervisor; each is handled without waiting for anything.
const MAX_COMMANDS: usize = 256;

/// The time that an operator's command may take beyond the server's own limits: to end the old session and to
/// read the lists of the new one.
const OPERATION_GRACE: Duration = Duration::from_secs(40);

/// A server, as all other tasks see it.
#[derive(Debug)]
pub struct Server {
    pub name: ServerName,
    pub log: Arc<ServerLog>,
    config: Arc<ArcSwap<ServerConfig>>,
    /// Part of the configuration: every call on a profile asks for it.
    isolated: AtomicBool,
    /// There is one client, and the shared session is its own.
    is_shared_by_one: bool,
    /// The server has asked the one client something outside of calls.
    has_asked: Arc<AtomicBool>,
    /// Of the one client's session.
    held_requests: Arc<HeldRequests>,
    pub(super) view: watch::Receiver<ServerView>,
    pub(super) commands: mpsc::Sender<Command>,
    started_at: Instant,
    next_isolated: AtomicU64,
    queue: Arc<Queue>,
    /// Gets the messages of shared sessions outside of calls.
    listener: Arc<dyn Listener>,
    legacy_twin: LegacyTwin,
    /// Calls of the shared session that may have crashed it.
    pub suspect_calls: Arc<SuspectCalls>,
    /// Whether a caller has asked for the server since its shared session was lost.
    asked: Arc<watch::Sender<bool>>,
    /// The figures of its calls.
    pub figures: Arc<Figures>,
    /// Where the configuration has its entry.
    pub(super) entry_place: EntryPlace,
}

/// Starts supervising a server. The task ends after [`Server::end`], when nothing of the server is
/// left.
pub fn supervise(config: Arc<ServerConfig>, fleet: Arc<Fleet>) -> (Arc<Server>, JoinHandle<()>) {
    let (commands, inbox) = mpsc::channel(MAX_COMMANDS);
    let log = fleet.logs.server(&config.name);
    log.protect(&config);
    let queue = Arc::clone(&fleet.queue);
    let entry_place = fleet.entry_place(&config.name);
    let is_shared_by_one = fleet.sole.is_some();
    let (name, is_isolated) = (config.name.clone(), !is_shared_by_one && isolates(&config));
    let stored = Arc::new(ArcSwap::new(config));
    let (task, view, listener) = Task::new(Arc::clone(&stored), Arc::clone(&log), fleet);
    let (suspect_calls, asked) = (Arc::clone(&task.suspect_calls), Arc::clone(&task.asked));
    let has_asked = Arc::clone(&task.has_asked);
    let held_requests = Arc::clone(&task.held_requests);
    let server = Arc::new(Server {
        name,
        isolated: AtomicBool::new(is_isolated),
        is_shared_by_one,
        has_asked,
        held_requests,
        config: stored,
        log,
        view,
        commands,
        started_at: Instant::now(),
        next_isolated: AtomicU64::new(0),
        queue,
        listener,
        legacy_twin: LegacyTwin::default(),
        suspect_calls,
        asked,
        figures: Arc::default(),
        entry_place,
    });
    // So that each line of the log says which server it is about, whatever module writes it. A span that
    // the log leaves out costs nothing.
    let span = tracing::debug_span!("supervisor", server = %server.name);
    (server, tokio::spawn(task.run(inbox).instrument(span)))
}

impl Server {
    pub fn view(&self) -> ServerView {
        self.view.borrow().clone()
    }

    /// When it was last heard, while it is up.
    pub fn heard(&self) -> Option<std::time::Instant> {
        self.view.borrow().heard()
    }

    /// The views to come; the channel closes when the server's supervisor has ended.
    pub fn changes(&self) -> watch::Receiver<ServerView> {
        self.view.clone()
    }

    pub fn catalog(&self) -> Option<Arc<ServerCatalog>> {
        self.view.borrow().catalog.clone()
    }

    /// Whether its list has this tool.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.has(ListKind::Tools, tool)
    }

    /// Whether its list of this kind has this item, as far as is known.
    pub fn has(&self, kind: ListKind, key: &str) -> bool {
        let catalog = self.catalog();
        catalog.is_some_and(|catalog| catalog.item(kind, key).is_some())
    }

    /// The configuration as of now: a reload may change it.
    pub fn config(&self) -> Guard<Arc<ServerConfig>> {
        self.config.load()
    }

    /// Whether it is known to be spoken to without sessions only.
    pub fn opens_no_sessions(&self) -> bool {
        self.eras().legacy == Some(false)
    }

    /// Whether each client has a session of its own on profiles, too.
    pub fn is_isolated(&self) -> bool {
        self.isolated.load(Ordering::Relaxed)
    }

    /// Whether its shared session is not to be shared by a client beside the one that it belongs to: the
    /// server has asked that one, so what it does may depend on the answers.
    pub fn knows_its_client(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Requests that wait for a call of the one client; `None` where clients share the session.
    pub fn held_requests(&self) -> Option<&Arc<HeldRequests>> {
        self.is_shared_by_one.then_some(&self.held_requests)
    }

    /// Whether the clients of its own path share its one session: the configuration says so, or it opens
    /// no sessions.
    pub fn shares_its_session(&self) -> bool {
        self.config().isolation == Some(Isolation::Shared) || self.opens_no_sessions()
    }

    /// Whether its shared session is one of 2026-07-28, or would be.
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

    /// Whether its operator wants this server up.
    pub fn is_wanted(&self) -> bool {
        self.view.borrow().wanted
    }

    /// Whether clients are shown what it offers. Where each client has a session of its own, the shared one, from
    /// which the lists come, may be down meanwhile.
    pub fn is_offered(&self) -> bool {
        self.view.borrow().is_offered()
            || self.is_wanted() && self.config().isolation == Some(Isolation::Session)
    }

    /// `stdio`, `http` or `sse`: the transport of the last session, else the one configured.
    pub fn transport(&self) -> &'static str {
        let spoken = self.view.borrow().spoken;
        spoken.unwrap_or_else(|| self.config().transport())
    }

    pub fn live_session(&self) -> Option<Arc<Session>> {
        self.view
            .borrow()
            .session
            .clone()
            .filter(|session| !session.is_over())
    }

    /// The shared session for callers of this era. A server that keeps no session is spoken to in the
    /// caller's own words, as far as it understands them; all others in one way for all.
    pub async fn session(
        self: &Arc<Self>,
        era: Era,
        deadline: Instant,
    ) -> Result<Arc<Session>, Failure> {
        let session = self.shared_session(deadline).await?;
        if era == Era::Legacy && session.is_stateless() {
            let legacy_twin = self.legacy_twin.session(self, deadline).await;
            return Ok(legacy_twin.unwrap_or(session));
        }
        Ok(session)
    }

    /// If the server is on its way up, waits until `deadline` for one attempt, which is shared by all
    /// callers; a scheduled one is brought forward.
    async fn shared_session(&self, deadline: Instant) -> Result<Arc<Session>, Failure> {
        if let Some(session) = self.live_session() {
            return Ok(session);
        }
        let since = Instant::now();
        let waiting = self.next_session();
        timeout_at(deadline, waiting)
            .await
            .unwrap_or_else(|_| Err(self.not_in_time(deadline.saturating_duration_since(since))))
    }

    async fn next_session(&self) -> Result<Arc<Session>, Failure> {
        self.hasten_start();
        let mut view = self.view.clone();
        // The attempt that counts is the one under way, or the next.
        let first = {
            let status = &view.borrow_and_update().status;
            if status.attempting {
                status.epoch
            } else {
                status.epoch.next()
            }
        };
        let mut told = false;
        loop {
            if let Some(session) = self.live_session() {
                return Ok(session);
            }
            let (failed, hopeful, on_call) = {
                let view = view.borrow_and_update();
                let status = &view.status;
                let state = status.state;
                // A session whose loss has not been noticed yet counts as connected.
                let is_up = state == State::Connected;
                // Mainstay starts, and has not come to this server yet.
                let is_next = view.wanted && status.epoch == Epoch::NONE;
                let hopeful = state.is_hopeful() || is_up || status.attempting || is_next;
                let from = status.calls_from.map(Instant::from_std);
                let on_call = status.on_call && from.is_none_or(|from| from <= Instant::now());
                (view.has_failed(first), hopeful, on_call)
            };
            if failed || !hopeful && !on_call {
                return Err(self.not_connected());
            }
            if on_call && !told {
                told = true;
                self.tell(Command::CallWaiting);
            }
            if view.changed().await.is_err() {
                return Err(self.not_connected());
            }
        }
    }

    /// Whether an attempt waits for its turn among those of other servers.
    pub fn waits_for_its_turn(&self) -> bool {
        let view = self.view.borrow();
        view.status.attempting && view.status.begun.is_none()
    }

    /// A caller waits for the server: if its start waits for a slot, it goes before others.
    fn hasten_start(&self) {
        self.asked.send_replace(true);
    }

    /// Resolves when lists need not wait for the server: it has lists of an earlier run, its first attempt is over,
    /// or `wait` has passed since its start.
    pub async fn settled(&self, wait: Duration) {
        self.until(wait, |view| view.attempted || view.has_kept_lists)
            .await;
    }

    /// Resolves when the first attempt of this run is over, or `wait` has passed since the server's start.
    pub async fn tried(&self, wait: Duration) {
        self.until(wait, |view| view.attempted).await;
    }

    async fn until(&self, wait: Duration, is_so: impl Fn(&ServerView) -> bool) {
        let mut view = self.view.clone();
        // Elapsed, or the supervisor has ended: in both cases there is nothing to wait for.
        timeout_at(self.started_at + wait, view.wait_for(|view| is_so(view)))
            .await
            .ok();
    }

    /// The crash of the process of all clients since then, once it is known; `None` if none is known within `limit`.
    pub async fn crash_since(&self, since: SystemTime, limit: Duration) -> Option<Crash> {
        let mut view = self.view.clone();
        let is_meant = |crash: &Crash| crash.is_shared && crash.at >= since;
        let last = |view: &ServerView| view.crashes.last.filter(is_meant);
        let known = timeout(limit, view.wait_for(|view| last(view).is_some())).await;
        last(&*known.ok()?.ok()?)
    }

    /// Whether [`Server::tried`] would resolve at once.
    pub fn is_tried(&self, wait: Duration) -> bool {
        self.view.borrow().attempted
            || self.started_at + wait <= Instant::now()
            || self.view.has_changed().is_err()
    }

    /// Resolves when the session that is open, or is being opened, has been listed; at once if there is
    /// none; after `limit` in any case. A server that was never listed is tried as for a call, because
    /// a client that names something of it may call it. Returns whether that was before the limit.
    pub async fn listed(&self, limit: Duration) -> bool {
        let mut view = self.view.clone();
        let known = async {
            if self.catalog().is_none() {
                // It may be down: then the lists say no more, either.
                self.next_session().await.ok();
            }
            // The supervisor may have ended.
            view.wait_for(|view| !view.is_to_be_listed()).await.ok();
        };
        timeout(limit, known).await.is_ok()
    }

    /// Carries out an operator's command, and returns when it is done or has failed. After a start, the lists are
    /// read as well. One that is disabled, or waits for approval, is not started.
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
            let command = Command::Operate(operation, reply);
            self.commands.send(command).await.map_err(|_| ended())?;
            let epoch = answer.await.map_err(|_| ended())?;
            let mut view = self.view.clone();
            // A later command wins, and ends the wait for the earlier one.
            let view = view
                .wait_for(|view| match operation {
                    Operation::Start | Operation::Reconnect => {
                        view.is_ready(epoch) || view.has_failed(epoch) || !view.wanted
                    }
                    Operation::Stop => view.status.state == State::Disconnected || view.wanted,
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
                Err(Failure::new(FailureKind::ConnectFailed, message).of_server(&self.name))
            })
            .map_err(|failure| self.with_stderr(failure))
    }

    /// Takes a new configuration into force. One that is reached in another way gets a new session.
    pub async fn configure(&self, config: Arc<ServerConfig>) {
        self.log.protect(&config);
        let is_isolated = !self.is_shared_by_one && isolates(&config);
        self.isolated.store(is_isolated, Ordering::Relaxed);
        self.config.store(Arc::clone(&config));
        // The next one is opened as the new configuration has it.
        self.legacy_twin.close();
        // The supervisor may have ended.
        self.commands.send(Command::Configure(config)).await.ok();
    }

    /// An isolated session, opened at its first use.
    pub fn isolated_session(
        self: &Arc<Self>,
        initialize: Arc<str>,
        listener: Arc<dyn Listener>,
        settings: Arc<SessionSettings>,
    ) -> IsolatedSession {
        let id = IsolatedSessionId(self.next_isolated.fetch_add(1, Ordering::Relaxed));
        IsolatedSession::new(Arc::clone(self), id, initialize, listener, settings, true)
    }

    /// The legacy session that all clients share while the shared session is modern. It does not count
    /// as a client's session, and is not closed to make room for one.
    pub(super) fn twin_session(self: &Arc<Self>) -> IsolatedSession {
        let id = IsolatedSessionId(self.next_isolated.fetch_add(1, Ordering::Relaxed));
        let initialize = declared::initialize(&self.config(), None);
        let (server, listener) = (Arc::clone(self), Arc::clone(&self.listener));
        let settings = SessionSettings::new(&self.name);
        IsolatedSession::new(server, id, initialize, listener, settings, false)
    }

    /// Keeps a request of this server, with its cause, until a person answers it.
    pub fn queue(&self, cause: Cause, mut question: Question) {
        question.keep_waiting(None);
        self.queue.enter(&self.name, Some(cause), question);
    }

    /// Shows people that a client of this name is asked.
    pub fn show_question(
        &self,
        name: Option<&str>,
        principal: &Principal,
        question: &mut Question,
    ) {
        let answerer = Answerer::Client {
            name: name.map(str::to_owned),
            principal: principal.clone(),
        };
        let open = self.queue.open_questions();
        open.show(&self.name, answerer, question);
    }

    /// The oldest question of this server that waits for its answer, and how many do.
    pub fn open_question(&self) -> Option<(OpenQuestion, usize)> {
        self.queue.open_questions().oldest_of(&self.name)
    }

    /// Probes the shared session at once.
    pub fn request_probe(&self) {
        self.tell(Command::RequestProbe(SessionKey::Shared));
    }

    /// A call was answered after calls that failed, which shows at once.
    pub fn call_answered(&self) {
        self.tell(Command::CallAnswered);
    }

    /// The machine slept.
    pub fn resumed(&self) {
        self.tell(Command::Resumed);
    }

    /// Ends every session of this server; the supervisor's task ends when they are gone.
    pub async fn end(&self) {
        self.legacy_twin.close();
        // It may have ended already.
        self.commands.send(Command::End).await.ok();
    }

    /// Resolves when nothing of the server is left.
    pub async fn gone(&self) {
        let mut views = self.changes();
        // The channel closes with the supervisor.
        while views.changed().await.is_ok() {}
    }

    pub(super) fn tell(&self, command: Command) {
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
