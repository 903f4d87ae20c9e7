//! Isolated upstream sessions of a profile's clients: with `isolation: "session"`, and of clients that use the
//! servers of another client's `mainstay mcp`.

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    config::{ServerConfig, ServerRequests},
    era::Caller,
    message::{self, Method, Object},
    record::Door,
};
use mainstay_gateway::{
    calls::{Client, Upstream},
    supervisor::{IsolatedSession, Server, SessionSettings},
};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use crate::mcp::{
    sessions::{
        pool::{Lease, Seat},
        session::ClientSession,
    },
    shared::Shared,
};

/// How long a client waits for its server to hear that it has left a resource.
const PATIENCE: Duration = Duration::from_secs(2);

/// Client capabilities that invite requests from the server.
const ASKING: [&str; 4] = ["sampling", "elicitation", "roots", "tasks"];

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

/// The client's own `initialize` params for a server that is not to ask: it must not wait for an
/// answer that cannot come.
pub fn unasked(params: &str) -> String {
    let declared = message::locate(params, message::Span::whole(params), &["capabilities"]);
    let capabilities =
        declared.and_then(|span| serde_json::from_str::<Map<String, Value>>(span.get(params)).ok());
    let (Some(span), Some(mut capabilities)) = (declared, capabilities) else {
        return message::one_line(params).into_owned();
    };
    capabilities.retain(|name, _| !ASKING.contains(&name.as_str()));
    message::splice(
        params,
        &mut [(span, &Value::Object(capabilities).to_string())],
    )
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
pub enum SessionSource<'a> {
    /// Sessions of the client's own.
    Session(&'a ClientSession),
    /// It has no session, and shares with those like it.
    Pool(&'a Seat),
}

impl SessionSource<'_> {
    /// Whether the client does not share the session of this server with all others.
    pub fn is_apart(self, server: &Server) -> bool {
        match self {
            Self::Session(session) => is_apart(session, server),
            Self::Pool(_) => server.is_isolated(),
        }
    }
}

/// Whether a client has a session of this server for itself. A server that opens no sessions is shared.
pub fn is_apart(session: &ClientSession, server: &Server) -> bool {
    let is_apart = server.is_isolated() || (server.knows_its_client() && is_guest(session));
    is_apart && !server.opens_no_sessions()
}

/// Whether it is a client that can be asked, and not the one that the servers were started for.
fn is_guest(session: &ClientSession) -> bool {
    let caller = &session.client.caller;
    let asked = [Method::RootsList, Method::CreateMessage, Method::Elicit];
    session.client.origin.door != Door::McpStdio
        && asked.into_iter().any(|method| caller.takes(method, "{}"))
}

/// The client's own session of this server, where it has one: it opens at its first use.
pub fn own_session(session: &ClientSession, server: &Arc<Server>) -> Option<Arc<IsolatedSession>> {
    if !is_apart(session, server) {
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

/// The session of this isolated server that answers the client, and a guard to hold until it has.
pub async fn upstream(
    shared: &Shared,
    place: SessionSource<'_>,
    client: &Client,
    server: Arc<Server>,
) -> (Upstream, Option<Lease>) {
    if server.eras().legacy.is_none() {
        shared.gateway.registry.attempted(&server).await;
    }
    match place {
        SessionSource::Session(session) => match own_session(session, &server) {
            Some(isolated_session) => (upstream_of(isolated_session).await, None),
            None => (Upstream::Shared(server), None),
        },
        SessionSource::Pool(_) if server.speaks_modern() => (Upstream::Shared(server), None),
        SessionSource::Pool(seat) => {
            let lease = shared.pool.lease(&server, client);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_to_ask_is_not_invited() {
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"experimental":{"x":1}},"clientInfo":{"name":"c","version":"1"}}"#;
        assert_eq!(
            unasked(params),
            r#"{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"x":1}},"clientInfo":{"name":"c","version":"1"}}"#
        );
        assert_eq!(unasked(r#"{"x":1}"#), r#"{"x":1}"#);
    }
}
