//! REST types of the daemon itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// [`About`]
pub const ABOUT: &str = "/api/about";

/// `GET /api/about`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct About {
    pub version: String,
    pub pid: u32,
    /// RFC 3339, UTC.
    pub started_at: String,
    pub uptime_ms: u64,
    /// Left out where nothing is kept between runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_directory: Option<String>,
    pub configuration: AboutConfiguration,
    /// The addresses of the HTTP doors, as `ADDRESS:PORT`.
    pub listen: Vec<String>,
    /// The operating system and the processor, such as `linux x86_64`.
    pub platform: String,
    /// The revisions of MCP that clients may speak, the oldest first.
    pub revisions: Vec<String>,
    pub journal: AboutJournal,
    /// The resident memory of the daemon, without that of its servers. Left out where the system does not
    /// tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Whether the web page shows tools of servers (`ui.externalTools`).
    #[serde(default = "yes")]
    pub external_tools: bool,
    /// What is wrong beside the servers.
    pub warnings: Vec<String>,
}

/// An older daemon does not say.
fn yes() -> bool {
    true
}

/// Where the configuration is.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct AboutConfiguration {
    /// Left out where the configuration is not from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether changes can be saved there.
    pub writable: bool,
}

/// How the journal is.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AboutJournal {
    pub enabled: bool,
    /// `off`, `relaxed` or `strict`.
    pub durability: String,
    /// Its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What its records and objects take, as of its last look, which is some seconds ago while calls come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// When the oldest call on record started; RFC 3339, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
    /// Calls that are not on record since the daemon started.
    pub lost: u64,
    /// Why it cannot be read or written for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
