//! Client sessions, as the MCP doors report them.

use std::{borrow::Cow, collections::BTreeSet};

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_core::{
    record::{ClientInfo, Door},
    redact,
    switches::Off,
};
use mainstay_gateway::client_sessions::{OpenSession, SessionEnd, SessionPage, SessionQuery};
use mainstay_platform::utc;
use serde::Deserialize;

use super::{
    RestDoor,
    address::{Path, Query},
    refusal::Refusal,
};

/// Number of sessions in the answer: the default and the maximum.
const DEFAULT_LIMIT: usize = 200;
const MAX_LIMIT: usize = 1000;

/// The parameters `?server=NAME&before=NEXT&limit=N`.
#[derive(Debug, Deserialize)]
pub struct SessionsQuery {
    server: Option<String>,
    before: Option<String>,
    limit: Option<usize>,
}

/// Answers `GET /api/sessions`.
pub async fn list(
    State(door): State<RestDoor>,
    Query(query): Query<SessionsQuery>,
) -> Result<Json<api::Sessions>, Refusal> {
    let number = |text: &str| {
        let message = || Refusal::Malformed(format!("before={text:?} is no place in the list"));
        text.parse::<u64>().map_err(|_| message())
    };
    let selection = SessionQuery {
        server: query.server.as_deref(),
        before: query.before.as_deref().map(number).transpose()?,
        limit: query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
    };
    let doors = door.gateway.client_sessions.doors();
    let page = doors.map(|doors| doors.newest(&selection));
    let SessionPage {
        sessions,
        total,
        next,
    } = page.unwrap_or_default();
    Ok(Json(api::Sessions {
        truncated: next.is_some(),
        sessions: sessions
            .iter()
            .map(|session| wire(&door, session))
            .collect(),
        total,
        next: next.map(|next| next.to_string()),
    }))
}

/// Answers `GET /api/clients/stateless`.
pub async fn stateless(State(door): State<RestDoor>) -> Json<api::StatelessClients> {
    let clients = door.gateway.stateless_clients.newest().into_iter();
    let clients = clients.map(|client| api::StatelessClient {
        client: client.origin.client.as_ref().map(declared),
        principal: client.origin.principal.clone(),
        profile: client.origin.profile.clone(),
        protocol_version: client.revision.as_str().to_owned(),
        transport: transport(client.origin.door).to_owned(),
        last_seen_at: utc::rfc3339(client.seen_at),
        calls: client.calls,
    });
    Json(api::StatelessClients {
        clients: clients.collect(),
    })
}

/// Answers `DELETE /api/sessions/{id}`.
pub async fn end(
    State(door): State<RestDoor>,
    Path(id): Path<String>,
) -> Result<Json<api::EndedSession>, Refusal> {
    let ended = match door.gateway.client_sessions.doors() {
        Some(doors) => doors.end(&id).await,
        None => SessionEnd::Unknown,
    };
    match ended {
        SessionEnd::Ended => Ok(Json(api::EndedSession { success: true, id })),
        SessionEnd::Unknown => Err(Refusal::UnknownSession(id)),
        SessionEnd::OnStdio => Err(Refusal::Malformed(
            "a session on stdio ends with its client: end the client".to_owned(),
        )),
    }
}

fn wire(door: &RestDoor, session: &OpenSession) -> api::Session {
    let origin = &session.origin;
    let off = door
        .gateway
        .switches
        .off_for(|| Cow::Borrowed(&session.client_name));
    api::Session {
        id: origin.session.clone().unwrap_or_default(),
        client: origin.client.as_ref().map(declared),
        protocol_version: session.revision.as_str().to_owned(),
        transport: transport(origin.door).to_owned(),
        door: origin.door.to_string(),
        profile: origin.profile.clone(),
        server: session.server.as_ref().map(ToString::to_string),
        principal: origin.principal.clone(),
        opened_at: utc::rfc3339(session.opened_at),
        last_seen_at: Some(utc::rfc3339(session.used_at)),
        streams: session.streams,
        calls_in_flight: Some(session.calls),
        switched_off: off.as_deref().map(count).filter(|count| *count > 0),
    }
}

fn transport(door: Door) -> &'static str {
    match door {
        Door::McpStdio => "stdio",
        Door::McpSse => "sse",
        Door::McpHttp | Door::Rest | Door::Cli | Door::Bridge | Door::Own => "streamable_http",
    }
}

/// The name and version that the client declared, redacted as in records.
fn declared(client: &ClientInfo) -> api::RecordedClient {
    let redacted = |text| redact::redact(text).into_owned();
    api::RecordedClient {
        name: redacted(&client.name),
        version: redacted(&client.version),
    }
}

fn count(off: &Off) -> usize {
    let tool_count: usize = off.tools.values().map(BTreeSet::len).sum();
    off.servers.len() + tool_count
}
