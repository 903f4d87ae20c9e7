//! The status of servers, and operations that start and stop them.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_config::ServerStanding;
use mainstay_core::{catalog::ListKind, failure::Failure, lifecycle::SessionState as Lifecycle};
use mainstay_gateway::{
    View,
    supervisor::{Operation, ServerHandle},
};
use mainstay_journal::Outage;
use mainstay_platform::utc;

use crate::{RestDoor, address::Path, body::Body, lists, refusal::Refusal, via::RequestView};
pub use mainstay_doorway::json_views::servers::millis;
use mainstay_doorway::json_views::{
    self,
    servers::{Disclosure, PENDING},
};

pub async fn clients(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
) -> Json<api::Clients> {
    let catalog = Arc::clone(&client_view.snapshot().catalog);
    let entry = |server: &Arc<ServerHandle>| {
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
                    lists::visible_items(&client_view, part, ListKind::Tools)
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
        clients: door
            .gateway
            .servers_of(&client_view)
            .iter()
            .map(entry)
            .collect(),
    })
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

pub async fn servers(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
) -> Json<api::Servers> {
    Json(all(&door, &client_view))
}

/// The status of all servers that the client can see.
pub fn all(door: &RestDoor, client_view: &View) -> api::Servers {
    let servers = door.gateway.servers_of(client_view);
    api::Servers {
        servers: servers.iter().map(|server| details(door, server)).collect(),
        warnings: warnings(door),
    }
}

/// Problems that are not those of a single server, the worst first.
pub fn warnings(door: &RestDoor) -> Vec<String> {
    let outage = door
        .gateway
        .calls
        .journal()
        .and_then(|journal| journal.outage());
    let reloader = door.gateway.reloader.as_ref();
    let configuration = reloader.and_then(|reloader| reloader.warning());
    let unrecorded = outage.as_ref().map(unrecorded);
    unrecorded.into_iter().chain(configuration).collect()
}

fn unrecorded(outage: &Outage) -> String {
    let Outage { since, error, lost } = outage;
    let calls = if *lost == 1 { "call" } else { "calls" };
    let since = utc::rfc3339(*since);
    format!("calls are not put on record since {since} ({lost} {calls} so far): {error}")
}

pub fn details(door: &RestDoor, server: &ServerHandle) -> api::Server {
    json_views::servers::details(&door.gateway.registry, server, Disclosure::Operator)
}

/// Answers `POST /api/servers/{name}/start`, `stop`, `restart` and `reconnect` when the operation
/// is complete.
pub async fn operate(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path((name, operation)): Path<(String, String)>,
) -> Result<Json<api::Operated>, Refusal> {
    let operations: &[Operation] = match operation.as_str() {
        "start" => &[Operation::Start],
        "stop" => &[Operation::Stop],
        // `Operation` has no restart.
        "restart" => &[Operation::Stop, Operation::Start],
        "reconnect" => &[Operation::Reconnect],
        _ => {
            return Err(Refusal::UnknownRoute(format!(
                "/api/servers/{name}/{operation}"
            )));
        }
    };
    let server = door.gateway.server(&client_view, &name)?;
    for operation in operations {
        server.operate(*operation).await?;
    }
    Ok(Json(operated(&door, &server)))
}

/// Answers `POST /api/mcp-clients/{name}/reconnect`. Without `force`, a connected server stays
/// connected.
pub async fn reconnect_client(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    body: Option<Body<api::Reconnect>>,
) -> Result<Json<api::ClientOperated>, Refusal> {
    let server = known_client(&door, &client_view, &name)?;
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

/// Answers `POST /api/mcp-clients/{name}/disconnect`.
pub async fn disconnect_client(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
) -> Result<Json<api::ClientLeft>, Refusal> {
    let server = known_client(&door, &client_view, &name)?;
    server.operate(Operation::Stop).await?;
    Ok(Json(client_left(&server)))
}

/// Finds a server for the routes under `/api/mcp-clients`. Their errors have its name as `name`.
pub fn known_client(
    door: &RestDoor,
    client_view: &View,
    name: &str,
) -> Result<Arc<ServerHandle>, Failure> {
    let found = door.gateway.server(client_view, name);
    found.map_err(|failure| failure.with("name", name))
}

pub fn operated(door: &RestDoor, server: &ServerHandle) -> api::Operated {
    let view = server.view();
    let well = view.status.state == Lifecycle::Connected || !view.is_desired_up;
    api::Operated {
        success: true,
        name: server.name.to_string(),
        status: match door.gateway.registry.standing(&server.name) {
            ServerStanding::Pending(_) => PENDING,
            ServerStanding::Configured | ServerStanding::Ephemeral(_) => view.state().as_str(),
        }
        .to_owned(),
        error: view.status.reason.filter(|_| !well),
        tools: tool_names(door, server),
        warnings: Vec::new(),
    }
}

pub fn client_operated(door: &RestDoor, server: &ServerHandle) -> api::ClientOperated {
    api::ClientOperated {
        status: "ok".to_owned(),
        name: server.name.to_string(),
        tools: tool_names(door, server),
    }
}

pub fn client_left(server: &ServerHandle) -> api::ClientLeft {
    api::ClientLeft {
        status: "ok".to_owned(),
        name: server.name.to_string(),
    }
}

/// The names of the server's tools, as `server/tool`.
fn tool_names(door: &RestDoor, server: &ServerHandle) -> Vec<String> {
    let catalog = door.gateway.registry.catalog();
    catalog
        .parts()
        .iter()
        .filter(|part| part.server == server.name)
        .flat_map(|part| {
            part.visible_items(ListKind::Tools)
                .map(|item| lists::full_name(part, item))
        })
        .collect()
}
