//! Tools called, resources read, prompts got: one request upstream each, on the shared session.

use std::sync::Arc;

use axum::{Json, extract::State};
use bytestring::ByteString;
use mainstay_core::{
    catalog::{Catalog, ListKind, Owner, Target},
    failure::Failure,
    ids::ServerName,
    message::{self, Method},
    names::Unresolved,
};
use tokio::sync::oneshot;

use super::{Door, body::Body, refusal::Refusal, via::Via};
use crate::{
    api::{self, Raw},
    calls::Refused,
    front::{
        mcp::Hub,
        plain::{
            self,
            calls::{first_content, resource_not_found},
            lists::{NotFound, not_found, of_absent},
        },
    },
    supervisor::Server,
};

pub async fn call_tool(
    State(door): State<Door>,
    via: Via,
    Body(call): Body<api::Call>,
) -> Result<Json<api::Answer>, Refusal> {
    let name = call.tool.ok_or(Refusal::MissingParameter("tool"))?;
    // K1: a tool without arguments is called with none.
    let arguments = object(call.arguments)?.unwrap_or_else(|| "{}".to_owned());
    let asked = Refused {
        client: &via.client(),
        method: Method::ToolsCall,
        name: &name,
        arguments: Some(arguments.as_str().into()),
    };
    let target = named(&door.hub, ListKind::Tools, asked).await?;
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
    let get_arguments = object(get.arguments)?;
    let arguments = get_arguments
        .as_ref()
        .map(|json| format!(r#","arguments":{json}"#))
        .unwrap_or_default();
    let asked = Refused {
        client: &via.client(),
        method: Method::PromptsGet,
        name: &name,
        arguments: get_arguments.as_deref().map(ByteString::from),
    };
    let target = named(&door.hub, ListKind::Prompts, asked).await?;
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
    let params = format!(r#"{{"uri":{}}}"#, message::quote(uri));
    let server = known(hub, via, server, Method::ResourcesRead, &params).await?;
    let server = server.name.to_string();
    // A URI that says its server, as the list of `/mcp` may have it.
    let own = hub
        .registry
        .catalog()
        .resource(uri)
        .target()
        .filter(|target| target.server.as_str() == server);
    let original = own.map_or_else(|| uri.to_owned(), |target| target.original.to_string());
    let params = format!(r#"{{"uri":{}}}"#, message::quote(&original));
    let result = ask(hub, via, &server, Method::ResourcesRead, &params).await?;
    Ok(api::WholeRead { server, result })
}

/// From its owner, where that is known; else the servers are asked which of them has it.
async fn read_anywhere(hub: &Arc<Hub>, via: Via, uri: &str) -> Result<api::WholeRead, Failure> {
    hub.registry.settled().await;
    let owner = match hub.owner_of_all(uri) {
        Owner::Server(owner) => Ok(owner),
        Owner::Absent(Some(server)) => {
            Err(of_absent(&hub.registry, resource_not_found(uri), &server))
        }
        Owner::Absent(None) => Err(resource_not_found(uri)),
        Owner::Unlisted => {
            let found = hub.find_owner(None, hub.registry.servers(), uri).await;
            found.ok_or_else(|| resource_not_found(uri))
        }
    };
    match owner {
        Ok(owner) => read_from(hub, via, owner.server.as_str(), &owner.original).await,
        Err(failure) => {
            let refused = Refused {
                client: &via.client(),
                method: Method::ResourcesRead,
                name: uri,
                arguments: None,
            };
            Err(hub.calls.refuse(Some(refused), failure).await)
        }
    }
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
async fn named(hub: &Hub, kind: ListKind, asked: Refused<'_>) -> Result<Target, Refusal> {
    let name = asked.name;
    if let Ok(target) = lookup(&hub.registry.catalog(), kind, name) {
        return Ok(target);
    }
    hub.registry.settled().await;
    let catalog = hub.registry.catalog();
    let why = match lookup(&catalog, kind, name) {
        Ok(target) => return Ok(target),
        Err(why) => {
            let named = catalog.named_by(name).map(ServerName::as_str);
            not_found(|server| hub.registry.server(server), kind, named, name, why)
        }
    };
    Err(match why {
        NotFound::Failed(failure) => hub.calls.refuse(Some(asked), failure).await.into(),
        NotFound::Unclear { .. } => why.into(),
    })
}

/// The spellings of `/mcp` are understood, too, where they are unique.
fn lookup(catalog: &Catalog, kind: ListKind, name: &str) -> Result<Target, Unresolved> {
    let found = if kind == ListKind::Prompts {
        catalog.prompt(name)
    } else {
        catalog.tool(name)
    };
    found.cloned()
}

/// The server of this name.
async fn known(
    hub: &Hub,
    via: Via,
    name: &str,
    method: Method,
    params: &str,
) -> Result<Arc<Server>, Failure> {
    match hub.registry.server(name) {
        Ok(server) => Ok(server),
        Err(failure) => {
            let refused = Refused {
                client: &via.client(),
                method,
                name,
                arguments: Some(params.into()),
            };
            Err(hub.calls.refuse(Some(refused), failure).await)
        }
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
    let server = known(hub, via, server, method, params).await?;
    let (_, never) = oneshot::channel();
    let (calls, params) = (hub.calls.clone(), params.to_owned());
    let call = async move {
        plain::calls::ask(&calls, via.client(), server, method, &params, never).await
    };
    hub.calls.detachable(call).await
}
