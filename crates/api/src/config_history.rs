//! REST types of the configuration's history.

use mainstay_platform::config_history::{self, Version};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Plan;

/// The versions of the configuration file: [`ConfigHistory`].
pub const CONFIG_HISTORY: &str = "/api/config/history";
/// One version: [`ConfigVersionText`].
pub const CONFIG_VERSION: &str = "/api/config/history/{version}";
/// Takes an [`UndoConfig`], answers [`ConfigUndone`].
pub const UNDO_CONFIG: &str = "/api/config/undo";

/// `GET /api/config/history`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigHistory {
    /// Newest first. The newest version is the file as Mainstay last read or wrote it.
    pub versions: Vec<ConfigVersion>,
    /// True if the file differs from the newest version. An undo is then refused.
    pub changed: bool,
}

/// A version of the configuration file.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigVersion {
    pub version: u64,
    /// RFC 3339, UTC.
    pub at: String,
    /// A description of the change. It contains no values.
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
    /// The file with placeholders for secrets. Absent if the file is not valid JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A unified diff from the version before, with placeholders for secrets. It is empty if only
    /// secrets changed. Absent if no earlier version is stored, or if one of the two is not valid
    /// JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

/// `POST /api/config/undo`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UndoConfig {
    /// The version to restore. By default, the version before the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Also replaces a file that was changed since Mainstay last read or wrote it. The replaced
    /// content is stored as a version.
    #[serde(default)]
    pub force: bool,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfigUndone {
    pub success: bool,
    /// The version whose content was restored.
    pub restored: u64,
    /// The newest version of the file, which the undo created.
    pub version: u64,
    /// The plan as text for people.
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
