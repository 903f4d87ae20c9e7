//! The tools, prompts, resources and templates of servers, item by item.

use std::sync::Arc;

use mainstay_api::Raw;
use mainstay_core::{
    catalog::{Item, ListKind, Part},
    failure::{Failure, FailureKind},
    ids::ServerName,
    lifecycle::State,
    names::Unresolved,
};
use mainstay_gateway::{registry::Registry, supervisor::Server};
use serde_json::value::RawValue;

/// `server/tool`
pub fn full_name(part: &Part, item: &Item) -> String {
    format!("{}/{}", part.server, item.key)
}

/// An absent description is an empty text.
pub fn text(item: &Item, member: &str) -> String {
    item.text(member).unwrap_or_default()
}

/// Part of an item as it came, which was valid JSON as a whole.
pub fn raw(json: &str) -> Raw {
    RawValue::from_string(json.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The server has no tool of this name for any client.
pub fn unknown_tool(server: &Server, tool: &str) -> Failure {
    Failure::new(FailureKind::ToolNotFound, format!("Unknown tool: {tool}"))
        .of_server(&server.name)
        .with("tool", tool)
}

/// Something of this server is not there: how the server is says more.
pub fn of_absent(registry: &Registry, failure: Failure, server: &ServerName) -> Failure {
    let Some(server) = registry.named(server) else {
        let message = format!("{} (there is no server '{server}')", failure.message);
        return Failure { message, ..failure }.of_server(server);
    };
    if server.view().status.state == State::Connected {
        let message = format!(
            "{} (server '{}' is connected)",
            failure.message, server.name
        );
        return Failure { message, ..failure }
            .of_server(&server.name)
            .with("status", State::Connected.as_str());
    }
    let mut why = server.not_connected();
    why.details.extend(failure.details);
    Failure {
        message: format!("{} ({})", failure.message, why.message),
        kind: failure.kind,
        ..why
    }
}

/// Why there is no tool or prompt of this name.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// Neither `server/tool` nor another spelling that means one tool.
    #[error("{name:?} is not the name of a tool: {reason}")]
    Unclear { name: String, reason: String },
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// The server of `server/tool`, or the one that the name names in another spelling.
pub fn named_server<'a>(name: &'a str, named: Option<&'a str>) -> Option<&'a str> {
    let before_slash = name.split_once('/').map(|(server, _)| server);
    before_slash.or(named)
}

/// The server is unknown, or down, or does not have it, or the name cannot be understood. `named` is
/// the server that the name names in another spelling than `server/tool`.
pub fn not_found(
    server: impl FnOnce(&str) -> Result<Arc<Server>, Failure>,
    kind: ListKind,
    named: Option<&str>,
    name: &str,
    unresolved: Unresolved,
) -> NotFound {
    let (what, failure) = match kind {
        ListKind::Prompts => ("prompt", FailureKind::PromptNotFound),
        _ => ("tool", FailureKind::ToolNotFound),
    };
    let unclear = match unresolved {
        Unresolved::Ambiguous(candidates) => format!("it may mean {}", candidates.join(" or ")),
        Unresolved::Unknown => format!("expected server/{what}"),
    };
    let failure = match named_server(name, named).map(server) {
        Some(Err(failure)) => failure,
        Some(Ok(server)) if server.view().status.state != State::Connected => {
            server.not_connected()
        }
        Some(Ok(server)) => {
            let message = format!(
                "Server '{}' has no {what} of that name: {name}",
                server.name
            );
            Failure::new(failure, message)
                .of_server(&server.name)
                .with(what, name)
        }
        None if kind == ListKind::Tools => {
            return NotFound::Unclear {
                name: name.to_owned(),
                reason: unclear,
            };
        }
        None => Failure::new(failure, format!("Unknown {what} {name}: {unclear}")).with(what, name),
    };
    failure.into()
}
