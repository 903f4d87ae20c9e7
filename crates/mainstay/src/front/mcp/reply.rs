//! What a request is answered with.

use mainstay_core::{
    era::{Era, code, result, tasks},
    failure::{Failure, FailureKind},
    message::{self, Method},
};

use crate::calls::Answer;

/// A complete JSON-RPC response, on one line.
#[derive(Clone, Debug)]
pub struct Reply {
    pub text: String,
    /// The code, where it is an error.
    pub error: Option<i64>,
    /// Whether the server answered by a stream, which the transparent path mirrors.
    pub streamed: bool,
    /// The client cancelled, and expects no answer any more.
    pub cancelled: bool,
}

impl Reply {
    fn plain(text: String) -> Self {
        Self {
            text,
            error: None,
            streamed: false,
            cancelled: false,
        }
    }

    pub fn result(id: &str, result: &str) -> Self {
        Self::plain(message::response(id, result))
    }

    pub fn error(id: &str, code: i64, text: &str) -> Self {
        Self::of_error(message::error_response(Some(id), code, text, None), code)
    }

    /// A response that is an error with this code.
    pub fn of_error(text: String, code: i64) -> Self {
        Self {
            error: Some(code),
            ..Self::plain(text)
        }
    }

    /// The extension that this takes is not declared by the client (SEP-2663).
    pub fn tasks_undeclared(id: &str) -> Self {
        let (text, data) = tasks::undeclared();
        let code = code::MISSING_CAPABILITY;
        Self::of_error(
            message::error_response(Some(id), code, text, Some(&data)),
            code,
        )
    }

    pub fn unknown_method(id: &str, name: &str) -> Self {
        Self::error(
            id,
            code::METHOD_NOT_FOUND,
            &format!("unknown method {name}"),
        )
    }

    /// The server's own response under the client's id.
    pub fn answer(id: &str, answer: &Answer) -> Self {
        let error = answer.frame.error();
        Self {
            error: error.map(|error| result::error_code(error).unwrap_or(code::INTERNAL_ERROR)),
            streamed: answer.streamed,
            ..Self::plain(answer.frame.with_id(id))
        }
    }

    /// A failure as a JSON-RPC error with `data.kind`.
    pub fn failure(id: &str, failure: &Failure) -> Self {
        let text = message::error_response(
            Some(id),
            failure.kind.rpc_code(),
            &failure.message,
            Some(&failure.data()),
        );
        Self {
            error: Some(failure.kind.rpc_code()),
            cancelled: failure.kind == FailureKind::Cancelled,
            ..Self::plain(text)
        }
    }

    /// What a cancelled request comes to, which nobody reads.
    pub fn cancelled(id: &str, reason: &str) -> Self {
        Self::failure(
            id,
            &Failure::new(FailureKind::Cancelled, format!("cancelled: {reason}")),
        )
    }

    /// The failure of a known tool's server: a result with `isError`, which models read (design
    /// section 12).
    pub fn tool_failure(id: &str, failure: &Failure, client: Era) -> Self {
        if failure.kind == FailureKind::Cancelled {
            return Self::failure(id, failure);
        }
        Self::tool_result(id, &failure.tool_result(), client)
    }

    /// The result of a `tools/call` that is answered here.
    pub fn tool_result(id: &str, result: &str, client: Era) -> Self {
        Self::plain(match client {
            Era::Legacy => message::response(id, result),
            Era::Modern => message::response(id, &result::to_modern(Method::ToolsCall, result)),
        })
    }
}
