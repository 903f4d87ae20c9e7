//! Tasks of servers on aggregate endpoints (SEP-2663). A sealed id says which server has the task and
//! which principal began it.

use std::{borrow::Cow, sync::Arc};

use mainstay_core::{
    catalog::Target,
    era::{code, tasks},
    message::{Method, Text},
    principal::Principal,
};
use mainstay_gateway::{View, calls::NameKind, supervisor::Server};
use mainstay_transport::Frame;

use super::request::RequestContext;
use crate::mcp::{reply::Reply, shared::Shared};

/// The error for a task that a principal has not begun, whether it exists or not.
pub const UNKNOWN: &str = "unknown task";

/// Whether a method is about one task.
pub fn is_about_one(method: Method) -> bool {
    matches!(
        method,
        Method::TasksGet | Method::TasksResult | Method::TasksUpdate | Method::TasksCancel
    )
}

/// The task that a request is about.
pub fn named(frame: &Frame) -> Result<Text<'static>, &'static str> {
    let params = frame.params().unwrap_or("{}");
    let named = tasks::id(params).zip(frame.param_span(&[tasks::ID]));
    let (name, span) = named
        .filter(|_| !tasks::is_doubled(params))
        .ok_or("\"taskId\" must be a string, and stand once")?;
    Ok(Text {
        value: Cow::Owned(name.into_owned()),
        span,
    })
}

/// The server that has the task that this principal knows by this name, and its own name for it.
pub fn find(
    shared: &Shared,
    view: &View,
    principal: &Principal,
    name: &str,
) -> Option<(Arc<Server>, String)> {
    let (server, own) = shared.names.open(NameKind::Task, principal, name)?;
    let server = shared.gateway.registry.server(server).ok()?;
    let is_seen = view.has_server(&server.name);
    is_seen.then(|| (server, own.to_owned()))
}

impl RequestContext<'_> {
    /// A request about a task, answered by the server that has it.
    pub async fn task(self) -> Reply {
        let (id, shared, frame) = (self.id(), self.shared, self.frame);
        if !self.sink.client.caller.capabilities.tasks {
            return Reply::tasks_undeclared(id);
        }
        let name = match named(frame) {
            Ok(name) => name,
            Err(reason) => return Reply::error(id, code::INVALID_PARAMS, reason),
        };
        let principal = self.sink.client.principal.clone();
        let Some((server, own)) = find(shared, &self.view, &principal, &name.value) else {
            return Reply::error(id, code::INVALID_PARAMS, UNKNOWN);
        };
        let owner = Target {
            server: server.name.clone(),
            original: own.into(),
        };
        match self.forward(&owner, &name).await {
            Ok(answer) => {
                let server = owner.server.as_str();
                Reply::answer(id, &shared.names.renamed(&principal, server, answer))
            }
            Err(failure) => Reply::failure(id, &failure),
        }
    }
}
