//! The supervisor's task: takes events, asks the lifecycle, carries out effects.

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
    health::{Action, FailingCalls, Fault, Outcome},
    ids::{Epoch, ServerName},
    lifecycle::{Effect, Event, Loss, Policy, Report as LifeReport},
};
use mainstay_transport::{Listener, Session, logs::ServerLog};
use tokio::{
    sync::{mpsc, watch},
    task::{self, JoinSet},
    time::Instant,
};

use self::{
    history::{Exit, Recorded},
    isolated_sessions::IsolatedSessions,
    lists::Untold,
};
use super::{
    attempt::{Ending, Progress},
    catalog_file::{CatalogFile, Declarations},
    command::Command,
    declared::{capabilities, pinned, shared_initialize},
    fleet::{Fleet, Report},
    held_requests::HeldRequests,
    inbox::{Inbox, Unread, Unsolicited},
    listing_schedule::{Done, Listings},
    managed_session::ManagedSession,
    probe::Probes,
    server_view::{Crashes, ServerView},
    session_key::SessionKey,
    shares::Shares,
    sole::{Declared, SILENCE, Sole},
    suspect_calls::SuspectCalls,
};

/// How often the traffic of a degraded server is looked at: a server that answers calls again is not
/// shown as degraded until its next probe. The time of the next look is kept, so that a server that
/// wakes the task more often than this does not put the look off.
const DEGRADED_LOOK: Duration = Duration::from_secs(1);

/// Everything that can happen to a supervisor.
enum Input {
    Command(Option<Command>),
    Progress(SessionKey, Epoch, Progress),
    Ended(SessionKey, Epoch, Ending),
    Probed(SessionKey, Epoch, Outcome),
    Listed(Option<Done>),
    Unsolicited(Unsolicited),
    /// The one client has declared its capabilities.
    Declared,
    Deadline,
}

type Channel<T> = (mpsc::Sender<T>, mpsc::Receiver<T>);

pub struct Task {
    /// As its entry was read when the configuration came into force.
    configured: Arc<ServerConfig>,
    /// With what the files that the entry names have had since.
    config: Arc<ServerConfig>,
    /// The same for other tasks.
    stored: Arc<ArcSwap<ServerConfig>>,
    log: Arc<ServerLog>,
    fleet: Arc<Fleet>,
    view: watch::Sender<ServerView>,

    shared: ManagedSession,
    isolated_sessions: IsolatedSessions,
    /// Every connection, opening, open or closing, and which session's it is.
    connections: JoinSet<Ending>,
    carries: HashMap<task::Id, (SessionKey, Epoch)>,
    progress: Channel<(SessionKey, Epoch, Progress)>,
    probes: Probes,
    /// The warnings about names in its deny and allow lists that fit no tool.
    unmatched: Vec<String>,
    /// When a degraded shared session is looked at next.
    next_look: Instant,
    unsolicited: Unread,
    listings: Listings,
    untold: Option<Untold>,
    /// The memory of the lists of the published catalog.
    shares: Shares,
    catalog_file: Option<CatalogFile>,
    /// The eras in the catalog file.
    kept_eras: Eras,
    /// For which declarations the server offered the published catalog.
    offered_to: Declarations,
    /// The era in which the server is spoken to first; `None` is to be found out.
    first: Option<Era>,
    /// Until when a server is spared `server/discover` that failed after it.
    avoids_probe_until: Instant,
    observer: Observer,
    /// What was put on record last of its status.
    recorded: Option<Recorded>,
    /// How the process of the shared session ended that ended last, until that is on record.
    last_exit: Option<Exit>,
    /// Calls of the shared session that may have crashed it.
    pub(super) suspect_calls: Arc<SuspectCalls>,
    /// Whether a caller has asked for the server since its shared session was lost.
    pub(super) asked: Arc<watch::Sender<bool>>,
    /// The server has asked the one client something outside of calls.
    pub(super) has_asked: Arc<AtomicBool>,
    pub(super) held_requests: Arc<HeldRequests>,
    /// The capabilities of the one client, where there is only one.
    sole: Option<watch::Receiver<Option<Declared>>>,
    /// Until when the first start waits for that.
    held_until: Option<Instant>,
    /// When a session was opened at once because the credentials of the one before were refused.
    other_credentials: Option<Instant>,
    /// Whether the merged catalog was last asked to show what it offers.
    offered: bool,
    /// Its operator has stopped it, and has not started it since.
    stopped: bool,
    ending: bool,
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
        let first_words = shared_initialize(&config, &fleet);
        let shared = ManagedSession::new(policy(&config), first_words, Arc::clone(&inbox));
        let catalog_file = catalog_file(&fleet, &config);
        let mut taken = Shares::new(fleet.reserve.clone());
        let (catalog, kept_eras, offered_to) =
            match catalog_file.as_ref().and_then(CatalogFile::load) {
                Some(mut known) => {
                    taken.admit(&config.name, &mut known.catalog);
                    let offered_to = Declarations::read(known.declared);
                    (Some(Arc::new(known.catalog)), known.eras, offered_to)
                }
                None => Default::default(),
            };
        let eras = pinned(&config).unwrap_or(kept_eras);
        let wanted = config.connects_at_start();
        let (view, seen) = watch::channel(ServerView {
            status: shared.status(),
            wanted,
            session: None,
            attempted: !wanted,
            has_kept_lists: false,
            catalog,
            listed: None,
            list_trouble: None,
            connected_at: None,
            down_since: Some(SystemTime::now()),
            degraded_since: None,
            handshake: None,
            spoken: None,
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
            connections: JoinSet::new(),
            carries: HashMap::new(),
            progress: mpsc::channel(16),
            probes: Probes::default(),
            next_look: Instant::now(),
            unsolicited,
            unmatched: Vec::new(),
            listings: Listings::default(),
            untold: None,
            shares: taken,
            catalog_file,
            kept_eras,
            offered_to,
            first: eras.first(),
            avoids_probe_until: Instant::now(),
            observer: Observer::default(),
            recorded: None,
            last_exit: None,
            suspect_calls: Arc::default(),
            asked: Arc::new(watch::Sender::new(false)),
            has_asked: Arc::default(),
            held_requests: Arc::default(),
            sole,
            held_until: None,
            other_credentials: None,
            offered: wanted,
            stopped: false,
            ending: false,
        };
        (task, seen, inbox)
    }

    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        if self.view.borrow().catalog.is_some() {
            self.tell_catalog(Vec::new()).await;
        }
        let is_told = |sole: &watch::Receiver<Option<Declared>>| sole.borrow().is_some();
        if self.sole.as_ref().is_some_and(|sole| !is_told(sole)) {
            self.held_until = Some(Instant::now() + SILENCE);
        } else {
            self.shared.initialize = shared_initialize(&self.config, &self.fleet);
            self.begin();
        }
        self.record_status(&self.shared.status());
        while !(self.ending && self.connections.is_empty()) {
            let input = self.wait(&mut commands).await;
            // On the heap for as long as it takes: there is a task for each server, and it waits mostly.
            Box::pin(self.handle(input)).await;
            self.tell_offered().await;
        }
        self.record_removal();
        self.listings.shutdown().await;
        self.probes.shutdown().await;
    }

    /// Has the catalogs merged anew when what the server offers begins or ceases to be shown.
    async fn tell_offered(&mut self) {
        let offered = self.view.borrow().is_offered();
        if self.offered != offered && !self.ending {
            self.offered = offered;
            if self.view.borrow().catalog.is_some() {
                self.tell_catalog(Vec::new()).await;
            }
        }
    }

    /// When something is due that is not reported.
    fn deadline(&self) -> Option<Instant> {
        let degraded = self.shared.status().is_degraded();
        let look = degraded.then_some(self.next_look);
        self.isolated_sessions
            .managed_sessions()
            .filter_map(ManagedSession::deadline)
            .chain(self.shared.deadline())
            .chain(self.listings.due())
            .chain(self.untold.as_ref().map(|untold| untold.at))
            .chain(self.held_until)
            .chain(self.suspect_calls.due())
            .chain(look)
            .min()
    }

    async fn wait(&mut self, commands: &mut mpsc::Receiver<Command>) -> Input {
        let deadline = self.deadline();
        let mut sleep = pin!(async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        });
        tokio::select! {
            command = commands.recv(), if !self.ending => Input::Command(command),
            Some((which, epoch, progress)) = self.progress.1.recv() => Input::Progress(which, epoch, progress),
            Some(ended) = self.connections.join_next_with_id() => {
                let (id, ending) = match ended {
                    Ok((id, ending)) => (id, ending),
                    Err(error) => (error.id(), Loss::Disconnected(format!("its task failed: {error}")).into()),
                };
                let (which, epoch) = self.carries.remove(&id).expect("every connection is entered when it starts");
                Input::Ended(which, epoch, ending)
            }
            (which, epoch, outcome) = self.probes.next() => Input::Probed(which, epoch, outcome),
            done = self.listings.done(&self.config.name) => Input::Listed(done),
            Some(unsolicited) = self.unsolicited.recv() => Input::Unsolicited(unsolicited),
            () = told(&mut self.sole) => Input::Declared,
            () = &mut sleep => Input::Deadline,
        }
    }

    async fn handle(&mut self, input: Input) {
        match input {
            // All handles of the server are gone: the same as a command to end.
            Input::Command(command) => self.obey(command.unwrap_or(Command::End)).await,
            Input::Progress(_, _, Progress::Refreshed(before, refreshed)) => {
                self.refreshed(&before, *refreshed);
            }
            Input::Progress(which, epoch, Progress::Begun) => {
                self.step(which, Event::Io(epoch, LifeReport::Begun));
            }
            Input::Progress(which, epoch, Progress::AtWork(at)) => {
                let at = at.into_std();
                self.step(which, Event::Io(epoch, LifeReport::AtWork(at)));
            }
            Input::Progress(which, epoch, Progress::Opened(session)) => {
                self.opened(which, epoch, session).await;
            }
            Input::Ended(which, epoch, ending) => self.ended(which, epoch, ending),
            Input::Probed(which, epoch, outcome) => {
                let outcome = match outcome {
                    Outcome::Failed(why) => Outcome::Failed(self.log.shown(&why).into_owned()),
                    Outcome::Broken(fault) => Outcome::Broken(self.shown(&fault)),
                    other => other,
                };
                tracing::debug!(server = %self.config.name, ?outcome, "probed");
                self.read_vitals(which);
                self.step(which, Event::Io(epoch, LifeReport::Probe(outcome)));
            }
            Input::Listed(Some(done)) => self.listed(done).await,
            Input::Listed(None) => {}
            Input::Unsolicited(Unsolicited::Notice(notice)) => self.notice(notice).await,
            Input::Unsolicited(Unsolicited::Question(question)) => self.question(question),
            Input::Declared => self.declare(),
            Input::Deadline => {
                self.next_look = Instant::now() + DEGRADED_LOOK;
                if self.held_until.is_some_and(|until| until <= Instant::now()) {
                    self.begin();
                }
                self.allow_expired();
                self.look(SessionKey::Shared);
                for id in self.isolated_sessions.ids() {
                    self.look(SessionKey::Isolated(id));
                }
                self.settle_lists();
                if let Some((kinds, announced)) = self.listings.take_due() {
                    self.list(kinds, announced);
                }
            }
        }
    }

    /// Starts the server for the first time, if it is wanted.
    fn begin(&mut self) {
        self.held_until = None;
        // No list needs to wait for a server whose lists are known.
        if self.offered_to.contain(&self.shared.initialize) {
            self.view.send_modify(|view| view.has_kept_lists = true);
        }
        if self.view.borrow().wanted {
            self.step(SessionKey::Shared, Event::Start);
        }
    }

    /// The one client has declared its capabilities.
    fn declare(&mut self) {
        self.shared.initialize = shared_initialize(&self.config, &self.fleet);
        if self.held_until.is_some() {
            self.begin();
        } else {
            self.renew();
        }
    }

    /// Opens the shared session again if it was opened with another declaration than the present one. A
    /// server of 2026-07-28 is told with each request.
    fn renew(&mut self) {
        let shared = &self.shared;
        let is_legacy = |session: &Arc<Session>| session.era() == Era::Legacy;
        if shared.initialize != shared.begun_with && shared.session.as_ref().is_some_and(is_legacy)
        {
            self.step(SessionKey::Shared, Event::Reconnect);
        }
    }

    fn managed(&mut self, which: SessionKey) -> Option<&mut ManagedSession> {
        match which {
            SessionKey::Shared => Some(&mut self.shared),
            SessionKey::Isolated(id) => self.isolated_sessions.managed(id),
        }
    }

    /// Brings a session's lifecycle up to date with the clock and with the traffic.
    fn look(&mut self, which: SessionKey) {
        self.read_vitals(which);
        self.step(which, Event::Tick);
    }

    /// Reports the traffic of a session to its lifecycle. The step that follows publishes the result.
    fn read_vitals(&mut self, which: SessionKey) {
        let Some(managed) = self.managed(which) else {
            return;
        };
        let Some(session) = managed.session.clone() else {
            return;
        };
        let epoch = managed.epoch();
        let heard = session.liveness.heard().into_std();
        let (failed, fault) = session.liveness.failed();
        let fault = fault.map(|fault| self.shown(&fault));
        let calls = session.liveness.failing_calls();
        let calls = FailingCalls {
            reason: self.log.shown(&calls.reason).into_owned(),
            ..calls
        };
        let stalled = session.liveness.stalled();
        for report in [
            LifeReport::Heard(heard),
            LifeReport::Failed(failed, fault),
            LifeReport::FailedInRow(calls),
            LifeReport::Stalled(stalled),
        ] {
            self.advance(which, Event::Io(epoch, report));
        }
    }

    /// It may quote the server, which may quote our request's headers.
    fn shown(&self, fault: &Fault) -> Fault {
        Fault {
            kind: fault.kind,
            reason: self.log.shown(&fault.reason).into_owned(),
        }
    }

    /// One step of a session's lifecycle, and its effect.
    fn step(&mut self, which: SessionKey, event: Event) {
        if self.managed(which).is_none() {
            return;
        }
        self.advance(which, event);
        match which {
            SessionKey::Shared => self.publish(),
            SessionKey::Isolated(id) => self.settle_isolated(id),
        }
    }

    /// The same, which is not published yet.
    fn advance(&mut self, which: SessionKey, event: Event) {
        let Some(managed) = self.managed(which) else {
            return;
        };
        match managed.step(event) {
            None => {}
            Some(Effect::Open(epoch)) => self.open(which, epoch),
            Some(Effect::Probe(epoch)) => self.probe(which, epoch),
            Some(Effect::Close(_)) => managed.stop.close.cancel(),
            Some(Effect::Kill(_)) => managed.stop.kill.cancel(),
        }
    }

    /// Shows the shared session as it is now.
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
            view.note_since();
        });
        let capabilities = || session.as_deref().map(capabilities).unwrap_or_default();
        let now = Instant::now().into_std();
        for kind in self.observer.observe(&status, capabilities, now) {
            self.tell(kind);
        }
        self.record_status(&status);
    }

    /// Publishes the events of this server.
    fn tell(&self, kind: EventKind) {
        let health = match &kind {
            EventKind::ServerHealthDegraded {
                consecutive_failures,
                last_error,
            } => {
                let why = last_error.as_deref().unwrap_or("no reason known");
                Some(format!(
                    "unhealthy after {consecutive_failures} failed checks: {why}"
                ))
            }
            EventKind::ServerHealthRestored {} => Some("healthy again".to_owned()),
            _ => None,
        };
        if let Some(health) = health {
            // Health that turns is a line in the log, whatever follows.
            tracing::warn!(server = %self.config.name, "its health turned: {health}");
            if self.shared.policy.health.action == Action::Log {
                return;
            }
        }
        self.fleet.events.publish(Some(&self.config.name), kind);
    }

    async fn report(&self, report: Report) {
        // The registry lives longer than its supervisors; at the very end there is no listener.
        self.fleet
            .reports
            .send((self.config.name.clone(), report))
            .await
            .ok();
    }
}

/// Resolves when the one client has said something new of itself.
async fn told(sole: &mut Option<watch::Receiver<Option<Declared>>>) {
    let Some(sole) = sole else {
        return std::future::pending().await;
    };
    if sole.changed().await.is_err() {
        // It lives as long as the fleet.
        std::future::pending().await
    }
}

fn policy(config: &ServerConfig) -> Policy {
    Policy {
        seed: seed(&config.name),
        ..config.policy.clone()
    }
}

/// Spreads the retries of servers that are lost together.
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
