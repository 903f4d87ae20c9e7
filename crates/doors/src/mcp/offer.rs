//! What Mainstay says of a profile when a client connects.

use mainstay_gateway::{Gateway, View};
use serde_json::{Value, json};

/// What a profile says of itself.
pub struct Offer {
    pub capabilities: Value,
    pub server_info: Value,
    pub instructions: Option<String>,
}

/// What the gateway can relay, and the servers' instructions under their names.
pub fn offer(view: &View) -> Offer {
    let shown = view.shown();
    let parts = shown.catalog.parts().iter();
    let instructions: Vec<String> = parts
        .filter(|part| view.has_server(&part.server))
        .filter_map(|part| {
            let text = part.catalog.instructions.as_deref()?;
            Some(format!("# {}\n\n{text}", part.server))
        })
        .collect();
    Offer {
        capabilities: json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "logging": {},
            "completions": {},
        }),
        server_info: json!({"name": "mainstay", "title": "Mainstay", "version": env!("CARGO_PKG_VERSION")}),
        instructions: (!instructions.is_empty()).then(|| instructions.join("\n\n")),
    }
}

/// Whether a call may become a task: there is a server that has them.
pub fn has_tasks(gateway: &Gateway, view: &View) -> bool {
    gateway
        .registry
        .servers_of(&view.profile)
        .iter()
        .any(|server| {
            let session = server.view().session;
            session.is_some_and(|session| session.greeting.capabilities.tasks)
        })
}
