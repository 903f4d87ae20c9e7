//! `POST /api/reload`: reloads the configuration file, or only shows the changes.

use axum::{Json, extract::State};
use mainstay_api as api;

use mainstay_gateway::reload::Reloaded;

use super::{RestDoor, body::Body, config_text, refusal::Refusal};

/// Answers `POST /api/reload`. With `dryRun`, only compares the file.
pub async fn reload(
    State(door): State<RestDoor>,
    body: Option<Body<api::Reload>>,
) -> Result<Json<api::Reloaded>, Refusal> {
    let reloader = door
        .gateway
        .reloader
        .as_ref()
        .ok_or(Refusal::NotReloadable)?;
    let dry_run = body.is_some_and(|Body(reload)| reload.dry_run);
    let outcome = if dry_run {
        reloader.plan().await
    } else {
        reloader.reload().await
    };
    let Reloaded { plan, findings, .. } = outcome.map_err(Refusal::InvalidConfig)?;
    Ok(Json(api::Reloaded {
        applied: !dry_run,
        summary: plan.to_string(),
        plan: (&plan).into(),
        findings: findings.into_iter().map(config_text::finding).collect(),
    }))
}
