//! Decides which calls may be sent again after a loss (invariant 6).

use mainstay_core::{
    catalog::ListKind,
    message::{self, Method},
};

use super::request::CallRequest;
use crate::supervisor::ServerHandle;

/// True if a call that may have run can be sent again. A tool's hints are claims of its server.
/// `readOnlyHint` is always trusted, and `idempotentHint` only with the setting `callRetry`.
pub fn is_repeatable(request: &CallRequest, server: &ServerHandle) -> bool {
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

fn tool_is_repeatable(request: &CallRequest, server: &ServerHandle) -> bool {
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
