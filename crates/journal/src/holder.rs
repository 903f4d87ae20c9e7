//! Holders of objects: the callers and targets that determine who may read an object.

use std::sync::Arc;

use mainstay_core::{
    ids::ServerName,
    message::Method,
    record::{CallOrigin, Target},
};

/// The fields of a call's caller and target that determine who may see the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// `None` if no token was needed.
    pub principal: Option<String>,
    /// `None` if the called name belongs to no server.
    pub server: Option<ServerName>,
    /// The server's own name of the called tool.
    pub tool: Option<Arc<str>>,
}

impl Holder {
    pub fn from_call(origin: &CallOrigin, target: &Target) -> Self {
        let is_tool = target.server.is_some() && target.method == Method::ToolsCall.name();
        Self {
            principal: origin.principal.clone(),
            server: target.server.clone(),
            tool: is_tool.then(|| Arc::clone(&target.tool)),
        }
    }
}
