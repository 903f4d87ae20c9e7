//! REST types of MCP clients and of their switches.

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
    /// The state of the client, in the words of `/api/mcp-clients`.
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

/// `GET /api/switches`. Clients for which nothing is switched off are absent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Switches {
    /// By the name of the client's token, or the name that the client declared if it has no token.
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
    /// The original name of the tool. Without it, the switch applies to the whole server.
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

/// `DELETE /api/switches` and `DELETE /api/switches/{client}`
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

/// The answer to `disconnect` and to DELETE of a client.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientLeft {
    /// `ok`
    pub status: String,
    pub name: String,
}
