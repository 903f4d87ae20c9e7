//! Switches: servers and tools that are off for one client.

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_core::{
    catalog::ListKind,
    failure::{Failure, FailureKind},
    ids::ServerName,
    switches::{ClientSwitches, Off, Switch},
};
use mainstay_gateway::View;

use super::{RestDoor, address::Path, body::Body, refusal::Refusal, via::RequestView};

pub async fn list(State(door): State<RestDoor>) -> Json<api::Switches> {
    let all = door.gateway.switches.all();
    let clients = all
        .iter()
        .map(|(client, off)| (client.to_owned(), to_api(off)));
    Json(api::Switches {
        clients: clients.collect(),
    })
}

fn to_api(off: &Off) -> api::SwitchedOff {
    let tool_paths = off.tools.iter().flat_map(|(server, tools)| {
        let path = move |tool| format!("{server}/{tool}");
        tools.iter().map(path)
    });
    api::SwitchedOff {
        servers: off.servers.iter().map(ToString::to_string).collect(),
        tools: tool_paths.collect(),
    }
}

pub async fn set(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(client): Path<String>,
    Body(set): Body<api::SetSwitch>,
) -> Result<Json<api::Switched>, Refusal> {
    let switch = switch(&door, &client_view, &set)?;
    let set_it = |switches: &mut ClientSwitches| switches.set(&client, &switch, set.enabled);
    change(&door, set_it).await?;
    let api::SetSwitch {
        server,
        tool,
        enabled,
    } = set;
    Ok(Json(api::Switched {
        success: true,
        client,
        server,
        tool,
        enabled,
    }))
}

pub async fn clear(
    State(door): State<RestDoor>,
    Path(client): Path<String>,
) -> Result<Json<api::Cleared>, Refusal> {
    let cleared = change(&door, |switches| switches.clear(&client)).await?;
    Ok(Json(cleared))
}

pub async fn clear_all(State(door): State<RestDoor>) -> Result<Json<api::Cleared>, Refusal> {
    Ok(Json(change(&door, ClientSwitches::clear_all).await?))
}

/// Changes switches, and notifies the clients whose view changes.
async fn change(
    door: &RestDoor,
    change: impl FnOnce(&mut ClientSwitches),
) -> Result<api::Cleared, Refusal> {
    let changed = door.gateway.switch(change).await;
    changed.map_err(Refusal::Unwritable)?;
    Ok(api::Cleared { success: true })
}

/// Reads a switch. A server or a tool must exist to be switched off, so that typing errors are
/// noticed. It can be switched on after it was removed.
fn switch(door: &RestDoor, client_view: &View, set: &api::SetSwitch) -> Result<Switch, Failure> {
    let server = match ServerName::new(&set.server) {
        Ok(server) if set.enabled => server,
        _ => {
            let server = door.gateway.server(client_view, &set.server)?;
            let catalog = server.catalog();
            let is_unknown = |tool: &String| {
                let catalog = catalog.as_deref();
                catalog.is_some_and(|catalog| catalog.item(ListKind::Tools, tool).is_none())
            };
            if let Some(tool) = set.tool.as_ref().filter(|tool| is_unknown(tool)) {
                let message = format!("Server '{}' has no tool '{tool}'", server.name);
                return Err(Failure::new(FailureKind::ToolNotFound, message)
                    .with_server(&server.name)
                    .with("tool", tool.as_str()));
            }
            server.name.clone()
        }
    };
    Ok(Switch {
        server,
        tool: set.tool.clone(),
    })
}
