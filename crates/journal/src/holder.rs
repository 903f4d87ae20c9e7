//! Holders of objects: the callers and targets by which is decided who may see an object.

use std::sync::Arc;

use mainstay_core::{
    ids::ServerName,
    message::Method,
    record::{Origin, Target},
};

/// The caller and the target of a call, as far as they decide who may see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// `None` where no token was needed.
    pub principal: Option<String>,
    /// `None` where the name that was called leads to no server.
    pub server: Option<ServerName>,
    /// The server's own name of a tool that was called.
    pub tool: Option<Arc<str>>,
}

impl Holder {
    pub fn of(origin: &Origin, target: &Target) -> Self {
        let is_tool = target.server.is_some() && target.method == Method::ToolsCall.name();
        Self {
            principal: origin.principal.clone(),
            server: target.server.clone(),
            tool: is_tool.then(|| Arc::clone(&target.tool)),
        }
    }
}
