//! The method `subscriptions/listen`, which opens a subscription.

use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::listen::{ListenFilter, ListenStream, SUBSCRIPTION, notification, raw};
use super::result::{missing_capability, typed};
use super::{task, tasks};
use crate::action::ServiceAction;
use crate::catalog;
use crate::message::{self, RpcError};
use crate::request::ReceivedRequest;

/// Acknowledges the supported part of the filter, then sends events.
pub(super) fn open(request: &ReceivedRequest) -> Result<Vec<ServiceAction>, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        notifications: ListenFilter,
    }
    let Params { notifications } = request.read()?;
    let script = request.script;
    if !notifications.task_ids.is_empty() && !tasks::is_declared(request) {
        return Err(missing_capability(&task::capability()));
    }
    let mut shared_state = request.service.shared();
    let mut filter = notifications;
    filter.tools_list_changed &= !script.no_tools;
    filter.prompts_list_changed &= !script.no_prompts;
    filter.resources_list_changed &= !script.no_resources;
    filter
        .resource_subscriptions
        .retain(|uri| !script.no_resources && catalog::read(script, uri).is_ok());
    filter
        .task_ids
        .retain(|id| shared_state.tasks.contains_key(id));

    let acknowledgement = notification(
        request.id,
        "notifications/subscriptions/acknowledged",
        &json!({"notifications": filter}),
    );
    let meta = json!({"_meta": {SUBSCRIPTION: raw(request.id)}});
    let end = typed("complete", script, request.method, &meta.to_string());
    let (events, receiver) = mpsc::unbounded_channel();
    shared_state.listens.retain(ListenStream::is_open);
    shared_state.listens.push(ListenStream {
        id: request.id.to_owned(),
        filter,
        events,
    });
    Ok(vec![
        ServiceAction::Send(acknowledgement),
        ServiceAction::Listen(receiver, message::result(request.id, &end)),
    ])
}
