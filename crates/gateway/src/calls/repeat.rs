//! Which calls may run twice (invariant 6): those that only read.

use mainstay_core::{
    catalog::ListKind,
    message::{self, Method},
};

use super::request::Request;
use crate::supervisor::Server;

/// Whether a call that may have run can be sent again. What a tool's hints say comes from the server
/// and is no proof: `readOnlyHint` is believed, `idempotentHint` only where `callRetry` is on.
pub fn is_repeatable(request: &Request, server: &Server) -> bool {
    match request.frame.method() {
        Some(Method::ToolsCall) => tool_is_repeatable(request, server),
        Some(
            Method::ToolsList
            | Method::PromptsList
            | Method::PromptsGet
            | Method::ResourcesList
            | Method::ResourceTemplatesList
            | Method::ResourcesRead
            | Method::Complete
            | Method::TasksGet
            | Method::Ping,
        ) => true,
        _ => false,
    }
}

fn tool_is_repeatable(request: &Request, server: &Server) -> bool {
    let Some(name) = request.subject() else {
        return false;
    };
    let catalog = server.catalog();
    let annotations = catalog.as_deref().and_then(|catalog| {
        let tool = catalog.item(ListKind::Tools, &name)?;
        tool.member("annotations").map(str::to_owned)
    });
    let Some(annotations) = annotations else {
        return false;
    };
    let hint = |name| message::member(&annotations, name) == Some("true");
    hint("readOnlyHint") || server.config().call_retry && hint("idempotentHint")
}
