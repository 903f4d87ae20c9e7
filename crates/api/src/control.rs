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
    pub plan: Plan,
}

/// What differs, and whether it is in force now.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    pub applied: bool,
    /// For people, of several lines.
    pub summary: String,
    pub plan: Plan,
}

/// What a configuration does to the servers and the settings. Names keys, never values.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// Every server of the old and the new configuration: those of the new one in its order, then those
    /// that are gone.
    pub servers: Vec<PlannedServer>,
    /// Whether servers that stay have another order, which decides contested names.
    pub reordered: bool,
    /// What differs beside the servers.
    pub settings: Vec<PlannedSetting>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedServer {
    pub name: String,
    pub action: PlanAction,
    /// The keys of its entry that differ, if it is in both.
    pub keys: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanAction {
    /// New, and started.
    Added,
    /// New, and left alone: disabled, or without `autoStart`.
    AddedIdle,
    /// Stopped and forgotten.
    Removed,
    Started,
    Stopped,
    /// It is reached in another way: if it runs, it is stopped and started again.
    Relaunched,
    /// What differs can change while its sessions live, or it has none.
    Changed,
    Unchanged,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedSetting {
    pub key: String,
    pub takes_effect: TakesEffect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TakesEffect {
    Now,
    /// When Mainstay is started the next time.
    AtRestart,
}
