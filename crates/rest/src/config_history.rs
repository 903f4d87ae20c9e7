//! `GET /api/config/history`, `GET /api/config/history/{version}` and `POST /api/config/undo`:
//! earlier versions of the configuration file, and the return to one.

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_gateway::reload::{FileHistory, ShownVersion, UndoResult, unknown_version};

use crate::{
    RestDoor, address::Path, body::Body, entries::reloader, refusal::Refusal, via::Author,
};

pub async fn list(State(door): State<RestDoor>) -> Result<Json<api::ConfigHistory>, Refusal> {
    let FileHistory {
        versions,
        is_changed,
    } = reloader(&door)?.versions().await?;
    Ok(Json(api::ConfigHistory {
        versions: versions.iter().map(api::ConfigVersion::from).collect(),
        changed: is_changed,
    }))
}

pub async fn show(
    State(door): State<RestDoor>,
    Path(number): Path<u64>,
) -> Result<Json<api::ConfigVersionText>, Refusal> {
    let found = reloader(&door)?.show_version(number).await?;
    let ShownVersion {
        version,
        text,
        difference,
    } = found.ok_or_else(|| unknown_version(number))?;
    Ok(Json(api::ConfigVersionText {
        version: (&version).into(),
        text,
        difference,
    }))
}

pub async fn undo(
    State(door): State<RestDoor>,
    Author(by): Author,
    Body(api::UndoConfig { version, force }): Body<api::UndoConfig>,
) -> Result<Json<api::ConfigUndone>, Refusal> {
    let UndoResult {
        restored,
        version,
        plan,
    } = reloader(&door)?.undo(version, force, by).await?;
    Ok(Json(api::ConfigUndone {
        success: true,
        restored,
        version,
        summary: plan.to_string(),
        plan: (&plan).into(),
    }))
}
