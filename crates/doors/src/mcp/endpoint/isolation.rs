//! Isolated upstream sessions of clients of a profile. Servers with `isolation: "session"` need
//! them, and clients that use the servers of another client's `mainstay mcp`.

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    config::{ServerConfig, ServerRequests},
    era::Caller,
    message::{self, JsonObjectEditor, Method},
    principal::Principal,
    record::Door,
};
use mainstay_gateway::{
    calls::{CallClient, Upstream},
    supervisor::{IsolatedSession, ServerHandle, SessionSettings},
};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use crate::mcp::{
    sessions::{
        pool::{Lease, Seat},
        session::ClientSession,
    },
    shared::SharedState,
};

/// Time limit for a server's answer to an unsubscription.
const PATIENCE: Duration = Duration::from_secs(2);

/// Client capabilities by which a client accepts requests of a server.
const REQUEST_CAPABILITIES: [&str; 4] = ["sampling", "elicitation", "roots", "tasks"];

/// Builds the `initialize` params for an isolated session. They declare the client's capabilities
/// and configured roots. Capabilities that the configuration rejects are left out.
pub fn initialize(caller: &Caller, config: &ServerConfig) -> Arc<str> {
    let capabilities = declared(caller.capabilities.raw(), config);
    let mut params = JsonObjectEditor::default();
    params.set_text("protocolVersion", caller.revision.as_str());
    params.set("capabilities", &capabilities);
    match &caller.client_info {
        Some(info) => params.set("clientInfo", info),
        None => params.set("clientInfo", r#"{"name":"unknown","version":""}"#),
    }
    let params = params.to_string();
    if config.server_requests == Some(ServerRequests::Reject) {
        without_requests(&params).into()
    } else {
        params.into()
    }
}

/// Removes the capabilities for server requests from `initialize` params. Used if the configuration
/// rejects such requests.
pub fn without_requests(params: &str) -> String {
    let capabilities_span =
        message::locate(params, message::Span::whole(params), &["capabilities"]);
    let capabilities = capabilities_span
        .and_then(|span| serde_json::from_str::<Map<String, Value>>(span.get(params)).ok());
    let (Some(span), Some(mut capabilities)) = (capabilities_span, capabilities) else {
        return message::one_line(params).into_owned();
    };
    capabilities.retain(|name, _| !REQUEST_CAPABILITIES.contains(&name.as_str()));
    message::splice(
        params,
        &mut [(span, &Value::Object(capabilities).to_string())],
    )
}

/// The client's capabilities (JSON text). Configured roots add the roots capability.
fn declared(capabilities: &str, config: &ServerConfig) -> String {
    let mut capabilities_editor = JsonObjectEditor::read(capabilities).unwrap_or_default();
    if !config.roots.is_empty() && capabilities_editor.get("roots").is_none() {
        capabilities_editor.set("roots", "{}");
    }
    capabilities_editor.to_string()
}

/// The source of isolated upstream sessions for a client's requests.
#[derive(Clone, Copy)]
pub enum SessionSource<'a> {
    /// The isolated sessions of a client session.
    Session(&'a ClientSession),
    /// Pooled sessions, for a client without a session.
    Pool(&'a Seat),
}

impl SessionSource<'_> {
    /// True if the client uses an isolated or pooled session of this server, not the shared one.
    pub fn has_isolated_session(self, server: &ServerHandle, principal: &Principal) -> bool {
        match self {
            Self::Session(session) => has_isolated_session(session, server),
            Self::Pool(_) => server.is_isolated() || server.has_own_login(principal),
        }
    }
}

/// True if the client has an isolated session of this server. A server that opens no sessions has
/// only its shared session, unless the client has a login of its own.
pub fn has_isolated_session(session: &ClientSession, server: &ServerHandle) -> bool {
    if server.has_own_login(&session.client.principal) {
        return true;
    }
    let needs_isolation = server.is_isolated() || (server.knows_its_client() && is_guest(session));
    needs_isolation && !server.opens_no_sessions()
}

/// True for a client that accepts requests of servers, except the one on stdio.
fn is_guest(session: &ClientSession) -> bool {
    let caller = &session.client.caller;
    let asking_methods = [Method::RootsList, Method::CreateMessage, Method::Elicit];
    session.client.origin.door != Door::McpStdio
        && asking_methods
            .into_iter()
            .any(|method| caller.accepts(method, "{}"))
}

/// The client's isolated session of this server; `None` if the client uses the shared one. The
/// session opens at its first use.
pub fn own_session(
    session: &ClientSession,
    server: &Arc<ServerHandle>,
) -> Option<Arc<IsolatedSession>> {
    if !has_isolated_session(session, server) {
        return None;
    }
    Some(session.own_sessions.get_or_open(server, || {
        let settings = SessionSettings::of_client(&server.name);
        if let Some(level) = session.log_level() {
            settings.set_log_level(level);
        }
        let caller = &session.client.caller;
        let initialize = initialize(caller, &server.config());
        let listener = session.client_sinks().profile_listener(
            server,
            caller,
            &session.client.principal,
            Arc::clone(&settings),
        );
        let principal = &session.client.principal;
        server.isolated_session(principal, initialize, listener, settings)
    }))
}

/// Selects the upstream session for a client's request. The lease, if any, must be held until the
/// answer.
pub async fn upstream(
    shared_state: &SharedState,
    session_source: SessionSource<'_>,
    client: &CallClient,
    server: Arc<ServerHandle>,
) -> (Upstream, Option<Lease>) {
    if server.eras().legacy.is_none() {
        shared_state.gateway.registry.attempted(&server).await;
    }
    match session_source {
        SessionSource::Session(session) => match own_session(session, &server) {
            Some(isolated_session) => (upstream_of(isolated_session).await, None),
            None => (Upstream::Shared(server), None),
        },
        SessionSource::Pool(_)
            if server.speaks_modern() && !server.has_own_login(&client.principal) =>
        {
            (Upstream::Shared(server), None)
        }
        SessionSource::Pool(seat) => {
            let lease = shared_state.pool.lease(&server, client);
            if let Some(level) = client.caller.log_level {
                // A failure to open the session is reported by the call itself.
                lease.request_log_level(level).await.ok();
            }
            let isolated_session = lease.isolated_session();
            (
                Upstream::IsolatedSession(isolated_session),
                seat.take(lease),
            )
        }
    }
}

/// Opens the isolated session, or selects the shared one if the server opens no sessions.
async fn upstream_of(isolated_session: Arc<IsolatedSession>) -> Upstream {
    let server = &isolated_session.server;
    if server.eras().legacy.is_none() {
        let limit = server.config().longest_start();
        let open_result = isolated_session.session(Instant::now() + limit).await;
        if open_result.is_err() && server.opens_no_sessions() && !isolated_session.has_own_login() {
            return Upstream::Shared(Arc::clone(server));
        }
    }
    Upstream::IsolatedSession(isolated_session)
}

/// Unsubscribes from a resource at the server, if the session is open.
pub async fn leave(isolated_session: &IsolatedSession, uri: &str) {
    let _use = isolated_session.begin();
    if let Some(session) = isolated_session.live_session() {
        let leave_result = timeout(PATIENCE, session.unsubscribe(uri)).await;
        if !matches!(leave_result, Ok(Ok(()))) {
            tracing::debug!(uri, left = ?leave_result, "a subscription was not taken back");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_to_ask_is_not_invited() {
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"experimental":{"x":1}},"clientInfo":{"name":"c","version":"1"}}"#;
        assert_eq!(
            without_requests(params),
            r#"{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"x":1}},"clientInfo":{"name":"c","version":"1"}}"#
        );
        assert_eq!(without_requests(r#"{"x":1}"#), r#"{"x":1}"#);
    }
}
