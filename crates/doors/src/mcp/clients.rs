//! The clients of the MCP doors. Opens, revives and ends their sessions.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mainstay_core::{
    catalog::ListKind,
    config::ServerRequests,
    era::{Caller, Era, ExcessiveInitialize, Revision, bounded_initialize, code, discovery},
    failure::Failure,
    message,
    principal::Principal,
    record::Door,
};
use mainstay_gateway::{
    Gateway, View,
    calls::{Receipt, SHUTTING_DOWN, with_offered_login},
    supervisor::{IsolatedSession, ServerHandle, SessionSettings},
};
use mainstay_transport::{self as transport, Listener, UpstreamSession};
use serde_json::json;
use tokio::time::Instant;

use super::{
    endpoint::isolation::without_requests,
    offer::offer,
    reply::{ClosedReply as _, RpcReply},
    sessions::{
        client_sinks::ClientSinks,
        crowd::{Admission, Crowd, SessionLimits},
        ended::EndedSessions,
        seal::{Seal, unix_ms},
        session::{Backend, ClientSession, EndpointScope},
    },
    shared::SharedState,
    stateless::context::Stateless,
};
use mainstay_doorway::peer::{LimitedPeer, Visitor};

/// Time after which an idle session ends, and after which its idle upstream sessions end.
const SESSION_IDLE: Duration = Duration::from_mins(30);
const UPSTREAM_IDLE: Duration = Duration::from_mins(5);

/// Name of the file with the ended sessions, in the state directory.
const ENDED_SESSIONS_FILE: &str = "ended-sessions";

/// Limits for the clients of the MCP doors.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Maximum number of items in one page of a list; `None` for no limit.
    pub page_size: Option<usize>,
    pub sessions: SessionLimits,
}

/// The clients of the MCP doors, with and without sessions.
#[derive(Debug)]
pub struct McpClients {
    pub shared: Arc<SharedState>,
    pub stateless: Arc<Stateless>,
    seal: Seal,
    /// Sessions that their clients have ended. They are not revived.
    ended: EndedSessions,
    /// Number of sessions that were evicted to make room.
    evicted: AtomicU64,
}

/// The reason that no session was opened.
#[derive(Debug, thiserror::Error)]
pub enum NoSession {
    #[error("too many sessions, and each has a call or a stream open: end one, or try again later")]
    TooMany,
    #[error(transparent)]
    Excessive(#[from] ExcessiveInitialize),
    #[error("no random number for a session id")]
    Random,
    #[error(transparent)]
    Backend(#[from] Failure),
}

impl NoSession {
    /// The JSON-RPC error response to `initialize`.
    pub fn response(&self, id: &str) -> String {
        match self {
            Self::Backend(failure) => Receipt::new()
                .no_call(RpcReply::failure(id, failure))
                .into_text(),
            Self::Excessive(excessive) => message::error_response(
                Some(id),
                code::INVALID_PARAMS,
                &excessive.to_string(),
                None,
            ),
            Self::TooMany | Self::Random => {
                message::error_response(Some(id), code::INTERNAL_ERROR, &self.to_string(), None)
            }
        }
    }
}

/// A new session, and the result for its `initialize` (JSON text).
pub struct Opened {
    pub session: Arc<ClientSession>,
    pub result: String,
}

impl McpClients {
    pub fn new(
        gateway: Arc<Gateway>,
        seal: Seal,
        state: Option<PathBuf>,
        limits: &ClientLimits,
    ) -> Self {
        let ended_file = state.map(|state| state.join(ENDED_SESSIONS_FILE));
        let names = Arc::new(seal.names());
        let sessions = Crowd::new(limits.sessions);
        let shared_state = SharedState::new(gateway, names, sessions, limits.page_size);
        let shared_state = Arc::new(shared_state);
        Self {
            stateless: Arc::new(Stateless::new(Arc::clone(&shared_state))),
            shared: shared_state,
            ended: EndedSessions::open(ended_file, seal.run()),
            evicted: AtomicU64::default(),
            seal,
        }
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.shared.gateway
    }

    /// Opens a session for a client. `params` are those of its `initialize` (JSON text).
    pub async fn open(
        &self,
        scope: EndpointScope,
        door: Door,
        visitor: Visitor,
        params: &str,
    ) -> Result<Opened, NoSession> {
        let params = &*bounded_initialize(params)?;
        let peer = visitor.peer();
        let principal = visitor.principal;
        let client_sinks = self.client_sinks(&scope, &principal);
        let mut caller = Caller::from_initialize(params);
        // The shared servers of `mainstay mcp` ask only its client on stdio, even if other clients
        // use them, too.
        if let (Some(sole_client), Door::McpStdio) = (self.gateway().registry.sole(), door) {
            sole_client.greet(&caller.capabilities, client_sinks.sole_client(&caller));
        }
        let (backend, result) = match &scope {
            EndpointScope::Profile(profile) => {
                // The result has the instructions of servers, so wait until they have started.
                self.gateway().registry.profile_settled(profile).await;
                let view = self.gateway().view(profile, &principal, &caller);
                let greeting_text = greeting(&view, caller.revision);
                (Backend::Aggregate(Arc::clone(profile)), greeting_text)
            }
            EndpointScope::One(server) => {
                let listener = || client_sinks.server_listener(server, &caller, &principal);
                let (backend, upstream) = self
                    .open_upstream(server, &principal, params, listener)
                    .await?;
                let result = upstream.initialize_answer.result().unwrap_or("{}");
                let result = match (upstream.greeting.revision.era(), &backend) {
                    // The session was opened for all clients, which may use other revisions.
                    (Era::Legacy, Backend::Shared(_)) => in_revision(result, caller.revision),
                    (Era::Legacy, _) => {
                        caller.revision = upstream.greeting.revision;
                        result.to_owned()
                    }
                    (Era::Modern, _) => discovery::to_initialize(result, caller.revision),
                };
                (backend, result)
            }
        };
        let id = self
            .seal
            .id(unix_ms(), &scope.endpoint(), &caller, &principal)
            .map_err(|_| NoSession::Random)?;
        let session = ClientSession::new(id, caller, door, principal, scope, backend, client_sinks);
        let session = self
            .admit(Arc::new(session), peer)
            .ok_or(NoSession::TooMany)?;
        Ok(Opened {
            session,
            result: message::one_line(&result).into_owned(),
        })
    }

    /// Gives a session a place, and ends the session that is evicted for it. `None` if there is no
    /// place.
    fn admit(&self, session: Arc<ClientSession>, peer: LimitedPeer) -> Option<Arc<ClientSession>> {
        let admission = self.shared.sessions.admit(&session, peer);
        self.count_sessions();
        match admission {
            Admission::In(evicted_session) => {
                if let Some(evicted_session) = evicted_session {
                    let evicted_count = self.evicted.fetch_add(1, Ordering::Relaxed) + 1;
                    if evicted_count.is_power_of_two() {
                        tracing::warn!(
                            evicted = evicted_count,
                            "idle sessions made room for others of their clients \
                             (http.maxSessionsPerClient, http.maxSessions)"
                        );
                    }
                    self.finish(
                        &evicted_session,
                        "another session of this client needed its place",
                    );
                }
                Some(session)
            }
            Admission::Existing(existing) => Some(existing),
            Admission::Full => {
                session.end("too many sessions");
                None
            }
        }
    }

    fn client_sinks(&self, scope: &EndpointScope, principal: &Principal) -> ClientSinks {
        ClientSinks {
            bound: scope.bound(&self.shared.names, principal),
            ..ClientSinks::default()
        }
    }

    /// Opens an isolated session for the client. Uses the shared session if the server has a single
    /// session or opens none.
    async fn open_upstream(
        &self,
        server: &Arc<ServerHandle>,
        principal: &Principal,
        params: &str,
        listener: impl FnOnce() -> Arc<dyn Listener>,
    ) -> Result<(Backend, Arc<UpstreamSession>), Failure> {
        let has_own_login = server.has_own_login(principal);
        if has_own_login || !server.shares_its_session() {
            let opened = self
                .open_private(server, principal, params, listener())
                .await;
            match opened {
                Ok((isolated_session, session)) => {
                    return Ok((Backend::Transparent(isolated_session), session));
                }
                // The failed attempt may have shown that the server opens no sessions.
                Err(_) if server.opens_no_sessions() && !has_own_login => {}
                Err(failure) => return Err(failure),
            }
        }
        let deadline = Instant::now() + server.config().longest_start();
        let session = server.session(Era::Legacy, deadline).await?;
        Ok((Backend::Shared(Arc::clone(server)), session))
    }

    /// Opens an isolated session with the capabilities that the client declared.
    async fn open_private(
        &self,
        server: &Arc<ServerHandle>,
        principal: &Principal,
        params: &str,
        listener: Arc<dyn Listener>,
    ) -> Result<(Arc<IsolatedSession>, Arc<UpstreamSession>), Failure> {
        let initialize = match server.config().server_requests {
            Some(ServerRequests::Reject) => without_requests(params),
            _ => message::one_line(params).into_owned(),
        };
        let isolated_session = Arc::new(server.isolated_session(
            principal,
            initialize.into(),
            listener,
            SessionSettings::of_client(&server.name),
        ));
        let deadline = Instant::now() + server.config().longest_start();
        match isolated_session.session(deadline).await {
            Ok(upstream) => Ok((isolated_session, upstream)),
            Err(failure) => Err(with_offered_login(failure, server, principal).await),
        }
    }

    pub fn session(&self, id: &str) -> Option<Arc<ClientSession>> {
        self.shared.sessions.get(id)
    }

    /// Revives a session of an earlier run. It loses its subscriptions, and its lists may have
    /// changed. It needs a place like a new session. A session that its client has ended is not
    /// revived.
    pub fn revive(
        &self,
        id: &str,
        scope: &EndpointScope,
        visitor: &Visitor,
    ) -> Option<Arc<ClientSession>> {
        let principal = &visitor.principal;
        let session_identity = self.seal.open(id, principal, unix_ms())?;
        if session_identity.endpoint != scope.endpoint() || self.ended.has(session_identity.birth) {
            return None;
        }
        // Switches are stored by the client's name. The id must contain all of it.
        if !session_identity.has_whole_name {
            return None;
        }
        let client_sinks = self.client_sinks(scope, principal);
        let caller = Caller {
            capabilities: Arc::new(session_identity.capabilities),
            client_info: session_identity.client_info,
            ..Caller::at(session_identity.revision)
        };
        let backend = match scope {
            EndpointScope::Profile(profile) => {
                for kind in ListKind::ALL {
                    client_sinks
                        .outbox
                        .push(message::request(None, kind.changed().name(), None));
                }
                Backend::Aggregate(Arc::clone(profile))
            }
            EndpointScope::One(server)
                if server.shares_its_session() && !server.has_own_login(principal) =>
            {
                Backend::Shared(Arc::clone(server))
            }
            EndpointScope::One(server) => {
                let initialize = transport::own_initialize(caller.revision, &caller.capabilities);
                let listener = client_sinks.server_listener(server, &caller, principal);
                let isolated_session = server.isolated_session(
                    principal,
                    initialize,
                    listener,
                    SessionSettings::of_client(&server.name),
                );
                Backend::Transparent(Arc::new(isolated_session))
            }
        };
        let (id, principal, scope) = (id.into(), principal.clone(), scope.clone());
        let door = Door::McpHttp;
        let revived_session =
            ClientSession::new(id, caller, door, principal, scope, backend, client_sinks);
        // Of concurrent requests, only the first revives the session.
        let session = self.admit(Arc::new(revived_session), visitor.peer())?;
        tracing::debug!(revision = %session.revision.as_str(), "a session of an earlier run goes on");
        Some(session)
    }

    fn count_sessions(&self) {
        self.gateway().session_count.set(self.shared.sessions.len());
    }

    /// Ends a session for its client, also for later runs. Returns true if the session was open or
    /// could have been revived.
    pub async fn delete(&self, id: &str, scope: &EndpointScope, principal: &Principal) -> bool {
        let has_session = self
            .session(id)
            .is_some_and(|session| session.serves(scope, principal));
        let session_identity = self.seal.read(id, principal);
        let session_identity = session_identity.filter(|session_identity| {
            let is_here = session_identity.endpoint == scope.endpoint();
            is_here && !self.ended.has(session_identity.birth)
        });
        let is_known = has_session || session_identity.is_some();
        if let Some(session_identity) = session_identity {
            self.ended.add(session_identity.birth, unix_ms()).await;
        }
        if has_session {
            self.end(id, "the client ended the session");
        }
        is_known
    }

    /// Ends a session in this run. Its id is then unknown.
    pub fn end(&self, id: &str, reason: &str) {
        if let Some(session) = self.shared.sessions.remove(id) {
            self.count_sessions();
            self.finish(&session, reason);
        }
    }

    fn finish(&self, session: &ClientSession, reason: &str) {
        session.end(reason);
        self.shared.leave_all(&session.id);
    }

    /// Ends idle sessions, and drops expired questions, events and objects.
    pub fn sweep(&self) {
        self.gateway().registry.queue().expire();
        self.shared.pool.sweep(UPSTREAM_IDLE);
        self.shared.objects.expire();
        for session in self.shared.sessions.all() {
            session.questions.expire();
            session.replay.expire();
            let idle_time = session.idle();
            let is_listened_to = idle_time.is_none_or(|idle_time| idle_time < UPSTREAM_IDLE);
            session.own_sessions.sweep(UPSTREAM_IDLE, is_listened_to);
            let Some(idle_time) = idle_time else { continue };
            if idle_time >= SESSION_IDLE {
                self.end(&session.id, "idle");
            } else if let (true, Backend::Transparent(isolated_session)) =
                (idle_time >= UPSTREAM_IDLE, &session.backend)
            {
                isolated_session.close_idle(UPSTREAM_IDLE);
            }
        }
    }

    /// Ends calls that wait for their client to retry. Later requests are refused.
    pub fn end_waiting(&self) {
        self.stateless.suspended.close();
    }

    /// Ends all sessions and streams, at shutdown.
    pub fn end_all(&self) {
        let reason = SHUTTING_DOWN;
        for session in self.shared.sessions.all() {
            self.end(&session.id, reason);
        }
        self.stateless.listen_streams.close();
        self.shared.pool.close();
    }
}

/// Replaces the revision in the result of an `initialize` (JSON text).
fn in_revision(result: &str, revision: Revision) -> String {
    let mut result = message::JsonObjectEditor::read(result).unwrap_or_default();
    result.set_text("protocolVersion", revision.as_str());
    result.to_string()
}

/// The result of `initialize` at an aggregate endpoint (JSON text).
fn greeting(view: &View, revision: Revision) -> String {
    let offer = offer(view);
    let mut greeting_json = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": offer.capabilities,
        "serverInfo": offer.server_info,
    });
    if let Some(instructions) = offer.instructions {
        greeting_json["instructions"] = instructions.into();
    }
    greeting_json.to_string()
}
