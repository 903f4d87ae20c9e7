//! One client session: negotiated properties, calls in flight, and queued messages.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use foldhash::HashMap;
use mainstay_core::{
    era::{Caller, LogLevel, Revision},
    ids::{ProfileName, ServerName},
    principal::Principal,
    record::{CallOrigin, Door},
};
use mainstay_gateway::{
    calls::{
        BoundNames, CallClient, CallSink, CallStream, Cancel, ClientQuestions, SealedNames, origin,
    },
    registry::PublishedProfile,
    supervisor::{IsolatedSession, ServerHandle},
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{sync::oneshot, time::Instant};

use super::{client_sinks::ClientSinks, outbox::Outbox, own_sessions::OwnSessions, replay::Replay};

/// The endpoint of a request or a session.
#[derive(Clone, Debug)]
pub enum EndpointScope {
    /// `/mcp` and `/mcp/<profile>`: the servers of a profile with a merged catalog.
    Profile(Arc<PublishedProfile>),
    /// `/servers/<name>/mcp`: one server, unchanged.
    One(Arc<ServerHandle>),
}

impl EndpointScope {
    /// The profile of an aggregate endpoint.
    pub fn profile_name(&self) -> Option<&ProfileName> {
        match self {
            Self::Profile(profile) => Some(&profile.name),
            Self::One(_) => None,
        }
    }

    /// A text that identifies the endpoint; empty for `/mcp`.
    pub fn endpoint(&self) -> Cow<'_, str> {
        match self {
            Self::Profile(profile) if profile.name.is_default() => Cow::Borrowed(""),
            // The slash distinguishes a profile from a server.
            Self::Profile(profile) => Cow::Owned(format!("mcp/{}", profile.name)),
            Self::One(server) => Cow::Borrowed(server.name.as_str()),
        }
    }

    /// The server of a transparent endpoint.
    pub fn server(&self) -> Option<&ServerName> {
        match self {
            Self::Profile(_) => None,
            Self::One(server) => Some(&server.name),
        }
    }

    /// The origin of this client's calls, for records.
    pub fn origin(&self, door: Door, caller: &Caller, principal: &Principal) -> CallOrigin {
        let profile = match self {
            Self::Profile(profile) if !profile.name.is_default() => Some(profile.name.to_string()),
            Self::Profile(_) | Self::One(_) => None,
        };
        CallOrigin {
            profile,
            ..origin(door, caller, principal)
        }
    }

    /// The sealed names of the client's server. `None` on an aggregate endpoint.
    pub fn bound(&self, names: &Arc<SealedNames>, principal: &Principal) -> Option<BoundNames> {
        match self {
            Self::Profile(_) => None,
            Self::One(server) => Some(names.bound(principal, &server.name)),
        }
    }

    /// True if both are the same endpoint.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Profile(one), Self::Profile(other)) => one.name == other.name,
            (Self::One(one), Self::One(other)) => one.name == other.name,
            (Self::Profile(_), Self::One(_)) | (Self::One(_), Self::Profile(_)) => false,
        }
    }
}

/// The upstream sessions that serve a client session.
#[derive(Debug)]
pub enum Backend {
    Aggregate(Arc<PublishedProfile>),
    Transparent(Arc<IsolatedSession>),
    /// A server with a single session or with none. The client session stores the client's
    /// settings.
    Shared(Arc<ServerHandle>),
}

/// Maximum number of calls in flight in one session. A call outlives its connection, so the limit
/// of connections does not bound calls.
const MAX_IN_FLIGHT: usize = 1024;

/// The reason that a call is not registered.
#[derive(Debug, thiserror::Error)]
pub enum NoEntry {
    /// An id identifies one call at a time (specification, base protocol).
    #[error("a request with id {0} is in flight already")]
    Doubled(Box<str>),
    #[error("{MAX_IN_FLIGHT} requests of this session wait for their answers")]
    TooMany,
}

/// Calls in flight, by the client's own id (JSON text).
#[derive(Debug, Default)]
struct InFlight {
    /// `None` for a cancelled call. Its id becomes free when the call ends.
    cancels: HashMap<Box<str>, Option<Cancel>>,
    ended: bool,
}

#[derive(Debug)]
pub struct ClientSession {
    pub id: Box<str>,
    pub revision: Revision,
    pub scope: EndpointScope,
    pub backend: Backend,
    pub outbox: Arc<Outbox>,
    pub replay: Replay,
    /// The client's properties for its calls.
    pub client: Arc<CallClient>,
    /// Questions of servers that the client has not answered.
    pub questions: Arc<ClientQuestions>,
    /// The client's isolated upstream sessions on an aggregate endpoint.
    pub own_sessions: OwnSessions,
    log_level: Mutex<Option<LogLevel>>,
    in_flight: Mutex<InFlight>,
    /// Number of open calls and streams. The session is idle at 0.
    busy: AtomicUsize,
    pub opened: Instant,
    /// Time of the last use, in milliseconds after `opened`.
    last_used: AtomicU64,
}

/// The session's name in records. It is not the id, because the id gives access to the session.
fn name_of(id: &str) -> String {
    let digest = Sha256::digest(id.as_bytes());
    let number = digest[..6]
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    format!("{number:012x}")
}

impl ClientSession {
    pub fn new(
        id: Box<str>,
        caller: Caller,
        door: Door,
        principal: Principal,
        scope: EndpointScope,
        backend: Backend,
        client_sinks: ClientSinks,
    ) -> Self {
        let (questions, bound) = (client_sinks.questions, client_sinks.bound);
        let origin = CallOrigin {
            session: Some(name_of(&id)),
            ..scope.origin(door, &caller, &principal)
        };
        Self {
            id,
            revision: caller.revision,
            scope,
            backend,
            outbox: client_sinks.outbox,
            replay: Replay::default(),
            client: Arc::new(
                CallClient::with_session(caller, principal, origin, Arc::clone(&questions))
                    .bound(bound),
            ),
            questions,
            own_sessions: OwnSessions::default(),
            log_level: Mutex::default(),
            in_flight: Mutex::default(),
            busy: AtomicUsize::new(0),
            opened: Instant::now(),
            last_used: AtomicU64::new(0),
        }
    }

    pub fn serves(&self, scope: &EndpointScope, principal: &Principal) -> bool {
        self.scope.is_same(scope) && self.client.principal == *principal
    }

    /// The queues for messages that belong to no call, for a client of a profile.
    pub fn client_sinks(&self) -> ClientSinks {
        ClientSinks {
            outbox: Arc::clone(&self.outbox),
            questions: Arc::clone(&self.questions),
            bound: None,
        }
    }

    pub fn log_level(&self) -> Option<LogLevel> {
        *self.log_level.lock()
    }

    pub fn set_log_level(&self, level: LogLevel) {
        *self.log_level.lock() = Some(level);
    }

    /// Creates a sink for the messages of one call, and the stream to read them.
    pub fn sink(&self) -> (CallSink, CallStream) {
        CallSink::new(Arc::clone(&self.client), self.log_level())
    }

    fn in_flight(&self) -> parking_lot::MutexGuard<'_, InFlight> {
        // Locked for a map operation, never across an await.
        self.in_flight.lock()
    }

    /// Registers a call under its id.
    pub fn enter(self: &Arc<Self>, id: &str) -> Result<CallEntry, NoEntry> {
        let (cancel, cancel_signal) = oneshot::channel();
        let mut requests_in_flight = self.in_flight();
        if requests_in_flight.cancels.contains_key(id) {
            return Err(NoEntry::Doubled(id.into()));
        }
        if requests_in_flight.cancels.len() >= MAX_IN_FLIGHT {
            return Err(NoEntry::TooMany);
        }
        if requests_in_flight.ended {
            drop(cancel.send("the session has ended".to_owned()));
        } else {
            requests_in_flight.cancels.insert(id.into(), Some(cancel));
        }
        drop(requests_in_flight);
        Ok(CallEntry {
            id: id.into(),
            cancelled: Some(cancel_signal),
            busy: self.busy(),
        })
    }

    /// Cancels a call. Does nothing if no call has this id.
    pub fn cancel(&self, id: &str, reason: &str) {
        let cancel = self.in_flight().cancels.get_mut(id).and_then(Option::take);
        if let Some(cancel) = cancel {
            // An error means that the call has already ended.
            drop(cancel.send(reason.to_owned()));
        }
    }

    /// Ends the session: cancels its calls, and closes its streams and upstream sessions.
    pub fn end(&self, reason: &str) {
        let cancels = {
            let mut requests_in_flight = self.in_flight();
            requests_in_flight.ended = true;
            std::mem::take(&mut requests_in_flight.cancels)
        };
        for cancel in cancels.into_values().flatten() {
            drop(cancel.send(reason.to_owned()));
        }
        self.outbox.close();
        self.questions.close();
        self.own_sessions.close();
        if let Backend::Transparent(isolated_session) = &self.backend {
            isolated_session.close();
        }
    }

    /// Marks the session as busy until the result is dropped.
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.touch();
        Busy(Arc::clone(self))
    }

    fn touch(&self) {
        let elapsed_ms = self.opened.elapsed().as_millis();
        self.last_used.store(
            u64::try_from(elapsed_ms).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    /// Time at which a call or a stream last started or ended.
    pub fn last_used(&self) -> Instant {
        self.opened + Duration::from_millis(self.last_used.load(Ordering::Relaxed))
    }

    /// Number of calls in flight, and number of open streams.
    pub fn load(&self) -> (usize, usize) {
        let calls = self.in_flight().cancels.len();
        let busy_count = self.busy.load(Ordering::Relaxed);
        (calls, busy_count.saturating_sub(calls))
    }

    /// Time since the last use; `None` while a call or a stream is open.
    pub fn idle(&self) -> Option<Duration> {
        if self.busy.load(Ordering::Relaxed) > 0 {
            return None;
        }
        Some(self.last_used().elapsed())
    }
}

/// Keeps a session busy. See [`ClientSession::busy`].
#[derive(Debug)]
pub struct Busy(Arc<ClientSession>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.touch();
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A registered call. Dropping the entry removes the call.
#[derive(Debug)]
pub struct CallEntry {
    id: Box<str>,
    cancelled: Option<oneshot::Receiver<String>>,
    busy: Busy,
}

impl CallEntry {
    /// Resolves with the reason when the client cancels the call. Can be taken once.
    pub fn cancelled(&mut self) -> oneshot::Receiver<String> {
        self.cancelled
            .take()
            .unwrap_or_else(|| oneshot::channel().1)
    }
}

impl Drop for CallEntry {
    fn drop(&mut self) {
        self.busy.0.in_flight().cancels.remove(&self.id);
    }
}
