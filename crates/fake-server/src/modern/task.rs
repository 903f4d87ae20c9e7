//! A task: a call that is answered before it is done.

use std::sync::Arc;

use chrono::{SecondsFormat, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::questions::Question;
use crate::session::Session;

pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Time that a task is kept, as the fake declares it. It is longer than any test.
const TTL_MS: u64 = 600_000;

/// Interval to ask for a task. It is short, as tests are.
const POLL_MS: u64 = 20;

pub(crate) struct Task {
    pub(super) order: Order,
    pub(super) state: State,
    created: String,
    updated: String,
    /// Runs its work.
    pub(super) session: Arc<Session>,
}

/// The arguments of tool `task`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Order {
    /// The time each part of its work takes.
    pub ms: u64,
    /// Asks the user on the way.
    pub ask: bool,
    pub fail: bool,
    /// Is answered in the ordinary way to clients without the extension.
    pub optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    Working { answer: Option<Value> },
    InputRequired,
    Completed { text: String },
    Failed,
    Cancelled,
}

impl Task {
    pub(super) fn new(order: Order, id: String) -> Self {
        Self {
            order,
            state: State::Working { answer: None },
            created: now(),
            updated: now(),
            session: Session::new(id),
        }
    }

    /// The state that follows once its time is over.
    pub fn advanced(&self) -> State {
        match &self.state {
            State::Working { answer: None } if self.order.ask => State::InputRequired,
            State::Working { .. } if self.order.fail => State::Failed,
            State::Working { answer } => {
                let answer = answer.as_ref().map(Value::to_string);
                let text = answer.unwrap_or_else(|| "the task is done".to_owned());
                State::Completed { text }
            }
            ended => ended.clone(),
        }
    }

    /// Puts it into its next state. Returns true if that is a different one.
    pub fn put(&mut self, next: State) -> bool {
        if next == self.state {
            return false;
        }
        self.state = next;
        self.updated = now();
        true
    }

    pub fn is_completed(&self) -> bool {
        matches!(self.state, State::Completed { .. })
    }

    /// Ends its work.
    pub fn stop(&self) {
        self.session.close();
    }

    /// Returns the task as `tasks/get` and `notifications/tasks` report it.
    pub fn detailed(&self, id: &str) -> Value {
        let (status, key, value) = match &self.state {
            State::Working { .. } => ("working", "", Value::Null),
            State::InputRequired => {
                let form = Question::form();
                let params: Value = serde_json::from_str(&form.params).expect("ours");
                let requests = json!({form.key: {"method": form.method, "params": params}});
                ("input_required", "inputRequests", requests)
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

fn now() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true)
}
