//! Translates a server's answer to `initialize` or `server/discover` to the other era.

use serde_json::json;

use super::{
    Revision,
    modern::supported_versions,
    result::{COMPLETE, RESULT_TYPE},
};
use crate::message::{JsonObjectEditor, meta::SERVER_INFO};

/// Translates the result of `initialize` (JSON text) to a result of `server/discover`. It lists all
/// revisions of Mainstay, because Mainstay translates. It forbids caching, because another server
/// may replace this one.
pub fn from_initialize(result: &str) -> String {
    let greeting = JsonObjectEditor::read(result).unwrap_or_default();
    let versions = json!(supported_versions()).to_string();
    let mut discovery = JsonObjectEditor::default();
    discovery.set_text(RESULT_TYPE, COMPLETE);
    discovery.set("supportedVersions", &versions);
    let mut capabilities = greeting
        .get("capabilities")
        .and_then(JsonObjectEditor::read)
        .unwrap_or_default();
    // The `tasks` of 2025-11-25 is not the tasks extension.
    capabilities.remove("tasks");
    discovery.set("capabilities", &capabilities.to_string());
    let mut meta = greeting
        .get("_meta")
        .and_then(JsonObjectEditor::read)
        .unwrap_or_default();
    if let Some(info) = greeting.get("serverInfo") {
        meta.set(SERVER_INFO, info);
    }
    discovery.set("_meta", &meta.to_string());
    if let Some(instructions) = greeting.get("instructions") {
        discovery.set("instructions", instructions);
    }
    discovery.set("ttlMs", "0");
    discovery.set_text("cacheScope", "private");
    discovery.to_string()
}

/// Translates the result of `server/discover` (JSON text) to a result of `initialize` at this
/// revision.
pub fn to_initialize(discovery: &str, revision: Revision) -> String {
    let discovery = JsonObjectEditor::read(discovery).unwrap_or_default();
    let mut greeting = JsonObjectEditor::default();
    greeting.set_text("protocolVersion", revision.as_str());
    let mut capabilities = discovery
        .get("capabilities")
        .and_then(JsonObjectEditor::read)
        .unwrap_or_default();
    // Mainstay does not translate extensions.
    capabilities.remove("extensions");
    greeting.set("capabilities", &capabilities.to_string());
    let meta = discovery.get("_meta").and_then(JsonObjectEditor::read);
    let info = meta.as_ref().and_then(|meta| meta.get(SERVER_INFO));
    let unknown_server = r#"{"name":"unknown","version":""}"#;
    greeting.set("serverInfo", info.unwrap_or(unknown_server));
    if let Some(instructions) = discovery.get("instructions") {
        greeting.set("instructions", instructions);
    }
    greeting.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legacy_server_is_discovered_by_its_greeting() {
        let greeting = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"x": 1.0},"tasks":{}},
            "serverInfo":{"name":"n","version":"1"},"instructions":"be kind","_meta":{"a":1}}"#;
        assert_eq!(
            from_initialize(greeting),
            r#"{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"tools":{"x": 1.0}},"_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"n","version":"1"}},"instructions":"be kind","ttlMs":0,"cacheScope":"private"}"#
        );
    }

    #[test]
    fn a_discovery_becomes_the_greeting_of_a_modern_server() {
        let discovery = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"x": 1.0},"extensions":{"a/b":{}}},
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n","version":"1"}},"instructions":"be kind","ttlMs":1,"cacheScope":"public"}"#;
        assert_eq!(
            to_initialize(discovery, Revision::V2025_06_18),
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"x": 1.0}},"serverInfo":{"name":"n","version":"1"},"instructions":"be kind"}"#
        );
    }
}
