//! What there is: servers, tools, resources, prompts.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Json,
    extract::{Query, State},
};
use mainstay_core::{
    catalog::{Item, ListKind, Part},
    config::Launch,
    lifecycle::State as Lifecycle,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Door, refusal::Refusal};
use crate::{
    api::{self, Raw},
    supervisor::Server,
    utc,
};

/// `?server=NAME` (J15)
#[derive(Debug, Deserialize)]
pub struct Filter {
    server: Option<String>,
}

pub async fn clients(State(door): State<Door>) -> Json<api::Clients> {
    let catalog = door.hub.registry.catalog();
    let entry = |server: &Arc<Server>| {
        let view = server.view();
        let part = catalog
            .parts()
            .iter()
            .find(|part| part.server == server.name);
        let entry = api::ClientEntry {
            status: word(view.status.state).to_owned(),
            transport: server.transport().to_owned(),
            tools: part
                .map(|part| {
                    shown(part, ListKind::Tools)
                        .map(|item| full_name(part, item))
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

/// Y3, column 002.
fn word(state: Lifecycle) -> &'static str {
    match state {
        Lifecycle::Crashed | Lifecycle::Stopping => Lifecycle::Disconnected.as_str(),
        other => other.as_str(),
    }
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
    let connected = view.status.state == Lifecycle::Connected;
    let count = |kind| {
        view.catalog
            .as_ref()
            .map_or(0, |catalog| catalog.list(kind).len())
    };
    let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    api::Server {
        name: server.name.to_string(),
        transport: server.transport().to_owned(),
        command,
        url,
        enabled: config.enabled,
        auto_start: config.auto_start,
        status: view.status.state.as_str().to_owned(),
        connected,
        connected_at: view.connected_at.map(utc::rfc3339),
        uptime_ms: view
            .connected_at
            .and_then(|since| since.elapsed().ok())
            .map(millis),
        last_error: view.status.reason.filter(|_| !connected),
        reconnect_attempt: Some(view.status.attempt).filter(|attempt| *attempt > 0),
        next_retry_ms: view
            .status
            .next_retry
            .map(|at| millis(at.saturating_duration_since(Instant::now().into_std()))),
        pid: view.session.and_then(|session| session.pid),
        tools_ready: view.catalog.is_some(),
        tool_count: count(ListKind::Tools),
        resource_count: count(ListKind::Resources) + count(ListKind::Templates),
        prompt_count: count(ListKind::Prompts),
        stderr: server.stderr.lines(),
    }
}

pub async fn tools(
    State(door): State<Door>,
    Query(filter): Query<Filter>,
) -> Result<Json<api::Tools>, Refusal> {
    let tools = each(&door, &filter, ListKind::Tools, |part, item| api::Tool {
        name: full_name(part, item),
        server: part.server.to_string(),
        original_name: item.key.to_string(),
        description: text(item, "description"),
        input_schema: raw(item.member("inputSchema").unwrap_or("{}")),
    });
    Ok(Json(api::Tools {
        tools: tools.await?,
    }))
}

pub async fn resources(
    State(door): State<Door>,
    Query(filter): Query<Filter>,
) -> Result<Json<api::Resources>, Refusal> {
    let resources = each(&door, &filter, ListKind::Resources, |part, item| {
        api::Resource {
            uri: item.key.to_string(),
            server: part.server.to_string(),
            name: text(item, "name"),
            description: text(item, "description"),
            mime_type: item.text("mimeType"),
        }
    });
    Ok(Json(api::Resources {
        resources: resources.await?,
    }))
}

pub async fn templates(
    State(door): State<Door>,
    Query(filter): Query<Filter>,
) -> Result<Json<api::Templates>, Refusal> {
    let templates = each(&door, &filter, ListKind::Templates, |part, item| {
        api::Template {
            uri_template: item.key.to_string(),
            server: part.server.to_string(),
            name: text(item, "name"),
            description: text(item, "description"),
            mime_type: item.text("mimeType"),
        }
    });
    Ok(Json(api::Templates {
        resource_templates: templates.await?,
    }))
}

pub async fn prompts(
    State(door): State<Door>,
    Query(filter): Query<Filter>,
) -> Result<Json<api::Prompts>, Refusal> {
    let prompts = each(&door, &filter, ListKind::Prompts, |part, item| {
        api::Prompt {
            name: full_name(part, item),
            server: part.server.to_string(),
            original_name: item.key.to_string(),
            description: text(item, "description"),
            arguments: raw(item.member("arguments").unwrap_or("[]")),
        }
    });
    Ok(Json(api::Prompts {
        prompts: prompts.await?,
    }))
}

/// One list of all servers, or of one, once those that are starting had their time.
async fn each<T>(
    door: &Door,
    filter: &Filter,
    kind: ListKind,
    entry: impl Fn(&Part, &Item) -> T,
) -> Result<Vec<T>, Refusal> {
    let registry = &door.hub.registry;
    let only = filter
        .server
        .as_deref()
        .map(|name| registry.server(name))
        .transpose()?;
    registry.settled().await;
    let catalog = registry.catalog();
    let parts = catalog.parts().iter().filter(|part| {
        only.as_ref()
            .is_none_or(|server| server.name == part.server)
    });
    let entry = &entry;
    Ok(parts
        .flat_map(|part| shown(part, kind).map(move |item| entry(part, item)))
        .collect())
}

/// What a server lists, without its disabled tools.
pub fn shown(part: &Part, kind: ListKind) -> impl Iterator<Item = &Item> {
    let hidden: &[String] = if kind == ListKind::Tools {
        &part.disabled_tools
    } else {
        &[]
    };
    part.catalog
        .list(kind)
        .iter()
        .filter(|item| !hidden.iter().any(|name| **name == *item.key))
}

/// `server/tool` (J1)
fn full_name(part: &Part, item: &Item) -> String {
    format!("{}/{}", part.server, item.key)
}

/// J3: a description that is absent is empty.
fn text(item: &Item, member: &str) -> String {
    item.text(member).unwrap_or_default()
}

/// Part of an item as it came, which was valid JSON as a whole.
fn raw(json: &str) -> Raw {
    RawValue::from_string(json.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
