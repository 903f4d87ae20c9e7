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
    /// Absent when no state is kept between runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_directory: Option<String>,
    pub configuration: AboutConfiguration,
    /// Listening addresses of the HTTP doors, as `ADDRESS:PORT`.
    pub listen: Vec<String>,
    /// The operating system and the processor, such as `linux x86_64`.
    pub platform: String,
    /// The revisions of MCP that clients may use, oldest first.
    pub revisions: Vec<String>,
    pub journal: AboutJournal,
    /// Resident memory of the daemon, without its servers. Absent where the operating system does
    /// not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// True if the web page shows tools of servers (`ui.externalTools`).
    #[serde(default = "true_by_default")]
    pub external_tools: bool,
    /// Problems that do not concern a single server.
    pub warnings: Vec<String>,
}

/// The default for the answer of an older daemon, which lacks the field.
fn true_by_default() -> bool {
    true
}

/// The configuration file.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct AboutConfiguration {
    /// Absent when the configuration does not come from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// True if changes can be saved to the file.
    pub writable: bool,
}

/// The state of the journal.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AboutJournal {
    pub enabled: bool,
    /// `off`, `relaxed` or `strict`.
    pub durability: String,
    /// The journal's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Bytes of records and objects at the last measurement. While calls are recorded, that is some
    /// seconds ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// The start of the oldest recorded call; RFC 3339, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
    /// Calls since the start of the daemon that could not be recorded.
    pub lost: u64,
    /// The error that keeps the journal from being read or written at present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
