//! The server's lists in order, and the content of its resources. The suite defines the names and schemas;
//! `catalog.json` holds them as data.

use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::Deserialize;

/// A red pixel, as PNG in base64.
pub const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";
/// Eight samples of silence, as WAV in base64.
pub const WAV: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Catalog {
    /// The suite calls the first one without arguments and expects a result.
    pub tools: Vec<Tool>,
    pub prompts: Vec<Prompt>,
    pub resources: Vec<Resource>,
    pub resource_templates: Vec<ResourceTemplate>,
}

impl Catalog {
    pub fn load() -> serde_json::Result<Self> {
        serde_json::from_str(include_str!("catalog.json"))
    }
}
