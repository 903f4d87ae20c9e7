//! One client session: what it negotiated, its requests in flight, and its messages that wait.

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
    ids::ServerName,
    principal::Principal,
    record::{Door, Origin},
};
use mainstay_gateway::{
    calls::{BoundNames, CallSink, CallStream, Cancel, Client, Questions, SealedNames, origin},
    registry::Profile,
    supervisor::{IsolatedSession, Server},
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{sync::oneshot, time::Instant};

use super::{client_sinks::ClientSinks, outbox::Outbox, own_sessions::OwnSessions, replay::Replay};

/// Which endpoint a session belongs to.
#[derive(Clone, Debug)]
pub enum Scope {
    /// `/mcp` and `/mcp/<profile>`: the servers of a profile, one catalog.
    Profile(Arc<Profile>),
    /// `/servers/<name>/mcp`: this server, nothing renamed.
    One(Arc<Server>),
}

impl Scope {
    /// A word for the endpoint, unlike that of any other; empty is `/mcp`.
    pub fn endpoint(&self) -> Cow<'_, str> {
        match self {
            Self::Profile(profile) if profile.name.is_default() => Cow::Borrowed(""),
            // No server is called so.
            Self::Profile(profile) => Cow::Owned(format!("mcp/{}", profile.name)),
            Self::One(server) => Cow::Borrowed(server.name.as_str()),
        }
    }

    /// The server of the endpoint, if it has only one.
    pub fn server(&self) -> Option<&ServerName> {
        match self {
            Self::Profile(_) => None,
            Self::One(server) => Some(&server.name),
        }
    }

    /// What records say of this session's client.
    pub fn origin(&self, door: Door, caller: &Caller, principal: &Principal) -> Origin {
        let profile = match self {
            Self::Profile(profile) if !profile.name.is_default() => Some(profile.name.to_string()),
            Self::Profile(_) | Self::One(_) => None,
        };
        Origin {
            profile,
            ..origin(door, caller, principal)
        }
    }

    /// What a client may name of the server that it speaks to directly.
    pub fn bound(&self, names: &Arc<SealedNames>, principal: &Principal) -> Option<BoundNames> {
        match self {
            Self::Profile(_) => None,
            Self::One(server) => Some(names.bound(principal, &server.name)),
        }
    }

    /// Whether a session of this scope may be used at an endpoint of the other.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Profile(one), Self::Profile(other)) => one.name == other.name,
            (Self::One(one), Self::One(other)) => one.name == other.name,
            (Self::Profile(_), Self::One(_)) | (Self::One(_), Self::Profile(_)) => false,
        }
    }
}

/// Where a session's requests go.
#[derive(Debug)]
pub enum Backend {
    Aggregate(Arc<Profile>),
    Transparent(Arc<IsolatedSession>),
    /// A server whose one session is shared, or that opens none: what a session keeps for its client is
    /// kept in this one.
    Shared(Arc<Server>),
}

/// Calls of one session that may be in flight. They go on when their connection is gone, so that the
/// number of connections is no bound.
const MAX_IN_FLIGHT: usize = 1024;

/// Why a call is not begun.
#[derive(Debug, thiserror::Error)]
pub enum NoEntry {
    /// One id, one call: an answer must have one reader (specification, base protocol).
    #[error("a request with id {0} is in flight already")]
    Doubled(Box<str>),
    #[error("{MAX_IN_FLIGHT} requests of this session wait for their answers")]
    TooMany,
}

/// Calls in flight, by the client's own id (JSON text).
#[derive(Debug, Default)]
struct InFlight {
    /// `None` where the call has been cancelled and has not ended yet: its id is not free before.
    cancels: HashMap<Box<str>, Option<Cancel>>,
    ended: bool,
}

#[derive(Debug)]
pub struct ClientSession {
    pub id: Box<str>,
    pub revision: Revision,
    pub scope: Scope,
    pub backend: Backend,
    pub outbox: Arc<Outbox>,
    pub replay: Replay,
    /// How the servers see this client.
    pub client: Arc<Client>,
    /// What servers have asked it.
    pub questions: Arc<Questions>,
    /// Its own upstream sessions, on a profile.
    pub own: OwnSessions,
    log_level: Mutex<Option<LogLevel>>,
    in_flight: Mutex<InFlight>,
    /// Calls and streams that are open.
    busy: AtomicUsize,
    pub opened: Instant,
    /// Milliseconds after `opened`.
    last_used: AtomicU64,
}

/// The session's name in records. Its id would let readers of records use the session.
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
        scope: Scope,
        backend: Backend,
        client_sinks: ClientSinks,
    ) -> Self {
        let (questions, bound) = (client_sinks.questions, client_sinks.bound);
        let origin = Origin {
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
                Client::of_session(caller, principal, origin, Arc::clone(&questions)).bound(bound),
            ),
            questions,
            own: OwnSessions::default(),
            log_level: Mutex::default(),
            in_flight: Mutex::default(),
            busy: AtomicUsize::new(0),
            opened: Instant::now(),
            last_used: AtomicU64::new(0),
        }
    }

    pub fn serves(&self, scope: &Scope, principal: &Principal) -> bool {
        self.scope.is_same(scope) && self.client.principal == *principal
    }

    /// Sends a profile's client what belongs to no call.
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

    /// Takes the messages of one of its calls.
    pub fn sink(&self) -> (CallSink, CallStream) {
        CallSink::new(Arc::clone(&self.client), self.log_level())
    }

    fn in_flight(&self) -> parking_lot::MutexGuard<'_, InFlight> {
        // Held for a map operation, never across an await.
        self.in_flight.lock()
    }

    /// Enters a call.
    pub fn enter(self: &Arc<Self>, id: &str) -> Result<Entry, NoEntry> {
        let (cancel, cancelled) = oneshot::channel();
        let mut in_flight = self.in_flight();
        if in_flight.cancels.contains_key(id) {
            return Err(NoEntry::Doubled(id.into()));
        }
        if in_flight.cancels.len() >= MAX_IN_FLIGHT {
            return Err(NoEntry::TooMany);
        }
        if in_flight.ended {
            drop(cancel.send("the session has ended".to_owned()));
        } else {
            in_flight.cancels.insert(id.into(), Some(cancel));
        }
        drop(in_flight);
        Ok(Entry {
            id: id.into(),
            cancelled: Some(cancelled),
            busy: self.busy(),
        })
    }

    /// Cancels a call in flight. It is no error if the call is over or never existed.
    pub fn cancel(&self, id: &str, reason: &str) {
        let cancel = self.in_flight().cancels.get_mut(id).and_then(Option::take);
        if let Some(cancel) = cancel {
            // It may have ended this moment.
            drop(cancel.send(reason.to_owned()));
        }
    }

    /// Ends the session: its calls are cancelled, its streams close, its upstream session goes.
    pub fn end(&self, reason: &str) {
        let cancels = {
            let mut in_flight = self.in_flight();
            in_flight.ended = true;
            std::mem::take(&mut in_flight.cancels)
        };
        for cancel in cancels.into_values().flatten() {
            drop(cancel.send(reason.to_owned()));
        }
        self.outbox.close();
        self.questions.close();
        self.own.close();
        if let Backend::Transparent(isolated_session) = &self.backend {
            isolated_session.close();
        }
    }

    /// Marks the session as in use until the guard is dropped.
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.touch();
        Busy(Arc::clone(self))
    }

    fn touch(&self) {
        let now = self.opened.elapsed().as_millis();
        self.last_used
            .store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When a call or a stream of it was begun or ended last.
    pub fn last_used(&self) -> Instant {
        self.opened + Duration::from_millis(self.last_used.load(Ordering::Relaxed))
    }

    /// Its calls in flight, and its streams that are open.
    pub fn load(&self) -> (usize, usize) {
        let calls = self.in_flight().cancels.len();
        let busy = self.busy.load(Ordering::Relaxed);
        (calls, busy.saturating_sub(calls))
    }

    /// How long the session has been idle; `None` while a call or stream is open.
    pub fn idle(&self) -> Option<Duration> {
        if self.busy.load(Ordering::Relaxed) > 0 {
            return None;
        }
        Some(self.last_used().elapsed())
    }
}

/// See [`ClientSession::busy`].
#[derive(Debug)]
pub struct Busy(Arc<ClientSession>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.touch();
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call in flight; it leaves when dropped.
#[derive(Debug)]
pub struct Entry {
    id: Box<str>,
    cancelled: Option<oneshot::Receiver<String>>,
    busy: Busy,
}

impl Entry {
    /// Resolves when the client cancels the call. Can be taken once.
    pub fn cancelled(&mut self) -> oneshot::Receiver<String> {
        self.cancelled
            .take()
            .unwrap_or_else(|| oneshot::channel().1)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.busy.0.in_flight().cancels.remove(&self.id);
    }
}
