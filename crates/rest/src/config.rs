//! `GET|PUT /api/config`: the configuration file's content, with placeholders for secrets.

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_core::config::masking;
use mainstay_gateway::reload::Change;
use serde_json::Value;

use super::{RestDoor, body::Body, entries::reloader, refusal::Refusal};

pub async fn get(State(door): State<RestDoor>) -> Result<Json<Value>, Refusal> {
    let document = reloader(&door)?.document()?;
    Ok(Json(masking::masked(&document, "")))
}

/// `PUT /api/config`. A configuration that cannot be used is refused as a whole.
pub async fn put(
    State(door): State<RestDoor>,
    Body(config): Body<Value>,
) -> Result<Json<api::ConfigUpdated>, Refusal> {
    let plan = reloader(&door)?.write(Change::Whole(config)).await?;
    Ok(Json(api::ConfigUpdated {
        success: true,
        summary: plan.to_string(),
        plan: serde_json::to_value(&plan).map_err(|error| Refusal::Malformed(error.to_string()))?,
    }))
}
