//! Pooled sessions of legacy servers for clients without a session: one for each principal and set of
//! declared capabilities, because a session's capabilities are fixed when it opens (docs/dev/wire.md,
//! "Between the eras").

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mainstay_core::{
    config::ServerRequests,
    era::{ClientCapabilities, Era, LogLevel, Revision, questions},
    failure::Failure,
    message::Method,
    principal::Principal,
};
use mainstay_gateway::{
    calls::Client,
    supervisor::{HeldRequests, IsolatedSession, Server, SessionSettings, UseGuard},
};
use mainstay_transport::{self as transport, Listener, Notice, Question, Session};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    listen_streams::ListenStreams,
    subscriptions::{Resource, Subscriptions},
};

/// Sessions that are remembered, open or not. A client that declares something else each time would have
/// one of its own for each request.
const MAX_POOLED: usize = 1000;

/// The sessions of all servers, oldest first.
#[derive(Debug, Default)]
pub struct Pool(Mutex<Vec<Arc<Pooled>>>);

/// One of them. It opens at its first use.
#[derive(Debug)]
pub struct Pooled {
    /// What its clients declare.
    profile: Box<str>,
    principal: Principal,
    pub isolated_session: Arc<IsolatedSession>,
    /// Calls of them that wait for a person.
    parked: AtomicUsize,
    /// The level that the session was last set to, which a new one knows nothing of.
    logs: Mutex<Option<(Weak<Session>, LogLevel)>>,
    audience: Arc<Audience>,
}

/// The listeners of a session.
#[derive(Debug, Default)]
pub struct Audience {
    pub listen_streams: ListenStreams,
    pub subscriptions: Arc<Subscriptions>,
}

impl Pool {
    fn sessions(&self) -> MutexGuard<'_, Vec<Arc<Pooled>>> {
        // Held for an operation on the list, never across an await.
        self.0.lock()
    }

    /// A session of this server for this client. One with a call that waits for a person is left to
    /// that call: on a pipe it would be unknown whose the next question is.
    pub fn lease(&self, server: &Arc<Server>, client: &Client) -> Lease {
        let capabilities = match server.config().server_requests {
            // It must not wait for an answer that cannot come.
            Some(ServerRequests::Reject) => "{}".into(),
            _ => client.caller.capabilities.for_era(Era::Legacy),
        };
        let mut sessions = self.sessions();
        let fit = sessions.iter().find(|session| {
            Arc::ptr_eq(&session.isolated_session.server, server)
                && *session.profile == *capabilities
                && session.principal == client.principal
                && session.parked.load(Ordering::Relaxed) == 0
        });
        let session = if let Some(session) = fit {
            Arc::clone(session)
        } else {
            let session = Arc::new(Pooled::new(server, &capabilities, client.principal.clone()));
            if sessions.len() >= MAX_POOLED
                && let Some(idle) = sessions
                    .iter()
                    .position(|session| session.isolated_session.is_idle(Duration::ZERO))
            {
                sessions.remove(idle);
            }
            sessions.push(Arc::clone(&session));
            session
        };
        Lease {
            _use: session.isolated_session.begin(),
            session,
        }
    }

    /// Closes sessions that have been idle for so long.
    pub fn sweep(&self, idle: Duration) {
        self.sessions()
            .retain(|session| !session.isolated_session.is_idle(idle));
    }

    /// Ends the streams of listeners, and closes sessions without users.
    pub fn close(&self) {
        for session in self.sessions().iter() {
            session.audience.listen_streams.close();
        }
        self.sweep(Duration::ZERO);
    }
}

impl Pooled {
    fn new(server: &Arc<Server>, capabilities: &str, principal: Principal) -> Self {
        let declared = ClientCapabilities::read(capabilities);
        let initialize = transport::own_initialize(Revision::LATEST_LEGACY, &declared);
        let audience = Arc::<Audience>::default();
        let listener = Arc::new(Unattributed {
            server: Arc::clone(server),
            audience: Arc::clone(&audience),
            held_requests: OnceLock::new(),
        });
        let isolated_session = Arc::new(server.isolated_session(
            initialize,
            Arc::clone(&listener) as Arc<dyn Listener>,
            SessionSettings::new(&server.name),
        ));
        let held_requests = Arc::downgrade(&isolated_session.held_requests);
        drop(listener.held_requests.set(held_requests));
        Self {
            profile: capabilities.into(),
            principal,
            isolated_session,
            parked: AtomicUsize::new(0),
            logs: Mutex::default(),
            audience,
        }
    }
}

/// Keeps a session from being closed.
#[derive(Debug)]
pub struct Lease {
    session: Arc<Pooled>,
    _use: UseGuard,
}

impl Lease {
    pub fn isolated_session(&self) -> Arc<IsolatedSession> {
        Arc::clone(&self.session.isolated_session)
    }

    pub fn audience(&self) -> &Audience {
        &self.session.audience
    }

    /// Has the server log what this level asks for, and all that is more severe. It goes on doing so:
    /// each request is sent what it asked for only.
    pub async fn want_logs(&self, level: LogLevel) -> Result<(), Failure> {
        let limit = self
            .session
            .isolated_session
            .server
            .config()
            .longest_start();
        let session = self
            .session
            .isolated_session
            .session(Instant::now() + limit)
            .await?;
        if !session.takes_log_level() {
            return Ok(());
        }
        let set = (Arc::downgrade(&session), level);
        {
            // Held for a copy, never across an await.
            let mut logs = self.session.logs.lock();
            if let Some((known, wanted)) = &*logs
                && Weak::ptr_eq(known, &set.0)
                && *wanted <= level
            {
                return Ok(());
            }
            *logs = Some(set);
        }
        // It says nothing where it will not.
        session.set_log_level(level).await.ok();
        Ok(())
    }

    /// Ends what a stream listened to; returns the resources without a subscriber.
    pub fn leave(&self, stream: &str) -> Vec<Resource> {
        self.session.audience.listen_streams.remove(stream);
        self.session.audience.subscriptions.remove_session(stream)
    }
}

/// A call's place in a pooled session, if it has one.
#[derive(Debug, Default)]
pub struct Seat(OnceLock<Lease>);

impl Seat {
    /// Keeps the lease as long as the call lives. A call goes to one server: the lease of another, which
    /// was only asked for a resource, is given back.
    pub fn take(&self, lease: Lease) -> Option<Lease> {
        self.0.set(lease).err()
    }

    /// The call waits for a person, until the guard is dropped.
    pub fn park(&self) -> Option<Waiting> {
        let lease = self.0.get()?;
        lease.session.parked.fetch_add(1, Ordering::Relaxed);
        Some(Waiting(Arc::clone(&lease.session)))
    }
}

/// See [`Seat::park`].
#[derive(Debug)]
pub struct Waiting(Arc<Pooled>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.parked.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a pooled session says outside of calls.
#[derive(Debug)]
struct Unattributed {
    server: Arc<Server>,
    audience: Arc<Audience>,
    held_requests: OnceLock<Weak<HeldRequests>>,
}

impl Listener for Unattributed {
    /// Changes reach the listeners. A log message that belongs to no request reaches none
    /// (specification 2026-07-28, "Logging").
    fn hear(&self, notice: Notice) {
        let Audience {
            listen_streams,
            subscriptions,
        } = &*self.audience;
        match notice.method {
            Method::ResourceUpdated => {
                let uri = notice.frame.text_param("uri").unwrap_or_default();
                for (stream, used) in subscriptions.listeners(&self.server.name, &uri) {
                    listen_streams.tell_update(&self.server.name, &stream, &notice.frame, &used);
                }
            }
            changed => listen_streams.tell_change(changed, Instant::now(), |_| true),
        }
    }

    /// It is unknown whose question this is. One for roots is answered by the configuration, or waits for the next
    /// call of such clients; any other is refused for that reason.
    fn ask(&self, question: Question) {
        if question.method() != Method::RootsList {
            return;
        }
        let config = self.server.config();
        if !config.roots.is_empty() {
            question.result(&questions::roots(&config.roots));
        } else if let Some(held) = self.held_requests.get().and_then(Weak::upgrade) {
            held.keep(question);
        }
    }
}
