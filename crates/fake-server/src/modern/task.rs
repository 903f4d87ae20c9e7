//! Tasks: calls that are answered before they finish.

use std::sync::Arc;

use chrono::{SecondsFormat, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::questions::ClientQuestion;
use crate::session::FakeSession;

pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Declared lifetime of a task in milliseconds, longer than any test.
const TTL_MS: u64 = 600_000;

/// Declared poll interval in milliseconds.
const POLL_MS: u64 = 20;

pub(crate) struct Task {
    pub(super) order: Order,
    pub(super) state: TaskState,
    created: String,
    updated: String,
    /// The session that runs the work of the task.
    pub(super) session: Arc<FakeSession>,
}

/// The arguments of tool `task`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Order {
    /// Time for each part of the work, in milliseconds.
    pub ms: u64,
    /// True to ask the user in between.
    pub ask: bool,
    pub fail: bool,
    /// True to answer clients without the extension directly.
    pub optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TaskState {
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
            state: TaskState::Working { answer: None },
            created: now(),
            updated: now(),
            session: FakeSession::new(id),
        }
    }

    /// Returns the state after the current one.
    pub fn advanced(&self) -> TaskState {
        match &self.state {
            TaskState::Working { answer: None } if self.order.ask => TaskState::InputRequired,
            TaskState::Working { .. } if self.order.fail => TaskState::Failed,
            TaskState::Working { answer } => {
                let answer = answer.as_ref().map(Value::to_string);
                let text = answer.unwrap_or_else(|| "the task is done".to_owned());
                TaskState::Completed { text }
            }
            ended => ended.clone(),
        }
    }

    /// Sets the state. Returns true if it changed.
    pub fn put(&mut self, next_state: TaskState) -> bool {
        if next_state == self.state {
            return false;
        }
        self.state = next_state;
        self.updated = now();
        true
    }

    pub fn is_completed(&self) -> bool {
        matches!(self.state, TaskState::Completed { .. })
    }

    /// Ends the work of the task.
    pub fn stop(&self) {
        self.session.close();
    }

    /// Returns the task as `tasks/get` and `notifications/tasks` report it.
    pub fn detailed(&self, id: &str) -> Value {
        let (status, key, value) = match &self.state {
            TaskState::Working { .. } => ("working", "", Value::Null),
            TaskState::InputRequired => {
                let form = ClientQuestion::form();
                let params: Value = serde_json::from_str(&form.params).expect("ours");
                let requests = json!({form.key: {"method": form.method, "params": params}});
                ("input_required", "inputRequests", requests)
            }
            TaskState::Completed { text } => {
                let content = json!([{"type": "text", "text": text}]);
                ("completed", "result", json!({"content": content}))
            }
            TaskState::Failed => {
                let error = json!({"code": -32603, "message": "the task failed"});
                ("failed", "error", error)
            }
            TaskState::Cancelled => ("cancelled", "", Value::Null),
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
