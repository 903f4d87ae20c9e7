//! The tools that may answer with a task (SEP-2663): the call returns a handle,
//! the result is polled for with `tasks/get`, and questions are answered with
//! `tasks/update`. `slow_compute` runs to its end for a client that does not
//! declare the extension; the others refuse such a client.

use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
        CreateTaskResult, InputRequest, JsonObject,
    },
    service::RequestContext,
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::input::{self, Answers};

/// The interval at which a client should poll: tests are not patient.
const POLL_INTERVAL_MS: u64 = 100;

/// The result of a task's work.
type Outcome = Result<CallToolResult, TaskExit>;

/// The tools that support tasks. `None` for an unknown tool.
pub async fn call(
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    tasks: &TaskManager,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let arguments = params.arguments.clone().unwrap_or_default();
    let declared = context
        .client_capabilities()
        .is_some_and(|capabilities| capabilities.supports_tasks());
    match params.name.as_ref() {
        "slow_compute" if !declared => {
            sleep(duration(&arguments)).await;
            return Some(Ok(computed(&arguments).into()));
        }
        "slow_compute"
        | "failing_job"
        | "protocol_error_job"
        | "confirm_delete"
        | "multi_input"
        | "test_tool_with_task" => {}
        _ => return None,
    }
    if !declared {
        let tasks = ClientCapabilities::builder().enable_tasks().build();
        return Some(Err(ErrorData::missing_required_client_capability(tasks)));
    }
    let started = match params.name.as_ref() {
        "slow_compute" => start(tasks, |task| compute(task, arguments)),
        "failing_job" => start(tasks, |_| async { Ok(failed("This job always fails")) }),
        "protocol_error_job" => start(tasks, |_| async {
            Err(ErrorData::internal_error("the job broke down", None).into())
        }),
        "confirm_delete" => start(tasks, |task| confirm(task, arguments)),
        "multi_input" => start(tasks, ask_twice),
        _ => return Some(ask_then_start(params, context, tasks)),
    };
    Some(Ok(started))
}

fn start<W>(tasks: &TaskManager, work: impl FnOnce(TaskContext) -> W) -> CallToolResponse
where
    W: Future<Output = Outcome> + Send + 'static,
{
    let options = TaskOptions::new().with_poll_interval_ms(POLL_INTERVAL_MS);
    CreateTaskResult::new(tasks.spawn(options, |context| Box::pin(work(context)))).into()
}

async fn compute(task: TaskContext, arguments: JsonObject) -> Outcome {
    tokio::select! {
        () = sleep(duration(&arguments)) => Ok(computed(&arguments)),
        () = task.cancelled() => Err(TaskExit::Cancelled),
    }
}

fn duration(arguments: &JsonObject) -> Duration {
    Duration::from_secs(
        arguments
            .get("seconds")
            .and_then(Value::as_u64)
            .unwrap_or(1),
    )
}

fn computed(arguments: &JsonObject) -> CallToolResult {
    done(format!("Computed {}", string(arguments, "label")))
}

async fn confirm(task: TaskContext, arguments: JsonObject) -> Outcome {
    let filename = string(&arguments, "filename");
    let answer = task
        .request_input("confirm", confirmation(&format!("Delete {filename}?")))
        .await?;
    if answer["action"] == "accept" && answer["content"]["confirm"] == true {
        Ok(done(format!("Deleted {filename}")))
    } else {
        Ok(done(format!("Kept {filename}")))
    }
}

async fn ask_twice(task: TaskContext) -> Outcome {
    let (first, second) = tokio::try_join!(
        task.request_input("first", confirmation("The first question")),
        task.request_input("second", confirmation("The second question")),
    )?;
    Ok(done(format!("{first} {second}")))
}

/// Asks in rounds of the call itself (SEP-2322), and becomes a task with the last one.
fn ask_then_start(
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    tasks: &TaskManager,
) -> Result<CallToolResponse, ErrorData> {
    let answers = Answers::new(params.input_responses.as_ref());
    let name = answers
        .elicited("user_name", "name")
        .and_then(Value::as_str);
    let Some(name) = name else {
        let question = [("user_name", input::name_form())];
        return Ok(input::required(context, question, None)?.into());
    };
    let greeting = format!("Hello, {name}!");
    Ok(start(tasks, |_| async { Ok(done(greeting)) }))
}

fn confirmation(message: &str) -> InputRequest {
    let properties = json!({ "confirm": { "type": "boolean" } });
    input::elicitation(message, &properties, &["confirm"])
}

fn string<'a>(arguments: &'a JsonObject, name: &str) -> &'a str {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or("nothing")
}

fn done(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn failed(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}
