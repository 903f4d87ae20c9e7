//! The tasks extension (SEP-2663): calls that become tasks, and requests about them.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::result::{missing_capability, typed};
use super::task::{EXTENSION, Order, Task, TaskState, capability};
use crate::action::ServiceAction;
use crate::message::{self, RpcError};
use crate::questions::ClientQuestion;
use crate::request::{ReceivedRequest, string};
use crate::run::run;
use crate::service::Service;
use crate::session::FakeSession;

pub(super) fn is_declared(request: &ReceivedRequest) -> bool {
    request.client.capabilities["extensions"][EXTENSION].is_object()
}

/// Runs tool `task`.
pub(crate) fn call(
    request: &ReceivedRequest,
    arguments: &Value,
) -> Result<Vec<ServiceAction>, RpcError> {
    let order = Order::deserialize(arguments).unwrap_or_default();
    if !is_declared(request) {
        if !order.optional {
            return Err(missing_capability(&capability()));
        }
        return Ok(vec![
            ServiceAction::Wait(Duration::from_millis(order.ms)),
            ServiceAction::Finish("task".to_owned()),
            request.answer(&message::text("done at once")),
        ]);
    }
    let service = request.service;
    let id = format!("task-{:x}-{}", std::process::id(), service.serial());
    let task = Task::new(order, id.clone());
    let task_json = task.detailed(&id).to_string();
    let task_json = typed("task", request.script, request.method, &task_json);
    let (session, ms) = (Arc::clone(&task.session), task.order.ms);
    service.shared().tasks.insert(id.clone(), task);
    work(service, &session, &id, ms);
    Ok(vec![ServiceAction::Send(message::result(
        request.id, &task_json,
    ))])
}

fn work(service: &Arc<Service>, session: &Arc<FakeSession>, id: &str, ms: u64) {
    let wait = ServiceAction::Wait(Duration::from_millis(ms));
    let actions = vec![wait, ServiceAction::Advance(id.to_owned())];
    run(service, session, Some(id), actions, None, None);
}

/// Answers `tasks/get`, `tasks/update` and `tasks/cancel`.
pub(super) fn answer(request: &ReceivedRequest) -> Result<Vec<ServiceAction>, RpcError> {
    if !is_declared(request) {
        return Err(missing_capability(&capability()));
    }
    let params: Value = request.read()?;
    let id = string(&params, "taskId")?;
    let service = request.service;
    let task = {
        let shared_state = service.shared();
        let task = shared_state.tasks.get(id);
        task.map(|task| (task.detailed(id), Arc::clone(&task.session), task.order.ms))
    };
    let Some((task, session, ms)) = task else {
        return Err(RpcError::invalid_params(format!("unknown task: {id}")));
    };
    let result = match request.method {
        "tasks/get" => task.to_string(),
        "tasks/update" => {
            let answer = &params["inputResponses"][ClientQuestion::form().key];
            let is_resumed = service.shared().change_task(id, |task| match &task.state {
                TaskState::InputRequired if answer.is_object() => TaskState::Working {
                    answer: Some(answer.clone()),
                },
                // Other answers are ignored.
                other => other.clone(),
            });
            if is_resumed {
                work(service, &session, id, ms);
            }
            "{}".to_owned()
        }
        _ => {
            service.shared().change_task(id, |task| match &task.state {
                TaskState::Working { .. } | TaskState::InputRequired => TaskState::Cancelled,
                ended => ended.clone(),
            });
            session.cancel(id);
            "{}".to_owned()
        }
    };
    Ok(vec![request.answer(&result)])
}
