//! Finds task ids in messages, so that Mainstay can replace them. Covers the tasks of the extension
//! (SEP-2663) and of 2025-11-25 ("Tasks").

use super::{ID, is_task};
use crate::{
    era::listen,
    message::{InvalidParams, JsonObjectEditor, Method, array, quote},
};

/// The key in `_meta` with the task that a message belongs to (2025-11-25).
pub const RELATED: &str = "io.modelcontextprotocol/related-task";

const UNKNOWN_TASK: InvalidParams = InvalidParams("unknown task");

/// Returns the new name of a task. `None` for an unknown task, which keeps its name or is removed.
pub type Rename<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Renames the tasks in a server's result (JSON text). `None` if nothing was renamed. `as_task` is
/// true if the request asked for a task in the form of 2025-11-25. Unknown tasks are removed from
/// lists.
pub fn in_result(
    method: Method,
    as_task: bool,
    result: &str,
    rename: Rename<'_>,
) -> Option<String> {
    let mut editor = JsonObjectEditor::read(result)?;
    let has_renamed = match method {
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => {
            rename_task(&mut editor, rename)
        }
        Method::TasksResult => rename_related_task(&mut editor, rename),
        Method::TasksList => rename_listed_tasks(&mut editor, rename),
        _ if as_task => edit_member(&mut editor, "task", |task| rename_task(task, rename)),
        Method::ToolsCall if is_task(result) => rename_task(&mut editor, rename),
        _ => false,
    };
    has_renamed.then(|| editor.to_string())
}

/// Renames a server's tasks in its notification or request (JSON text). `None` if nothing was
/// renamed. A request such as `tasks/get` is about a task of the client, whose name stays.
pub fn in_message(method: Method, message: &str, rename: Rename<'_>) -> Option<String> {
    let mut editor = JsonObjectEditor::read(message)?;
    let has_renamed = edit_member(&mut editor, "params", |params| {
        let has_renamed_status = match method {
            Method::TaskStatus | Method::TaskChanged => rename_task(params, rename),
            Method::Acknowledged => edit_member(params, "notifications", |filter| {
                rename_strings(filter, listen::TASKS, rename).unwrap_or(false)
            }),
            _ => false,
        };
        rename_related_task(params, rename) | has_renamed_status
    });
    has_renamed.then(|| editor.to_string())
}

/// Renames the server's task that a client's response (JSON text) belongs to. `None` if nothing was
/// renamed, because the task is the client's own.
pub fn in_response(response: &str, rename: Rename<'_>) -> Option<String> {
    let mut editor = JsonObjectEditor::read(response)?;
    let has_renamed = edit_member(&mut editor, "result", |result| {
        rename_related_task(result, rename)
    });
    has_renamed.then(|| editor.to_string())
}

/// Renames tasks in the `params` (JSON text) of a client's request: the tasks to listen to, and the
/// task that the request belongs to. `None` if nothing was renamed. Removes unknown tasks from the
/// tasks to listen to, because servers ignore them.
pub fn in_request(
    method: Method,
    params: &str,
    rename: Rename<'_>,
) -> Result<Option<String>, InvalidParams> {
    let Some(mut editor) = JsonObjectEditor::read(params) else {
        return Ok(None);
    };
    let mut has_renamed = false;
    // A member that occurs twice is an error, because two parsers could read different tasks.
    let check_once = |object: &JsonObjectEditor<'_>, member| match object.count(member) {
        0 | 1 => Ok(()),
        _ => Err(InvalidParams("a member occurs twice")),
    };
    if method == Method::Listen {
        check_once(&editor, "notifications")?;
        let mut outcome = Ok(());
        has_renamed |= edit_member(&mut editor, "notifications", |filter| {
            outcome = check_once(filter, listen::TASKS);
            rename_strings(filter, listen::TASKS, rename).unwrap_or_else(|error| {
                outcome = Err(error);
                false
            })
        });
        outcome?;
    }
    check_once(&editor, "_meta")?;
    let mut outcome = Ok(());
    has_renamed |= edit_member(&mut editor, "_meta", |meta| {
        outcome = check_once(meta, RELATED);
        if !meta.has(RELATED) || outcome.is_err() {
            return false;
        }
        let is_renamed = edit_member(meta, RELATED, |task| {
            outcome = check_once(task, ID);
            rename_task(task, rename)
        });
        if !is_renamed && outcome.is_ok() {
            outcome = Err(UNKNOWN_TASK);
        }
        is_renamed
    });
    outcome?;
    Ok(has_renamed.then(|| editor.to_string()))
}

/// Renames the task of an object. Returns false if the object has no task, or an unknown one.
fn rename_task(object: &mut JsonObjectEditor<'_>, rename: Rename<'_>) -> bool {
    let id = object.get(ID).and_then(|id| serde_json::from_str(id).ok());
    let name = id.and_then(|id: String| rename(&id));
    let Some(name) = name else { return false };
    object.set_text(ID, &name);
    true
}

fn rename_related_task(object: &mut JsonObjectEditor<'_>, rename: Rename<'_>) -> bool {
    edit_member(object, "_meta", |meta| {
        edit_member(meta, RELATED, |task| rename_task(task, rename))
    })
}

/// Edits an object inside another object. `change` returns true if it changed something.
fn edit_member(
    object: &mut JsonObjectEditor<'_>,
    member: &str,
    change: impl FnOnce(&mut JsonObjectEditor<'_>) -> bool,
) -> bool {
    let text = object.get(member).map(str::to_owned);
    let Some(mut inner_editor) = text.as_deref().and_then(JsonObjectEditor::read) else {
        return false;
    };
    let has_changed = change(&mut inner_editor);
    if has_changed {
        object.set(member, &inner_editor.to_string());
    }
    has_changed
}

fn rename_listed_tasks(result: &mut JsonObjectEditor<'_>, rename: Rename<'_>) -> bool {
    let Some(tasks) = result.get("tasks").and_then(crate::message::items) else {
        return false;
    };
    let renamed_tasks = tasks.into_iter().filter_map(|task| {
        let mut task = JsonObjectEditor::read(task)?;
        rename_task(&mut task, rename).then(|| task.to_string())
    });
    let renamed_tasks = array(&renamed_tasks.collect::<Vec<_>>());
    result.set("tasks", &renamed_tasks);
    true
}

/// Renames the tasks in a list of strings. Removes unknown tasks.
fn rename_strings(
    object: &mut JsonObjectEditor<'_>,
    member: &str,
    rename: Rename<'_>,
) -> Result<bool, InvalidParams> {
    let Some(list) = object.get(member) else {
        return Ok(false);
    };
    let names: Vec<String> = serde_json::from_str(list)
        .map_err(|_| InvalidParams("\"taskIds\" must be an array of strings"))?;
    let renamed_names = names.iter().filter_map(|name| rename(name));
    let renamed_names = array(&renamed_names.map(|name| quote(&name)).collect::<Vec<_>>());
    object.set(member, &renamed_names);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renames tasks whose names begin with `t`. All others are unknown.
    fn seal_name(id: &str) -> Option<String> {
        id.starts_with('t').then(|| format!("s-{id}"))
    }

    #[test]
    fn tasks_in_results_are_renamed() {
        let related_result = r#"{"content":[],"_meta":{"x":1,"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}"#;
        for (method, as_task, result, expected) in [
            (
                Method::TasksGet,
                false,
                r#"{"taskId":"t1","status":"working"}"#,
                Some(r#"{"taskId":"s-t1","status":"working"}"#.to_owned()),
            ),
            (Method::TasksUpdate, false, "{}", None),
            (
                Method::ToolsCall,
                true,
                r#"{"task":{"taskId":"t1","ttl": 1.0}}"#,
                Some(r#"{"task":{"taskId":"s-t1","ttl": 1.0}}"#.to_owned()),
            ),
            (
                Method::ToolsCall,
                false,
                r#"{"task":{"taskId":"t1"},"taskId":"t1"}"#,
                None,
            ),
            (
                Method::ToolsCall,
                false,
                r#"{"resultType":"task","taskId":"t1"}"#,
                Some(r#"{"resultType":"task","taskId":"s-t1"}"#.to_owned()),
            ),
            (
                Method::TasksList,
                false,
                r#"{"tasks":[{"taskId":"t1"},{"taskId":"u"},{"taskId":3}],"nextCursor":"c"}"#,
                Some(r#"{"tasks":[{"taskId":"s-t1"}],"nextCursor":"c"}"#.to_owned()),
            ),
            (
                Method::TasksResult,
                false,
                related_result,
                Some(related_result.replace("t1", "s-t1")),
            ),
        ] {
            let renamed_result = in_result(method, as_task, result, &seal_name);
            assert_eq!(renamed_result, expected, "{result}");
        }
    }

    #[test]
    fn tasks_in_messages_of_a_server_are_renamed() {
        for (text, expected) in [
            (
                r#"{"method":"notifications/tasks/status","params":{"taskId":"t1"}}"#,
                Some(r#"{"method":"notifications/tasks/status","params":{"taskId":"s-t1"}}"#),
            ),
            // The task is the client's own.
            (
                r#"{"id":1,"method":"tasks/get","params":{"taskId":"t1"}}"#,
                None,
            ),
            (
                r#"{"id":1,"method":"elicitation/create","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}}"#,
                Some(
                    r#"{"id":1,"method":"elicitation/create","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"s-t1"}}}}"#,
                ),
            ),
            (
                r#"{"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"taskIds":["t1","x"]}}}"#,
                Some(
                    r#"{"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"taskIds":["s-t1"]}}}"#,
                ),
            ),
        ] {
            let name = crate::message::text_member(text, "method").expect("a method");
            let renamed_message = in_message(Method::from_name(&name), text, &seal_name);
            assert_eq!(renamed_message.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_request_with_a_repeated_or_unknown_task_is_refused() {
        let related_params =
            |inner: &str| format!(r#"{{"name":"t","_meta":{{"a":1,"{RELATED}":{inner}}}}}"#);
        let valid_params = related_params(r#"{"taskId":"t1"}"#);
        assert_eq!(
            in_request(Method::ToolsCall, &valid_params, &seal_name),
            Ok(Some(valid_params.replace("t1", "s-t1")))
        );
        let escaped = valid_params.replace("related-task", r"related\u002dtask");
        assert_ne!(
            in_request(Method::ToolsCall, &escaped, &seal_name),
            Ok(None)
        );
        for invalid_member in [
            related_params(r#"{"taskId":"x"}"#),
            related_params("{}"),
            related_params(r#""x""#),
            related_params(r#"{"taskId":"t1","taskId":"x"}"#),
            format!(
                r#"{{"_meta":{{"{RELATED}":{{"taskId":"t1"}},"{RELATED}":{{"taskId":"x"}}}}}}"#
            ),
            format!(r#"{{"_meta":{{"{RELATED}":{{"taskId":"x"}}}},"_meta":{{}}}}"#),
        ] {
            assert!(
                in_request(Method::ToolsCall, &invalid_member, &seal_name).is_err(),
                "{invalid_member}"
            );
        }
        assert_eq!(
            in_request(
                Method::Listen,
                r#"{"notifications":{"taskIds":["t1","x"],"toolsListChanged":true}}"#,
                &seal_name
            ),
            Ok(Some(
                r#"{"notifications":{"taskIds":["s-t1"],"toolsListChanged":true}}"#.to_owned()
            ))
        );
        for invalid_member in [
            r#"{"notifications":{"taskIds":["t1"]},"notifications":{"taskIds":["x"]}}"#,
            r#"{"notifications":{"taskIds":["t1"],"taskIds":["x"]}}"#,
            r#"{"notifications":{"taskIds":"x"}}"#,
        ] {
            assert!(
                in_request(Method::Listen, invalid_member, &seal_name).is_err(),
                "{invalid_member}"
            );
        }
    }
}
