//! Adds, replaces, removes, switches and approves servers at run time.
//!
//! A change without `persist` ends with this run.

use std::sync::Arc;

use axum::{Json, extract::State};
use mainstay_api::{self as api, Keeping};
use mainstay_config::{Approval, Runtime, ServerStanding, digest_of_entry, edit::Entry, masking};
use mainstay_core::{
    failure::{Failure, FailureKind},
    ids::ServerName,
};
use mainstay_gateway::{
    registry::{NewServer, OnDuplicate},
    reload::{ChangedBy, FileChange, Reloader, entry_changed, restored},
    supervisor::{Operation, ServerHandle},
};
use serde_json::{Map, Value};

use crate::{
    RestDoor,
    address::{Path, Query},
    body::Body,
    refusal::Refusal,
    servers,
    via::{Author, RequestView},
};

/// The first part of a placeholder's pointer for an entry that is in no file.
const EPHEMERAL: &str = "ephemeral";

/// Answers `POST /api/servers`. Adds a server, also if it cannot be connected now.
pub async fn add(
    State(door): State<RestDoor>,
    Author(by): Author,
    Body(body): Body<Map<String, Value>>,
) -> Result<Json<api::Operated>, Refusal> {
    let EntryRequest {
        name,
        keeping,
        entry,
    } = EntryRequest::read(body)?;
    let on_duplicate = on_duplicate(keeping);
    let new = read(&door, &name, &entry).await?;
    let added = enter(
        &door,
        new,
        on_duplicate,
        keeping.persist.then_some(by),
        None,
    )
    .await?;
    Ok(Json(added))
}

/// Answers `PUT /api/servers/{name}`. Sets the server's entry. With a `digest`, replaces only the
/// entry that has this digest.
pub async fn put(
    State(door): State<RestDoor>,
    Path(name): Path<String>,
    Author(by): Author,
    Body(mut body): Body<Map<String, Value>>,
) -> Result<Json<api::Operated>, Refusal> {
    let digest = match body.shift_remove("digest") {
        None | Some(Value::Null) => None,
        Some(Value::String(digest)) => Some(digest),
        Some(_) => {
            let message = "\"digest\" must be a string";
            return Err(Refusal::Malformed(message.to_owned()));
        }
    };
    body.insert("name".to_owned(), name.into());
    let EntryRequest {
        name,
        keeping,
        entry,
    } = EntryRequest::read(body)?;
    let new = read(&door, &name, &entry).await?;
    Ok(Json(
        replace(&door, new, keeping.persist.then_some(by), digest).await?,
    ))
}

/// Answers `POST /api/mcp-clients/connect`. Adds a server only if it can be connected.
pub async fn connect_client(
    State(door): State<RestDoor>,
    Author(by): Author,
    Body(body): Body<Map<String, Value>>,
) -> Result<Json<api::ClientOperated>, Refusal> {
    let EntryRequest {
        name,
        keeping,
        entry,
    } = EntryRequest::read(body)?;
    let NewServer { runtime, .. } = read(&door, &name, &entry).await?;
    let (legal, entry) = (runtime.config.name.clone(), Arc::clone(&runtime.entry));
    let connected = door
        .gateway
        .registry
        .connect(runtime, on_duplicate(keeping))
        .await;
    let server = connected.map_err(|failure| failure.with("name", name))?;
    if keeping.persist {
        write(
            &door,
            FileChange::Put {
                name: legal,
                entry: (*entry).clone(),
                on_duplicate: OnDuplicate::Replace,
                over: None,
            },
            by,
        )
        .await?;
    }
    Ok(Json(servers::client_operated(&door, &server)))
}

/// Answers `GET /api/servers/{name}`.
pub async fn get(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
) -> Result<Json<api::ServerDetails>, Refusal> {
    let server = door.gateway.server(&client_view, &name)?;
    let entry = entry_of(&door, &server.name);
    Ok(Json(api::ServerDetails {
        server: servers::details(&door, &server),
        digest: entry
            .as_ref()
            .map(|(_, entry)| digest_of_entry(&server.name, entry)),
        entry: entry.map(|(pointer, entry)| masking::masked_entry(&entry, &pointer)),
    }))
}

/// A server's entry with its secrets, and the entry's JSON pointer for placeholders.
fn entry_of(door: &RestDoor, name: &ServerName) -> Option<(String, Entry)> {
    match door.gateway.registry.standing(name) {
        ServerStanding::Ephemeral(runtime) | ServerStanding::Pending(runtime) => {
            Some((format!("/{EPHEMERAL}/{name}"), (*runtime.entry).clone()))
        }
        ServerStanding::Configured => door.gateway.reloader.as_ref()?.entry(name),
    }
}

/// Answers `DELETE /api/servers/{name}`. With `?persist=true`, also removes the entry from the
/// file.
pub async fn delete(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Author(by): Author,
    Query(Persist { persist }): Query<Persist>,
) -> Result<Json<api::Removed>, Refusal> {
    let server = door.gateway.server(&client_view, &name)?;
    remove(&door, &server, persist.then_some(by)).await?;
    Ok(Json(api::Removed {
        success: true,
        name,
    }))
}

/// Answers `DELETE /api/mcp-clients/{name}`.
pub async fn delete_client(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Author(by): Author,
    Query(Persist { persist }): Query<Persist>,
) -> Result<Json<api::ClientLeft>, Refusal> {
    let server = servers::known_client(&door, &client_view, &name)?;
    remove(&door, &server, persist.then_some(by)).await?;
    Ok(Json(servers::client_left(&server)))
}

/// The parameters `?persist=true`.
#[derive(Debug, serde::Deserialize)]
pub struct Persist {
    #[serde(default)]
    persist: bool,
}

pub async fn enable(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Author(by): Author,
    body: Option<Body<Keeping>>,
) -> Result<Json<api::Operated>, Refusal> {
    let server = door.gateway.server(&client_view, &name)?;
    switch(&door, &server, true, persists(body).then_some(by)).await
}

pub async fn disable(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Author(by): Author,
    body: Option<Body<Keeping>>,
) -> Result<Json<api::Operated>, Refusal> {
    let server = door.gateway.server(&client_view, &name)?;
    switch(&door, &server, false, persists(body).then_some(by)).await
}

/// Approves a server that an MCP client added. The digest must be that of the entry that the person
/// has seen.
pub async fn approve(
    State(door): State<RestDoor>,
    Path(name): Path<String>,
    Author(by): Author,
    body: Option<Body<api::Approval>>,
) -> Result<Json<api::Operated>, Refusal> {
    let api::Approval { digest, persist } = body.map(|Body(approval)| approval).unwrap_or_default();
    let (server, approved) = door.gateway.registry.approve(&name, digest).await?;
    if persist {
        let change = FileChange::Put {
            name: server.name.clone(),
            entry: (*approved.entry).clone(),
            on_duplicate: OnDuplicate::Replace,
            over: None,
        };
        write(&door, change, by).await?;
    }
    Ok(Json(started(&door, &server).await))
}

fn persists(body: Option<Body<Keeping>>) -> bool {
    body.is_some_and(|Body(keeping)| keeping.persist)
}

/// A request body with an entry and options.
struct EntryRequest {
    name: String,
    keeping: Keeping,
    entry: Entry,
}

impl EntryRequest {
    fn read(mut body: Map<String, Value>) -> Result<Self, Refusal> {
        let mut flag = |key: &str| match body.shift_remove(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(Refusal::Malformed(format!(
                "\"{key}\" must be true or false"
            ))),
        };
        let keeping = Keeping {
            persist: flag("persist")?,
            replace: flag("replace")?,
        };
        match body.shift_remove("name") {
            Some(Value::String(name)) if !name.is_empty() => Ok(Self {
                name,
                keeping,
                entry: body,
            }),
            None | Some(Value::Null | Value::String(_)) => Err(Refusal::MissingParameter("name")),
            Some(_) => Err(Refusal::Malformed("\"name\" must be a string".to_owned())),
        }
    }
}

/// Decides what to do if the name is already in use.
fn on_duplicate(keeping: Keeping) -> OnDuplicate {
    if keeping.replace {
        OnDuplicate::Replace
    } else {
        OnDuplicate::Refuse
    }
}

/// Reads an entry. Placeholders become the secrets that they stand for.
pub async fn read(door: &RestDoor, name: &str, entry: &Entry) -> Result<NewServer, Failure> {
    let secrets = secrets(door)?;
    let Value::Object(entry) = restored(&Value::Object(entry.clone()), &secrets)? else {
        unreachable!("an object stays one")
    };
    let registry = &door.gateway.registry;
    registry.read_entry(name, entry, Approval::Given).await
}

/// The values to which placeholders refer: the file, and entries that are in no file.
fn secrets(door: &RestDoor) -> Result<Value, Failure> {
    let mut values = match &door.gateway.reloader {
        Some(reloader) => reloader.document()?,
        None => Value::Object(Map::new()),
    };
    let registry = &door.gateway.registry;
    let ephemeral =
        registry
            .servers()
            .into_iter()
            .filter_map(|server| match registry.standing(&server.name) {
                ServerStanding::Ephemeral(runtime) | ServerStanding::Pending(runtime) => Some((
                    server.name.to_string(),
                    Value::Object((*runtime.entry).clone()),
                )),
                ServerStanding::Configured => None,
            });
    if let Some(members) = values.as_object_mut() {
        members.insert(EPHEMERAL.to_owned(), Value::Object(ephemeral.collect()));
    }
    Ok(values)
}

/// Replaces a server's entry. With a digest, replaces only the entry that has this digest.
async fn replace(
    door: &RestDoor,
    new: NewServer,
    persist: Option<ChangedBy>,
    digest: Option<String>,
) -> Result<api::Operated, Failure> {
    let name = &new.runtime.config.name;
    // The file may have an entry that is newer than the one in force. For an entry in the file,
    // `write` therefore compares the digest.
    let is_in_file =
        persist.is_some() && door.gateway.registry.standing(name) == ServerStanding::Configured;
    if !is_in_file && digest.is_some() {
        let now = entry_of(door, name).map(|(_, entry)| digest_of_entry(name, &entry));
        if now != digest {
            return Err(entry_changed(name));
        }
    }
    let over = digest.filter(|_| is_in_file);
    enter(door, new, OnDuplicate::Replace, persist, over).await
}

async fn enter(
    door: &RestDoor,
    new: NewServer,
    on_duplicate: OnDuplicate,
    persist: Option<ChangedBy>,
    over: Option<String>,
) -> Result<api::Operated, Failure> {
    let registry = &door.gateway.registry;
    let NewServer { runtime, warnings } = new;
    let server = if let Some(by) = persist {
        let Runtime { config, entry, .. } = runtime;
        let name = config.name;
        if on_duplicate == OnDuplicate::Refuse && registry.named(&name).is_some() {
            return Err(mainstay_gateway::registry::duplicate(&name));
        }
        let change = FileChange::Put {
            name: name.clone(),
            entry: (*entry).clone(),
            on_duplicate,
            over,
        };
        write(door, change, by).await?;
        registry.server(name.as_str())?
    } else if on_duplicate == OnDuplicate::Replace {
        registry.replace(runtime).await?
    } else {
        registry.add(runtime).await?
    };
    Ok(api::Operated {
        warnings,
        ..started(door, &server).await
    })
}

async fn remove(
    door: &RestDoor,
    server: &ServerHandle,
    persist: Option<ChangedBy>,
) -> Result<(), Failure> {
    let registry = &door.gateway.registry;
    match persist {
        Some(by) if registry.standing(&server.name) == ServerStanding::Configured => {
            write(door, FileChange::Remove(server.name.clone()), by).await
        }
        _ => registry.remove(server.name.as_str()).await,
    }
}

async fn switch(
    door: &RestDoor,
    server: &ServerHandle,
    enabled: bool,
    persist: Option<ChangedBy>,
) -> Result<Json<api::Operated>, Refusal> {
    let registry = &door.gateway.registry;
    let name = server.name.as_str();
    if let Some(by) = persist
        && registry.standing(&server.name) == ServerStanding::Configured
    {
        let name = server.name.clone();
        write(door, FileChange::Switch { name, enabled }, by).await?;
    } else if enabled {
        registry.enable(name).await?;
    } else {
        registry.disable(name).await?;
    }
    if !enabled {
        server.operate(Operation::Stop).await?;
    }
    Ok(Json(started(door, server).await))
}

/// Starts the server if it connects at the start. Returns its status after that.
async fn started(door: &RestDoor, server: &ServerHandle) -> api::Operated {
    if server.config().connects_at_start() {
        // Ignore an error: the returned status shows it.
        server.operate(Operation::Start).await.ok();
    }
    servers::operated(door, server)
}

async fn write(door: &RestDoor, change: FileChange, by: ChangedBy) -> Result<(), Failure> {
    reloader(door)?.write(change, by).await.map(|_| ())
}

/// The reloader; an error if the configuration does not come from a file.
pub fn reloader(door: &RestDoor) -> Result<&Arc<Reloader>, Failure> {
    door.gateway.reloader.as_ref().ok_or_else(|| {
        let message = "this Mainstay has no configuration file that could be written";
        Failure::new(FailureKind::NotSaved, message)
    })
}
