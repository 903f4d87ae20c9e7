//! All client sessions: opening and ending them, and telling them what servers announce.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use futures_util::future::join_all;
use mainstay_core::{
    catalog::{ListKind, Target},
    config::ServerRequests,
    era::{Caller, Era, LogLevel, Revision, discovery},
    failure::Failure,
    ids::ServerName,
    message::{self, Method},
};
use serde_json::{Value, json};
use tokio::{sync::broadcast::error::RecvError, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    ears::Ears,
    listens::Listens,
    parking::Parking,
    pool::Pool,
    reply::Reply,
    seal::Seal,
    session::{Backend, ClientSession, Scope},
    sse::Streams,
    subscriptions::{Resource, Subscriptions},
    tasks::TaskIds,
    transparent,
};
use crate::{
    calls::{self, Calls},
    lineage::Lineage,
    registry::{Announcement, Registry},
    supervisor::{Private, Server},
    transport::{self, Frame, Listener, Notice, Session},
};

/// Idle sessions end after this time, their upstream sessions sooner (design sections 9 and 12).
const SESSION_IDLE: Duration = Duration::from_mins(30);
const UPSTREAM_IDLE: Duration = Duration::from_mins(5);
const SWEEP: Duration = Duration::from_secs(30);

/// Sessions at once; one more is refused.
const MAX_SESSIONS: usize = 10_000;

/// Owners of unlisted resources that are remembered.
const MAX_FOUND: usize = 1000;

/// Servers that start together change the lists together; clients are told once (Y7).
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(200);

/// How long a request waits for servers to hear which log messages it wants.
const LOG_LEVEL_WAIT: Duration = Duration::from_millis(500);

/// What a shared session's own requests may take.
const HOUSEKEEPING: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Hub {
    pub registry: Arc<Registry>,
    pub calls: Calls,
    pub page_size: Option<usize>,
    pub lineage: Lineage,
    pub subscriptions: Subscriptions,
    /// Clients without a session that listen to all servers.
    pub listens: Listens,
    /// The clients on HTTP+SSE.
    pub streams: Streams,
    /// Sessions of servers for clients that have none.
    pub pool: Pool,
    /// Calls that wait for what such clients answer.
    pub parking: Arc<Parking>,
    /// The most verbose level that a client without a session has asked for. It stays: nobody says when
    /// the last of them has gone, and each is sent what it asked for only.
    logs_for_requests: Mutex<Option<LogLevel>>,
    /// Names for the tasks of servers.
    pub tasks: TaskIds,
    seal: Seal,
    /// Sessions of earlier runs that have ended in this one: they are not revived again.
    ended: Mutex<HashSet<Box<str>>>,
    /// Owners of resources that nobody lists, as far as they have been found.
    found: Mutex<HashMap<Box<str>, Target>>,
    sessions: RwLock<HashMap<Box<str>, Arc<ClientSession>>>,
}

/// Why no session could be opened.
#[derive(Debug, thiserror::Error)]
pub enum NoSession {
    #[error("too many sessions")]
    TooMany,
    #[error("no random number for a session id")]
    Random,
    #[error(transparent)]
    Backend(#[from] Failure),
}

impl NoSession {
    /// The JSON-RPC error that answers `initialize`.
    pub fn response(&self, id: &str) -> String {
        match self {
            Self::Backend(failure) => Reply::failure(id, failure).text,
            Self::TooMany | Self::Random => {
                message::error_response(Some(id), -32603, &self.to_string(), None)
            }
        }
    }
}

/// What the aggregate says of itself.
pub struct Offer {
    pub capabilities: Value,
    pub server_info: Value,
    pub instructions: Option<String>,
}

/// A session that was just opened, and the result of its `initialize` (JSON text).
pub struct Opened {
    pub session: Arc<ClientSession>,
    pub result: String,
}

/// What is asked of a server on behalf of all its clients.
#[derive(Debug)]
enum Chore {
    Subscribe(Box<str>),
    Unsubscribe(Box<str>),
    LogLevel(LogLevel),
}

impl Hub {
    pub fn new(
        registry: Arc<Registry>,
        calls: Calls,
        page_size: Option<usize>,
        lineage: Lineage,
        seal: Seal,
    ) -> Self {
        Self {
            tasks: seal.task_ids(),
            seal,
            ended: Mutex::default(),
            registry,
            calls,
            page_size,
            lineage,
            subscriptions: Subscriptions::default(),
            listens: Listens::default(),
            streams: Streams::default(),
            pool: Pool::default(),
            parking: Arc::default(),
            logs_for_requests: Mutex::default(),
            found: Mutex::default(),
            sessions: RwLock::default(),
        }
    }

    /// Opens a session for a client that sent `initialize` with these params (JSON text).
    pub async fn open(&self, scope: Scope, params: &str) -> Result<Opened, NoSession> {
        if self
            .sessions
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
            >= MAX_SESSIONS
        {
            return Err(NoSession::TooMany);
        }
        let ears = Ears::default();
        let mut caller = Caller::of_initialize(params);
        let (backend, result) = match &scope {
            Scope::All => {
                // Whose instructions are to be joined must have been heard first.
                self.registry.settled().await;
                (Backend::Aggregate, self.greeting(caller.revision))
            }
            Scope::One(server) => {
                let (backend, upstream) =
                    self.open_upstream(server, params, &ears, &caller).await?;
                let result = upstream.initialize_answer.result().unwrap_or("{}");
                let result = match upstream.greeting.revision.era() {
                    Era::Legacy => {
                        caller.revision = upstream.greeting.revision;
                        result.to_owned()
                    }
                    Era::Modern => discovery::to_initialize(result, caller.revision),
                };
                (backend, result)
            }
        };
        let id = self
            .seal
            .id(scope.server_name(), &caller)
            .map_err(|_| NoSession::Random)?;
        let session = Arc::new(ClientSession::new(id, caller, scope, backend, ears));
        let mut sessions = self
            .sessions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        sessions.insert(session.id.clone(), Arc::clone(&session));
        drop(sessions);
        Ok(Opened {
            session,
            result: message::one_line(&result).into_owned(),
        })
    }

    /// Opens the client's own upstream session; a server that opens none is translated for it.
    async fn open_upstream(
        &self,
        server: &Arc<Server>,
        params: &str,
        ears: &Ears,
        caller: &Caller,
    ) -> Result<(Backend, Arc<Session>), Failure> {
        if !server.opens_no_sessions() {
            let listener = ears.of(server, caller);
            match self.open_private(server, params, listener).await {
                Ok((private, session)) => return Ok((Backend::Transparent(private), session)),
                // It may have told so just now.
                Err(_) if server.opens_no_sessions() => {}
                Err(failure) => return Err(failure),
            }
        }
        let deadline = Instant::now() + server.config().policy.connect_timeout;
        let session = server.session(Era::Legacy, deadline).await?;
        Ok((Backend::Translated(Arc::clone(server)), session))
    }

    /// Opens the client's own upstream session, with what the client declared.
    async fn open_private(
        &self,
        server: &Arc<Server>,
        params: &str,
        listener: Arc<dyn Listener>,
    ) -> Result<(Arc<Private>, Arc<Session>), Failure> {
        let initialize = match server.config().server_requests {
            Some(ServerRequests::Reject) => transparent::unasked(params),
            _ => message::one_line(params).into_owned(),
        };
        let private = Arc::new(server.private(initialize.into(), listener));
        let upstream = private
            .session(Instant::now() + server.config().policy.connect_timeout)
            .await?;
        Ok((private, upstream))
    }

    /// The aggregate's answer to `initialize`.
    fn greeting(&self, revision: Revision) -> String {
        let offer = self.offer();
        let mut greeting = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": offer.capabilities,
            "serverInfo": offer.server_info,
        });
        if let Some(instructions) = offer.instructions {
            greeting["instructions"] = instructions.into();
        }
        greeting.to_string()
    }

    /// What the gateway can relay, and the servers' instructions under their names.
    pub fn offer(&self) -> Offer {
        let catalog = self.registry.catalog();
        let instructions: Vec<String> = catalog
            .parts()
            .iter()
            .filter_map(|part| {
                let text = part.catalog.instructions.as_deref()?;
                Some(format!("# {}\n\n{text}", part.server))
            })
            .collect();
        Offer {
            capabilities: json!({
                "tools": {"listChanged": true},
                "prompts": {"listChanged": true},
                "resources": {"subscribe": true, "listChanged": true},
                "logging": {},
                "completions": {},
            }),
            server_info: json!({"name": "mainstay", "title": "Mainstay", "version": env!("CARGO_PKG_VERSION")}),
            instructions: (!instructions.is_empty()).then(|| instructions.join("\n\n")),
        }
    }

    /// Whether a call may become a task: there is a server that has them.
    pub fn has_tasks(&self) -> bool {
        self.registry.servers().iter().any(|server| {
            let session = server.view().session;
            session.is_some_and(|session| session.greeting.capabilities.tasks)
        })
    }

    pub fn session(&self, id: &str) -> Option<Arc<ClientSession>> {
        self.sessions
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned()
    }

    /// A session of an earlier run of ours: its client need not learn of the restart (mcphub#405). What
    /// it subscribed to is forgotten, and its lists may have changed.
    pub fn revive(&self, id: &str, scope: &Scope) -> Option<Arc<ClientSession>> {
        let unsealed = self.seal.open(id)?;
        let ended = || {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.contains(id)
        };
        if unsealed.server != scope.server_name() || ended() {
            return None;
        }
        let ears = Ears::default();
        let caller = Caller {
            capabilities: Arc::new(unsealed.capabilities),
            ..Caller::at(unsealed.revision)
        };
        let backend = match scope {
            Scope::All => {
                for kind in ListKind::ALL {
                    ears.outbox
                        .push(message::request(None, kind.changed().name(), None));
                }
                Backend::Aggregate
            }
            Scope::One(server) if server.opens_no_sessions() => {
                Backend::Translated(Arc::clone(server))
            }
            Scope::One(server) => {
                let initialize = transport::own_initialize(caller.revision, &caller.capabilities);
                let listener = ears.of(server, &caller);
                Backend::Transparent(Arc::new(server.private(initialize, listener)))
            }
        };
        let revived = ClientSession::new(id.into(), caller, scope.clone(), backend, ears);
        let mut sessions = self
            .sessions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_SESSIONS {
            return None;
        }
        // Requests that come at once revive it once.
        let session = sessions
            .entry(id.into())
            .or_insert_with(|| Arc::new(revived));
        tracing::debug!(revision = %session.revision.as_str(), "a session of an earlier run goes on");
        Some(Arc::clone(session))
    }

    pub fn session_count(&self) -> usize {
        self.sessions
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    fn all(&self) -> Vec<Arc<ClientSession>> {
        self.sessions
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// Ends a session; when this returns, its id is unknown.
    pub fn end(&self, id: &str, reason: &str) -> bool {
        let session = self
            .sessions
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id);
        let Some(session) = session else { return false };
        if self.seal.open(id).is_some() {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            // Full: one that is revived once more does no harm.
            if ended.len() >= MAX_SESSIONS {
                ended.clear();
            }
            ended.insert(id.into());
        }
        session.end(reason);
        self.leave_all(id);
        true
    }

    /// Whose resource this is, as far as is known.
    pub fn owner(&self, uri: &str) -> Option<Target> {
        let found = || {
            self.found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(uri)
                .cloned()
        };
        self.registry.catalog().resource(uri).or_else(found)
    }

    pub fn remember_owner(&self, uri: &str, owner: Target) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        // Full: what matters will be found again.
        if found.len() >= MAX_FOUND {
            found.clear();
        }
        found.insert(uri.into(), owner);
    }

    /// Subscribes a stream to a resource; the first does so upstream. The servers are asked in
    /// configuration order where nobody lists it. Says whether one keeps it.
    pub async fn subscribe(&self, stream: &str, uri: &str) -> bool {
        self.registry.settled().await;
        if let Some(target) = self.owner(uri) {
            let Some(server) = self.registry.named(&target.server) else {
                return false;
            };
            return self.subscribe_to(&server, target, stream, uri).await;
        }
        for server in self.registry.servers() {
            let target = Target {
                server: server.name.clone(),
                original: uri.into(),
            };
            if self
                .subscribe_to(&server, target.clone(), stream, uri)
                .await
            {
                self.remember_owner(uri, target);
                return true;
            }
        }
        false
    }

    async fn subscribe_to(&self, server: &Server, target: Target, stream: &str, uri: &str) -> bool {
        let resource = Resource::from(target);
        if !self.subscriptions.has_any(&resource) {
            let Some(session) = server.view().session else {
                return false;
            };
            if !session.greeting.capabilities.subscribe || !subscribe(&session, &resource.uri).await
            {
                return false;
            }
        }
        self.subscriptions.add(resource, stream, uri);
        true
    }

    /// Ends every subscription of a stream.
    pub fn leave_all(&self, stream: &str) {
        for resource in self.subscriptions.remove_session(stream) {
            self.unsubscribe(&resource);
        }
    }

    /// Ends one session's subscription, upstream too if it was the last.
    pub fn leave(&self, resource: &Resource, session: &str) {
        if self.subscriptions.remove(resource, session) {
            self.unsubscribe(resource);
        }
    }

    /// Tells a server that nobody wants to hear of a resource any more.
    fn unsubscribe(&self, resource: &Resource) {
        self.housekeep(&resource.server, Chore::Unsubscribe(resource.uri.clone()));
    }

    /// Asks something of a server's shared session by ourselves, if it is up; the answer matters to
    /// nobody.
    fn housekeep(&self, server: &ServerName, chore: Chore) {
        let Some(session) = self
            .registry
            .server(server.as_str())
            .ok()
            .and_then(|server| server.view().session)
        else {
            return;
        };
        let server = server.clone();
        self.calls.in_background(async move {
            let doing = async {
                match &chore {
                    Chore::Subscribe(uri) => session.subscribe(uri).await,
                    Chore::Unsubscribe(uri) => session.unsubscribe(uri).await,
                    Chore::LogLevel(level) => session.set_log_level(*level).await,
                }
            };
            let done = tokio::time::timeout(HOUSEKEEPING, doing).await;
            if !matches!(done, Ok(Ok(()))) {
                tracing::debug!(%server, ?chore, ?done, "the server does not do so");
            }
        });
    }

    fn logs_for_requests(&self) -> MutexGuard<'_, Option<LogLevel>> {
        // Held for a copy, never across an await.
        self.logs_for_requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A request wants log messages of this level, and all that are more severe.
    pub async fn want_logs(&self, level: LogLevel) {
        {
            let mut wanted = self.logs_for_requests();
            if wanted.is_some_and(|wanted| wanted <= level) {
                return;
            }
            *wanted = Some(level);
        }
        let sessions = self.registry.servers().into_iter();
        let sessions = sessions.filter_map(|server| server.view().session);
        let told = sessions
            .filter(|session| session.takes_log_level())
            .map(async |session| session.set_log_level(level).await);
        // A server that does not answer holds up no request.
        tokio::time::timeout(LOG_LEVEL_WAIT, join_all(told))
            .await
            .ok();
    }

    /// Asks the servers for the most verbose level that any client wants.
    pub fn set_log_levels(&self) {
        for server in self.registry.servers() {
            self.set_log_level(&server);
        }
    }

    fn set_log_level(&self, server: &Arc<Server>) {
        let for_requests = *self.logs_for_requests();
        let level: Option<LogLevel> = self
            .all()
            .iter()
            .filter_map(|session| session.log_level())
            .chain(for_requests)
            .min();
        let logs = server
            .view()
            .session
            .is_some_and(|session| session.takes_log_level());
        if let (Some(level), true) = (level, logs) {
            self.housekeep(&server.name, Chore::LogLevel(level));
        }
    }

    /// Tells sessions what servers announce, and ends idle ones, until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        let mut announcements = self.registry.listen();
        let mut changed: HashMap<Method, Instant> = HashMap::new();
        let mut tell_at = None::<Instant>;
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            let telling = async {
                match tell_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                announcement = announcements.recv() => match announcement {
                    Ok(Announcement::ListChanged(kind, at)) => {
                        // Resources and templates share one notification.
                        changed.insert(kind.changed(), at);
                        tell_at.get_or_insert(Instant::now() + CHANGE_DEBOUNCE);
                    }
                    Ok(Announcement::ServerListChanged(server, kind)) => self.tell_translated(&server, kind),
                    Ok(Announcement::ServersChanged) => {}
                    Ok(Announcement::Opened(server)) => self.brief(&server),
                    Ok(Announcement::Notice(server, notice)) => self.relay(&server, &notice),
                    Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "announcements were missed"),
                    Err(RecvError::Closed) => return,
                },
                () = telling => {
                    tell_at = None;
                    self.tell_changes(&std::mem::take(&mut changed));
                }
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    /// Tells everyone who may have listed before the last change.
    fn tell_changes(&self, changed: &HashMap<Method, Instant>) {
        for session in self.aggregates() {
            for (method, _) in changed.iter().filter(|(_, at)| session.opened < **at) {
                session
                    .outbox
                    .push(message::request(None, method.name(), None));
            }
        }
        for (method, at) in changed {
            self.listens.tell_change(*method, *at);
        }
    }

    /// Tells the clients of one server, where its own words do not reach them.
    fn tell_translated(&self, server: &ServerName, kind: ListKind) {
        let changed = message::request(None, kind.changed().name(), None);
        for session in self.all() {
            if let Backend::Translated(own) = &session.backend
                && own.name == *server
            {
                session.outbox.push(changed.clone());
            }
        }
    }

    fn aggregates(&self) -> impl Iterator<Item = Arc<ClientSession>> {
        self.all()
            .into_iter()
            .filter(|session| matches!(session.backend, Backend::Aggregate))
    }

    /// Tells a new shared session what the one before knew.
    fn brief(&self, server: &ServerName) {
        if let Ok(server) = self.registry.server(server.as_str()) {
            self.set_log_level(&server);
        }
        for resource in self.subscriptions.of_server(server) {
            self.housekeep(server, Chore::Subscribe(resource.uri));
        }
    }

    fn relay(&self, server: &ServerName, notice: &Notice) {
        match notice.method {
            Method::LogMessage => self.relay_log(&notice.frame),
            Method::ResourceUpdated => self.relay_update(server, &notice.frame),
            _ => {}
        }
    }

    fn relay_log(&self, frame: &Frame) {
        let level = calls::log_level(frame);
        for session in self.aggregates() {
            // Without a wish a client sees all (specification, logging: then the server decides).
            if session
                .log_level()
                .is_none_or(|wanted| level.is_none_or(|level| level >= wanted))
            {
                session.outbox.push(frame.one_line());
            }
        }
    }

    fn relay_update(&self, server: &ServerName, frame: &Frame) {
        let Some(uri) = frame.text_param("uri") else {
            return;
        };
        for (name, used) in self.subscriptions.listeners(server, &uri) {
            if let Some(session) = self.session(&name) {
                session
                    .outbox
                    .push(frame.with_param("uri", &message::quote(&used)));
            } else {
                self.listens.tell_update(&name, frame, &used);
            }
        }
    }

    fn sweep(&self) {
        self.registry.queue().expire();
        self.pool.sweep(UPSTREAM_IDLE);
        for session in self.all() {
            session.questions.expire();
            session.replay.expire();
            let Some(idle) = session.idle() else { continue };
            if idle >= SESSION_IDLE {
                self.end(&session.id, "idle");
            } else if let (true, Backend::Transparent(private)) =
                (idle >= UPSTREAM_IDLE, &session.backend)
            {
                private.close();
            }
        }
    }

    /// Ends all sessions, at shutdown.
    pub fn end_all(&self) {
        let reason = "Mainstay is shutting down";
        self.streams.close(reason);
        for session in self.all() {
            self.end(&session.id, reason);
        }
        self.listens.close();
        self.parking.close();
        self.pool.close();
    }
}

/// Has a server tell when a resource changes; says whether it will.
pub async fn subscribe(session: &Session, uri: &str) -> bool {
    let subscribed = session.subscribe(uri).await;
    if let Err(error) = &subscribed {
        tracing::debug!(uri, %error, "a resource was not subscribed to");
    }
    subscribed.is_ok()
}

/// Takes that back, for what that is worth to the server.
pub async fn unsubscribe(session: &Session, uri: &str) {
    let asked = tokio::time::timeout(HOUSEKEEPING, session.unsubscribe(uri)).await;
    if !matches!(asked, Ok(Ok(()))) {
        tracing::debug!(uri, "a subscription was not taken back");
    }
}
