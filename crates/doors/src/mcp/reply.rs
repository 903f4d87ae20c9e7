//! Replies to requests: JSON-RPC responses, and whether they refuse a call.

use std::borrow::Cow;

use mainstay_core::{
    era::{Era, code, result, tasks},
    failure::{Failure, FailureKind},
    message::{self, Method},
};
use mainstay_gateway::calls::{Answering, CallAnswer, CallRefusal, Closed};
use mainstay_transport::{Frame, UnreadableMessage};

/// The error for an unknown `requestState`. The call may have run, so it is not repeated.
pub const UNKNOWN_STATE: &str =
    "\"requestState\" belongs to no call of this kind that is in progress";

/// The id of a request as JSON text; `null` for a notification.
pub fn id(frame: &Frame) -> &str {
    frame.id().unwrap_or("null")
}

/// The JSON-RPC error for a message that cannot be read.
pub fn unreadable(error: &UnreadableMessage) -> String {
    let (code, id) = match error {
        UnreadableMessage::Utf8 => (code::PARSE_ERROR, None),
        UnreadableMessage::Malformed(malformed) => (malformed.code(), malformed.id()),
    };
    message::error_response(id, code, &error.to_string(), None)
}

/// A complete JSON-RPC response on one line. Its text can be read only after the request's receipt
/// is closed, so that every answered call is recorded.
#[derive(Clone, Debug)]
pub struct RpcReply {
    text: String,
    /// The error code, if the response is an error.
    pub error: Option<i64>,
    /// True if the server answered with a stream. Transparent endpoints then send a stream, too.
    pub streamed: bool,
    /// True if the client cancelled the request and expects no answer.
    pub cancelled: bool,
    /// The refused call, if the reply is a refusal.
    refused: Option<Box<CallRefusal>>,
}

impl Answering for RpcReply {
    fn refused(&self) -> Option<Cow<'_, CallRefusal>> {
        self.refused.as_deref().map(Cow::Borrowed)
    }
}

/// Access to the text of a reply whose receipt is closed.
pub trait ClosedReply {
    #[cfg(test)]
    fn text(&self) -> &str;

    fn into_text(self) -> String;

    /// Replaces the id (JSON text) of the reply.
    #[must_use]
    fn with_id(self, id: &str) -> Self;
}

impl ClosedReply for Closed<RpcReply> {
    #[cfg(test)]
    fn text(&self) -> &str {
        &self.text
    }

    fn into_text(self) -> String {
        self.into_inner().text
    }

    fn with_id(self, id: &str) -> Self {
        let mut reply = self.into_inner();
        if let Ok(frame) = Frame::read(reply.text.clone().into()) {
            reply.text = frame.with_id(id);
        }
        Self::of_the_same_call(reply)
    }
}

impl RpcReply {
    fn plain(text: String) -> Self {
        Self {
            text,
            error: None,
            streamed: false,
            cancelled: false,
            refused: None,
        }
    }

    /// Marks this reply as the refusal of the requested call.
    #[must_use]
    fn refusing(self, failure: Failure) -> Self {
        self.refused_as(Some(failure.into()))
    }

    /// Marks this reply as the refusal of the given call, or of no call.
    #[must_use]
    pub fn refused_as(self, refusal: Option<CallRefusal>) -> Self {
        Self {
            refused: refusal.map(Box::new),
            ..self
        }
    }

    /// A successful response with this text.
    pub fn whole(text: String) -> Self {
        Self::plain(text)
    }

    pub fn result(id: &str, result: &str) -> Self {
        Self::plain(message::response(id, result))
    }

    pub fn error(id: &str, code: i64, text: &str) -> Self {
        Self::of_error(
            message::error_response(Some(id), code, text, None),
            code,
            text,
        )
    }

    /// The error response to an invalid request. `text` is the whole response.
    pub fn of_error(text: String, code: i64, reason: &str) -> Self {
        let reply = Self {
            error: Some(code),
            ..Self::plain(text)
        };
        reply.refusing(Failure::new(FailureKind::InvalidRequest, reason))
    }

    /// The error response to a message that cannot be read.
    pub fn unreadable(error: &UnreadableMessage) -> Self {
        let failure = Failure::new(FailureKind::InvalidRequest, error.to_string());
        Self::plain(unreadable(error)).refusing(failure)
    }

    /// The error response to a client that has not declared the tasks extension (SEP-2663).
    pub fn tasks_undeclared(id: &str) -> Self {
        let (text, data) = tasks::undeclared();
        let code = code::MISSING_CAPABILITY;
        Self::of_error(
            message::error_response(Some(id), code, text, Some(&data)),
            code,
            text,
        )
    }

    pub fn unknown_method(id: &str, name: &str) -> Self {
        Self::error(
            id,
            code::METHOD_NOT_FOUND,
            &format!("unknown method {name}"),
        )
    }

    /// The server's response under the client's id.
    pub fn answer(id: &str, answer: &CallAnswer) -> Self {
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
        let reply = Self {
            error: Some(failure.kind.rpc_code()),
            cancelled: failure.kind == FailureKind::Cancelled,
            ..Self::plain(text)
        };
        reply.refusing(failure.clone())
    }

    /// The reply to a cancelled request. The client does not get it.
    pub fn cancelled(id: &str, reason: &str) -> Self {
        Self::failure(
            id,
            &Failure::new(FailureKind::Cancelled, format!("cancelled: {reason}")),
        )
    }

    /// The failure of a known tool's call, as a result with `isError`: models read its text.
    pub fn tool_failure(id: &str, failure: &Failure, client: Era) -> Self {
        if failure.kind == FailureKind::Cancelled {
            return Self::failure(id, failure);
        }
        Self::tool_result(id, &failure.tool_result(), client).refusing(failure.clone())
    }

    /// Replaces the text of this reply.
    #[must_use]
    pub fn edited(self, text: String) -> Self {
        Self { text, ..self }
    }

    /// Replaces the error code for an unknown resource by that of 2026-07-28.
    #[must_use]
    pub fn with_modern_code(self, id: &str, method: Method) -> Self {
        if self.error != Some(code::RESOURCE_NOT_FOUND) {
            return self;
        }
        let error = message::member(&self.text, "error").unwrap_or("{}");
        let error = result::error_to_modern(method, None, error);
        Self {
            text: format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
            error: Some(code::INVALID_PARAMS),
            ..self
        }
    }

    /// The result of a `tools/call` that Mainstay itself answers.
    pub fn tool_result(id: &str, result: &str, client: Era) -> Self {
        Self::plain(match client {
            Era::Legacy => message::response(id, result),
            Era::Modern => message::response(id, &result::to_modern(Method::ToolsCall, result)),
        })
    }
}
