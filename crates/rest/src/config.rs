//! `GET|PUT /api/config`: the content of the configuration file, with placeholders for secrets.
//! Also its JSON schema.

use std::sync::LazyLock;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::header;
use mainstay_api as api;
use mainstay_config::{ReloadPlan, masking};
use mainstay_gateway::reload::FileChange;
use serde_json::Value;

use super::{
    RestDoor, body::AnyBody, entries::reloader, operation::JSON_SCHEMA, refusal::Refusal,
    via::Author,
};

static SCHEMA: LazyLock<String> = LazyLock::new(mainstay_config::schema_text);

pub async fn get(State(door): State<RestDoor>) -> Result<Json<Value>, Refusal> {
    let document = reloader(&door)?.document()?;
    Ok(Json(masking::masked(&document, "")))
}

/// Answers `GET /api/config/schema`.
pub async fn schema() -> Response {
    let schema = [(header::CONTENT_TYPE, JSON_SCHEMA)];
    (schema, SCHEMA.as_str()).into_response()
}

/// Answers `PUT /api/config`. An invalid configuration is refused, and nothing is written.
pub async fn put(
    State(door): State<RestDoor>,
    Author(by): Author,
    AnyBody(config): AnyBody,
) -> Result<Json<api::ConfigUpdated>, Refusal> {
    let plan = reloader(&door)?
        .write(FileChange::Whole(config), by)
        .await?;
    Ok(updated(&plan))
}

/// The answer after the file was written: the changes that are carried out.
pub fn updated(plan: &ReloadPlan) -> Json<api::ConfigUpdated> {
    Json(api::ConfigUpdated {
        success: true,
        summary: plan.to_string(),
        plan: plan.into(),
    })
}
