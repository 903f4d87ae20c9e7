//! The tasks extension (SEP-2663): a call that is answered before it is done.

use std::sync::Arc;
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{listen, missing_capability, typed};
use crate::message::{self, RpcError};
use crate::questions::Question;
use crate::request::{Request, string};
use crate::service::Service;
use crate::session::{Action, Session};

pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How long a task is kept, it says; longer than any test.
const TTL_MS: u64 = 600_000;

/// How often to ask for it; short, so that tests are.
const POLL_MS: u64 = 20;

pub(crate) struct Task {
    order: Order,
    state: State,
    created: String,
    updated: String,
    /// Where its work runs.
    session: Arc<Session>,
}

/// The arguments of tool `task`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Order {
    /// The time each part of its work takes.
    ms: u64,
    /// Asks the user on the way.
    ask: bool,
    fail: bool,
    /// Is answered in the ordinary way to clients without the extension.
    optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Working { answer: Option<Value> },
    InputRequired,
    Completed { text: String },
    Failed,
    Cancelled,
}

impl Task {
    /// Ends its work.
    pub fn stop(&self) {
        self.session.close();
    }

    /// As `tasks/get` and `notifications/tasks` show it.
    fn detailed(&self, id: &str) -> Value {
        let (status, key, value) = match &self.state {
            State::Working { .. } => ("working", "", Value::Null),
            State::InputRequired => {
                let form = Question::form();
                let params: Value = serde_json::from_str(&form.params).expect("ours");
                let asked = json!({form.key: {"method": form.method, "params": params}});
                ("input_required", "inputRequests", asked)
            }
            State::Completed { text } => {
                let content = json!([{"type": "text", "text": text}]);
                ("completed", "result", json!({"content": content}))
            }
            State::Failed => {
                let error = json!({"code": -32603, "message": "the task failed"});
                ("failed", "error", error)
            }
            State::Cancelled => ("cancelled", "", Value::Null),
        };
        let mut task = json!({
            "taskId": id,
            "status": status,
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
            "ttlMs": TTL_MS,
            "pollIntervalMs": POLL_MS,
        });
        if !key.is_empty() {
            task[key] = value;
        }
        task
    }
}

pub(super) fn capability() -> Value {
    json!({"extensions": {EXTENSION: {}}})
}

pub(super) fn is_declared(request: &Request) -> bool {
    request.client.capabilities["extensions"][EXTENSION].is_object()
}

/// Tool `task`.
pub(crate) fn call(request: &Request, arguments: &Value) -> Result<Vec<Action>, RpcError> {
    let order = Order::deserialize(arguments).unwrap_or_default();
    if !is_declared(request) {
        if !order.optional {
            return Err(missing_capability(&capability()));
        }
        return Ok(vec![
            Action::Wait(Duration::from_millis(order.ms)),
            Action::Finish("task".to_owned()),
            request.answer(&message::text("done at once")),
        ]);
    }
    let service = request.service;
    let id = format!("task-{:x}-{}", std::process::id(), service.serial());
    let task = Task {
        order,
        state: State::Working { answer: None },
        created: now(),
        updated: now(),
        session: Session::new(id.clone()),
    };
    let created = task.detailed(&id).to_string();
    let created = typed("task", request.script, request.method, &created);
    let (session, ms) = (Arc::clone(&task.session), task.order.ms);
    service.shared().tasks.insert(id.clone(), task);
    work(service, &session, &id, ms);
    Ok(vec![Action::Send(message::result(request.id, &created))])
}

fn work(service: &Arc<Service>, session: &Arc<Session>, id: &str, ms: u64) {
    let wait = Action::Wait(Duration::from_millis(ms));
    let actions = vec![wait, Action::Advance(id.to_owned())];
    session.run(service, Some(id), actions, None, None);
}

/// Takes a task on once its time is over.
pub(crate) fn advance(service: &Service, id: &str) {
    change(service, id, |task| match &task.state {
        State::Working { answer: None } if task.order.ask => State::InputRequired,
        State::Working { .. } if task.order.fail => State::Failed,
        State::Working { answer } => {
            let answer = answer.as_ref().map(Value::to_string);
            let text = answer.unwrap_or_else(|| "the task is done".to_owned());
            State::Completed { text }
        }
        ended => ended.clone(),
    });
}

/// Answers `tasks/get`, `tasks/update` and `tasks/cancel`.
pub(super) fn answer(request: &Request) -> Result<Vec<Action>, RpcError> {
    if !is_declared(request) {
        return Err(missing_capability(&capability()));
    }
    let params: Value = request.read()?;
    let id = string(&params, "taskId")?;
    let service = request.service;
    let task = {
        let shared = service.shared();
        let task = shared.tasks.get(id);
        task.map(|it| (it.detailed(id), Arc::clone(&it.session), it.order.ms))
    };
    let Some((task, session, ms)) = task else {
        return Err(RpcError::invalid_params(format!("unknown task: {id}")));
    };
    let result = match request.method {
        "tasks/get" => task.to_string(),
        "tasks/update" => {
            let answer = &params["inputResponses"][Question::form().key];
            let taken = change(service, id, |task| match &task.state {
                State::InputRequired if answer.is_object() => State::Working {
                    answer: Some(answer.clone()),
                },
                // Answers to nothing that is asked are ignored.
                other => other.clone(),
            });
            if taken {
                work(service, &session, id, ms);
            }
            "{}".to_owned()
        }
        _ => {
            change(service, id, |task| match &task.state {
                State::Working { .. } | State::InputRequired => State::Cancelled,
                ended => ended.clone(),
            });
            session.cancel(id);
            "{}".to_owned()
        }
    };
    Ok(vec![request.answer(&result)])
}

/// Puts a task into its next state, and tells listeners; returns whether the state changed.
fn change(service: &Service, id: &str, next: impl FnOnce(&Task) -> State) -> bool {
    let shared = &mut *service.shared();
    let Some(task) = shared.tasks.get_mut(id) else {
        return false;
    };
    let next = next(task);
    if next == task.state {
        return false;
    }
    let is_completed = matches!(next, State::Completed { .. });
    task.state = next;
    task.updated = now();
    let detailed = task.detailed(id);
    if is_completed {
        shared.finished("task");
    }
    listen::task_changed(&shared.listens, id, &detailed);
    true
}

fn now() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true)
}
