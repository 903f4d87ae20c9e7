//! The capabilities, server information and instructions that a profile sends to a new client.

use mainstay_gateway::{Gateway, View};
use serde_json::{Value, json};

/// The part of `initialize` and `server/discover` results that a profile determines.
pub struct ProfileOffer {
    pub capabilities: Value,
    pub server_info: Value,
    pub instructions: Option<String>,
}

/// Builds the offer of a client's view. The instructions of each visible server follow a heading
/// with the server's name.
pub fn offer(view: &View) -> ProfileOffer {
    let snapshot = view.snapshot();
    let parts = snapshot.catalog.parts().iter();
    let instructions: Vec<String> = parts
        .filter(|part| view.has_server(&part.server))
        .filter_map(|part| {
            let text = part.catalog.instructions.as_deref()?;
            Some(format!("# {}\n\n{text}", part.server))
        })
        .collect();
    ProfileOffer {
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

/// True if a call may become a task, because a connected server of the profile supports tasks.
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
