//! The servers: how they are, and what their operator wants of them.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{Json, extract::State};
use mainstay_core::{
    catalog::ListKind,
    config::{Launch, Runtime, Standing},
    failure::Failure,
    lifecycle::State as Lifecycle,
};
use serde_json::Value;
use tokio::time::Instant;

use super::{Door, address::Path, body::Body, lists, refusal::Refusal};
use crate::{
    api,
    supervisor::{Operation, Server},
    utc,
};

/// The status of a server that nobody has approved yet.
const PENDING: &str = "pending";

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
        servers: servers.iter().map(|server| details(door, server)).collect(),
    }
}

/// What is pending is shown as it will be.
pub fn details(door: &Door, server: &Arc<Server>) -> api::Server {
    let view = server.view();
    let standing = door.hub.registry.standing(&server.name);
    let pending = match &standing {
        Standing::Pending(runtime) => Some(Arc::clone(runtime)),
        Standing::Configured | Standing::Ephemeral(_) => None,
    };
    let stored = server.config();
    let config = pending
        .as_ref()
        .map_or(&**stored, |runtime| &runtime.config);
    let (command, url) = match &config.launch {
        Launch::Stdio(launch) => (Some(launch.command.clone()), None),
        Launch::Http(launch) => (None, Some(shown_url(&launch.url))),
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
        transport: config.transport().to_owned(),
        command,
        url,
        enabled: config.enabled,
        auto_start: config.auto_start,
        ephemeral: standing != Standing::Configured,
        pending: pending.as_deref().map(wanted),
        wanted: view.wanted,
        status: if pending.is_some() {
            PENDING
        } else {
            status.state.as_str()
        }
        .to_owned(),
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

/// What a person approves.
fn wanted(runtime: &Runtime) -> api::Pending {
    let text = |key: &str| {
        runtime
            .entry
            .get(key)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let args = runtime.entry.get("args").and_then(Value::as_array);
    let args = args.into_iter().flatten();
    let env = runtime.entry.get("env").and_then(Value::as_object);
    let (command, url) = match &runtime.config.launch {
        Launch::Http(launch) => (None, Some(shown_url(&launch.url))),
        Launch::Stdio(_) | Launch::Broken(_) => (text("command"), None),
    };
    api::Pending {
        command: command
            .into_iter()
            .chain(args.filter_map(Value::as_str).map(str::to_owned))
            .collect(),
        cwd: text("cwd"),
        env: env
            .map(|env| env.keys().cloned().collect())
            .unwrap_or_default(),
        url,
    }
}

/// Without the part in which people put keys.
fn shown_url(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
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
    let server = known_client(&door, &name)?;
    let force = body.is_some_and(|Body(reconnect)| reconnect.force);
    let up = server.view().state() == Lifecycle::Connected;
    let operation = if up && !force {
        Operation::Start
    } else {
        Operation::Reconnect
    };
    let named = |failure: Failure| failure.with("name", name.as_str());
    server.operate(operation).await.map_err(named)?;
    Ok(Json(client_operated(&door, &server)))
}

/// M7
pub async fn disconnect_client(
    State(door): State<Door>,
    Path(name): Path<String>,
) -> Result<Json<api::ClientOperated>, Refusal> {
    let server = known_client(&door, &name)?;
    server.operate(Operation::Stop).await?;
    Ok(Json(client_operated(&door, &server)))
}

/// [002] calls the server `name` in what it refuses (M7, M8).
pub fn known_client(door: &Door, name: &str) -> Result<Arc<Server>, Failure> {
    let found = door.hub.registry.server(name);
    found.map_err(|failure| failure.with("name", name))
}

pub fn operated(door: &Door, server: &Server) -> api::Operated {
    let view = server.view();
    let well = view.status.state == Lifecycle::Connected || !view.wanted;
    api::Operated {
        success: true,
        name: server.name.to_string(),
        status: match door.hub.registry.standing(&server.name) {
            Standing::Pending(_) => PENDING,
            Standing::Configured | Standing::Ephemeral(_) => view.state().as_str(),
        }
        .to_owned(),
        error: view.status.reason.filter(|_| !well),
        tools: tool_names(door, server),
        warnings: Vec::new(),
    }
}

pub fn client_operated(door: &Door, server: &Server) -> api::ClientOperated {
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
