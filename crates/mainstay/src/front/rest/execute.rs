//! [003]'s way to run a tool: what went wrong is said in the answer, not by its status (K8, M11).

use axum::{Json, extract::State};
use mainstay_core::{
    failure::{Failure, FailureKind},
    lifecycle::State as Lifecycle,
    message::{self, Method},
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Door,
    address::Path,
    body::Body,
    calls::{ask, object},
    refusal::Refusal,
    via::Via,
};
use crate::{
    api::{self, Raw},
    front::plain::lists::unknown_tool,
};

/// `POST /api/servers/{name}/tools/{tool}/call`
pub async fn execute(
    State(door): State<Door>,
    via: Via,
    Path((name, tool)): Path<(String, String)>,
    body: Option<Body<api::Execute>>,
) -> Result<Json<api::Executed>, Refusal> {
    let arguments = object(body.and_then(|Body(execute)| execute.arguments))?;
    let arguments = arguments.unwrap_or_else(|| "{}".to_owned());
    Ok(Json(
        match run(&door, via, &name, &tool, &arguments).await {
            Ok(result) => api::Executed {
                success: true,
                result: Some(result),
                error: None,
            },
            Err(error) => api::Executed {
                success: false,
                result: None,
                error: Some(error.to_string()),
            },
        },
    ))
}

/// Why there is no result, in [003]'s words where it has some.
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
    /// The tool's own words.
    #[error("{0}")]
    Tool(String),
    #[error(transparent)]
    Failed(Failure),
}

async fn run(
    door: &Door,
    via: Via,
    name: &str,
    tool: &str,
    arguments: &str,
) -> Result<Raw, NoResult> {
    let not_running = |status| NoResult::NotRunning {
        name: name.to_owned(),
        status,
    };
    let server = door.hub.registry.server(name);
    let server = server.map_err(|_| not_running("not found"))?;
    let state = server.view().state();
    // One on its way up is waited for, as by every call (K9).
    if state != Lifecycle::Connected && !state.is_hopeful() {
        return Err(not_running(state.words().desktop));
    }
    let withheld = &server.config().withheld;
    if withheld.disables(tool) {
        return Err(NoResult::Disabled(tool.to_owned()));
    }
    if withheld.refuses_name(tool) {
        return Err(NoResult::Failed(unknown_tool(&server, tool)));
    }
    let params = format!(
        r#"{{"name":{},"arguments":{arguments}}}"#,
        message::quote(tool)
    );
    let result = ask(&door.hub, via, name, Method::ToolsCall, &params)
        .await
        .map_err(|failure| match failure.details.get("rpcCode") {
            Some(code) => NoResult::Refused {
                code: code.clone(),
                message: failure.message,
            },
            None if failure.kind == FailureKind::ServerNotConnected => {
                not_running(server.view().state().words().desktop)
            }
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

/// The words of a result that is an error: its texts, line by line.
fn error_text(result: &Raw) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Outcome {
        #[serde(default)]
        is_error: bool,
        #[serde(default)]
        content: Vec<Content>,
    }
    #[derive(Deserialize)]
    struct Content {
        text: Option<String>,
    }
    let outcome: Outcome = serde_json::from_str(result.get()).ok()?;
    let texts: Vec<String> = outcome
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
    outcome.is_error.then_some(words)
}
