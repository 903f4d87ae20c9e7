//! REST types of the configuration's history.

use mainstay_platform::config_history::{self, Version};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Plan;

/// The versions of the configuration's file: [`ConfigHistory`].
pub const CONFIG_HISTORY: &str = "/api/config/history";
/// One of them: [`ConfigVersionText`].
pub const CONFIG_VERSION: &str = "/api/config/history/{version}";
/// Takes an [`UndoConfig`], answers [`ConfigUndone`].
pub const UNDO_CONFIG: &str = "/api/config/undo";

/// `GET /api/config/history`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigHistory {
    /// The newest first. The newest is what Mainstay last saw in the file.
    pub versions: Vec<ConfigVersion>,
    /// Whether the file has another content than the newest version, so that an undo is refused.
    pub changed: bool,
}

/// A version of the file.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigVersion {
    pub version: u64,
    /// RFC 3339, UTC.
    pub at: String,
    /// The change in words, without values.
    pub reason: String,
    pub by: ConfigChangedBy,
}

/// The author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConfigChangedBy {
    /// A person on the web page.
    Page,
    /// A program with the control token.
    Rest,
    /// A command of Mainstay.
    Command,
    /// An editor or another program.
    Hand,
}

/// `GET /api/config/history/{version}`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigVersionText {
    #[serde(flatten)]
    pub version: ConfigVersion,
    /// With placeholders for secrets; left out for a text that is no JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The difference from the version before: a unified diff with placeholders for secrets, empty where only secrets
    /// changed. Left out where no version before is kept, or one of the two is no JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

/// `POST /api/config/undo`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UndoConfig {
    /// The version to go back to; without it the one before the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Replaces a file that is not what Mainstay last saw, too. What it has is kept as a version.
    #[serde(default)]
    pub force: bool,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigUndone {
    pub success: bool,
    /// The version whose content the file has again.
    pub restored: u64,
    /// The file's newest version: the undo itself.
    pub version: u64,
    /// The plan in words.
    pub summary: String,
    pub plan: Plan,
}

impl From<&Version> for ConfigVersion {
    fn from(version: &Version) -> Self {
        let Version {
            version,
            at,
            by,
            reason,
            path: _,
        } = version;
        Self {
            version: *version,
            at: at.clone(),
            reason: reason.clone(),
            by: match by {
                config_history::ChangedBy::Page => ConfigChangedBy::Page,
                config_history::ChangedBy::Rest => ConfigChangedBy::Rest,
                config_history::ChangedBy::Command => ConfigChangedBy::Command,
                config_history::ChangedBy::Hand => ConfigChangedBy::Hand,
            },
        }
    }
}
