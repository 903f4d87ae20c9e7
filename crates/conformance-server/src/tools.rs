//! The tools of `catalog.json`, apart from those whose answer depends on input
//! collected by the client (`input`) and those that may become tasks (`tasks`).

use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, ContentBlock, InputRequest,
        ProgressNotificationParam, ResourceContents,
    },
    service::{RequestContext, ServiceError},
};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    answer::{content, failure, text},
    catalog::{PNG, WAV},
    input::{self, Answers},
    reconnect,
    state::{Change, Conformance},
    tasks,
};

/// The suite asks for this gap between notifications. It also follows the last
/// one, because rmcp lets a result overtake notifications still under way.
const GAP: Duration = Duration::from_millis(50);

pub async fn call(
    server: &Conformance,
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = params.arguments.as_ref();
        arguments
            .and_then(|arguments| arguments.get(name)?.as_str())
            .ok_or_else(|| ErrorData::invalid_params(format!("missing argument {name}"), None))
    };
    match params.name.as_ref() {
        "test_simple_text" => Ok(text("This is a simple text response for testing.")),
        "test_image_content" => Ok(content([ContentBlock::image(PNG, "image/png")])),
        "test_audio_content" => Ok(content([ContentBlock::audio(WAV, "audio/wav")])),
        "test_embedded_resource" => Ok(content([ContentBlock::resource(ResourceContents::text(
            "This is an embedded resource content.",
            "test://embedded-resource",
        ))])),
        "test_multiple_content_types" => Ok(content([
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PNG, "image/png"),
            ContentBlock::resource(
                ResourceContents::text(
                    json!({ "test": "data", "value": 123 }).to_string(),
                    "test://mixed-content-resource",
                )
                .with_mime_type("application/json"),
            ),
        ])),
        "test_error_handling" => Ok(failure("This tool intentionally returns an error")),
        "test_tool_with_logging" => {
            for message in [
                "Tool execution started",
                "Tool processing data",
                "Tool execution completed",
            ] {
                server.log(context, message).await.map_err(gone)?;
                sleep(GAP).await;
            }
            Ok(text("Logged three messages"))
        }
        "test_logging_tool" => {
            server.log(context, "A message").await.map_err(gone)?;
            Ok(text("Logged a message, if asked to"))
        }
        "test_tool_with_progress" => report_progress(context).await.map_err(gone),
        "test_reconnection" => {
            reconnect::break_stream(&server.shared, context).await;
            Ok(text("Answered after the stream was closed"))
        }
        "test_sampling" => ask(params, context, input::sampling(argument("prompt")?)),
        "test_elicitation" => {
            let form = json!({
                "username": { "type": "string", "description": "User's response" },
                "email": { "type": "string", "description": "User's email address" },
            });
            let request = input::elicitation(argument("message")?, &form, &["username", "email"]);
            ask(params, context, request)
        }
        "test_elicitation_sep1034_defaults" => ask(params, context, form_with_defaults()),
        "test_elicitation_sep1330_enums" => ask(params, context, form_with_enums()),
        name @ ("json_schema_2020_12_tool" | "test_x_mcp_header") => {
            Ok(text(format!("{name}: {}", json!(params.arguments))))
        }
        "test_trigger_tool_change" => {
            announce(server, Change::Tools);
            Ok(text("Announced a changed tool list"))
        }
        "test_trigger_prompt_change" => {
            announce(server, Change::Prompts);
            Ok(text("Announced a changed prompt list"))
        }
        "greet" => Ok(text(format!("Hello, {}!", argument("name")?))),
        unknown => {
            if let Some(outcome) = input::call(params, context, &server.shared.seal) {
                return outcome;
            }
            if let Some(outcome) = tasks::call(params, context, &server.shared.tasks).await {
                return outcome;
            }
            let message = format!("unknown tool {unknown}");
            Err(ErrorData::invalid_params(message, None))
        }
    }
}

async fn report_progress(
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ServiceError> {
    let token = context.meta.get_progress_token();
    for percent in [0.0, 50.0, 100.0] {
        if let Some(token) = token.clone() {
            let progress = ProgressNotificationParam::new(token, percent).with_total(100.0);
            context.peer.notify_progress(progress).await?;
        }
        sleep(GAP).await;
    }
    Ok(text("Reported progress, if asked to"))
}

/// Sends one question to the client, and returns its answer as text.
fn ask(
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    request: InputRequest,
) -> Result<CallToolResponse, ErrorData> {
    match Answers::new(params.input_responses.as_ref()).get("answer") {
        Some(answer) => Ok(text(format!("The client answered: {answer}"))),
        None => Ok(input::required(context, [("answer", request)], None)?.into()),
    }
}

fn announce(server: &Conformance, change: Change) {
    // There may be no listener.
    let _ = server.shared.changes.send(change);
}

/// SEP-1034: a default for every primitive type.
fn form_with_defaults() -> InputRequest {
    let form = json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": {
            "type": "string", "enum": ["active", "inactive", "pending"], "default": "active",
        },
        "verified": { "type": "boolean", "default": true },
    });
    input::elicitation("Please review the defaults", &form, &[])
}

/// SEP-1330: single and multiple choice, with and without titles, old and new.
fn form_with_enums() -> InputRequest {
    let titled = json!([
        { "const": "value1", "title": "First Option" },
        { "const": "value2", "title": "Second Option" },
        { "const": "value3", "title": "Third Option" },
    ]);
    let form = json!({
        "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
        "titledSingle": { "type": "string", "oneOf": titled },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": { "type": "string", "enum": ["option1", "option2", "option3"] },
        },
        "titledMulti": { "type": "array", "items": { "anyOf": titled } },
    });
    input::elicitation("Please choose", &form, &[])
}

/// A notification could not be sent: the client is gone, so it will not see this error either.
#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` wants")]
fn gone(error: ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
