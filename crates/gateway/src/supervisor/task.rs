//! The supervisor's task: passes events to the lifecycle, and carries out the effects.

mod commands;
mod eras;
mod history;
mod isolated_sessions;
mod lists;
mod questions;
mod session_events;
mod suspects;

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use mainstay_core::{
    config::ServerConfig,
    era::{Era, Eras},
    event::{EventKind, Observer},
    health::{FailingCalls, Fault, HealthAction, ProbeOutcome},
    ids::{Epoch, ServerName},
    lifecycle::{Effect, Event, Loss, Policy, SessionReport as LifeReport},
};
use mainstay_transport::{Listener, UpstreamSession, logs::ServerLog};
use tokio::{
    sync::{mpsc, watch},
    task::{self, JoinSet},
    time::Instant,
};

use self::{
    history::{Exit, RecordedStatus},
    isolated_sessions::IsolatedSessions,
    lists::PendingToolsEvent,
};
use super::{
    attempt::{AttemptProgress, Ending},
    catalog_file::{CatalogFile, Declarations},
    command::SupervisorCommand,
    declared::{capabilities, pinned, shared_initialize},
    fleet::{Fleet, SupervisorReport},
    held_requests::HeldRequests,
    inbox::{Inbox, InboxReader, Unsolicited},
    listing_schedule::{FinishedListing, Listings},
    managed_session::ManagedSession,
    probe::Probes,
    server_view::{Crashes, ServerView},
    session_key::SessionKey,
    shares::Shares,
    sole::{Declared, SILENCE, Sole},
    suspect_calls::SuspectCalls,
};

/// Interval at which the supervisor reads the traffic of a degraded server, so that a server that
/// answers calls again is shown as healthy before its next probe.
const DEGRADED_LOOK: Duration = Duration::from_secs(1);

/// An input of the supervisor's task. `wait` builds it, and `handle` handles it.
enum Input {
    Command(Option<SupervisorCommand>),
    Progress(SessionKey, Epoch, AttemptProgress),
    Ended(SessionKey, Epoch, Ending),
    Probed(SessionKey, Epoch, ProbeOutcome),
    Listed(Option<FinishedListing>),
    Unsolicited(Unsolicited),
    /// The only client has declared its capabilities.
    Declared,
    Deadline,
}

type Channel<T> = (mpsc::Sender<T>, mpsc::Receiver<T>);

pub struct Task {
    /// The configuration with the values that were read when it came into force.
    configured: Arc<ServerConfig>,
    /// `configured`, with the current values of the files that the entry refers to.
    config: Arc<ServerConfig>,
    /// Publishes `config` to other tasks.
    stored: Arc<ArcSwap<ServerConfig>>,
    log: Arc<ServerLog>,
    fleet: Arc<Fleet>,
    view: watch::Sender<ServerView>,

    shared: ManagedSession,
    isolated_sessions: IsolatedSessions,
    connections: Connections,
    probes: Probes,
    /// Time of the next check of a degraded shared session. A fixed time, so that events that wake
    /// the task do not postpone the check.
    next_look: Instant,
    unsolicited: InboxReader,
    lists: ListUpkeep,
    eras: EraChoice,
    recorder: StatusRecorder,
    pub(super) handles: CallerHandles,
    only_client: AwaitedClient,
    /// Time of the last reconnection that was caused by refused credentials.
    other_credentials: Option<Instant>,
    /// The last value of [`ServerView::is_offered`] that was reported to the registry.
    offered: bool,
    /// True if the operator has stopped the server and has not started it since.
    stopped: bool,
    ending: bool,
}

/// The tasks of all connections: opening, open or closing.
struct Connections {
    tasks: JoinSet<Ending>,
    /// The session and the attempt that each task serves.
    keys: HashMap<task::Id, (SessionKey, Epoch)>,
    progress: Channel<(SessionKey, Epoch, AttemptProgress)>,
}

/// The listings of the server, and the published catalog's memory budget and file.
struct ListUpkeep {
    /// Warnings about names in the server's deny and allow lists that match no tool.
    unmatched: Vec<String>,
    listings: Listings,
    pending_tools_event: Option<PendingToolsEvent>,
    /// Memory budget of the lists in the published catalog.
    shares: Shares,
    catalog_file: Option<CatalogFile>,
    /// The eras in the catalog file.
    kept_eras: Eras,
    /// The client declarations for which the server returned the published catalog.
    offered_to: Declarations,
}

/// The era with which the next attempt begins.
struct EraChoice {
    /// The era of the first message. `None`: detect it.
    first: Option<Era>,
    /// Time until which no `server/discover` is sent, because the server failed after one.
    avoids_probe_until: Instant,
}

/// Records the history of the shared session.
#[derive(Default)]
struct StatusRecorder {
    observer: Observer,
    /// The status that was recorded last.
    recorded: Option<RecordedStatus>,
    /// The exit of the last process, until it is recorded.
    last_exit: Option<Exit>,
}

/// State that callers of the server share with the task.
#[derive(Clone, Debug)]
pub(super) struct CallerHandles {
    /// Calls of the shared session that may have crashed it.
    pub suspect_calls: Arc<SuspectCalls>,
    /// True if a caller has requested the server since its shared session was lost.
    pub requested: Arc<watch::Sender<bool>>,
    /// True if the server has asked the only client a question outside of calls.
    pub has_asked: Arc<AtomicBool>,
    pub held_requests: Arc<HeldRequests>,
}

impl Default for CallerHandles {
    fn default() -> Self {
        Self {
            suspect_calls: Arc::default(),
            requested: Arc::new(watch::Sender::new(false)),
            has_asked: Arc::default(),
            held_requests: Arc::default(),
        }
    }
}

/// The only client (`mainstay mcp`). The first start of the server waits for its declaration.
struct AwaitedClient {
    /// The declaration. `None` if there can be several clients.
    sole: Option<watch::Receiver<Option<Declared>>>,
    /// Time until which the first start waits. `None` when the wait is over.
    held_until: Option<Instant>,
}

impl Task {
    pub fn new(
        stored: Arc<ArcSwap<ServerConfig>>,
        log: Arc<ServerLog>,
        fleet: Arc<Fleet>,
    ) -> (Self, watch::Receiver<ServerView>, Arc<dyn Listener>) {
        let config = stored.load_full();
        let (inbox, unsolicited) = Inbox::new(config.name.clone(), Arc::clone(&log));
        let inbox: Arc<dyn Listener> = Arc::new(inbox);
        let sole = fleet.sole.as_ref().map(Sole::subscribe);
        let initialize = shared_initialize(&config, &fleet);
        let shared = ManagedSession::new(policy(&config), initialize, Arc::clone(&inbox));
        let catalog_file = catalog_file(&fleet, &config);
        let mut list_budget = Shares::new(fleet.reserve.clone());
        let (catalog, kept_eras, offered_to) =
            match catalog_file.as_ref().and_then(CatalogFile::load) {
                Some(mut kept_catalog) => {
                    list_budget.admit(&config.name, &mut kept_catalog.catalog);
                    let offered_to = Declarations::read(kept_catalog.declared);
                    (
                        Some(Arc::new(kept_catalog.catalog)),
                        kept_catalog.eras,
                        offered_to,
                    )
                }
                None => Default::default(),
            };
        let eras = pinned(&config).unwrap_or(kept_eras);
        let is_wanted = config.connects_at_start();
        let (view, view_receiver) = watch::channel(ServerView {
            status: shared.status(),
            is_desired_up: is_wanted,
            session: None,
            attempted: !is_wanted,
            has_kept_lists: false,
            catalog,
            listed: None,
            list_trouble: None,
            connected_at: None,
            down_since: Some(SystemTime::now()),
            degraded_since: None,
            handshake: None,
            last_transport: None,
            sessions: 0,
            eras,
            avoids_probe: false,
            crashes: Crashes::default(),
        });
        let task = Self {
            configured: Arc::clone(&config),
            config,
            stored,
            log,
            fleet,
            view,
            shared,
            isolated_sessions: IsolatedSessions::default(),
            connections: Connections {
                tasks: JoinSet::new(),
                keys: HashMap::new(),
                progress: mpsc::channel(16),
            },
            probes: Probes::default(),
            next_look: Instant::now(),
            unsolicited,
            lists: ListUpkeep {
                unmatched: Vec::new(),
                listings: Listings::default(),
                pending_tools_event: None,
                shares: list_budget,
                catalog_file,
                kept_eras,
                offered_to,
            },
            eras: EraChoice {
                first: eras.first(),
                avoids_probe_until: Instant::now(),
            },
            recorder: StatusRecorder::default(),
            handles: CallerHandles::default(),
            only_client: AwaitedClient {
                sole,
                held_until: None,
            },
            other_credentials: None,
            offered: is_wanted,
            stopped: false,
            ending: false,
        };
        (task, view_receiver, inbox)
    }

    pub async fn run(mut self, mut commands: mpsc::Receiver<SupervisorCommand>) {
        if self.view.borrow().catalog.is_some() {
            self.report_catalog(Vec::new()).await;
        }
        let is_declared = |sole: &watch::Receiver<Option<Declared>>| sole.borrow().is_some();
        if self
            .only_client
            .sole
            .as_ref()
            .is_some_and(|sole| !is_declared(sole))
        {
            self.only_client.held_until = Some(Instant::now() + SILENCE);
        } else {
            self.shared.initialize = shared_initialize(&self.config, &self.fleet);
            self.begin();
        }
        self.record_status(&self.shared.status());
        while !(self.ending && self.connections.tasks.is_empty()) {
            let input = self.wait(&mut commands).await;
            // Boxed, so that the future takes memory only while it runs. There is a task for each
            // server, and each task waits most of the time.
            Box::pin(self.handle(input)).await;
            self.report_offered().await;
        }
        self.record_removal();
        self.lists.listings.shutdown().await;
        self.probes.shutdown().await;
    }

    /// Makes the registry merge the catalogs again when the server's items become visible or
    /// invisible to clients.
    async fn report_offered(&mut self) {
        let offered = self.view.borrow().is_offered();
        if self.offered != offered && !self.ending {
            self.offered = offered;
            if self.view.borrow().catalog.is_some() {
                self.report_catalog(Vec::new()).await;
            }
        }
    }

    /// Time at which the task must wake up, even without an event.
    fn deadline(&self) -> Option<Instant> {
        let degraded = self.shared.status().is_degraded();
        let look = degraded.then_some(self.next_look);
        self.isolated_sessions
            .managed_sessions()
            .filter_map(ManagedSession::deadline)
            .chain(self.shared.deadline())
            .chain(self.lists.listings.due())
            .chain(
                self.lists
                    .pending_tools_event
                    .as_ref()
                    .map(|pending| pending.at),
            )
            .chain(self.only_client.held_until)
            .chain(self.handles.suspect_calls.due())
            .chain(look)
            .min()
    }

    async fn wait(&mut self, commands: &mut mpsc::Receiver<SupervisorCommand>) -> Input {
        let deadline = self.deadline();
        let mut sleep = pin!(async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        });
        tokio::select! {
            command = commands.recv(), if !self.ending => Input::Command(command),
            Some((key, epoch, progress)) = self.connections.progress.1.recv() => Input::Progress(key, epoch, progress),
            Some(ended) = self.connections.tasks.join_next_with_id() => {
                let (id, ending) = match ended {
                    Ok((id, ending)) => (id, ending),
                    Err(error) => (error.id(), Loss::Disconnected(format!("its task failed: {error}")).into()),
                };
                let (key, epoch) = self.connections.keys.remove(&id).expect("every connection is entered when it starts");
                Input::Ended(key, epoch, ending)
            }
            (key, epoch, outcome) = self.probes.next() => Input::Probed(key, epoch, outcome),
            done = self.lists.listings.done(&self.config.name) => Input::Listed(done),
            Some(unsolicited) = self.unsolicited.recv() => Input::Unsolicited(unsolicited),
            () = declaration_changed(&mut self.only_client.sole) => Input::Declared,
            () = &mut sleep => Input::Deadline,
        }
    }

    async fn handle(&mut self, input: Input) {
        match input {
            // `None`: all handles of the server were dropped. Treat this like an end.
            Input::Command(command) => {
                self.handle_command(command.unwrap_or(SupervisorCommand::End))
                    .await
            }
            Input::Progress(_, _, AttemptProgress::Refreshed(before, refreshed)) => {
                self.handle_refreshed(&before, *refreshed);
            }
            Input::Progress(key, epoch, AttemptProgress::Begun) => {
                self.step(key, Event::Io(epoch, LifeReport::Begun));
            }
            Input::Progress(key, epoch, AttemptProgress::AtWork(at)) => {
                let at = at.into_std();
                self.step(key, Event::Io(epoch, LifeReport::AtWork(at)));
            }
            Input::Progress(key, epoch, AttemptProgress::Opened(session)) => {
                self.handle_opened(key, epoch, session).await;
            }
            Input::Ended(key, epoch, ending) => self.handle_ended(key, epoch, ending),
            Input::Probed(key, epoch, outcome) => {
                let outcome = match outcome {
                    ProbeOutcome::Failed(reason) => {
                        ProbeOutcome::Failed(self.log.redacted(&reason).into_owned())
                    }
                    ProbeOutcome::Broken(fault) => ProbeOutcome::Broken(self.redacted(&fault)),
                    other => other,
                };
                tracing::debug!(server = %self.config.name, ?outcome, "probed");
                self.report_traffic(key);
                self.step(key, Event::Io(epoch, LifeReport::Probe(outcome)));
            }
            Input::Listed(Some(done)) => self.handle_listing(done).await,
            Input::Listed(None) => {}
            Input::Unsolicited(Unsolicited::Notice(notice)) => self.handle_notice(notice).await,
            Input::Unsolicited(Unsolicited::Question(question)) => self.handle_question(question),
            Input::Declared => self.handle_declaration(),
            Input::Deadline => {
                self.next_look = Instant::now() + DEGRADED_LOOK;
                if self
                    .only_client
                    .held_until
                    .is_some_and(|until| until <= Instant::now())
                {
                    self.begin();
                }
                self.allow_expired();
                self.look(SessionKey::Shared);
                for id in self.isolated_sessions.ids() {
                    self.look(SessionKey::Isolated(id));
                }
                self.settle_lists();
                if let Some((kinds, announced)) = self.lists.listings.take_due() {
                    self.list(kinds, announced);
                }
            }
        }
    }

    /// Starts the server for the first time, if the operator wants it up.
    fn begin(&mut self) {
        self.only_client.held_until = None;
        // Callers need not wait for the listing if the catalog file has lists for this declaration.
        if self.lists.offered_to.contain(&self.shared.initialize) {
            self.view.send_modify(|view| view.has_kept_lists = true);
        }
        if self.view.borrow().is_desired_up {
            self.step(SessionKey::Shared, Event::Start);
        }
    }

    /// Starts the server with the declaration of the only client. If the server was started before,
    /// reopens its session.
    fn handle_declaration(&mut self) {
        self.shared.initialize = shared_initialize(&self.config, &self.fleet);
        if self.only_client.held_until.is_some() {
            self.begin();
        } else {
            self.reopen_if_redeclared();
        }
    }

    /// Reopens a legacy shared session if `initialize` has changed since it was opened. A modern
    /// session (2026-07-28) needs no reopening: each request carries the declaration.
    fn reopen_if_redeclared(&mut self) {
        let shared = &self.shared;
        let is_legacy = |session: &Arc<UpstreamSession>| session.era() == Era::Legacy;
        if shared.initialize != shared.begun_with && shared.session.as_ref().is_some_and(is_legacy)
        {
            self.step(SessionKey::Shared, Event::Reconnect);
        }
    }

    fn managed(&mut self, key: SessionKey) -> Option<&mut ManagedSession> {
        match key {
            SessionKey::Shared => Some(&mut self.shared),
            SessionKey::Isolated(id) => self.isolated_sessions.managed(id),
        }
    }

    /// Updates a session's lifecycle with its traffic and the current time.
    fn look(&mut self, key: SessionKey) {
        self.report_traffic(key);
        self.step(key, Event::Tick);
    }

    /// Reports a session's traffic to its lifecycle. The next `step` publishes the result.
    fn report_traffic(&mut self, key: SessionKey) {
        let Some(managed) = self.managed(key) else {
            return;
        };
        let Some(session) = managed.session.clone() else {
            return;
        };
        let epoch = managed.epoch();
        let last_message_at = session.liveness.last_message_at().into_std();
        let (failed, fault) = session.liveness.failed();
        let fault = fault.map(|fault| self.redacted(&fault));
        let calls = session.liveness.failing_calls();
        let calls = FailingCalls {
            reason: self.log.redacted(&calls.reason).into_owned(),
            ..calls
        };
        let stalled = session.liveness.stalled();
        for report in [
            LifeReport::MessageReceived(last_message_at),
            LifeReport::Failed(failed, fault),
            LifeReport::FailedInRow(calls),
            LifeReport::Stalled(stalled),
        ] {
            self.advance(key, Event::Io(epoch, report));
        }
    }

    /// Redacts secrets in a fault. The reason may quote the server, and the server may quote the
    /// headers of our requests.
    fn redacted(&self, fault: &Fault) -> Fault {
        Fault {
            kind: fault.kind,
            reason: self.log.redacted(&fault.reason).into_owned(),
        }
    }

    /// Sends an event to a session's lifecycle, carries out the effect and publishes the result.
    fn step(&mut self, key: SessionKey, event: Event) {
        if self.managed(key).is_none() {
            return;
        }
        self.advance(key, event);
        match key {
            SessionKey::Shared => self.publish(),
            SessionKey::Isolated(id) => self.settle_isolated(id),
        }
    }

    /// Like [`Self::step`], but does not publish the result.
    fn advance(&mut self, key: SessionKey, event: Event) {
        let Some(managed) = self.managed(key) else {
            return;
        };
        match managed.step(event) {
            None => {}
            Some(Effect::Open(epoch)) => self.open(key, epoch),
            Some(Effect::Probe(epoch)) => self.probe(key, epoch),
            Some(Effect::Close(_)) => managed.stop.close.cancel(),
            Some(Effect::Kill(_)) => managed.stop.kill.cancel(),
        }
    }

    /// Publishes the current state of the shared session.
    fn publish(&mut self) {
        let status = self.shared.status();
        let session = self.shared.session.clone();
        self.view.send_modify(|view| {
            if view.status.state != status.state {
                tracing::info!(server = %self.config.name, state = %status.state, reason = status.reason, "state");
            }
            if session.is_none() {
                view.connected_at = None;
                view.handshake = None;
            }
            view.session.clone_from(&session);
            view.status = status.clone();
            view.update_since();
        });
        let capabilities = || session.as_deref().map(capabilities).unwrap_or_default();
        let now = Instant::now().into_std();
        for kind in self.recorder.observer.observe(&status, capabilities, now) {
            self.publish_event(kind);
        }
        self.record_status(&status);
    }

    /// Publishes an event about this server.
    fn publish_event(&self, kind: EventKind) {
        let health = match &kind {
            EventKind::ServerHealthDegraded {
                consecutive_failures,
                last_error,
            } => {
                let reason = last_error.as_deref().unwrap_or("no reason known");
                Some(format!(
                    "unhealthy after {consecutive_failures} failed checks: {reason}"
                ))
            }
            EventKind::ServerHealthRestored {} => Some("healthy again".to_owned()),
            _ => None,
        };
        if let Some(health) = health {
            // Log changes of health under every policy.
            tracing::warn!(server = %self.config.name, "its health turned: {health}");
            if self.shared.policy.health.action == HealthAction::Log {
                return;
            }
        }
        self.fleet.events.publish(Some(&self.config.name), kind);
    }

    async fn report(&self, report: SupervisorReport) {
        // The registry outlives its supervisors. At shutdown nobody receives the report.
        self.fleet
            .reports
            .send((self.config.name.clone(), report))
            .await
            .ok();
    }
}

/// Resolves when the only client has declared other capabilities.
async fn declaration_changed(sole: &mut Option<watch::Receiver<Option<Declared>>>) {
    let Some(sole) = sole else {
        return std::future::pending().await;
    };
    if sole.changed().await.is_err() {
        // The sender is part of the fleet. Without the sender, no declaration can follow.
        std::future::pending().await
    }
}

fn policy(config: &ServerConfig) -> Policy {
    Policy {
        seed: seed(&config.name),
        ..config.policy.clone()
    }
}

/// Hashes the name, so that servers that were lost together retry at different times.
fn seed(name: &ServerName) -> u64 {
    name.as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

fn catalog_file(fleet: &Fleet, config: &ServerConfig) -> Option<CatalogFile> {
    let folder = fleet.catalogs.as_deref()?;
    Some(CatalogFile::new(folder, config))
}
