//! The tasks extension (SEP-2663, `io.modelcontextprotocol/tasks`): a call that is answered by the name
//! of its work, before the work is done.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::result::RESULT_TYPE;
use crate::message::{self, Object};

/// The name of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The member that names a task, in requests, results and notifications.
pub const ID: &str = "taskId";

/// What a result says that is a task.
const TASK: &str = "task";

/// The capability, as clients and servers declare it.
pub fn capability() -> Value {
    json!({"extensions": {EXTENSION: {}}})
}

/// Message and data of the error −32021, for a request that does not declare the extension.
pub fn undeclared() -> (&'static str, Value) {
    (
        "the client does not declare the tasks extension",
        json!({ "requiredCapabilities": capability() }),
    )
}

/// Whether the result (JSON text) of a call is a task.
pub fn is_task(result: &str) -> bool {
    message::text_member(result, RESULT_TYPE).as_deref() == Some(TASK)
}

/// The task that a result or `params` (JSON text) names.
pub fn id(object: &str) -> Option<Cow<'_, str>> {
    message::text_member(object, ID)
}

/// Whether `params` (JSON text) name two tasks: two readers of them must not see different ones.
pub fn is_doubled(params: &str) -> bool {
    Object::read(params).is_some_and(|params| params.count(ID) > 1)
}

/// A result (JSON text) that names the task otherwise.
pub fn renamed(result: &str, id: &str) -> String {
    let mut renamed = Object::read(result).unwrap_or_default();
    renamed.set_text(ID, id);
    renamed.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_told_by_its_type_and_renamed_in_place() {
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
}
