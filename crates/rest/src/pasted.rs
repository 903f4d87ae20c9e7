//! `POST /api/import/preview`: shows the servers in a pasted text. Saves nothing.

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_client_files::{Pasted, pasted};
use mainstay_platform::blocking::off_the_runtime;

use crate::{RestDoor, body::Body, refusal::Refusal};

pub async fn preview(
    State(door): State<RestDoor>,
    Body(api::PastedText { text }): Body<api::PastedText>,
) -> Result<Json<api::ImportPreview>, Refusal> {
    let read = off_the_runtime(move || pasted(&text)).await;
    let Pasted {
        servers,
        format,
        notes,
    } = read.map_err(|error| Refusal::Malformed(error.to_string()))?;
    let registry = &door.gateway.registry;
    let servers = servers
        .into_iter()
        .map(|server| api::PreviewedServer {
            exists: registry.named(&server.name).is_some(),
            name: server.name.to_string(),
            entry: server.entry,
            notes: server.notes,
        })
        .collect();
    Ok(Json(api::ImportPreview {
        servers,
        format,
        notes,
    }))
}
