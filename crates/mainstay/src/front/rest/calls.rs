//! Tools called, resources read, prompts got: one request upstream each, on the shared session.

use std::sync::Arc;

use axum::{Json, extract::State};
use mainstay_core::{
    catalog::{Catalog, ListKind, Target},
    failure::{Failure, FailureKind},
    lifecycle::State as Lifecycle,
    message::{self, Method},
    names::Unresolved,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{Door, body::Body, lists, refusal::Refusal, via::Via};
use crate::{
    api::{self, Raw},
    calls::{Outlet, Request, Upstream},
    front::mcp::Hub,
    supervisor::Server,
    transport::Frame,
};

/// What servers answer to `resources/read` of a resource they do not have.
const RESOURCE_NOT_FOUND: i64 = -32002;

pub async fn call_tool(
    State(door): State<Door>,
    via: Via,
    Body(call): Body<api::Call>,
) -> Result<Json<api::Answer>, Refusal> {
    let name = call.tool.ok_or(Refusal::MissingParameter("tool"))?;
    // K1: a tool without arguments is called with none.
    let arguments = object(call.arguments)?.unwrap_or_else(|| "{}".to_owned());
    let target = named(&door.hub, ListKind::Tools, &name).await?;
    let params = format!(
        r#"{{"name":{},"arguments":{arguments}}}"#,
        message::quote(&target.original)
    );
    let result = ask(
        &door.hub,
        via,
        target.server.as_str(),
        Method::ToolsCall,
        &params,
    )
    .await?;
    Ok(Json(api::Answer { result }))
}

pub async fn get_prompt(
    State(door): State<Door>,
    via: Via,
    Body(get): Body<api::GetPrompt>,
) -> Result<Json<api::Answer>, Refusal> {
    let name = get.prompt.ok_or(Refusal::MissingParameter("prompt"))?;
    let arguments = object(get.arguments)?
        .map(|json| format!(r#","arguments":{json}"#))
        .unwrap_or_default();
    let target = named(&door.hub, ListKind::Prompts, &name).await?;
    let params = format!(
        r#"{{"name":{}{arguments}}}"#,
        message::quote(&target.original)
    );
    let result = ask(
        &door.hub,
        via,
        target.server.as_str(),
        Method::PromptsGet,
        &params,
    )
    .await?;
    Ok(Json(api::Answer { result }))
}

/// M5. A resource of several contents is read whole with [`read_whole`].
pub async fn read(
    State(door): State<Door>,
    via: Via,
    Body(read): Body<api::Read>,
) -> Result<Json<api::Content>, Refusal> {
    let server = read.server.ok_or(Refusal::MissingParameter("server"))?;
    let uri = read.uri.ok_or(Refusal::MissingParameter("uri"))?;
    let whole = read_from(&door.hub, via, &server, &uri).await?;
    Ok(Json(first_content(&whole.result, &uri)?))
}

pub async fn read_whole(
    State(door): State<Door>,
    via: Via,
    Body(read): Body<api::Read>,
) -> Result<Json<api::WholeRead>, Refusal> {
    let uri = read.uri.ok_or(Refusal::MissingParameter("uri"))?;
    Ok(Json(match read.server {
        Some(server) => read_from(&door.hub, via, &server, &uri).await?,
        None => read_anywhere(&door.hub, via, &uri).await?,
    }))
}

async fn read_from(
    hub: &Arc<Hub>,
    via: Via,
    server: &str,
    uri: &str,
) -> Result<api::WholeRead, Failure> {
    let server = hub.registry.server(server)?.name.to_string();
    // A URI that says its server, as the list of `/mcp` may have it.
    let own = hub
        .registry
        .catalog()
        .resource(uri)
        .filter(|target| target.server.as_str() == server);
    let original = own.map_or_else(|| uri.to_owned(), |target| target.original.to_string());
    let params = format!(r#"{{"uri":{}}}"#, message::quote(&original));
    let result = ask(hub, via, &server, Method::ResourcesRead, &params).await?;
    Ok(api::WholeRead { server, result })
}

/// From its owner, where that is known; else the servers are asked in the order of the
/// configuration until one has it (design section 12).
async fn read_anywhere(hub: &Arc<Hub>, via: Via, uri: &str) -> Result<api::WholeRead, Failure> {
    hub.registry.settled().await;
    if let Some(target) = hub.owner_of_all(uri) {
        return read_from(hub, via, target.server.as_str(), &target.original).await;
    }
    for server in hub.registry.servers() {
        let asked = server
            .view()
            .session
            .is_some_and(|session| session.greeting.capabilities.resources);
        if asked && let Ok(whole) = read_from(hub, via, server.name.as_str(), uri).await {
            hub.remember_owner(
                None,
                uri,
                Target {
                    server: server.name.clone(),
                    original: uri.into(),
                },
            );
            return Ok(whole);
        }
    }
    Err(resource_not_found(uri))
}

fn resource_not_found(uri: &str) -> Failure {
    Failure::new(
        FailureKind::ResourceNotFound,
        format!("Resource {uri} not found"),
    )
    .with("uri", uri)
}

fn first_content(result: &RawValue, uri: &str) -> Result<api::Content, Failure> {
    #[derive(Deserialize)]
    struct Contents {
        contents: Vec<Content>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Content {
        text: Option<Raw>,
        blob: Option<Raw>,
        mime_type: Option<Raw>,
    }
    let unusable = || {
        Failure::new(
            FailureKind::CallFailed,
            "the server's answer has no contents",
        )
        .with("uri", uri)
    };
    let read: Contents = serde_json::from_str(result.get()).map_err(|_| unusable())?;
    let first = read
        .contents
        .into_iter()
        .next()
        .ok_or_else(|| resource_not_found(uri))?;
    let content = first.text.or(first.blob).ok_or_else(unusable)?;
    Ok(api::Content {
        content,
        mime_type: first.mime_type,
    })
}

/// The arguments as JSON text; `null` counts as none.
pub fn object(arguments: Option<Raw>) -> Result<Option<String>, Refusal> {
    let Some(arguments) = arguments.filter(|json| json.get() != "null") else {
        return Ok(None);
    };
    if arguments.get().starts_with('{') {
        Ok(Some(arguments.get().to_owned()))
    } else {
        Err(Refusal::Malformed(
            "\"arguments\" must be an object".to_owned(),
        ))
    }
}

/// Finds the tool or prompt of this name. One that is known waits for nobody; before one is said
/// not to be there, servers that are starting have their time.
async fn named(hub: &Hub, kind: ListKind, name: &str) -> Result<Target, Refusal> {
    if let Ok(target) = lookup(&hub.registry.catalog(), kind, name) {
        return Ok(target);
    }
    hub.registry.settled().await;
    lookup(&hub.registry.catalog(), kind, name)
        .map_err(|unresolved| not_found(hub, kind, name, unresolved))
}

/// `server/tool` comes first; the spellings of `/mcp` are understood where they are unique.
fn lookup(catalog: &Catalog, kind: ListKind, name: &str) -> Result<Target, Unresolved> {
    if let Some((server, original)) = name.split_once('/')
        && let Some(part) = catalog
            .parts()
            .iter()
            .find(|part| part.server.as_str() == server)
        && lists::shown(part, kind).any(|item| *item.key == *original)
    {
        return Ok(Target {
            server: part.server.clone(),
            original: original.into(),
        });
    }
    let found = if kind == ListKind::Prompts {
        catalog.prompt(name)
    } else {
        catalog.tool(name)
    };
    found.cloned()
}

/// K2: the server is unknown, or down, or does not have it, or the name cannot be understood.
fn not_found(hub: &Hub, kind: ListKind, name: &str, unresolved: Unresolved) -> Refusal {
    let (what, failure) = match kind {
        ListKind::Prompts => ("prompt", FailureKind::PromptNotFound),
        _ => ("tool", FailureKind::ToolNotFound),
    };
    let unclear = match unresolved {
        Unresolved::Ambiguous(candidates) => format!("it may mean {}", candidates.join(" or ")),
        Unresolved::Unknown => format!("expected server/{what}"),
    };
    match name
        .split_once('/')
        .map(|(server, _)| hub.registry.server(server))
    {
        Some(Err(failure)) => failure.into(),
        Some(Ok(server)) if server.view().status.state != Lifecycle::Connected => {
            server.not_connected().into()
        }
        Some(Ok(server)) => {
            let message = format!(
                "Server '{}' has no {what} of that name: {name}",
                server.name
            );
            Failure::new(failure, message)
                .of_server(&server.name)
                .with(what, name)
                .into()
        }
        None if kind == ListKind::Tools => Refusal::InvalidToolName {
            name: name.to_owned(),
            reason: unclear,
        },
        None => Failure::new(failure, format!("Unknown {what} {name}: {unclear}"))
            .with(what, name)
            .into(),
    }
}

/// One request on the server's shared session. A caller that goes away lets it go on.
pub async fn ask(
    hub: &Hub,
    via: Via,
    server: &str,
    method: Method,
    params: &str,
) -> Result<Raw, Failure> {
    let server = hub.registry.server(server)?;
    let invalid = |reason: String| Failure::new(FailureKind::InvalidRequest, reason);
    let text = message::request(Some(1), method.name(), Some(params));
    let frame = Frame::read(text.into()).map_err(|error| invalid(error.to_string()))?;
    let request =
        Request::new(frame, None).ok_or_else(|| invalid("a request is expected".to_owned()))?;
    let (outlet, _) = Outlet::new(via.client(), None);
    let (_, never) = oneshot::channel();
    let (calls, upstream) = (hub.calls.clone(), Upstream::Shared(Arc::clone(&server)));
    let call = async move { calls.call(upstream, request, outlet, never).await };
    let answer = hub.calls.detachable(call).await?;
    match answer.frame.result() {
        Some(result) => {
            RawValue::from_string(message::one_line(result).into_owned()).map_err(|error| {
                failed(
                    &server,
                    &format!("the server's answer is not JSON: {error}"),
                )
            })
        }
        None => Err(refused(
            &server,
            params,
            answer.frame.error().unwrap_or("{}"),
        )),
    }
}

fn failed(server: &Server, message: &str) -> Failure {
    Failure::new(FailureKind::CallFailed, message).of_server(&server.name)
}

/// K2: an error of the server, with its words and its code.
fn refused(server: &Server, params: &str, error: &str) -> Failure {
    let code: Option<i64> = message::member(error, "code").and_then(|code| code.parse().ok());
    if let (Some(RESOURCE_NOT_FOUND), Some(uri)) = (code, message::text_member(params, "uri")) {
        return resource_not_found(&uri).of_server(&server.name);
    }
    let words =
        message::text_member(error, "message").unwrap_or_else(|| "the server refused".into());
    let mut failure = failed(server, &words);
    if let Some(code) = code {
        failure = failure.with("rpcCode", code);
    }
    if let Some(data) = message::member(error, "data")
        .and_then(|data| serde_json::from_str::<serde_json::Value>(data).ok())
    {
        failure = failure.with("data", data);
    }
    failure
}
