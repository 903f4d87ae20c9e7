//! Methods of both eras: lists, calls, reads, prompts, completions.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::action::ServiceAction;
use crate::bend::Bend;
use crate::catalog;
use crate::interview;
use crate::message::RpcError;
use crate::questions::Subject;
use crate::request::{ReceivedRequest, string};
use crate::revision::RevisionEra;
use crate::script::Script;
use crate::tools;

#[derive(Deserialize)]
struct ListParams {
    cursor: Option<Value>,
}

/// Returns the actions for a request. `None` for a method that only one era has.
pub(crate) fn answer(request: &ReceivedRequest) -> Result<Option<Vec<ServiceAction>>, RpcError> {
    let script = request.script;
    let list = |key: &str, items: &[String]| {
        let ListParams { cursor } = request.read()?;
        let items = if request.session.state().spoiled {
            &[]
        } else {
            items
        };
        catalog::page(key, items, cursor.as_ref(), script)
    };
    apply_list_bends(request);
    let result = match request.method {
        "tools/list" => list("tools", &request.tools())?,
        "tools/call" => return tools::call(request).map(Some),
        "resources/list" => list("resources", &catalog::resources(script))?,
        "resources/templates/list" => list("resourceTemplates", &catalog::templates(script))?,
        "resources/read" => {
            let params: Value = request.read()?;
            let uri = script.untainted(string(&params, "uri")?);
            if let Some(rounds) = catalog::questions_of_resource(script, uri) {
                let subject = Subject::Resource(uri.to_owned());
                return interview::interview(request, subject, rounds).map(Some);
            }
            let missing_reply = |error| missing_resource(request.client.era, error);
            catalog::read(script, uri)
                .map_err(missing_reply)?
                .to_string()
        }
        "prompts/list" => list("prompts", &catalog::prompts(script))?,
        "prompts/get" => {
            let params: Value = request.read()?;
            let name = script.untainted(string(&params, "name")?);
            if let Some(rounds) = catalog::questions_of_prompt(script, name) {
                let subject = Subject::Prompt(name.to_owned());
                return interview::interview(request, subject, rounds).map(Some);
            }
            catalog::prompt(script, name, &params["arguments"])?.to_string()
        }
        "completion/complete" => catalog::complete(&request.read()?)?.to_string(),
        _ => return Ok(None),
    };
    let result = if script.taint.is_some() {
        let mut result = serde_json::from_str(&result)
            .map_err(|error| RpcError::new(-32603, error.to_string()))?;
        taint(&mut result, script, request.method == "tools/list");
        result.to_string()
    } else {
        result
    };
    Ok(Some(vec![request.answer(&result)]))
}

/// Applies the bends for list changes.
fn apply_list_bends(request: &ReceivedRequest) {
    let (script, service) = (request.script, request.service);
    let list = match request.method {
        "tools/list" => "tools",
        "resources/list" => "resources",
        "prompts/list" => "prompts",
        _ => return,
    };
    let alternates = list == "tools" && script.bends(Bend::AlternatingTools);
    if alternates {
        let mut shared_state = service.shared();
        shared_state.extra_tool = !shared_state.extra_tool;
    }
    if alternates || script.bends(Bend::AnnounceAtLists) {
        tools::changed(service, list);
    }
}

/// Appends [`Script::taint`] to the displayed texts of a result.
fn taint(value: &mut Value, script: &Script, should_keep_names: bool) {
    match value {
        Value::Array(items) => {
            for item in items {
                taint(item, script, should_keep_names);
            }
        }
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("name", _) if should_keep_names => {}
                    (
                        "name" | "title" | "description" | "text" | "uri" | "uriTemplate"
                        | "mimeType",
                        Value::String(text),
                    ) => *text = script.tainted(text),
                    // Do not change property names in schemas.
                    ("inputSchema", _) => {}
                    (_, value) => taint(value, script, should_keep_names),
                }
            }
        }
        _ => {}
    }
}

/// Sets the error code of a missing resource for the era.
fn missing_resource(era: RevisionEra, error: RpcError) -> RpcError {
    match era {
        RevisionEra::Legacy => error,
        RevisionEra::Modern => RpcError {
            code: -32602,
            ..error
        },
    }
}

/// Returns the scripted answer to a client's first request.
pub(crate) fn greet(
    request: &ReceivedRequest,
    result: impl FnOnce() -> Result<Value, RpcError>,
) -> Result<Vec<ServiceAction>, RpcError> {
    let script = request.script;
    if script.hang_at_start {
        return Ok(vec![ServiceAction::Hang]);
    }
    if script.initialize_error {
        return Err(RpcError::new(
            -32603,
            script.tainted("the fake refuses to initialize"),
        ));
    }
    let answer = request.answer(&result()?.to_string());
    Ok(match script.handshake_delay {
        0 => vec![answer],
        ms => vec![ServiceAction::Wait(Duration::from_millis(ms)), answer],
    })
}
