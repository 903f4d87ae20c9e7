//! Reports open client sessions to the gateway, and ends sessions for the operator.

use std::{cmp::Reverse, sync::Arc, time::SystemTime};

use futures_util::future::BoxFuture;
use mainstay_core::record::Door;
use mainstay_gateway::client_sessions::{
    OpenSession, SessionDoors, SessionEnd, SessionPage, SessionQuery,
};

use super::mcp::Mcp;
use crate::mcp::sessions::session::ClientSession;

const REASON: &str = "the operator ended the session";

impl SessionDoors for Mcp {
    fn newest(&self, query: &SessionQuery<'_>) -> SessionPage {
        let &SessionQuery {
            server,
            before: page_end,
            limit,
        } = query;
        let mut sessions = self.clients.shared.sessions.numbered();
        if let Some(server) = server {
            sessions.retain(|(_, session)| {
                session
                    .scope
                    .server()
                    .is_some_and(|name| name.as_str() == server)
            });
        }
        let total = sessions.len();
        if let Some(page_end) = page_end {
            sessions.retain(|(number, _)| *number < page_end);
        }
        let is_whole = sessions.len() <= limit;
        if !is_whole {
            sessions.select_nth_unstable_by_key(limit, |(number, _)| Reverse(*number));
            sessions.truncate(limit);
        }
        sessions.sort_unstable_by_key(|(number, _)| Reverse(*number));
        let last_number = sessions.last().map(|(number, _)| *number);
        SessionPage {
            next: last_number.filter(|_| !is_whole),
            sessions: sessions
                .iter()
                .map(|(_, session)| report(session))
                .collect(),
            total,
        }
    }

    fn end<'a>(&'a self, name: &'a str) -> BoxFuture<'a, SessionEnd> {
        Box::pin(async move {
            let all_sessions = self.clients.shared.sessions.all();
            let is_named = |session: &&Arc<ClientSession>| {
                session.client.origin.session.as_deref() == Some(name)
            };
            let Some(session) = all_sessions.iter().find(is_named) else {
                return SessionEnd::Unknown;
            };
            match session.client.origin.door {
                Door::McpStdio => return SessionEnd::OnStdio,
                // This ends the session and its stream.
                Door::McpSse => self.streams.end(session, REASON),
                _ => {
                    let principal = &session.client.principal;
                    self.clients
                        .delete(&session.id, &session.scope, principal)
                        .await;
                }
            }
            tracing::info!(session = name, "{REASON}");
            SessionEnd::Ended
        })
    }
}

fn report(session: &ClientSession) -> OpenSession {
    let now = SystemTime::now();
    let time_before = |span| now.checked_sub(span).unwrap_or(now);
    let (calls, streams) = session.load();
    OpenSession {
        revision: session.revision,
        origin: session.client.origin.clone(),
        server: session.scope.server().cloned(),
        client_name: session.client.name().into(),
        opened_at: time_before(session.opened.elapsed()),
        used_at: time_before(session.last_used().elapsed()),
        streams,
        calls,
    }
}
