//! Results of `server/discover` that Mainstay makes itself.

use mainstay_core::era::{discovery, modern, tasks};
use mainstay_gateway::{Gateway, View};
use serde_json::json;

use crate::mcp::offer::{has_tasks, offer};

/// The result of `server/discover` for a profile.
pub fn profile_result(gateway: &Gateway, view: &View) -> String {
    let offer = offer(view);
    let mut capabilities = offer.capabilities;
    if has_tasks(gateway, view) {
        capabilities["extensions"] = tasks::capability()["extensions"].take();
    }
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": modern::supported_versions(),
        "capabilities": capabilities,
        "_meta": {"io.modelcontextprotocol/serverInfo": offer.server_info},
        "ttlMs": 0,
        "cacheScope": "private",
    });
    if let Some(instructions) = offer.instructions {
        result["instructions"] = instructions.into();
    }
    result.to_string()
}

/// The result of `server/discover` for a legacy server. `initialize_result` is JSON text.
pub fn legacy_result(initialize_result: &str) -> String {
    discovery::from_initialize(initialize_result)
}
