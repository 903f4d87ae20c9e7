//! Isolated upstream sessions of a profile's clients (`isolation: "session"`).

use std::{sync::Arc, time::Duration};

use foldhash::HashMap;
use futures_util::future::join_all;
use mainstay_core::{
    config::{ServerConfig, ServerRequests},
    era::{Caller, LogLevel},
    ids::ServerName,
    message::{Method, Object},
};
use mainstay_gateway::{
    calls::Upstream,
    supervisor::{IsolatedSession, Server, SessionSettings},
};
use mainstay_transport::Session;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use super::{
    aggregate::Asked,
    hub::Hub,
    pool::{Lease, Seat},
    session::ClientSession,
    transparent::unasked,
};

/// How long a client waits for its sessions to hear which log messages it wants, or that it has left a
/// resource.
const PATIENCE: Duration = Duration::from_secs(2);

/// One client's sessions, by server. A map without entries takes no memory.
#[derive(Debug, Default)]
pub struct OwnSessions(Mutex<HashMap<ServerName, Arc<IsolatedSession>>>);

impl OwnSessions {
    fn map(&self) -> MutexGuard<'_, HashMap<ServerName, Arc<IsolatedSession>>> {
        // Held for a map operation, never across an await.
        self.0.lock()
    }

    fn all(&self) -> Vec<Arc<IsolatedSession>> {
        self.map().values().cloned().collect()
    }

    /// The client's session of this server; `open` makes one for a server that has none, or that is
    /// another of the same name.
    fn of(
        &self,
        server: &Arc<Server>,
        open: impl FnOnce() -> IsolatedSession,
    ) -> Arc<IsolatedSession> {
        let mut map = self.map();
        if let Some(isolated_session) = map.get(&server.name)
            && Arc::ptr_eq(&isolated_session.server, server)
        {
            return Arc::clone(isolated_session);
        }
        let isolated_session = Arc::new(open());
        map.insert(server.name.clone(), Arc::clone(&isolated_session));
        isolated_session
    }

    /// Those that are open.
    pub fn live(&self) -> Vec<Arc<Session>> {
        let sessions = self.all();
        sessions
            .iter()
            .filter_map(|isolated_session| isolated_session.live_session())
            .collect()
    }

    /// Has open sessions, and those to come, log what this level asks for.
    pub async fn set_log_level(&self, level: LogLevel) {
        let sessions = self.all().into_iter();
        let told = sessions.map(async |session| session.set_log_level(level).await);
        // A server that does not answer holds up no client.
        timeout(PATIENCE, join_all(told)).await.ok();
    }

    /// Closes sessions that have been idle for so long. One that is subscribed to resources stays open
    /// while its client listens.
    pub fn sweep(&self, idle: Duration, is_listened_to: bool) {
        self.map().retain(|_, isolated_session| {
            // The configuration may have changed.
            let is_needed =
                isolated_session.server.is_isolated() && isolated_session.settings.has_resources();
            if is_listened_to && is_needed {
                return true;
            }
            isolated_session.close_idle(idle);
            // Dropped, it takes no memory for a client that does not come back to it.
            is_needed || !isolated_session.is_idle(idle)
        });
    }

    /// The client has gone.
    pub fn close(&self) {
        for isolated_session in std::mem::take(&mut *self.map()).into_values() {
            isolated_session.close();
        }
    }
}

/// `initialize` params in the client's name: what it declared, less what is not to be asked, and the
/// roots where the configuration answers for it.
pub fn initialize(caller: &Caller, config: &ServerConfig) -> Arc<str> {
    let capabilities = declared(caller.capabilities.raw(), config);
    let mut params = Object::default();
    params.set_text("protocolVersion", caller.revision.as_str());
    params.set("capabilities", &capabilities);
    match &caller.client_info {
        Some(info) => params.set("clientInfo", info),
        None => params.set("clientInfo", r#"{"name":"unknown","version":""}"#),
    }
    let params = params.to_string();
    if config.server_requests == Some(ServerRequests::Reject) {
        unasked(&params).into()
    } else {
        params.into()
    }
}

/// A client's capabilities (JSON text), with the roots where the configuration has some.
fn declared(capabilities: &str, config: &ServerConfig) -> String {
    let mut declared = Object::read(capabilities).unwrap_or_default();
    if !config.roots.is_empty() && declared.get("roots").is_none() {
        declared.set("roots", "{}");
    }
    declared.to_string()
}

/// Which upstream sessions carry a client's requests, if they are not shared.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// Sessions of the client's own.
    Session(&'a ClientSession),
    /// It has no session, and shares with those like it.
    Pool(&'a Seat),
}

impl Hub {
    /// The client's own session of this server, where it has one: it opens at its first use. A server
    /// that opens no sessions is shared.
    pub fn own_session(
        &self,
        session: &ClientSession,
        server: &Arc<Server>,
    ) -> Option<Arc<IsolatedSession>> {
        if !server.is_isolated() || server.opens_no_sessions() {
            return None;
        }
        Some(session.own.of(server, || {
            let wanted = SessionSettings::of_client(&server.name);
            if let Some(level) = session.log_level() {
                wanted.set_log_level(level);
            }
            let caller = &session.client.caller;
            let initialize = initialize(caller, &server.config());
            let listener = session.client_sinks().of_profile(
                server,
                caller,
                &session.client.principal,
                Arc::clone(&wanted),
            );
            server.isolated_session(initialize, listener, wanted)
        }))
    }
}

impl Asked<'_> {
    /// The session of this isolated server that answers the client, and a guard to hold until it has.
    pub(super) async fn isolated(&self, server: Arc<Server>) -> (Upstream, Option<Lease>) {
        if server.eras().legacy.is_none() {
            self.hub.registry.attempted(&server).await;
        }
        match self.place {
            Place::Session(session) => match self.hub.own_session(session, &server) {
                Some(isolated_session) => (upstream_of(isolated_session).await, None),
                None => (Upstream::Shared(server), None),
            },
            Place::Pool(_) if server.speaks_modern() => (Upstream::Shared(server), None),
            Place::Pool(seat) => {
                let client = &self.sink.client;
                let lease = self.hub.pool.lease(&server, client);
                if let Some(level) = client.caller.log_level {
                    // A session that does not open fails the call itself.
                    lease.want_logs(level).await.ok();
                }
                let isolated_session = lease.isolated_session();
                (
                    Upstream::IsolatedSession(isolated_session),
                    seat.take(lease),
                )
            }
        }
    }

    /// The client's own session of the server that has this resource.
    pub(super) fn own_session_of(
        &self,
        session: &ClientSession,
        server: &ServerName,
    ) -> Option<Arc<IsolatedSession>> {
        let server = self.hub.registry.named(server)?;
        self.hub.own_session(session, &server)
    }
}

/// A server of which nothing is known may turn out to open no sessions: then it is shared.
async fn upstream_of(isolated_session: Arc<IsolatedSession>) -> Upstream {
    let server = &isolated_session.server;
    if server.eras().legacy.is_none() {
        let limit = server.config().longest_start();
        let opened = isolated_session.session(Instant::now() + limit).await;
        if opened.is_err() && server.opens_no_sessions() {
            return Upstream::Shared(Arc::clone(server));
        }
    }
    Upstream::IsolatedSession(isolated_session)
}

/// Tells the server that its client has left a resource, if the session is open.
pub async fn leave(isolated_session: &IsolatedSession, uri: &str) {
    let _use = isolated_session.begin();
    if let Some(session) = isolated_session.live_session() {
        let left = timeout(PATIENCE, session.unsubscribe(uri)).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::debug!(uri, ?left, "a subscription was not taken back");
        }
    }
}

/// Whether a notification is one of lists that have changed.
pub fn is_list_change(method: Method) -> bool {
    matches!(
        method,
        Method::ToolsChanged | Method::PromptsChanged | Method::ResourcesChanged
    )
}
