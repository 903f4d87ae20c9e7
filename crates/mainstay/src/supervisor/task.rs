//! The supervisor's task: events in, effects out.

use std::{
    collections::HashMap,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::{
    catalog::{ListKind, ServerCatalog},
    config::ServerConfig,
    failure::{Failure, FailureKind},
    health::Outcome,
    ids::{Epoch, ServerName},
    lifecycle::{Effect, Event, Lifecycle, Loss, Policy, Report as LifecycleReport, State},
    message::Method,
};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    task::{self, JoinSet},
    time::Instant,
};

use super::{Command, PrivateId, Report, View, listing};
use crate::{
    logs::ServerLog,
    transport::{self, Listener, Notice, Opening, Session, Stop},
};

/// Notifications of a server that may wait to be handled.
const MAX_NOTICES: usize = 1024;

/// A server that changes its lists in a burst is listed once (Y7).
const LIST_DEBOUNCE: Duration = Duration::from_millis(200);

/// Which of the server's sessions something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Which {
    Shared(Epoch),
    Private(PrivateId),
}

/// Everything that can happen to a supervisor.
enum Happening {
    Command(Option<Command>),
    Opened(Which, Session),
    Ended(Which, Loss),
    Listed(Epoch, Box<ServerCatalog>, Vec<ListKind>),
    Notice(Notice),
    Deadline,
}

/// Brings the shared session's notices to the supervisor's task.
#[derive(Debug)]
struct Inbox {
    server: ServerName,
    notices: mpsc::Sender<Notice>,
}

impl Listener for Inbox {
    /// A full queue drops the notice: a server must not be held up by its readers.
    fn hear(&self, notice: Notice) {
        if let Err(TrySendError::Full(notice)) = self.notices.try_send(notice) {
            tracing::warn!(server = %self.server, method = notice.method.name(), "a notification was dropped: too many are waiting");
        }
    }
}

struct PrivateSession {
    stop: Stop,
    /// What it takes to open it again.
    initialize: Arc<str>,
    listener: Arc<dyn Listener>,
    session: Option<Arc<Session>>,
    /// Calls that wait for the session to open.
    waiting: Vec<oneshot::Sender<Result<Arc<Session>, Failure>>>,
}

type Channel<T> = (mpsc::Sender<T>, mpsc::Receiver<T>);

pub struct Task {
    config: Arc<ServerConfig>,
    policy: Policy,
    log: Arc<ServerLog>,
    reports: mpsc::Sender<(ServerName, Report)>,
    view: watch::Sender<View>,

    shared: Lifecycle,
    shared_stop: Stop,
    privates: HashMap<PrivateId, PrivateSession>,
    /// Every connection, opening, open or closing, and which session's it is.
    connections: JoinSet<Loss>,
    carries: HashMap<task::Id, Which>,
    opened: Channel<(Which, Session)>,
    notices: Channel<Notice>,
    listings: JoinSet<(Epoch, Box<ServerCatalog>, Vec<ListKind>)>,
    /// Lists that the server said have changed, to be read at `list_at`.
    stale: Vec<ListKind>,
    list_at: Option<Instant>,
    stopping: bool,
}

impl Task {
    pub fn new(
        config: Arc<ServerConfig>,
        policy: Policy,
        log: Arc<ServerLog>,
        reports: mpsc::Sender<(ServerName, Report)>,
    ) -> (Self, watch::Receiver<View>) {
        let shared = Lifecycle::default();
        let (view, seen) = watch::channel(View {
            status: shared.status(&policy),
            session: None,
            catalog: None,
            attempted: false,
            connected_at: None,
        });
        let task = Self {
            config,
            policy,
            log,
            reports,
            view,
            shared,
            shared_stop: Stop::default(),
            privates: HashMap::new(),
            connections: JoinSet::new(),
            carries: HashMap::new(),
            opened: mpsc::channel(16),
            notices: mpsc::channel(MAX_NOTICES),
            listings: JoinSet::new(),
            stale: Vec::new(),
            list_at: None,
            stopping: false,
        };
        (task, seen)
    }

    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        if self.config.connects_at_start() {
            self.step(Event::Start);
        } else {
            self.view.send_modify(|view| view.attempted = true);
        }
        while !(self.stopping && self.connections.is_empty()) {
            let happening = self.wait(&mut commands).await;
            self.handle(happening).await;
        }
        self.listings.shutdown().await;
    }

    async fn wait(&mut self, commands: &mut mpsc::Receiver<Command>) -> Happening {
        let lifecycle = self.shared.deadline(&self.policy).map(Instant::from_std);
        let deadline = [lifecycle, self.list_at].into_iter().flatten().min();
        let mut sleep = pin!(async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        });
        tokio::select! {
            command = commands.recv(), if !self.stopping => Happening::Command(command),
            Some((which, session)) = self.opened.1.recv() => Happening::Opened(which, session),
            Some(ended) = self.connections.join_next_with_id() => {
                let (id, loss) = match ended {
                    Ok((id, loss)) => (id, loss),
                    Err(error) => (error.id(), Loss::Disconnected(format!("its task failed: {error}"))),
                };
                let which = self.carries.remove(&id).expect("every connection is entered when it starts");
                Happening::Ended(which, loss)
            }
            Some(Ok((epoch, catalog, kinds))) = self.listings.join_next() => Happening::Listed(epoch, catalog, kinds),
            Some(notice) = self.notices.1.recv() => Happening::Notice(notice),
            () = &mut sleep => Happening::Deadline,
        }
    }

    async fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Command(Some(Command::CallWaiting)) => self.step(Event::CallWaiting),
            Happening::Command(Some(Command::OpenPrivate {
                id,
                initialize,
                listener,
                reply,
            })) => {
                self.open_private(id, initialize, listener, reply);
            }
            Happening::Command(Some(Command::ClosePrivate(id))) => {
                if let Some(private) = self.privates.get(&id) {
                    private.stop.close.cancel();
                }
            }
            // Nobody holds the server any more: the same as being told to stop.
            Happening::Command(Some(Command::Stop) | None) => self.stop(),
            Happening::Opened(Which::Shared(epoch), session) => {
                self.shared_opened(epoch, session).await;
            }
            Happening::Opened(Which::Private(id), session) => self.private_opened(id, session),
            Happening::Ended(Which::Shared(epoch), loss) => {
                tracing::info!(server = %self.config.name, %epoch, %loss, "session ended");
                self.step(Event::Io(epoch, LifecycleReport::Ended(loss)));
                self.view.send_modify(|view| {
                    view.session = None;
                    view.connected_at = None;
                    view.attempted = true;
                });
            }
            Happening::Ended(Which::Private(id), loss) => self.private_ended(id, &loss),
            Happening::Listed(epoch, catalog, announced) => {
                self.listed(epoch, *catalog, announced).await;
            }
            Happening::Notice(notice) => self.notice(notice).await,
            Happening::Deadline => {
                self.step(Event::Tick);
                self.list_if_due();
            }
        }
    }

    /// One step of the shared session's lifecycle, and its effect.
    fn step(&mut self, event: Event) {
        let life = std::mem::take(&mut self.shared);
        let (life, effect) = life.step(event, Instant::now().into_std(), &self.policy);
        self.shared = life;
        match effect {
            None => {}
            Some(Effect::Open(epoch)) => {
                self.shared_stop = Stop::default();
                let listener = Arc::new(Inbox {
                    server: self.config.name.clone(),
                    notices: self.notices.0.clone(),
                });
                let opening = self.opening(
                    transport::own_initialize(),
                    listener,
                    self.shared_stop.clone(),
                );
                self.connect(Which::Shared(epoch), opening);
                self.step(Event::Io(epoch, LifecycleReport::Begun));
            }
            Some(Effect::Probe(epoch)) => {
                self.step(Event::Io(epoch, LifecycleReport::Probe(Outcome::Busy)))
            }
            Some(Effect::Close(_)) => self.shared_stop.close.cancel(),
            Some(Effect::Kill(_)) => self.shared_stop.kill.cancel(),
        }
        let status = self.shared.status(&self.policy);
        self.view.send_if_modified(|view| {
            let changed = view.status != status;
            if changed {
                tracing::info!(server = %self.config.name, state = %status.state, reason = status.reason, "state");
                view.status = status;
            }
            changed
        });
    }

    fn opening(&self, initialize: Arc<str>, listener: Arc<dyn Listener>, stop: Stop) -> Opening {
        Opening {
            server: self.config.name.clone(),
            launch: self.config.launch.clone(),
            initialize,
            max_message_bytes: self.config.max_message_bytes,
            listener,
            log: Arc::clone(&self.log),
            stop,
        }
    }

    fn connect(&mut self, which: Which, opening: Opening) {
        let opened = self.opened.0.clone();
        let log = Arc::clone(&self.log);
        let limit = self.policy.connect_timeout;
        let connection = self.connections.spawn(async move {
            let open = match which {
                // Its lifecycle watches the time.
                Which::Shared(_) => transport::open(opening).await,
                Which::Private(_) => transport::open_within(limit, opening).await,
            };
            let loss = match open {
                Ok((session, running)) => {
                    log.note("connected");
                    // Its reader ends after all connections.
                    opened.send((which, session)).await.ok();
                    running.await
                }
                Err(loss) => loss,
            };
            log.ended(&loss);
            loss
        });
        self.carries.insert(connection.id(), which);
    }

    async fn shared_opened(&mut self, epoch: Epoch, session: Session) {
        // One that is over already is about to be reported, or has been.
        if epoch != self.shared.epoch() || session.is_over() {
            return;
        }
        let session = Arc::new(session);
        self.view.send_modify(|view| {
            view.session = Some(Arc::clone(&session));
            view.connected_at = Some(SystemTime::now());
        });
        self.step(Event::Io(epoch, LifecycleReport::Opened));
        self.report(Report::Opened).await;
        self.list(ListKind::ALL.to_vec(), Vec::new());
    }

    /// Starts reading lists of the live session.
    fn list(&mut self, kinds: Vec<ListKind>, announced: Vec<ListKind>) {
        let (session, before) = {
            let view = self.view.borrow();
            (view.session.clone(), view.catalog.clone())
        };
        let Some(session) = session else { return };
        let (epoch, server) = (self.shared.epoch(), self.config.name.clone());
        self.listings.spawn(async move {
            let catalog = listing::list(&session, &server, &kinds, before.as_deref()).await;
            (epoch, Box::new(catalog), announced)
        });
    }

    fn list_if_due(&mut self) {
        if self.list_at.is_some_and(|at| at <= Instant::now()) {
            if self.listings.is_empty() {
                self.list_at = None;
                let stale = std::mem::take(&mut self.stale);
                self.list(stale.clone(), stale);
            } else {
                // One listing at a time, so that an older one cannot overwrite a newer one.
                self.list_at = Some(Instant::now() + LIST_DEBOUNCE);
            }
        }
    }

    async fn listed(&mut self, epoch: Epoch, catalog: ServerCatalog, announced: Vec<ListKind>) {
        if epoch != self.shared.epoch() {
            return;
        }
        let catalog = Arc::new(catalog);
        self.view
            .send_modify(|view| view.catalog = Some(Arc::clone(&catalog)));
        // Merged before the attempt counts as over, so that whoever waited for it finds it there.
        let (merged, done) = oneshot::channel();
        self.report(Report::CatalogChanged { announced, merged })
            .await;
        // An error means that the registry has ended, and nobody waits any more.
        done.await.ok();
        self.view
            .send_if_modified(|view| !std::mem::replace(&mut view.attempted, true));
    }

    async fn notice(&mut self, notice: Notice) {
        let changed: Vec<ListKind> = ListKind::ALL
            .into_iter()
            .filter(|kind| kind.changed() == notice.method)
            .collect();
        if changed.is_empty() {
            match notice.method {
                Method::LogMessage | Method::ResourceUpdated => {
                    self.report(Report::Notice(notice)).await;
                }
                other => {
                    tracing::debug!(server = %self.config.name, ?other, "a notification was ignored");
                }
            }
            return;
        }
        for kind in changed {
            if !self.stale.contains(&kind) {
                self.stale.push(kind);
            }
        }
        self.list_at.get_or_insert(Instant::now() + LIST_DEBOUNCE);
    }

    async fn report(&self, report: Report) {
        // The registry lives longer than its supervisors; at the very end nobody listens.
        self.reports
            .send((self.config.name.clone(), report))
            .await
            .ok();
    }

    fn open_private(
        &mut self,
        id: PrivateId,
        initialize: Arc<str>,
        listener: Arc<dyn Listener>,
        reply: oneshot::Sender<Result<Arc<Session>, Failure>>,
    ) {
        let max = self.config.max_sessions;
        if let Some(private) = self.privates.get_mut(&id) {
            match &private.session {
                Some(session) if !session.is_over() => drop(reply.send(Ok(Arc::clone(session)))),
                // Opening, or not yet quite gone: it is opened anew when it is (invariant 9).
                _ => private.waiting.push(reply),
            }
            return;
        }
        let refusal = if self.stopping || !self.config.enabled {
            Some((FailureKind::ServerNotConnected, "is not running".to_owned()))
        } else if self.privates.len() >= max {
            Some((
                FailureKind::TooManySessions,
                format!("already has {max} sessions (maxSessions)"),
            ))
        } else {
            None
        };
        if let Some((kind, reason)) = refusal {
            let message = format!("Server '{}' {reason}", self.config.name);
            // Whoever asked may have gone.
            drop(reply.send(Err(
                Failure::new(kind, message).of_server(&self.config.name),
            )));
            return;
        }
        let private = PrivateSession {
            stop: Stop::default(),
            initialize,
            listener,
            session: None,
            waiting: vec![reply],
        };
        self.connect_private(id, private);
    }

    fn connect_private(&mut self, id: PrivateId, mut private: PrivateSession) {
        private.stop = Stop::default();
        private.session = None;
        let opening = self.opening(
            Arc::clone(&private.initialize),
            Arc::clone(&private.listener),
            private.stop.clone(),
        );
        self.privates.insert(id, private);
        self.connect(Which::Private(id), opening);
    }

    fn private_opened(&mut self, id: PrivateId, session: Session) {
        let Some(private) = self.privates.get_mut(&id) else {
            return;
        };
        let session = Arc::new(session);
        private.session = Some(Arc::clone(&session));
        let mut asked = false;
        for reply in private.waiting.drain(..) {
            asked |= reply.send(Ok(Arc::clone(&session))).is_ok();
        }
        // Everyone who asked has gone meanwhile.
        if !asked {
            private.stop.close.cancel();
        }
    }

    fn private_ended(&mut self, id: PrivateId, loss: &Loss) {
        tracing::debug!(server = %self.config.name, %loss, "an isolated session ended");
        let Some(private) = self.privates.remove(&id) else {
            return;
        };
        // It had been open, and someone asked for it while it went.
        if private.session.is_some() && !private.waiting.is_empty() && !self.stopping {
            return self.connect_private(id, private);
        }
        for reply in private.waiting {
            let message = format!(
                "Server '{}' could not open a session: {loss}",
                self.config.name
            );
            let failure = Failure::new(FailureKind::ConnectFailed, message)
                .of_server(&self.config.name)
                .with("stderr", self.log.tail.texts());
            drop(reply.send(Err(failure)));
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.step(Event::Stop);
        for private in self.privates.values() {
            private.stop.close.cancel();
        }
        debug_assert!(self.shared.status(&self.policy).state != State::Connected);
    }
}
