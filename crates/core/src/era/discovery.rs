//! What a server says of itself, before anything is asked of it, in the words of the other era.

use serde_json::json;

use super::{
    modern::supported_versions,
    result::{COMPLETE, RESULT_TYPE},
};
use crate::message::{Object, meta::SERVER_INFO};

/// A legacy server's result of `initialize` (JSON text) as the result of `server/discover`: it is spoken
/// to in every revision that we speak. Nobody is to keep it, for the server may be replaced.
pub fn from_initialize(result: &str) -> String {
    let greeting = Object::read(result).unwrap_or_default();
    let versions = json!(supported_versions()).to_string();
    let mut discovered = Object::default();
    discovered.set_text(RESULT_TYPE, COMPLETE);
    discovered.set("supportedVersions", &versions);
    let mut capabilities = greeting
        .get("capabilities")
        .and_then(Object::read)
        .unwrap_or_default();
    // What 2025-11-25 called so is another thing.
    capabilities.remove("tasks");
    discovered.set("capabilities", &capabilities.to_string());
    let mut meta = greeting
        .get("_meta")
        .and_then(Object::read)
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
}
