//! The JSON-RPC envelope with raw payloads.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// One received message with its raw ids and payloads.
pub(crate) enum RpcMessage<'a> {
    Request {
        id: &'a str,
        method: Cow<'a, str>,
        params: &'a str,
    },
    Notification {
        method: Cow<'a, str>,
        params: &'a str,
    },
    Response {
        id: &'a str,
        /// `{"result":…}` or `{"error":…}`
        answer: String,
    },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Invalid {
    #[error("parse error")]
    Json(#[from] serde_json::Error),
    #[error("batches are not accepted")]
    Batch,
    #[error("neither request, notification nor response")]
    Shape,
}

#[derive(Debug)]
pub(crate) struct RpcError {
    pub code: i32,
    pub message: String,
    pub data: Option<Value>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> RpcMessage<'a> {
    pub fn parse(raw_text: &'a [u8]) -> Result<Self, Invalid> {
        if raw_text.trim_ascii_start().starts_with(b"[") {
            return Err(Invalid::Batch);
        }
        let envelope: Envelope = serde_json::from_slice(raw_text)?;
        let params = envelope.params.map_or("{}", RawValue::get);
        match (envelope.method, envelope.id.map(RawValue::get)) {
            (Some(method), Some(id)) => Ok(Self::Request { id, method, params }),
            (Some(method), None) => Ok(Self::Notification { method, params }),
            (None, Some(id)) => Ok(Self::Response {
                id,
                answer: match (envelope.error, envelope.result) {
                    (Some(error), _) => format!(r#"{{"error":{error}}}"#),
                    (None, Some(result)) => format!(r#"{{"result":{result}}}"#),
                    (None, None) => r#"{"result":null}"#.to_owned(),
                },
            }),
            (None, None) => Err(Invalid::Shape),
        }
    }
}

impl From<Invalid> for RpcError {
    fn from(invalid_message: Invalid) -> Self {
        let code = match invalid_message {
            Invalid::Json(_) => -32700,
            Invalid::Batch | Invalid::Shape => -32600,
        };
        Self::new(code, invalid_message.to_string())
    }
}

impl RpcError {
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub fn method_not_found(method: &str) -> Self {
        Self::new(-32601, format!("method not found: {method}"))
    }
}

pub(crate) fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(crate) fn error(id: &str, error: &RpcError) -> String {
    let (code, message) = (error.code, quote(&error.message));
    let data = error
        .data
        .as_ref()
        .map_or_else(String::new, |data| format!(r#","data":{data}"#));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
}

pub(crate) fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

pub(crate) fn request(id: &str, method: &str, params: &str) -> String {
    let method = quote(method);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#)
}

/// Returns the text as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns a tool result of one text.
pub(crate) fn text(text: &str) -> String {
    format!(
        r#"{{"content":[{{"type":"text","text":{}}}]}}"#,
        quote(text)
    )
}

/// Returns a tool result of an object, as text and as structured content.
pub(crate) fn structured(content: &Value) -> String {
    format!(
        r#"{{"content":[{{"type":"text","text":{}}}],"structuredContent":{content}}}"#,
        quote(&content.to_string())
    )
}
