//! `GET|PUT /api/config/text` and `POST /api/config/check`: the text of the configuration file, for
//! editors.

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_gateway::reload::{Checked, ConfigFinding, FileChange, FileText, Proposal, Severity};
use serde_json::Value;

use crate::{RestDoor, body::Body, config, entries::reloader, refusal::Refusal, via::Author};

pub async fn get(State(door): State<RestDoor>) -> Result<Json<api::ConfigText>, Refusal> {
    let FileText { text, path, digest } = reloader(&door)?.file_text().await?;
    Ok(Json(api::ConfigText { text, path, digest }))
}

/// Replaces the text of the file, if its digest is still that of the request.
pub async fn put(
    State(door): State<RestDoor>,
    Author(by): Author,
    Body(api::SetConfigText { text, digest }): Body<api::SetConfigText>,
) -> Result<Json<api::ConfigUpdated>, Refusal> {
    let change = FileChange::Text(text);
    let plan = reloader(&door)?
        .write_if_unchanged(change, digest, by)
        .await?;
    Ok(config::updated(&plan))
}

/// Checks a configuration without writing it. Returns its findings.
pub async fn check(
    State(door): State<RestDoor>,
    Body(body): Body<api::CheckConfig>,
) -> Result<Json<api::CheckedConfig>, Refusal> {
    let proposal = match body {
        api::CheckConfig {
            text: Some(text),
            config: None,
        } => Proposal::Text(text),
        api::CheckConfig {
            text: None,
            config: Some(config),
        } => Proposal::Value(Value::Object(config)),
        _ => {
            let message = "either \"text\" or \"config\" is needed";
            return Err(Refusal::Malformed(message.to_owned()));
        }
    };
    let Checked { findings, plan } = reloader(&door)?.check(proposal).await?;
    Ok(Json(api::CheckedConfig {
        valid: plan.is_some(),
        findings: findings.into_iter().map(finding).collect(),
        plan: plan.as_ref().map(api::Plan::from),
        summary: plan.map(|plan| plan.to_string()),
    }))
}

pub fn finding(found: ConfigFinding) -> api::ConfigFinding {
    let ConfigFinding { severity, finding } = found;
    api::ConfigFinding {
        severity: match severity {
            Severity::Error => api::FindingSeverity::Error,
            Severity::Warning => api::FindingSeverity::Warning,
        },
        path: finding.path,
        line: finding.position.map(|(line, _)| line),
        column: finding.position.map(|(_, column)| column),
        message: finding.message,
        hint: finding.hint,
    }
}
