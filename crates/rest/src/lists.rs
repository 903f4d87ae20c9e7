//! Lists of tools, resources, templates and prompts.

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_core::catalog::{CatalogItem, ListKind, Part};
use mainstay_gateway::View;
use serde::Deserialize;

use super::{RestDoor, address::Query, refusal::Refusal, via::RequestView};
pub use mainstay_doorway::json_views::lists::{full_name, raw, text};

/// The parameters `?server=NAME`.
#[derive(Debug, Deserialize)]
pub struct ServerFilter {
    server: Option<String>,
}

impl ServerFilter {
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }
}

pub async fn tools(
    State(door): State<RestDoor>,
    RequestView(view): RequestView,
    Query(filter): Query<ServerFilter>,
) -> Result<Json<api::Tools>, Refusal> {
    let tools = list_items(&door, &view, &filter, ListKind::Tools, |part, item| {
        api::Tool {
            name: full_name(part, item),
            server: part.server.to_string(),
            original_name: item.key.to_string(),
            description: text(item, "description"),
            title: item.text("title"),
            annotations: object(item, "annotations"),
            input_schema: raw(item.member("inputSchema").unwrap_or("{}")),
            output_schema: object(item, "outputSchema"),
        }
    });
    Ok(Json(api::Tools {
        tools: tools.await?,
    }))
}

pub async fn resources(
    State(door): State<RestDoor>,
    RequestView(view): RequestView,
    Query(filter): Query<ServerFilter>,
) -> Result<Json<api::Resources>, Refusal> {
    let resources = list_items(&door, &view, &filter, ListKind::Resources, |part, item| {
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
    State(door): State<RestDoor>,
    RequestView(view): RequestView,
    Query(filter): Query<ServerFilter>,
) -> Result<Json<api::Templates>, Refusal> {
    let templates = list_items(&door, &view, &filter, ListKind::Templates, |part, item| {
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
    State(door): State<RestDoor>,
    RequestView(view): RequestView,
    Query(filter): Query<ServerFilter>,
) -> Result<Json<api::Prompts>, Refusal> {
    let prompts = list_items(&door, &view, &filter, ListKind::Prompts, |part, item| {
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

/// A member of an item, if it is a JSON object.
fn object(item: &CatalogItem, member: &str) -> Option<api::Raw> {
    item.member(member)
        .filter(|json| json.starts_with('{'))
        .map(raw)
}

/// A list of one server or of all servers that the client can see. Waits for servers that are
/// starting.
async fn list_items<T>(
    door: &RestDoor,
    view: &View,
    filter: &ServerFilter,
    kind: ListKind,
    entry: impl Fn(&Part, &CatalogItem) -> T,
) -> Result<Vec<T>, Refusal> {
    let registry = &door.gateway.registry;
    let only = filter
        .server
        .as_deref()
        .map(|name| door.gateway.server(view, name))
        .transpose()?;
    registry.settled().await;
    let snapshot = view.snapshot();
    let parts = snapshot.catalog.parts().iter().filter(|part| {
        let is_selected = only
            .as_ref()
            .is_none_or(|server| server.name == part.server);
        is_selected && view.has_server(&part.server)
    });
    let entry = &entry;
    Ok(parts
        .flat_map(|part| visible_items(view, part, kind).map(move |item| entry(part, item)))
        .collect())
}

/// The items of one server that the client can see.
pub fn visible_items<'a>(
    view: &'a View,
    part: &'a Part,
    kind: ListKind,
) -> impl Iterator<Item = &'a CatalogItem> {
    let items = part.visible_items(kind);
    items.filter(move |item| !view.hides_item(kind, &part.server, &item.key))
}
