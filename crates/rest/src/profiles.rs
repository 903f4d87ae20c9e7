//! `GET /api/profiles`: the profiles in force, and their entries in the configuration file.

use std::sync::Arc;

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_config::masking;
use mainstay_core::{builtin::OwnToolGroup, catalog::ListKind};
use mainstay_gateway::registry::PublishedProfile;
use serde_json::Value;

use crate::{RestDoor, via::RequestView};

pub async fn list(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
) -> Json<api::Profiles> {
    // Without a configuration file, profiles have no entries.
    let document = door
        .gateway
        .reloader
        .as_ref()
        .and_then(|reloader| reloader.document().ok());
    let entries = document.as_ref().and_then(|file| file.get("profiles"));
    let registry = &door.gateway.registry;
    let default = registry.default_profile();
    let profile = |profile: &Arc<PublishedProfile>| {
        let snapshot = profile.snapshot();
        let naming = snapshot.config.naming.unwrap_or_else(|| registry.naming());
        let is_default = profile.name == default.name;
        let servers = registry.servers_of(profile);
        api::Profile {
            name: profile.name.to_string(),
            path: if is_default {
                "/mcp".to_owned()
            } else {
                format!("/mcp/{}", profile.name)
            },
            default: is_default,
            naming: naming.word().to_owned(),
            servers: servers
                .iter()
                .filter(|server| client_view.has_server(&server.name))
                .map(|server| server.name.to_string())
                .collect(),
            tools: Some(snapshot.catalog.items(ListKind::Tools).len()),
            builtin: names(snapshot.own_tools()),
            entry: entries.and_then(|entries| entry(entries, profile.name.as_str())),
        }
    };
    Json(api::Profiles {
        profiles: registry.profiles().iter().map(profile).collect(),
    })
}

fn names(groups: &[OwnToolGroup]) -> Vec<String> {
    groups.iter().map(|group| group.name().to_owned()).collect()
}

/// The profile's entry in the file, with placeholders for secrets.
fn entry(entries: &Value, name: &str) -> Option<Value> {
    let entry = entries.get(name)?;
    Some(masking::masked(entry, &format!("/profiles/{name}")))
}
