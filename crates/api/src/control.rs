//! REST types of the daemon's configuration, and of handing over its state directory.

use mainstay_config::plan::{ServerAction, ServerChange, SettingChange};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ConfigFinding;

/// `POST /api/reload`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reload {
    #[serde(default)]
    pub dry_run: bool,
}

/// `POST /api/hand-over`: another Mainstay needs the state directory.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandOver {
    /// The configuration file that the other Mainstay serves. Absent if its command line adds
    /// settings or servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

/// The answer to [`HandOver`]. The state directory becomes free soon after it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandedOver {
    /// The process that holds the state directory.
    pub pid: u32,
}

/// `PUT /api/config`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigUpdated {
    pub success: bool,
    /// The plan as text for people, in several lines.
    pub summary: String,
    pub plan: Plan,
}

/// The differences, and whether they are applied.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    pub applied: bool,
    /// The plan as text for people, in several lines.
    pub summary: String,
    pub plan: Plan,
    /// Errors and warnings about the file, errors first. An entry with an error becomes a server
    /// that reports the error.
    #[serde(default)]
    pub findings: Vec<ConfigFinding>,
}

/// The effect of a configuration on servers and settings. It contains keys and no values.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// Every server of the old and the new configuration. Servers of the new configuration come
    /// first, in its order, and removed servers after them.
    pub servers: Vec<PlannedServer>,
    /// True if remaining servers change their order. The order decides which server gets a
    /// contested name.
    pub reordered: bool,
    /// Differences outside of the servers.
    pub settings: Vec<PlannedSetting>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedServer {
    pub name: String,
    pub action: PlanAction,
    /// The keys of its entry that differ, if the server is in both configurations.
    pub keys: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanAction {
    /// New, and started.
    Added,
    /// New, and not started: it is disabled, or has no `autoStart`.
    AddedIdle,
    /// Stopped and removed.
    Removed,
    Started,
    Stopped,
    /// Its target changed. If it runs, it is stopped and started again.
    Relaunched,
    /// It changed in a way that its open sessions survive, or it has no session.
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
    /// At the next start of Mainstay.
    AtRestart,
}

impl From<&mainstay_config::ReloadPlan> for Plan {
    fn from(plan: &mainstay_config::ReloadPlan) -> Self {
        let mainstay_config::ReloadPlan {
            servers,
            reordered,
            settings,
        } = plan;
        Self {
            servers: servers.iter().map(Into::into).collect(),
            reordered: *reordered,
            settings: settings.iter().map(Into::into).collect(),
        }
    }
}

impl From<&ServerChange> for PlannedServer {
    fn from(ServerChange { name, action, keys }: &ServerChange) -> Self {
        Self {
            name: name.to_string(),
            action: match action {
                ServerAction::Added => PlanAction::Added,
                ServerAction::AddedIdle => PlanAction::AddedIdle,
                ServerAction::Removed => PlanAction::Removed,
                ServerAction::Started => PlanAction::Started,
                ServerAction::Stopped => PlanAction::Stopped,
                ServerAction::Relaunched => PlanAction::Relaunched,
                ServerAction::Changed => PlanAction::Changed,
                ServerAction::Unchanged => PlanAction::Unchanged,
            },
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        }
    }
}

impl From<&SettingChange> for PlannedSetting {
    fn from(SettingChange { key, takes_effect }: &SettingChange) -> Self {
        Self {
            key: key.clone(),
            takes_effect: match takes_effect {
                mainstay_config::plan::TakesEffect::Now => TakesEffect::Now,
                mainstay_config::plan::TakesEffect::AtRestart => TakesEffect::AtRestart,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::ids::ServerName;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_has_one_form() {
        let actions = [
            (ServerAction::Added, "added"),
            (ServerAction::AddedIdle, "added_idle"),
            (ServerAction::Removed, "removed"),
            (ServerAction::Started, "started"),
            (ServerAction::Stopped, "stopped"),
            (ServerAction::Relaunched, "relaunched"),
            (ServerAction::Changed, "changed"),
            (ServerAction::Unchanged, "unchanged"),
        ];
        let change = |(action, word): (ServerAction, &str)| ServerChange {
            name: ServerName::new(word).expect("a legal name"),
            action,
            keys: vec!["command", "args"],
        };
        let setting = |key: &str, takes_effect| SettingChange {
            key: key.to_owned(),
            takes_effect,
        };
        let plan = mainstay_config::ReloadPlan {
            servers: actions.map(change).into(),
            reordered: true,
            settings: vec![
                setting("naming", mainstay_config::plan::TakesEffect::Now),
                setting(
                    "http.maxBodyBytes",
                    mainstay_config::plan::TakesEffect::AtRestart,
                ),
            ],
        };
        let servers = actions
            .map(|(_, word)| json!({"name": word, "action": word, "keys": ["command", "args"]}));
        let expected = json!({
            "servers": servers,
            "reordered": true,
            "settings": [
                {"key": "naming", "takesEffect": "now"},
                {"key": "http.maxBodyBytes", "takesEffect": "at_restart"},
            ],
        });
        assert_eq!(json!(Plan::from(&plan)), expected);
    }
}
