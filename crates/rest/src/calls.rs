//! Calls a tool, reads a resource, or gets a prompt. Each sends one request in the server's shared
//! session.

use std::sync::Arc;

use axum::extract::{Request, State};
use mainstay_api::{self as api, Raw};
use mainstay_core::{
    catalog::{ItemTarget, ListKind, Owner},
    failure::Failure,
    ids::ServerName,
    lifecycle::SessionState as ServerState,
    message::{self, Method},
};
use mainstay_gateway::{resource_not_found, shared_page, supervisor::ServerHandle};
use serde_json::Value;

use crate::{
    RestDoor,
    call::{CallAnswer, RestCall},
    refusal::Refusal,
    via::Via,
};
use mainstay_doorway::json_views::{
    calls::first_content,
    lists::{NotFound, named_server, not_found, with_server_status},
};

pub async fn call_tool(
    State(door): State<RestDoor>,
    via: Via,
    request: Request,
) -> CallAnswer<api::Answer> {
    let run = |mut call| async {
        let answer = run_tool(&mut call, request).await;
        (call, answer)
    };
    RestCall::answer(door, via, Method::ToolsCall, run).await
}

async fn run_tool(call: &mut RestCall, request: Request) -> Result<api::Answer, Refusal> {
    call.is_configured()?;
    let body: api::Call = call.body(request).await?;
    call.requested.name = body.tool.clone().unwrap_or_default();
    // Absent arguments become an empty object.
    let arguments = object(body.arguments)?.unwrap_or_else(|| "{}".to_owned());
    call.requested.arguments = Some(arguments.as_str().into());
    let name = body.tool.ok_or(Refusal::MissingParameter("tool"))?;
    let (server, original) = named(call, ListKind::Tools, &name).await?;
    let params = format!(r#"{{"name":{original},"arguments":{arguments}}}"#);
    let result = call
        .ask(server, &params)
        .await
        .map_err(with_client_status)?;
    Ok(api::Answer { result })
}

/// Replaces the status in a failure by its word in `GET /api/mcp-clients`.
fn with_client_status(mut failure: Failure) -> Failure {
    let status = failure.details.get("status").and_then(Value::as_str);
    let state = ServerState::ALL
        .into_iter()
        .find(|state| Some(state.as_str()) == status);
    if let Some(state) = state {
        failure = failure.with("status", state.words().rest);
    }
    failure
}

pub async fn get_prompt(
    State(door): State<RestDoor>,
    via: Via,
    request: Request,
) -> CallAnswer<api::Answer> {
    let run = |mut call| async {
        let answer = run_prompt(&mut call, request).await;
        (call, answer)
    };
    RestCall::answer(door, via, Method::PromptsGet, run).await
}

async fn run_prompt(call: &mut RestCall, request: Request) -> Result<api::Answer, Refusal> {
    let body: api::GetPrompt = call.body(request).await?;
    call.requested.name = body.prompt.clone().unwrap_or_default();
    let arguments = object(body.arguments)?;
    call.requested.arguments = arguments.as_deref().map(Into::into);
    let name = body.prompt.ok_or(Refusal::MissingParameter("prompt"))?;
    let (server, original) = named(call, ListKind::Prompts, &name).await?;
    let member = arguments.map(|json| format!(r#","arguments":{json}"#));
    let member = member.unwrap_or_default();
    let params = format!(r#"{{"name":{original}{member}}}"#);
    let result = call.ask(server, &params).await?;
    Ok(api::Answer { result })
}

/// Answers `POST /api/mcp-resources/read` with the first content. [`read_whole`] returns all
/// contents.
pub async fn read(
    State(door): State<RestDoor>,
    via: Via,
    request: Request,
) -> CallAnswer<api::Content> {
    let run = |mut call| async {
        let answer = run_read(&mut call, request).await;
        (call, answer)
    };
    RestCall::answer(door, via, Method::ResourcesRead, run).await
}

async fn run_read(call: &mut RestCall, request: Request) -> Result<api::Content, Refusal> {
    call.is_configured()?;
    let (server, uri) = address(call, request).await?;
    let server = server.ok_or(Refusal::MissingParameter("server"))?;
    let whole = read_from(call, &server, &uri?).await?;
    Ok(first_content(&whole.result, &call.requested.name)?)
}

pub async fn read_whole(
    State(door): State<RestDoor>,
    via: Via,
    request: Request,
) -> CallAnswer<api::WholeRead> {
    let run = |mut call| async {
        let answer = run_read_whole(&mut call, request).await;
        (call, answer)
    };
    RestCall::answer(door, via, Method::ResourcesRead, run).await
}

async fn run_read_whole(call: &mut RestCall, request: Request) -> Result<api::WholeRead, Refusal> {
    let (server, uri) = address(call, request).await?;
    let uri = uri?;
    match server {
        Some(server) => read_from(call, &server, &uri).await,
        None => read_anywhere(call, &uri).await,
    }
}

/// Reads the server and the URI from a request. A missing URI is the inner error.
async fn address(
    call: &mut RestCall,
    request: Request,
) -> Result<(Option<String>, Result<String, Refusal>), Refusal> {
    let api::Read { server, uri } = call.body(request).await?;
    call.requested.name = uri.clone().unwrap_or_default();
    Ok((server, uri.ok_or(Refusal::MissingParameter("uri"))))
}

async fn read_from(
    call: &mut RestCall,
    server: &str,
    uri: &str,
) -> Result<api::WholeRead, Refusal> {
    let server = call.gateway().server(&call.view, server)?;
    let name = server.name.to_string();
    // The URI may be one from the list of `/mcp`, with the name of its server.
    let target = call
        .view
        .resource(uri)
        .target()
        .filter(|target| target.server == server.name);
    let original = target.map_or_else(|| uri.to_owned(), |target| target.original.to_string());
    if !call.view.has_resource(&server.name, &original) {
        return Err(resource_not_found(uri).into());
    }
    let params = format!(r#"{{"uri":{}}}"#, message::quote(&original));
    let result = call.ask(server, &params).await?;
    Ok(api::WholeRead {
        server: name,
        result,
    })
}

/// Reads a resource without a given server. Asks all servers if the owner is unknown.
async fn read_anywhere(call: &mut RestCall, uri: &str) -> Result<api::WholeRead, Refusal> {
    let gateway = call.gateway();
    gateway.registry.settled().await;
    let owner = match gateway.owner(&call.view, uri) {
        Owner::Server(owner) => Ok(owner),
        Owner::Absent(Some(server)) => Err(with_server_status(
            &gateway.registry,
            resource_not_found(uri),
            &server,
        )),
        Owner::Absent(None) => Err(resource_not_found(uri)),
        Owner::Shared(servers) => Err(shared_page(uri, &servers)),
        Owner::Unlisted => match gateway.find_owner(&call.view, uri).await {
            Owner::Server(owner) => Ok(owner),
            Owner::Shared(servers) => Err(shared_page(uri, &servers)),
            Owner::Absent(_) | Owner::Unlisted => Err(resource_not_found(uri)),
        },
    };
    let owner = owner?;
    read_from(call, owner.server.as_str(), &owner.original).await
}

/// The JSON text of the arguments; `None` if they are absent or `null`.
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

/// Finds the server of a tool or prompt, and the original name (JSON text). Accepts every spelling
/// that is unique. If the name is unknown, waits for servers that are starting, and for the list of
/// the server in the name.
async fn named(
    call: &RestCall,
    kind: ListKind,
    name: &str,
) -> Result<(Arc<ServerHandle>, String), Refusal> {
    let (gateway, view) = (call.gateway(), &call.view);
    let registry = &gateway.registry;
    let mut found = view.find(kind, name);
    if found.is_err() {
        registry.settled().await;
        let named = view.named_by(name);
        let named = named.as_ref().map(ServerName::as_str);
        if let Some(Ok(server)) =
            named_server(name, named).map(|server| gateway.server(view, server))
        {
            let in_time = registry.listed_for_call(&server).await;
            if view.find(kind, name).is_err() {
                in_time?;
            }
        }
        found = view.find(kind, name);
    }
    let found = found.map_err(|unresolved| {
        let named = view.named_by(name);
        let named = named.as_ref().map(ServerName::as_str);
        match not_found(
            |server| gateway.server(view, server),
            kind,
            named,
            name,
            unresolved,
        ) {
            NotFound::Failed(failure) => NotFound::Failed(with_client_status(failure)),
            unclear @ NotFound::Unclear { .. } => unclear,
        }
    });
    let ItemTarget {
        server, original, ..
    } = found?;
    let server = registry.server(server.as_str())?;
    Ok((server, message::quote(&original)))
}
