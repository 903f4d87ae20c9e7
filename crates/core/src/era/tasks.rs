//! The tasks extension (SEP-2663, `io.modelcontextprotocol/tasks`): a server answers a call with a
//! task id before the work is done.

mod names;

use std::{borrow::Cow, time::Duration};

use serde_json::{Value, json};

pub use self::names::{Rename, in_message, in_request, in_response, in_result};
pub use super::capabilities::TASKS as EXTENSION;
use super::{
    Caller, code,
    questions::{BadInputRequired, INPUT_REQUIRED, InputRequired, REQUESTS, RESPONSES},
    request,
    result::{RESULT_TYPE, error_code},
};
use crate::message::{self, JsonObjectEditor, Method};

/// The member with the id of a task, in requests, results and notifications.
pub const ID: &str = "taskId";

/// The result type of a result that is a task.
const TASK: &str = "task";

/// Poll interval of a task that sets none, and the bounds for an interval that a task sets.
const POLL: Duration = Duration::from_secs(1);
const MIN_POLL: Duration = Duration::from_millis(20);
const MAX_POLL: Duration = Duration::from_secs(30);

/// The capability as clients and servers declare it.
pub fn capability() -> Value {
    json!({"extensions": {EXTENSION: {}}})
}

/// Message and data of the error −32021 for a client without the extension.
pub fn undeclared() -> (&'static str, Value) {
    (
        "the client does not declare the tasks extension",
        json!({ "requiredCapabilities": capability() }),
    )
}

/// True if this `error` (JSON text) says that the client did not declare the extension. The call
/// did not run.
pub fn is_undeclared(error: &str) -> bool {
    error_code(error) == Some(code::MISSING_CAPABILITY)
        && message::member(error, "data")
            .and_then(|data| message::member(data, "requiredCapabilities"))
            .and_then(|required| message::member(required, "extensions"))
            .is_some_and(|extensions| message::member(extensions, EXTENSION).is_some())
}

/// True if the result (JSON text) of a call is a task.
pub fn is_task(result: &str) -> bool {
    message::text_member(result, RESULT_TYPE).as_deref() == Some(TASK)
}

/// The task id in a result or in `params` (JSON text).
pub fn id(object: &str) -> Option<Cow<'_, str>> {
    message::text_member(object, ID)
}

/// True if `params` (JSON text) have two task ids. Two parsers could then read different tasks.
pub fn is_doubled(params: &str) -> bool {
    JsonObjectEditor::read(params).is_some_and(|params| params.count(ID) > 1)
}

/// Replaces the task id in a result (JSON text).
pub fn renamed(result: &str, id: &str) -> String {
    let mut editor = JsonObjectEditor::read(result).unwrap_or_default();
    editor.set_text(ID, id);
    editor.to_string()
}

/// Returns Mainstay's own request about a task (JSON text), on behalf of a client with the
/// extension. `id` is JSON text.
pub fn request(id: &str, method: Method, task: &str, caller: &Caller) -> String {
    about(id, method, task, None, caller)
}

/// Returns the request that sends answers (JSON text, by key) to the questions of a task.
pub fn update(id: &str, task: &str, answers: &[(String, Box<str>)], caller: &Caller) -> String {
    let mut responses = JsonObjectEditor::default();
    for (key, answer) in answers {
        responses.set(key, answer);
    }
    let responses = responses.to_string();
    about(id, Method::TasksUpdate, task, Some(&responses), caller)
}

fn about(id: &str, method: Method, task: &str, responses: Option<&str>, caller: &Caller) -> String {
    let mut params = JsonObjectEditor::default();
    params.set_text(ID, task);
    if let Some(responses) = responses {
        params.set(RESPONSES, responses);
    }
    let method = message::quote(method.name());
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#);
    request::to_modern(&text, caller)
}

/// The status message of a task, for display.
pub fn status_message(task: &str) -> Option<Cow<'_, str>> {
    message::shown_member(task, "statusMessage")
}

/// Converts the result of `tasks/get` (JSON text) to the `params` of a notification.
pub fn as_news(state: &str) -> String {
    let mut notification_params = JsonObjectEditor::read(state).unwrap_or_default();
    notification_params.remove(RESULT_TYPE);
    notification_params.to_string()
}

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskProgress {
    /// The task works. Poll again after this time.
    Working(Duration),
    Asks(InputRequired, Duration),
    /// The result of the call, as JSON text.
    Completed(Box<str>),
    /// The error of the call, as JSON text.
    Failed(Box<str>),
    Cancelled,
}

/// The error of a task that violates the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTask {
    #[error("the task has no \"taskId\"")]
    Unnamed,
    #[error("the task has no status that is known")]
    Status,
    #[error("the task has ended without its result or error")]
    Outcome,
    #[error(transparent)]
    Questions(#[from] BadInputRequired),
}

impl TaskProgress {
    /// Reads a task (JSON text) from the result of `tasks/get` or of a call.
    pub fn read(task: &str) -> Result<Self, BadTask> {
        let object = |name| {
            let value = message::member(task, name).filter(|value| value.starts_with('{'));
            value.map(Box::from).ok_or(BadTask::Outcome)
        };
        Ok(match message::text_member(task, "status").as_deref() {
            Some("working") => Self::Working(pause(task)),
            Some("input_required") => {
                let requests = message::member(task, REQUESTS).unwrap_or("{}");
                let mut required = JsonObjectEditor::default();
                required.set_text(RESULT_TYPE, INPUT_REQUIRED);
                required.set(REQUESTS, requests);
                let required = InputRequired::read(&required.to_string())?;
                Self::Asks(required.unwrap_or_default(), pause(task))
            }
            Some("completed") => Self::Completed(object("result")?),
            Some("failed") => Self::Failed(object("error")?),
            Some("cancelled") => Self::Cancelled,
            _ => return Err(BadTask::Status),
        })
    }
}

fn pause(task: &str) -> Duration {
    let interval = message::member(task, "pollIntervalMs").and_then(|text| text.parse().ok());
    interval
        .map_or(POLL, Duration::from_millis)
        .clamp(MIN_POLL, MAX_POLL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_the_extension_is_recognised() {
        let (message, data) = undeclared();
        let error = json!({"code": -32021, "message": message, "data": data});
        assert!(is_undeclared(&error.to_string()));
        for other_error in [
            r#"{"code":-32602,"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}"#,
            r#"{"code":-32021,"data":{"requiredCapabilities":{"elicitation":{}}}}"#,
            r#"{"code":-32021,"data":{"requiredCapabilities":{"extensions":{"a/b":{}}}}}"#,
            r#"{"code":-32021}"#,
        ] {
            assert!(!is_undeclared(other_error), "{other_error}");
        }
    }

    #[test]
    fn a_request_about_a_task_describes_the_client() {
        let caller = Caller::at(crate::era::Revision::V2025_06_18).with_tasks();
        assert_eq!(
            update(
                "7",
                "a\"b",
                &[("k".to_owned(), r#"{"action":"cancel"}"#.into())],
                &caller
            ),
            r#"{"jsonrpc":"2.0","id":7,"method":"tasks/update","params":{"taskId":"a\"b","inputResponses":{"k":{"action":"cancel"}},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#
        );
    }

    #[test]
    fn a_task_is_recognised_by_its_type_and_renamed_in_place() {
        let task = r#"{"resultType":"task","taskId":"a\"b","status":"working","ttlMs": 1.0}"#;
        assert!(is_task(task));
        assert!(!is_task(r#"{"resultType":"complete","taskId":"a"}"#));
        assert!(!is_task(r#"{"taskId":"a","status":"working"}"#));
        assert_eq!(id(task).as_deref(), Some("a\"b"));
        assert_eq!(
            renamed(task, "é"),
            r#"{"resultType":"task","taskId":"é","status":"working","ttlMs": 1.0}"#
        );
        assert!(is_doubled(r#"{"taskId":"a","x":1,"taskId":"b"}"#));
        assert!(!is_doubled(r#"{"taskId":"a","x":{"taskId":"b"}}"#));
    }

    #[test]
    fn progress_is_read() {
        let read_progress = |rest: &str| TaskProgress::read(&format!(r#"{{"taskId":"a",{rest}}}"#));
        for (interval, expected) in [
            (r#","pollIntervalMs":250"#, Duration::from_millis(250)),
            (r#","pollIntervalMs":0"#, MIN_POLL),
            (r#","pollIntervalMs":86400000"#, MAX_POLL),
            (r#","pollIntervalMs":"soon""#, POLL),
            ("", POLL),
        ] {
            let progress = read_progress(&format!(r#""status":"working"{interval}"#));
            assert_eq!(progress, Ok(TaskProgress::Working(expected)), "{interval}");
        }
        let progress = read_progress(
            r#""status":"input_required","inputRequests":{"k":{"method":"roots/list","params":{}}}"#,
        );
        let Ok(TaskProgress::Asks(required, POLL)) = progress else {
            panic!("{progress:?}");
        };
        assert_eq!(required.requests[0].0, "k");
        assert_eq!(
            read_progress(r#""status":"completed","result":{"a": 1}"#),
            Ok(TaskProgress::Completed(r#"{"a": 1}"#.into()))
        );
        assert_eq!(
            read_progress(r#""status":"failed","error":{"code":1}"#),
            Ok(TaskProgress::Failed(r#"{"code":1}"#.into()))
        );
        assert_eq!(
            read_progress(r#""status":"cancelled""#),
            Ok(TaskProgress::Cancelled)
        );
        assert_eq!(read_progress(r#""status":"asleep""#), Err(BadTask::Status));
        assert_eq!(
            read_progress(r#""status":"completed""#),
            Err(BadTask::Outcome)
        );
        let odd_request = r#""status":"input_required","inputRequests":{"k":{"method":"odd"}}"#;
        assert!(matches!(
            read_progress(odd_request),
            Err(BadTask::Questions(_))
        ));
    }
}
