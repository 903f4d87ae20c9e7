//! Headers that must repeat parts of the body exactly.

use std::borrow::Cow;

use hyper::HeaderMap;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::base64;
use crate::message::RpcError;
use crate::reply::header;

const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "taskId")]
    task: Option<Cow<'a, str>>,
}

/// Checks the headers of every request.
pub(super) fn check(
    headers: &HeaderMap,
    revision: &str,
    method: &str,
    params: &str,
) -> Result<(), RpcError> {
    same(headers, VERSION, Some(revision), plain)?;
    same(headers, METHOD, Some(method), plain)?;
    // The method itself refuses invalid params.
    let params: Params = serde_json::from_str(params).unwrap_or_default();
    let name = match method {
        "tools/call" | "prompts/get" => params.name,
        "resources/read" => params.uri,
        "tasks/get" | "tasks/update" | "tasks/cancel" => params.task,
        _ => return Ok(()),
    };
    same(headers, NAME, name.as_deref(), decoded)
}

/// Checks the headers of a call against the definition of its tool.
pub(super) fn check_call(
    headers: &HeaderMap,
    tools: &[String],
    params: &str,
) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct Call<'a> {
        name: Cow<'a, str>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let Ok(Call { name, arguments }) = serde_json::from_str(params) else {
        // The call itself refuses invalid params.
        return Ok(());
    };
    let mut definitions = tools
        .iter()
        .filter_map(|tool| serde_json::from_str(tool).ok());
    let Some(tool) = definitions.find(|tool: &Value| tool["name"] == *name) else {
        return Ok(());
    };
    let arguments = arguments.map_or("null", RawValue::get);
    // Arguments that `Value` cannot represent need no header.
    let arguments = serde_json::from_str(arguments).unwrap_or_default();
    parameters(headers, &tool["inputSchema"], &arguments)
}

fn parameters(headers: &HeaderMap, schema: &Value, arguments: &Value) -> Result<(), RpcError> {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let value = &arguments[key];
        if let Some(name) = property["x-mcp-header"].as_str() {
            let name = format!("mcp-param-{}", name.to_ascii_lowercase());
            let text = match value {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            let is_equal = if value.is_number() { number } else { decoded };
            same(headers, &name, text.as_deref(), is_equal)?;
        }
        parameters(headers, property, value)?;
    }
    Ok(())
}

/// Checks that header and body are equal. Both may be absent.
fn same(
    headers: &HeaderMap,
    name: &str,
    body: Option<&str>,
    is_equal: fn(&str, &str) -> bool,
) -> Result<(), RpcError> {
    if headers.get_all(name).iter().count() > 1 {
        return Err(mismatch(&format!("{name} comes twice")));
    }
    // A value with other bytes than visible ASCII does not match.
    match (header(headers, name), body) {
        (Some(value), Some(body)) if is_equal(value, body) => Ok(()),
        (None, None) if !headers.contains_key(name) => Ok(()),
        (value, body) => Err(mismatch(&format!(
            "{name} is {value:?}, and the body says {body:?}"
        ))),
    }
}

fn plain(header: &str, body: &str) -> bool {
    header == body
}

fn number(header: &str, body: &str) -> bool {
    header
        .parse::<f64>()
        .is_ok_and(|value| Ok(value) == body.parse())
}

fn decoded(header: &str, body: &str) -> bool {
    let encoded_text = header
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match encoded_text {
        Some(encoded_text) => {
            base64::decode(encoded_text).is_some_and(|bytes| bytes == body.as_bytes())
        }
        None => header == body,
    }
}

fn mismatch(reason: &str) -> RpcError {
    RpcError::new(-32020, format!("header mismatch: {reason}"))
}
