//! What a request is answered with.

use mainstay_core::{
    failure::{Failure, FailureKind},
    message,
};

use crate::calls::Answer;

/// A complete JSON-RPC response, on one line.
#[derive(Debug)]
pub struct Reply {
    pub text: String,
    /// Whether the server answered by a stream, which the transparent path mirrors.
    pub streamed: bool,
    /// The client cancelled, and expects no answer any more.
    pub cancelled: bool,
}

impl Reply {
    fn plain(text: String) -> Self {
        Self {
            text,
            streamed: false,
            cancelled: false,
        }
    }

    pub fn result(id: &str, result: &str) -> Self {
        Self::plain(message::response(id, result))
    }

    pub fn error(id: &str, code: i64, text: &str) -> Self {
        Self::plain(message::error_response(Some(id), code, text, None))
    }

    /// The server's own response under the client's id.
    pub fn answer(id: &str, answer: &Answer) -> Self {
        Self {
            text: answer.frame.with_id(id),
            streamed: answer.streamed,
            cancelled: false,
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
            text,
            streamed: false,
            cancelled: failure.kind == FailureKind::Cancelled,
        }
    }

    /// The failure of a known tool's server: a result with `isError`, which models read (design
    /// section 12).
    pub fn tool_failure(id: &str, failure: &Failure) -> Self {
        if failure.kind == FailureKind::Cancelled {
            return Self::failure(id, failure);
        }
        Self::plain(message::response(id, &failure.tool_result()))
    }
}
