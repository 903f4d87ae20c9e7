//! Tasks of servers on aggregate endpoints (SEP-2663). Clients get sealed names of tasks. A sealed
//! name has the server and the principal of its task.

use std::{borrow::Cow, sync::Arc};

use mainstay_core::{
    catalog::ItemTarget,
    era::{code, tasks},
    message::{Method, Text},
    principal::Principal,
};
use mainstay_gateway::{View, calls::NameKind, supervisor::ServerHandle};
use mainstay_transport::Frame;

use super::request::RequestContext;
use crate::mcp::{reply::RpcReply, shared::SharedState};

/// The error for a task that does not exist or that belongs to another principal.
pub const UNKNOWN: &str = "unknown task";

/// True for a method about a single task.
pub fn is_about_one(method: Method) -> bool {
    matches!(
        method,
        Method::TasksGet | Method::TasksResult | Method::TasksUpdate | Method::TasksCancel
    )
}

/// The task's sealed name in a request.
pub fn named(frame: &Frame) -> Result<Text<'static>, &'static str> {
    let params = frame.params().unwrap_or("{}");
    let task_name = tasks::id(params).zip(frame.param_span(&[tasks::ID]));
    let (name, span) = task_name
        .filter(|_| !tasks::is_doubled(params))
        .ok_or("\"taskId\" must be a string, and stand once")?;
    Ok(Text {
        value: Cow::Owned(name.into_owned()),
        span,
    })
}

/// The server of a principal's task, and the task's id at that server.
pub fn find(
    shared_state: &SharedState,
    view: &View,
    principal: &Principal,
    name: &str,
) -> Option<(Arc<ServerHandle>, String)> {
    let (server, original_id) = shared_state.names.open(NameKind::Task, principal, name)?;
    let server = shared_state.gateway.registry.server(server).ok()?;
    let is_seen = view.has_server(&server.name);
    is_seen.then(|| (server, original_id.to_owned()))
}

impl RequestContext<'_> {
    /// Forwards a request about a task to the task's server.
    pub async fn task(self) -> RpcReply {
        let (id, shared_state, frame) = (self.id(), self.shared, self.frame);
        if !self.sink.client.caller.capabilities.tasks {
            return RpcReply::tasks_undeclared(id);
        }
        let name = match named(frame) {
            Ok(name) => name,
            Err(reason) => return RpcReply::error(id, code::INVALID_PARAMS, reason),
        };
        let principal = self.sink.client.principal.clone();
        let Some((server, original_id)) = find(shared_state, &self.view, &principal, &name.value)
        else {
            return RpcReply::error(id, code::INVALID_PARAMS, UNKNOWN);
        };
        let owner = ItemTarget::new(server.name.clone(), original_id);
        match self.forward(&owner, &name).await {
            Ok(answer) => {
                let server = owner.server.as_str();
                RpcReply::answer(id, &shared_state.names.renamed(&principal, server, answer))
            }
            Err(failure) => RpcReply::failure(id, &failure),
        }
    }
}
