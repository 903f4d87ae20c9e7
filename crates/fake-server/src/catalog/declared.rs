//! The capabilities that the fake declares.

use serde_json::{Value, json};

use crate::script::Script;

/// True if the script omits the capability of this method.
pub(crate) fn is_absent(script: &Script, method: &str) -> bool {
    (script.no_tools && method.starts_with("tools/"))
        || (script.no_resources && method.starts_with("resources/"))
        || (script.no_prompts && method.starts_with("prompts/"))
}

/// The declared capabilities. Both eras have the same form.
pub(crate) fn capabilities(script: &Script, revision: &str) -> Value {
    let mut capabilities = json!({"logging": {}});
    let mut declare = |is_absent: bool, name: &str, value: Value| {
        if !is_absent {
            capabilities[name] = value;
        }
    };
    declare(script.no_tools, "tools", json!({"listChanged": true}));
    declare(
        script.no_resources,
        "resources",
        json!({"subscribe": true, "listChanged": true}),
    );
    declare(script.no_prompts, "prompts", json!({"listChanged": true}));
    declare(revision < "2025-03-26", "completions", json!({}));
    capabilities
}

pub(crate) fn server_info(script: &Script) -> Value {
    json!({
        "name": script.name.as_deref().unwrap_or("fake-server"),
        "version": env!("CARGO_PKG_VERSION"),
    })
}
