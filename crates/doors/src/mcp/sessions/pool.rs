//! Pooled sessions of legacy servers, for clients without a session. Clients share one if they have
//! the same principal and capabilities, because the capabilities of a session are fixed
//! (docs/dev/wire.md, "Between the eras").

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
    calls::CallClient,
    supervisor::{HeldRequests, IsolatedSession, ServerHandle, SessionSettings, UseGuard},
};
use mainstay_transport::{self as transport, Listener, Notice, ServerQuestion, UpstreamSession};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    listen_streams::ListenStreams,
    subscriptions::{SubscribedResource, Subscriptions},
};

/// Maximum number of pooled sessions. A client could declare other capabilities in each request.
const MAX_POOLED: usize = 1000;

/// The pooled sessions of all servers, oldest first.
#[derive(Debug, Default)]
pub struct Pool(Mutex<Vec<Arc<Pooled>>>);

/// A pooled session. It opens at its first use.
#[derive(Debug)]
pub struct Pooled {
    /// The capabilities that its clients declare (JSON text).
    profile: Box<str>,
    principal: Principal,
    pub isolated_session: Arc<IsolatedSession>,
    /// Number of calls in this session that wait for a person.
    parked: AtomicUsize,
    /// The last log level that was set, and the upstream session in which it was set.
    logs: Mutex<Option<(Weak<UpstreamSession>, LogLevel)>>,
    audience: Arc<Audience>,
}

/// The listen streams and subscriptions of a pooled session.
#[derive(Debug, Default)]
pub struct Audience {
    pub listen_streams: ListenStreams,
    pub subscriptions: Arc<Subscriptions>,
}

impl Pool {
    fn sessions(&self) -> MutexGuard<'_, Vec<Arc<Pooled>>> {
        // Locked for a list operation, never across an await.
        self.0.lock()
    }

    /// Leases a session of this server that fits the client. A session with a call that waits for a
    /// person is not shared: Mainstay could not tell which call its next question is about.
    pub fn lease(&self, server: &Arc<ServerHandle>, client: &CallClient) -> Lease {
        let capabilities = match server.config().server_requests {
            // Server requests are rejected, so declare no capability for them.
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
                && let Some(idle_index) = sessions
                    .iter()
                    .position(|session| session.isolated_session.is_idle(Duration::ZERO))
            {
                sessions.remove(idle_index);
            }
            sessions.push(Arc::clone(&session));
            session
        };
        Lease {
            _use: session.isolated_session.begin(),
            session,
        }
    }

    /// Closes sessions that have been idle for `idle_limit`.
    pub fn sweep(&self, idle_limit: Duration) {
        self.sessions()
            .retain(|session| !session.isolated_session.is_idle(idle_limit));
    }

    /// Ends all listen streams, and closes the sessions that nothing uses.
    pub fn close(&self) {
        for session in self.sessions().iter() {
            session.audience.listen_streams.close();
        }
        self.sweep(Duration::ZERO);
    }
}

impl Pooled {
    fn new(server: &Arc<ServerHandle>, capabilities: &str, principal: Principal) -> Self {
        let declared_capabilities = ClientCapabilities::read(capabilities);
        let initialize = transport::own_initialize(Revision::LATEST_LEGACY, &declared_capabilities);
        let audience = Arc::<Audience>::default();
        let listener = Arc::new(Unattributed {
            server: Arc::clone(server),
            audience: Arc::clone(&audience),
            held_requests: OnceLock::new(),
        });
        let isolated_session = Arc::new(server.isolated_session(
            &principal,
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

/// Keeps a pooled session open until it is dropped.
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

    /// Makes the server log at this level and above. Each client still gets only messages of the
    /// level that its request sets.
    pub async fn request_log_level(&self, level: LogLevel) -> Result<(), Failure> {
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
            // Locked for a copy, never across an await.
            let mut logs = self.session.logs.lock();
            if let Some((last_session, last_level)) = &*logs
                && Weak::ptr_eq(last_session, &set.0)
                && *last_level <= level
            {
                return Ok(());
            }
            *logs = Some(set);
        }
        // If the server refuses, it sends no log messages.
        session.set_log_level(level).await.ok();
        Ok(())
    }

    /// Ends a listen stream. Returns the resources that have no subscriber any more.
    pub fn leave(&self, stream: &str) -> Vec<SubscribedResource> {
        self.session.audience.listen_streams.remove(stream);
        self.session.audience.subscriptions.remove_session(stream)
    }
}

/// The lease that a call holds while it runs, once it has one.
#[derive(Debug, Default)]
pub struct Seat(OnceLock<Lease>);

impl Seat {
    /// Stores the lease for as long as the call runs. Returns the lease if the call already has
    /// one.
    pub fn take(&self, lease: Lease) -> Option<Lease> {
        self.0.set(lease).err()
    }

    /// Marks the call as waiting for a person, until the result is dropped.
    pub fn park(&self) -> Option<Waiting> {
        let lease = self.0.get()?;
        lease.session.parked.fetch_add(1, Ordering::Relaxed);
        Some(Waiting(Arc::clone(&lease.session)))
    }
}

/// Marks a call as waiting for a person. See [`Seat::park`].
#[derive(Debug)]
pub struct Waiting(Arc<Pooled>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.parked.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The listener of a pooled session, for messages that belong to no call.
#[derive(Debug)]
struct Unattributed {
    server: Arc<ServerHandle>,
    audience: Arc<Audience>,
    held_requests: OnceLock<Weak<HeldRequests>>,
}

impl Listener for Unattributed {
    /// Forwards change notifications to the listen streams. Drops log messages, because they belong
    /// to a request (2026-07-28, "Logging").
    fn take_notice(&self, notice: Notice) {
        let Audience {
            listen_streams,
            subscriptions,
        } = &*self.audience;
        match notice.method {
            Method::ResourceUpdated => {
                let uri = notice.frame.text_param("uri").unwrap_or_default();
                for (stream, client_uri) in subscriptions.listeners(&self.server.name, &uri) {
                    listen_streams.notify_update(
                        &self.server.name,
                        &stream,
                        &notice.frame,
                        &client_uri,
                    );
                }
            }
            changed => listen_streams.notify_change(changed, Instant::now(), |_| true),
        }
    }

    /// Handles a question that belongs to no call. A question for roots is answered by the
    /// configured roots. Without them, it waits for the next call. Other questions are refused.
    fn ask(&self, question: ServerQuestion) {
        if question.method() != Method::RootsList {
            return;
        }
        let config = self.server.config();
        if !config.roots.is_empty() {
            question.result(&questions::roots(&config.roots));
        } else if let Some(held_requests) = self.held_requests.get().and_then(Weak::upgrade) {
            held_requests.keep(question);
        }
    }
}
