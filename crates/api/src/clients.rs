//! MCP clients of Mainstay, and what is switched off for them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/mcp-clients`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Clients {
    pub clients: BTreeMap<String, ClientEntry>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientEntry {
    /// The state, in the words of this route.
    pub status: String,
    pub transport: String,
    /// `server/tool`
    pub tools: Vec<String>,
    /// Seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_at: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `GET /api/switches`: clients with everything on are not named.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Switches {
    /// By the name of the client's token, or else the name that it gives itself.
    pub clients: BTreeMap<String, SwitchedOff>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SwitchedOff {
    pub servers: Vec<String>,
    /// `server/tool`
    pub tools: Vec<String>,
}

/// `PUT /api/switches/{client}`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SetSwitch {
    pub server: String,
    /// As the server calls it; without one the switch is the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub enabled: bool,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Switched {
    pub success: bool,
    pub client: String,
    pub server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub enabled: bool,
}

/// `DELETE /api/switches`, and of one client.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Cleared {
    pub success: bool,
}

/// `POST /api/mcp-clients/{name}/reconnect`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Reconnect {
    #[serde(default)]
    pub force: bool,
}

/// The answer to `connect` and `reconnect`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientOperated {
    /// `ok`
    pub status: String,
    pub name: String,
    /// `server/tool`
    pub tools: Vec<String>,
}

/// The answer to `disconnect` and to DELETE.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientLeft {
    /// `ok`
    pub status: String,
    pub name: String,
}
