//! The supervisor's task: events in, effects out.

use std::{
    collections::HashMap,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::{
    catalog::ListKind,
    config::{Launch, Protocol, ServerConfig, ServerRequests},
    era::{ClientCapabilities, Era, Eras, Revision, questions},
    event::{EventKind, Observer},
    health::{Action, Outcome},
    ids::{Epoch, ServerName},
    lifecycle::{Effect, Event, Loss, Policy, Report as LifeReport, State},
    message::{self, Method},
};
use serde_json::Value;
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        watch,
    },
    task::{self, JoinSet},
    time::Instant,
};

use super::{
    Command, Crash, Fleet, Operation, Report, View,
    attempt::{Ending, Progress, Which, connect},
    eras::pinned,
    kept::Kept,
    listing::{Done, Listings},
    privates::Privates,
    probe,
    upkeep::Upkeep,
};
use crate::{
    logs::ServerLog,
    transport::{self, HealthUrl, Listener, Notice, Opening, Question, Session},
};

/// Internal error: the protocol has no code for it.
const NOBODY_TO_ASK: i64 = -32603;

/// Notifications of a server that may wait to be handled.
const MAX_NOTICES: usize = 1024;

/// Declared capabilities in an event; honest ones have a few hundred bytes.
const MAX_CAPABILITIES: usize = 16 * 1024;

/// A degraded server is looked at so often: traffic that comes back ends the alarm at once.
const DEGRADED_LOOK: Duration = Duration::from_secs(1);

/// Everything that can happen to a supervisor.
enum Happening {
    Command(Option<Command>),
    Progress(Which, Epoch, Progress),
    Ended(Which, Epoch, Ending),
    Probed(Which, Epoch, Outcome),
    Listed(Option<Done>),
    Unasked(Unasked),
    Deadline,
}

/// Brings the shared session's notices to the supervisor's task.
#[derive(Debug)]
struct Inbox {
    server: ServerName,
    unasked: mpsc::Sender<Unasked>,
}

/// What a server says outside of calls.
enum Unasked {
    Notice(Notice),
    Question(Question),
}

impl Listener for Inbox {
    /// A full queue drops the notice: a server must not be held up by its readers.
    fn hear(&self, notice: Notice) {
        if let Err(TrySendError::Full(Unasked::Notice(notice))) =
            self.unasked.try_send(Unasked::Notice(notice))
        {
            tracing::warn!(server = %self.server, method = notice.method.name(), "a notification was dropped: too many are waiting");
        }
    }

    /// One that finds the queue full is refused: it is dropped.
    fn ask(&self, question: Question) {
        self.unasked.try_send(Unasked::Question(question)).ok();
    }
}

type Channel<T> = (mpsc::Sender<T>, mpsc::Receiver<T>);

pub struct Task {
    pub(super) config: Arc<ServerConfig>,
    pub(super) log: Arc<ServerLog>,
    fleet: Arc<Fleet>,
    pub(super) view: watch::Sender<View>,

    pub(super) shared: Upkeep,
    pub(super) privates: Privates,
    /// Every connection, opening, open or closing, and which session's it is.
    connections: JoinSet<Ending>,
    carries: HashMap<task::Id, (Which, Epoch)>,
    progress: Channel<(Which, Epoch, Progress)>,
    probes: JoinSet<(Which, Epoch, Outcome)>,
    unasked: Channel<Unasked>,
    pub(super) listings: Listings,
    pub(super) kept: Option<Kept>,
    /// What is kept of the eras.
    pub(super) kept_eras: Eras,
    /// The era in which the server is spoken to first; `None` is to be found out.
    pub(super) first: Option<Era>,
    observer: Observer,
    pub(super) ending: bool,
}

impl Task {
    pub fn new(
        config: Arc<ServerConfig>,
        log: Arc<ServerLog>,
        fleet: Arc<Fleet>,
    ) -> (Self, watch::Receiver<View>, Arc<dyn Listener>) {
        let unasked = mpsc::channel(MAX_NOTICES);
        let inbox: Arc<dyn Listener> = Arc::new(Inbox {
            server: config.name.clone(),
            unasked: unasked.0.clone(),
        });
        let shared = Upkeep::new(policy(&config), initialize(&config), Arc::clone(&inbox));
        let kept = kept(&fleet, &config);
        let (catalog, kept_eras) = kept.as_ref().and_then(Kept::load).unzip();
        let (catalog, kept_eras) = (catalog.map(Arc::new), kept_eras.unwrap_or_default());
        let eras = pinned(&config).unwrap_or(kept_eras);
        let wanted = config.connects_at_start();
        let (view, seen) = watch::channel(View {
            status: shared.status(),
            wanted,
            session: None,
            // Nobody needs to wait for a server whose lists are known.
            attempted: !wanted || catalog.is_some(),
            catalog,
            listed: None,
            list_trouble: None,
            connected_at: None,
            sessions: 0,
            eras,
            crashes: super::Crashes::default(),
        });
        let task = Self {
            config,
            log,
            fleet,
            view,
            shared,
            privates: Privates::default(),
            connections: JoinSet::new(),
            carries: HashMap::new(),
            progress: mpsc::channel(16),
            probes: JoinSet::new(),
            unasked,
            listings: Listings::default(),
            kept,
            kept_eras,
            first: eras.first(),
            observer: Observer::default(),
            ending: false,
        };
        (task, seen, inbox)
    }

    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        if self.view.borrow().catalog.is_some() {
            self.tell_catalog(Vec::new()).await;
        }
        if self.view.borrow().wanted {
            self.step(Which::Shared, Event::Start);
        }
        while !(self.ending && self.connections.is_empty()) {
            let happening = self.wait(&mut commands).await;
            self.handle(happening).await;
        }
        self.listings.shutdown().await;
        self.probes.shutdown().await;
    }

    /// When something is due that nobody reports.
    fn deadline(&self) -> Option<Instant> {
        let look = self
            .shared
            .status()
            .is_degraded()
            .then(|| Instant::now() + DEGRADED_LOOK);
        self.privates
            .upkeeps()
            .filter_map(Upkeep::deadline)
            .chain(self.shared.deadline())
            .chain(self.listings.due())
            .chain(look)
            .min()
    }

    async fn wait(&mut self, commands: &mut mpsc::Receiver<Command>) -> Happening {
        let deadline = self.deadline();
        let mut sleep = pin!(async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        });
        tokio::select! {
            command = commands.recv(), if !self.ending => Happening::Command(command),
            Some((which, epoch, progress)) = self.progress.1.recv() => Happening::Progress(which, epoch, progress),
            Some(ended) = self.connections.join_next_with_id() => {
                let (id, ending) = match ended {
                    Ok((id, ending)) => (id, ending),
                    Err(error) => (error.id(), Loss::Disconnected(format!("its task failed: {error}")).into()),
                };
                let (which, epoch) = self.carries.remove(&id).expect("every connection is entered when it starts");
                Happening::Ended(which, epoch, ending)
            }
            Some(Ok((which, epoch, outcome))) = self.probes.join_next() => Happening::Probed(which, epoch, outcome),
            done = self.listings.done() => Happening::Listed(done),
            Some(unasked) = self.unasked.1.recv() => Happening::Unasked(unasked),
            () = &mut sleep => Happening::Deadline,
        }
    }

    async fn handle(&mut self, happening: Happening) {
        match happening {
            // Nobody holds the server any more: the same as being told to end.
            Happening::Command(command) => self.obey(command.unwrap_or(Command::End)).await,
            Happening::Progress(which, epoch, Progress::Begun) => {
                self.step(which, Event::Io(epoch, LifeReport::Begun));
            }
            Happening::Progress(which, epoch, Progress::Opened(session)) => {
                self.opened(which, epoch, session).await;
            }
            Happening::Ended(which, epoch, ending) => self.ended(which, epoch, ending),
            Happening::Probed(which, epoch, outcome) => {
                tracing::debug!(server = %self.config.name, ?outcome, "probed");
                self.step(which, Event::Io(epoch, LifeReport::Probe(outcome)));
            }
            Happening::Listed(Some(done)) => self.listed(done).await,
            Happening::Listed(None) => {}
            Happening::Unasked(Unasked::Notice(notice)) => self.notice(notice).await,
            Happening::Unasked(Unasked::Question(question)) => self.question(question),
            Happening::Deadline => {
                self.look(Which::Shared);
                for id in self.privates.ids() {
                    self.look(Which::Private(id));
                }
                if let Some((kinds, announced)) = self.listings.take_due() {
                    self.list(kinds, announced);
                }
            }
        }
    }

    /// A question of the shared session that belongs to no call.
    fn question(&self, question: Question) {
        let name = question.frame().method_name();
        if question.method() == Method::RootsList && !self.config.roots.is_empty() {
            question.result(&questions::roots(&self.config.roots));
        } else if self.config.server_requests == Some(ServerRequests::Queue) {
            self.fleet.queue.enter(&self.config.name, question);
        } else if is_forwarded(&self.config) {
            tracing::warn!(server = %self.config.name, method = name, "no single client can have caused this request");
            let reason = format!(
                "no single client's call can have caused {name}; at /servers/{}/mcp each client has a session of its own",
                self.config.name
            );
            question.refuse(NOBODY_TO_ASK, &reason);
        }
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::CallWaiting => self.step(Which::Shared, Event::CallWaiting),
            Command::Doubted => {
                let epoch = self.shared.epoch();
                self.step(Which::Shared, Event::Io(epoch, LifeReport::Doubted));
            }
            Command::Resumed => {
                self.step(Which::Shared, Event::Resumed);
                for id in self.privates.ids() {
                    self.step(Which::Private(id), Event::Resumed);
                }
            }
            Command::Operate(operation, reply) => {
                let epoch = self.operate(operation).await;
                // Whoever asked may have gone.
                reply.send(epoch).ok();
            }
            Command::Configure(config) => self.configure(config).await,
            Command::OpenPrivate {
                id,
                initialize,
                listener,
                reply,
            } => self.open_private(id, initialize, listener, reply),
            Command::ClosePrivate(id) => self.step(Which::Private(id), Event::Stop),
            Command::End => {
                self.ending = true;
                self.stop_all();
            }
        }
    }

    /// Does what the operator wants; returns the attempt to look at.
    async fn operate(&mut self, operation: Operation) -> Epoch {
        let event = match operation {
            Operation::Start => Event::Start,
            Operation::Reconnect => {
                self.close_privates();
                Event::Reconnect
            }
            Operation::Stop => {
                self.close_privates();
                Event::Stop
            }
        };
        self.want(operation != Operation::Stop);
        self.step(Which::Shared, event);
        self.tell_catalog(Vec::new()).await;
        let status = self.shared.status();
        if status.attempting || status.state == State::Connected {
            status.epoch
        } else {
            status.epoch.next()
        }
    }

    async fn configure(&mut self, config: Arc<ServerConfig>) {
        let before = std::mem::replace(&mut self.config, config);
        self.kept = kept(&self.fleet, &self.config);
        self.shared.policy = policy(&self.config);
        // From the next session on.
        self.shared.initialize = initialize(&self.config);
        let relaunch = before.is_reached_otherwise(&self.config);
        if relaunch {
            self.forget_eras(before.launch == self.config.launch);
            self.close_privates();
        }
        if !self.config.enabled {
            self.want(false);
            self.close_privates();
            self.step(Which::Shared, Event::Stop);
        } else if !before.connects_at_start() && self.config.connects_at_start() {
            self.want(true);
            self.step(Which::Shared, Event::Start);
        } else if relaunch && self.view.borrow().wanted {
            self.step(Which::Shared, Event::Reconnect);
        } else {
            self.publish();
        }
        self.tell_catalog(Vec::new()).await;
    }

    fn want(&self, wanted: bool) {
        self.view.send_modify(|view| view.wanted = wanted);
    }

    fn stop_all(&mut self) {
        self.step(Which::Shared, Event::Stop);
        self.close_privates();
    }

    fn close_privates(&mut self) {
        for id in self.privates.ids() {
            self.step(Which::Private(id), Event::Stop);
        }
    }

    fn upkeep(&mut self, which: Which) -> Option<&mut Upkeep> {
        match which {
            Which::Shared => Some(&mut self.shared),
            Which::Private(id) => self.privates.upkeep(id),
        }
    }

    /// Brings a session's lifecycle up to date with the clock and with the traffic.
    fn look(&mut self, which: Which) {
        let Some(upkeep) = self.upkeep(which) else {
            return;
        };
        if let Some(session) = &upkeep.session {
            let heard = session.vitals.heard().into_std();
            let event = Event::Io(upkeep.epoch(), LifeReport::Heard(heard));
            self.step(which, event);
        }
        self.step(which, Event::Tick);
    }

    /// One step of a session's lifecycle, and its effect.
    pub(super) fn step(&mut self, which: Which, event: Event) {
        let Some(upkeep) = self.upkeep(which) else {
            return;
        };
        match upkeep.step(event) {
            None => {}
            Some(Effect::Open(epoch)) => self.open(which, epoch),
            Some(Effect::Probe(epoch)) => self.probe(which, epoch),
            Some(Effect::Close(_)) => upkeep.stop.close.cancel(),
            Some(Effect::Kill(_)) => upkeep.stop.kill.cancel(),
        }
        match which {
            Which::Shared => self.publish(),
            Which::Private(id) => self.settle_private(id),
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
            }
            view.session.clone_from(&session);
            view.status = status.clone();
        });
        let capabilities = || session.as_deref().map(capabilities).unwrap_or_default();
        let now = Instant::now().into_std();
        for kind in self.observer.observe(&status, capabilities, now) {
            self.tell(kind);
        }
    }

    /// Section I of the requirements: says what happened to this server.
    pub(super) fn tell(&self, kind: EventKind) {
        let of_health = matches!(
            kind,
            EventKind::ServerHealthDegraded { .. } | EventKind::ServerHealthRestored {}
        );
        if of_health {
            // H12
            tracing::warn!(server = %self.config.name, ?kind, "its health turned");
            if self.shared.policy.health.action == Action::Log {
                return;
            }
        }
        self.fleet.events.publish(Some(&self.config.name), kind);
    }

    fn open(&mut self, which: Which, epoch: Epoch) {
        let hang_after = self.shared.policy.health.hang_after;
        let Some(upkeep) = self.upkeep(which) else {
            return;
        };
        let stop = transport::Stop::default();
        upkeep.stop = stop.clone();
        let (initialize, listener) = (Arc::clone(&upkeep.initialize), Arc::clone(&upkeep.listener));
        let opening = Opening {
            server: self.config.name.clone(),
            lineage: self.fleet.lineage.clone(),
            tag: match which {
                Which::Shared => format!("{}:{epoch}", self.config.name),
                Which::Private(id) => format!("{}:p{}.{epoch}", self.config.name, id.0),
            },
            launch: self.config.launch.clone(),
            approach: self.approach(which),
            initialize,
            max_message_bytes: self.config.max_message_bytes,
            hang_after,
            listener,
            log: Arc::clone(&self.log),
            turns: Arc::clone(&self.fleet.pace.turns),
            stop,
        };
        let (fleet, progress) = (Arc::clone(&self.fleet), self.progress.0.clone());
        let connection = self
            .connections
            .spawn(connect(fleet, opening, which, epoch, progress));
        self.carries.insert(connection.id(), (which, epoch));
    }

    fn probe(&mut self, which: Which, epoch: Epoch) {
        let policy = self.shared.policy.health.clone();
        let http = match &self.config.launch {
            Launch::Http(launch) => Some(launch),
            Launch::Stdio(_) | Launch::Broken(_) => None,
        };
        let url = self
            .config
            .health_check_url
            .as_ref()
            .and_then(|url| HealthUrl::new(url, http));
        let session = self.upkeep(which).and_then(|upkeep| upkeep.session.clone());
        let Some(session) = session else { return };
        self.probes
            .spawn(async move { (which, epoch, probe::probe(session, policy, url).await) });
    }

    async fn opened(&mut self, which: Which, epoch: Epoch, session: Arc<Session>) {
        let Some(upkeep) = self.upkeep(which) else {
            return;
        };
        // One that is over already is about to be reported, or has been.
        if epoch != upkeep.epoch() || session.is_over() {
            return;
        }
        let eras = session.eras;
        upkeep.session = Some(session);
        self.learn(eras);
        if which == Which::Shared {
            self.first = self.view.borrow().eras.first();
            self.view.send_modify(|view| {
                view.connected_at = Some(SystemTime::now());
                view.sessions += 1;
            });
        }
        self.step(which, Event::Io(epoch, LifeReport::Opened));
        if which == Which::Shared && self.shared.status().state == State::Connected {
            self.report(Report::Opened).await;
            self.listings.reset();
            self.list(ListKind::ALL.to_vec(), Vec::new());
        }
    }

    fn ended(&mut self, which: Which, epoch: Epoch, ending: Ending) {
        let Ending { loss, eras } = ending;
        tracing::info!(server = %self.config.name, ?which, %epoch, %loss, "session ended");
        if let Loss::Crashed { code, signal } = loss {
            let at = SystemTime::now();
            self.view.send_modify(|view| {
                view.crashes.count += 1;
                view.crashes.last = Some(Crash { at, code, signal });
            });
        }
        let Some(upkeep) = self.upkeep(which) else {
            return;
        };
        let was_up = epoch == upkeep.epoch() && upkeep.session.take().is_some();
        if !was_up {
            self.refused(which, &loss, eras);
        }
        let event = Event::Io(epoch, LifeReport::Ended(loss));
        match which {
            Which::Shared => {
                self.view.send_modify(|view| view.attempted = true);
                self.step(which, event);
            }
            Which::Private(id) => {
                self.step(which, event);
                self.private_ended(id, was_up);
            }
        }
    }

    pub(super) async fn report(&self, report: Report) {
        // The registry lives longer than its supervisors; at the very end nobody listens.
        self.fleet
            .reports
            .send((self.config.name.clone(), report))
            .await
            .ok();
    }
}

/// What the server declared, as far as it is worth keeping in an event.
fn capabilities(session: &Session) -> Value {
    let answer = session.initialize_answer.result();
    answer
        .and_then(|result| message::member(result, "capabilities"))
        .filter(|text| text.len() <= MAX_CAPABILITIES)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

fn policy(config: &ServerConfig) -> Policy {
    Policy {
        seed: seed(&config.name),
        ..config.policy.clone()
    }
}

/// What shared sessions declare: they may ask where their operator wants that, or has answered already.
pub(super) fn initialize(config: &ServerConfig) -> Arc<str> {
    let capabilities = match (is_forwarded(config), config.roots.is_empty()) {
        (true, _) => ClientCapabilities::all(),
        (false, true) => ClientCapabilities::none(),
        (false, false) => ClientCapabilities::roots_only(),
    };
    let revision = match config.protocol {
        Protocol::At(revision) if revision.era() == Era::Legacy => revision,
        Protocol::At(_) | Protocol::Auto => Revision::LATEST_LEGACY,
    };
    transport::own_initialize(revision, &capabilities)
}

/// Whether what the shared session asks goes to the clients that share it.
fn is_forwarded(config: &ServerConfig) -> bool {
    matches!(
        config.server_requests,
        Some(ServerRequests::Forward | ServerRequests::Queue)
    )
}

/// Spreads the retries of servers that are lost together.
fn seed(name: &ServerName) -> u64 {
    name.as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

fn kept(fleet: &Fleet, config: &ServerConfig) -> Option<Kept> {
    let folder = fleet.catalogs.as_deref()?;
    Some(Kept::new(folder, config))
}
