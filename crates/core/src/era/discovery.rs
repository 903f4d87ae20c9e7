//! Translates a server's answer to `initialize` or `server/discover` for the other era.

use serde_json::json;

use super::{
    Revision,
    modern::supported_versions,
    result::{COMPLETE, RESULT_TYPE},
};
use crate::message::{JsonObjectEditor, meta::SERVER_INFO};

/// Translates a legacy server's result of `initialize` (JSON text) to the result of
/// `server/discover`. The result lists every revision that Mainstay supports, because Mainstay
/// translates. The result forbids caching, because the server may be replaced.
pub fn from_initialize(result: &str) -> String {
    let greeting = JsonObjectEditor::read(result).unwrap_or_default();
    let versions = json!(supported_versions()).to_string();
    let mut discovered = JsonObjectEditor::default();
    discovered.set_text(RESULT_TYPE, COMPLETE);
    discovered.set("supportedVersions", &versions);
    let mut capabilities = greeting
        .get("capabilities")
        .and_then(JsonObjectEditor::read)
        .unwrap_or_default();
    // The `tasks` of 2025-11-25 is another capability.
    capabilities.remove("tasks");
    discovered.set("capabilities", &capabilities.to_string());
    let mut meta = greeting
        .get("_meta")
        .and_then(JsonObjectEditor::read)
        .unwrap_or_default();
    if let Some(info) = greeting.get("serverInfo") {
        meta.set(SERVER_INFO, info);
    }
    discovered.set("_meta", &meta.to_string());
    if let Some(instructions) = greeting.get("instructions") {
        discovered.set("instructions", instructions);
    }
    discovered.set("ttlMs", "0");
    discovered.set_text("cacheScope", "private");
    discovered.to_string()
}

/// Translates a modern server's result of `server/discover` (JSON text) to the result of
/// `initialize` at this revision.
pub fn to_initialize(discovered: &str, revision: Revision) -> String {
    let discovered = JsonObjectEditor::read(discovered).unwrap_or_default();
    let mut greeting = JsonObjectEditor::default();
    greeting.set_text("protocolVersion", revision.as_str());
    let mut capabilities = discovered
        .get("capabilities")
        .and_then(JsonObjectEditor::read)
        .unwrap_or_default();
    // A translated session cannot carry extensions.
    capabilities.remove("extensions");
    greeting.set("capabilities", &capabilities.to_string());
    let meta = discovered.get("_meta").and_then(JsonObjectEditor::read);
    let info = meta.as_ref().and_then(|meta| meta.get(SERVER_INFO));
    let unnamed = r#"{"name":"unknown","version":""}"#;
    greeting.set("serverInfo", info.unwrap_or(unnamed));
    if let Some(instructions) = discovered.get("instructions") {
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
    fn a_modern_server_greets_by_what_was_discovered() {
        let discovered = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"x": 1.0},"extensions":{"a/b":{}}},
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n","version":"1"}},"instructions":"be kind","ttlMs":1,"cacheScope":"public"}"#;
        assert_eq!(
            to_initialize(discovered, Revision::V2025_06_18),
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"x": 1.0}},"serverInfo":{"name":"n","version":"1"},"instructions":"be kind"}"#
        );
    }
}
