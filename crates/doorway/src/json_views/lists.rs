//! Texts of list items, and failures for names that do not resolve. REST and own tools share them.

use std::sync::Arc;

use mainstay_api::Raw;
use mainstay_core::{
    catalog::{CatalogItem, ListKind, Part},
    failure::{Failure, FailureKind},
    ids::ServerName,
    lifecycle::SessionState,
    names::Unresolved,
};
use mainstay_gateway::{registry::Registry, supervisor::ServerHandle};
use serde_json::value::RawValue;

/// The full name of an item, as `server/tool`.
pub fn full_name(part: &Part, item: &CatalogItem) -> String {
    format!("{}/{}", part.server, item.key)
}

/// A text member of an item. An absent member is an empty text.
pub fn text(item: &CatalogItem, member: &str) -> String {
    item.text(member).unwrap_or_default()
}

/// A part of a received item as raw JSON. Received items are valid JSON.
pub fn raw(json: &str) -> Raw {
    RawValue::from_string(json.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The failure for a tool that the server does not have.
pub fn unknown_tool(server: &ServerHandle, tool: &str) -> Failure {
    Failure::new(FailureKind::ToolNotFound, format!("Unknown tool: {tool}"))
        .with_server(&server.name)
        .with("tool", tool)
}

/// Adds the status of `server` to a failure, or the fact that there is no such server.
pub fn with_server_status(registry: &Registry, failure: Failure, server: &ServerName) -> Failure {
    let Some(server) = registry.named(server) else {
        let message = format!("{} (there is no server '{server}')", failure.message);
        return Failure { message, ..failure }.with_server(server);
    };
    if server.view().status.state == SessionState::Connected {
        let message = format!(
            "{} (server '{}' is connected)",
            failure.message, server.name
        );
        return Failure { message, ..failure }
            .with_server(&server.name)
            .with("status", SessionState::Connected.as_str());
    }
    let mut failure_of_server = server.not_connected();
    failure_of_server.details.extend(failure.details);
    Failure {
        message: format!("{} ({})", failure.message, failure_of_server.message),
        kind: failure.kind,
        ..failure_of_server
    }
}

/// The reason that a name resolves to no tool or prompt.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// The name is neither `server/tool` nor another spelling of exactly one tool.
    #[error("{name:?} is not the name of a tool: {reason}")]
    Unclear { name: String, reason: String },
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// The server in a name like `server/tool`, else the server of the request.
pub fn named_server<'a>(name: &'a str, requested_server: Option<&'a str>) -> Option<&'a str> {
    let before_slash = name.split_once('/').map(|(server, _)| server);
    before_slash.or(requested_server)
}

/// The error for an unresolved tool or prompt name. The server is unknown or not connected, it has
/// no such item, or the name is ambiguous. `server` looks up a server by name.
pub fn not_found(
    server: impl FnOnce(&str) -> Result<Arc<ServerHandle>, Failure>,
    kind: ListKind,
    requested_server: Option<&str>,
    name: &str,
    unresolved_item: Unresolved,
) -> NotFound {
    let (item_kind, failure) = match kind {
        ListKind::Prompts => ("prompt", FailureKind::PromptNotFound),
        _ => ("tool", FailureKind::ToolNotFound),
    };
    let reason = match unresolved_item {
        Unresolved::Ambiguous(candidates) => format!("it may mean {}", candidates.join(" or ")),
        Unresolved::Unknown => format!("expected server/{item_kind}"),
    };
    let failure = match named_server(name, requested_server).map(server) {
        Some(Err(failure)) => failure,
        Some(Ok(server)) if server.view().status.state != SessionState::Connected => {
            server.not_connected()
        }
        Some(Ok(server)) => {
            let message = format!(
                "Server '{}' has no {item_kind} of that name: {name}",
                server.name
            );
            Failure::new(failure, message)
                .with_server(&server.name)
                .with(item_kind, name)
        }
        None if kind == ListKind::Tools => {
            return NotFound::Unclear {
                name: name.to_owned(),
                reason,
            };
        }
        None => Failure::new(failure, format!("Unknown {item_kind} {name}: {reason}"))
            .with(item_kind, name),
    };
    failure.into()
}
