//! Calls a tool, reads a resource, gets a prompt: one upstream request each, on the shared session.

use std::sync::Arc;

use axum::extract::{Request, State};
use mainstay_api::{self as api, Raw};
use mainstay_core::{
    catalog::{ListKind, Owner, Target},
    failure::Failure,
    ids::ServerName,
    lifecycle::State as ServerState,
    message::{self, Method},
};
use mainstay_gateway::{resource_not_found, shared_page, supervisor::Server};
use serde_json::Value;

use crate::{
    RestDoor,
    call::{Answered, Call},
    refusal::Refusal,
    via::Via,
};
use mainstay_doorway::json_views::{
    calls::first_content,
    lists::{NotFound, named_server, not_found, of_absent},
};

pub async fn call_tool(
    State(door): State<RestDoor>,
    via: Via,
    request: Request,
) -> Answered<api::Answer> {
    let run = |mut call| async {
        let answer = run_tool(&mut call, request).await;
        (call, answer)
    };
    Call::answer(door, via, Method::ToolsCall, run).await
}

async fn run_tool(call: &mut Call, request: Request) -> Result<api::Answer, Refusal> {
    call.is_configured()?;
    let body: api::Call = call.body(request).await?;
    call.wanted.name = body.tool.clone().unwrap_or_default();
    // A tool without arguments is called with none.
    let arguments = object(body.arguments)?.unwrap_or_else(|| "{}".to_owned());
    call.wanted.arguments = Some(arguments.as_str().into());
    let name = body.tool.ok_or(Refusal::MissingParameter("tool"))?;
    let (server, original) = named(call, ListKind::Tools, &name).await?;
    let params = format!(r#"{{"name":{original},"arguments":{arguments}}}"#);
    let result = call
        .ask(server, &params)
        .await
        .map_err(in_words_of_clients)?;
    Ok(api::Answer { result })
}

/// A failure with the status that `GET /api/mcp-clients` has for its server.
fn in_words_of_clients(mut failure: Failure) -> Failure {
    let known = failure.details.get("status").and_then(Value::as_str);
    let state = ServerState::ALL
        .into_iter()
        .find(|state| Some(state.as_str()) == known);
    if let Some(state) = state {
        failure = failure.with("status", state.words().rest);
    }
    failure
}

pub async fn get_prompt(
    State(door): State<RestDoor>,
    via: Via,
    request: Request,
) -> Answered<api::Answer> {
    let run = |mut call| async {
        let answer = run_prompt(&mut call, request).await;
        (call, answer)
    };
    Call::answer(door, via, Method::PromptsGet, run).await
}

async fn run_prompt(call: &mut Call, request: Request) -> Result<api::Answer, Refusal> {
    let body: api::GetPrompt = call.body(request).await?;
    call.wanted.name = body.prompt.clone().unwrap_or_default();
    let given = object(body.arguments)?;
    call.wanted.arguments = given.as_deref().map(Into::into);
    let name = body.prompt.ok_or(Refusal::MissingParameter("prompt"))?;
    let (server, original) = named(call, ListKind::Prompts, &name).await?;
    let arguments = given.map(|json| format!(r#","arguments":{json}"#));
    let arguments = arguments.unwrap_or_default();
    let params = format!(r#"{{"name":{original}{arguments}}}"#);
    let result = call.ask(server, &params).await?;
    Ok(api::Answer { result })
}

/// `POST /api/mcp-resources/read`. A resource of several contents is read whole with [`read_whole`].
pub async fn read(
    State(door): State<RestDoor>,
    via: Via,
    request: Request,
) -> Answered<api::Content> {
    let run = |mut call| async {
        let answer = run_read(&mut call, request).await;
        (call, answer)
    };
    Call::answer(door, via, Method::ResourcesRead, run).await
}

async fn run_read(call: &mut Call, request: Request) -> Result<api::Content, Refusal> {
    call.is_configured()?;
    let (server, uri) = address(call, request).await?;
    let server = server.ok_or(Refusal::MissingParameter("server"))?;
    let whole = read_from(call, &server, &uri?).await?;
    Ok(first_content(&whole.result, &call.wanted.name)?)
}

pub async fn read_whole(
    State(door): State<RestDoor>,
    via: Via,
    request: Request,
) -> Answered<api::WholeRead> {
    let run = |mut call| async {
        let answer = run_read_whole(&mut call, request).await;
        (call, answer)
    };
    Call::answer(door, via, Method::ResourcesRead, run).await
}

async fn run_read_whole(call: &mut Call, request: Request) -> Result<api::WholeRead, Refusal> {
    let (server, uri) = address(call, request).await?;
    let uri = uri?;
    match server {
        Some(server) => read_from(call, &server, &uri).await,
        None => read_anywhere(call, &uri).await,
    }
}

/// The server and the URI that a request names.
async fn address(
    call: &mut Call,
    request: Request,
) -> Result<(Option<String>, Result<String, Refusal>), Refusal> {
    let api::Read { server, uri } = call.body(request).await?;
    call.wanted.name = uri.clone().unwrap_or_default();
    Ok((server, uri.ok_or(Refusal::MissingParameter("uri"))))
}

async fn read_from(call: &mut Call, server: &str, uri: &str) -> Result<api::WholeRead, Refusal> {
    let server = call.gateway().server(&call.view, server)?;
    let name = server.name.to_string();
    // A URI that says its server, as the list of `/mcp` may have it.
    let own = call
        .view
        .resource(uri)
        .target()
        .filter(|target| target.server == server.name);
    let original = own.map_or_else(|| uri.to_owned(), |target| target.original.to_string());
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

/// Reads from the owner, if it is known; else the servers are asked which of them has it.
async fn read_anywhere(call: &mut Call, uri: &str) -> Result<api::WholeRead, Refusal> {
    let gateway = call.gateway();
    gateway.registry.settled().await;
    let owner = match gateway.owner(&call.view, uri) {
        Owner::Server(owner) => Ok(owner),
        Owner::Absent(Some(server)) => Err(of_absent(
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

/// Finds the server of the tool or prompt of this name, and its own name for it (JSON text). The spellings
/// of `/mcp` are understood, too, where they are unique. A known
/// one is found without waiting. Before one is reported missing, servers that are starting have their
/// time, and the server that the name names is tried if it was never listed.
async fn named(call: &Call, kind: ListKind, name: &str) -> Result<(Arc<Server>, String), Refusal> {
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
    let found = found.map_err(|why| {
        let named = view.named_by(name);
        let named = named.as_ref().map(ServerName::as_str);
        match not_found(
            |server| gateway.server(view, server),
            kind,
            named,
            name,
            why,
        ) {
            NotFound::Failed(failure) => NotFound::Failed(in_words_of_clients(failure)),
            unclear @ NotFound::Unclear { .. } => unclear,
        }
    });
    let Target { server, original } = found?;
    let server = registry.server(server.as_str())?;
    Ok((server, message::quote(&original)))
}
