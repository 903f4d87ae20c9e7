//! The servers: how they are, and what their operator wants of them.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Json,
    extract::{Path, State},
};
use mainstay_core::{catalog::ListKind, config::Launch, lifecycle::State as Lifecycle};
use tokio::time::Instant;

use super::{Door, body::Body, lists, refusal::Refusal};
use crate::{
    api,
    supervisor::{Operation, Server},
    utc,
};

pub async fn clients(State(door): State<Door>) -> Json<api::Clients> {
    let catalog = door.hub.registry.catalog();
    let entry = |server: &Arc<Server>| {
        let view = server.view();
        let part = catalog
            .parts()
            .iter()
            .find(|part| part.server == server.name);
        let entry = api::ClientEntry {
            status: view.status.state.words().rest.to_owned(),
            transport: server.transport().to_owned(),
            tools: part
                .map(|part| {
                    lists::shown(part, ListKind::Tools)
                        .map(|item| lists::full_name(part, item))
                        .collect()
                })
                .unwrap_or_default(),
            connected_at: view.connected_at.map(seconds),
            error: view
                .status
                .reason
                .filter(|_| view.status.state != Lifecycle::Connected),
        };
        (server.name.to_string(), entry)
    };
    Json(api::Clients {
        clients: door.hub.registry.servers().iter().map(entry).collect(),
    })
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

pub async fn servers(State(door): State<Door>) -> Json<api::Servers> {
    Json(all(&door))
}

/// How all servers are.
pub fn all(door: &Door) -> api::Servers {
    let servers = door.hub.registry.servers();
    api::Servers {
        servers: servers.iter().map(details).collect(),
    }
}

fn details(server: &Arc<Server>) -> api::Server {
    let view = server.view();
    let config = server.config();
    let (command, url) = match &config.launch {
        Launch::Stdio(launch) => (Some(launch.command.clone()), None),
        Launch::Http(launch) => (None, launch.url.split(['?', '#']).next().map(str::to_owned)),
        Launch::Broken(_) => (None, None),
    };
    let status = &view.status;
    let connected = status.state == Lifecycle::Connected;
    let degraded = view.is_degraded();
    let count = |kind| {
        view.catalog
            .as_ref()
            .map_or(0, |catalog| catalog.list(kind).len())
    };
    let health = status.health.as_ref();
    let ago = |at: std::time::Instant| Instant::now().into_std().saturating_duration_since(at);
    let crash = view.crashes.last;
    api::Server {
        name: server.name.to_string(),
        transport: server.transport().to_owned(),
        command,
        url,
        enabled: config.enabled,
        auto_start: config.auto_start,
        wanted: view.wanted,
        status: status.state.as_str().to_owned(),
        connected,
        connected_at: view.connected_at.map(utc::rfc3339),
        uptime_ms: view
            .connected_at
            .and_then(|since| since.elapsed().ok())
            .map(millis),
        health_status: connected.then(|| if degraded { "degraded" } else { "healthy" }.to_owned()),
        consecutive_health_failures: health.map(|health| health.failures),
        last_ping_ms: health.and_then(|health| health.last_ping).map(millis),
        last_success_at: health
            .and_then(|health| SystemTime::now().checked_sub(ago(health.heard)))
            .map(utc::rfc3339),
        last_error: view
            .list_trouble
            .clone()
            .filter(|_| connected)
            .or_else(|| status.reason.clone().filter(|_| !connected || degraded)),
        reconnect_attempt: Some(status.attempt).filter(|attempt| *attempt > 0 && !connected),
        next_retry_ms: status
            .next_retry
            .map(|at| millis(at.saturating_duration_since(Instant::now().into_std()))),
        crash_count: view.crashes.count,
        last_crash_at: crash.map(|crash| utc::rfc3339(crash.at)),
        exit_code: crash.and_then(|crash| crash.code),
        exit_signal: crash.and_then(|crash| crash.signal),
        pid: view.session.as_ref().and_then(|session| session.pid),
        calls_in_flight: view
            .session
            .as_ref()
            .map_or(0, |session| session.vitals.in_flight()),
        tools_ready: view.catalog.is_some(),
        lists_stale: view.catalog.is_some() && view.listed.is_none(),
        tool_count: count(ListKind::Tools),
        resource_count: count(ListKind::Resources) + count(ListKind::Templates),
        prompt_count: count(ListKind::Prompts),
        stderr: server.log.tail.texts(),
    }
}

/// As the wire types have times: whole milliseconds.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// `POST /api/servers/{name}/start`, `stop`, `restart`, `reconnect` (M12): answers when it is done.
pub async fn operate(
    State(door): State<Door>,
    Path((name, operation)): Path<(String, String)>,
) -> Result<Json<api::Operated>, Refusal> {
    let operations: &[Operation] = match operation.as_str() {
        "start" => &[Operation::Start],
        "stop" => &[Operation::Stop],
        // C13
        "restart" => &[Operation::Stop, Operation::Start],
        "reconnect" => &[Operation::Reconnect],
        _ => {
            return Err(Refusal::UnknownRoute(format!(
                "/api/servers/{name}/{operation}"
            )));
        }
    };
    let server = door.hub.registry.server(&name)?;
    for operation in operations {
        server.operate(*operation).await?;
    }
    Ok(Json(operated(&door, &server)))
}

/// M8. A server that is connected is left alone unless asked otherwise (Y19).
pub async fn reconnect_client(
    State(door): State<Door>,
    Path(name): Path<String>,
    body: Option<Body<api::Reconnect>>,
) -> Result<Json<api::ClientOperated>, Refusal> {
    let server = door.hub.registry.server(&name)?;
    let force = body.is_some_and(|Body(reconnect)| reconnect.force);
    let up = server.view().state() == Lifecycle::Connected;
    let operation = if up && !force {
        Operation::Start
    } else {
        Operation::Reconnect
    };
    server.operate(operation).await?;
    Ok(Json(client_operated(&door, &server)))
}

/// M7
pub async fn disconnect_client(
    State(door): State<Door>,
    Path(name): Path<String>,
) -> Result<Json<api::ClientOperated>, Refusal> {
    let server = door.hub.registry.server(&name)?;
    server.operate(Operation::Stop).await?;
    Ok(Json(client_operated(&door, &server)))
}

fn operated(door: &Door, server: &Server) -> api::Operated {
    api::Operated {
        success: true,
        name: server.name.to_string(),
        status: server.view().state().as_str().to_owned(),
        tools: tool_names(door, server),
    }
}

fn client_operated(door: &Door, server: &Server) -> api::ClientOperated {
    api::ClientOperated {
        status: "ok".to_owned(),
        name: server.name.to_string(),
        tools: tool_names(door, server),
    }
}

/// `server/tool`
fn tool_names(door: &Door, server: &Server) -> Vec<String> {
    let catalog = door.hub.registry.catalog();
    catalog
        .parts()
        .iter()
        .filter(|part| part.server == server.name)
        .flat_map(|part| {
            lists::shown(part, ListKind::Tools).map(|item| lists::full_name(part, item))
        })
        .collect()
}
