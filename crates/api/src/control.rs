//! The daemon: its configuration, and its end.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /api/reload`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reload {
    #[serde(default)]
    pub dry_run: bool,
}

/// `POST /api/hand-over`: another Mainstay wants the state directory.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandOver {
    /// The configuration that it serves, with nothing given beside it on its command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

/// The directory will be free in a while.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandedOver {
    /// The process that has it.
    pub pid: u32,
}

/// `PUT /api/config`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigUpdated {
    pub success: bool,
    /// For people, of several lines.
    pub summary: String,
    /// `mainstay_core::config::Plan`
    pub plan: serde_json::Value,
}

/// What differs, and whether it is in force now.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    pub applied: bool,
    /// For people, of several lines.
    pub summary: String,
    /// `mainstay_core::config::Plan`
    pub plan: serde_json::Value,
}
