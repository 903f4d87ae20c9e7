//! Calls a tool for desktop applications. An error of the call is in the body, with HTTP status
//! 200.

use std::{sync::Arc, time::Duration};

use axum::extract::{Request, State};
use mainstay_api::{self as api, Raw};
use mainstay_core::{
    catalog::ListKind,
    failure::{Failure, FailureKind},
    lifecycle::SessionState as Lifecycle,
    message::{self, Method, foreign},
};
use mainstay_gateway::supervisor::ServerHandle;
use serde::Deserialize;
use serde_json::Value;

use super::{
    RestDoor,
    address::Path,
    call::{CallAnswer, RestCall},
    calls::object,
    refusal::Refusal,
    via::Via,
};
use mainstay_doorway::json_views::lists::unknown_tool;

/// The status word of a server that does not exist.
const NOT_FOUND: &str = "not found";

/// Answers `POST /api/servers/{name}/tools/{tool}/call`.
pub async fn execute(
    State(door): State<RestDoor>,
    via: Via,
    path: Result<Path<(String, String)>, Refusal>,
    request: Request,
) -> CallAnswer<api::Executed> {
    let run = |mut call| async {
        let executed = execute_at(&mut call, path, request).await;
        (call, executed)
    };
    RestCall::answer(door, via, Method::ToolsCall, run).await
}

async fn execute_at(
    call: &mut RestCall,
    path: Result<Path<(String, String)>, Refusal>,
    request: Request,
) -> Result<api::Executed, Refusal> {
    let Path((name, tool)) = path?;
    let server = call.gateway().server(&call.view, &name).ok();
    match &server {
        Some(server) => {
            call.requested.server = Some(server.name.clone());
            call.requested.name.clone_from(&tool);
        }
        None => call.requested.name = format!("{name}/{tool}"),
    }
    let body: Option<api::Execute> = call.optional_body(request).await?;
    let arguments = object(body.and_then(|execute| execute.arguments))?;
    let arguments = arguments.unwrap_or_else(|| "{}".to_owned());
    call.requested.arguments = Some(arguments.as_str().into());
    let result = match server {
        Some(server) => run(call, server, &tool, &arguments).await,
        None => Err(NoResult::NotRunning {
            name,
            status: NOT_FOUND,
        }),
    };
    Ok(match result {
        Ok(result) => api::Executed {
            success: true,
            result: Some(result),
            error: None,
        },
        Err(reason) => {
            let error = reason.to_string();
            call.failure = Some(reason.into_failure());
            api::Executed {
                success: false,
                result: None,
                error: Some(error),
            }
        }
    })
}

/// The reason that a call has no result, with the texts that desktop applications know.
#[derive(Debug, thiserror::Error)]
enum NoResult {
    #[error("Server {name} is not running (status: {status})")]
    NotRunning { name: String, status: &'static str },
    #[error("Tool {0} is disabled")]
    Disabled(String),
    #[error("No result in tool execution response")]
    Empty,
    #[error("JSON-RPC error: {message} (code: {code})")]
    Refused { message: String, code: Value },
    /// The text of a result with `isError`.
    #[error("{0}")]
    Tool(String),
    #[error("JSON-RPC request timeout after {}ms", .limit.as_millis())]
    TimedOut { limit: Duration, failure: Failure },
    #[error("Server {name} is stopping")]
    Stopping { name: String, failure: Failure },
    #[error(transparent)]
    Failed(Failure),
}

impl NoResult {
    /// The failure to record for this reason.
    fn into_failure(self) -> Failure {
        let message = self.to_string();
        let kind = match self {
            Self::Failed(failure)
            | Self::TimedOut { failure, .. }
            | Self::Stopping { failure, .. } => return failure,
            Self::NotRunning {
                status: NOT_FOUND, ..
            } => FailureKind::ServerNotFound,
            Self::NotRunning { .. } => FailureKind::ServerNotConnected,
            Self::Disabled(_) => FailureKind::ToolNotFound,
            Self::Empty | Self::Refused { .. } | Self::Tool(_) => FailureKind::CallFailed,
        };
        Failure::new(kind, message)
    }
}

async fn run(
    call: &mut RestCall,
    server: Arc<ServerHandle>,
    tool: &str,
    arguments: &str,
) -> Result<Raw, NoResult> {
    let not_running = |status| NoResult::NotRunning {
        name: server.name.to_string(),
        status,
    };
    let state = server.view().state();
    // Like every call, this one waits for a server that is starting.
    if state != Lifecycle::Connected && !state.is_hopeful() {
        return Err(not_running(state.words().desktop));
    }
    let withheld = &server.config().withheld;
    if withheld.disables(tool) {
        return Err(NoResult::Disabled(tool.to_owned()));
    }
    if withheld.refuses_name(tool) || (call.view).hides_item(ListKind::Tools, &server.name, tool) {
        return Err(NoResult::Failed(unknown_tool(&server, tool)));
    }
    let params = format!(
        r#"{{"name":{},"arguments":{arguments}}}"#,
        message::quote(tool)
    );
    let result = call
        .ask(Arc::clone(&server), &params)
        .await
        .map_err(|failure| match failure.details.get("rpcCode") {
            Some(code) => NoResult::Refused {
                code: code.clone(),
                message: failure.message,
            },
            None if failure.kind == FailureKind::ServerNotConnected => {
                not_running(server.view().state().words().desktop)
            }
            None if failure.kind == FailureKind::CallTimeout => NoResult::TimedOut {
                limit: server.config().call_timeout,
                failure,
            },
            None if !server.is_desired_up() => NoResult::Stopping {
                name: server.name.to_string(),
                failure,
            },
            None => NoResult::Failed(failure),
        })?;
    if result.get() == "null" {
        return Err(NoResult::Empty);
    }
    match error_text(&result) {
        Some(error) => Err(NoResult::Tool(error)),
        None => Ok(result),
    }
}

/// The texts of a result with `isError`, one per line. `None` for any other result.
fn error_text(result: &Raw) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolResult {
        #[serde(default)]
        is_error: bool,
        #[serde(default)]
        content: Vec<Content>,
    }
    #[derive(Deserialize)]
    struct Content {
        text: Option<String>,
    }
    let tool_result: ToolResult = foreign::read(result.get()).ok()?;
    let texts: Vec<String> = tool_result
        .content
        .into_iter()
        .filter_map(|part| part.text)
        .collect();
    let text = texts.join("\n");
    let words = if text.is_empty() {
        "Tool execution failed".to_owned()
    } else {
        text
    };
    tool_result.is_error.then_some(words)
}
