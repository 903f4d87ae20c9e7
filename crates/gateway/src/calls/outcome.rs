//! The outcome of a call for its record.

use std::{borrow::Cow, sync::LazyLock};

use bytestring::ByteString;
use mainstay_core::{
    failure::{Failure, FailureKind},
    message::{self, MessageKind, Method, items},
    record::{RecordError, Status},
};
use mainstay_journal::CallOutcome;
use mainstay_transport::Frame;
use memchr::memmem::Finder;

use crate::metrics::TOOL_ERROR;

/// Maximum size in bytes of a payload that is copied for its record. A shared payload retains the
/// whole read buffer of its connection, so the connection cannot reuse the buffer.
const COPIED: usize = 16 * 1024;

/// Finds the name of the member that marks a result as an error.
static IS_ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""isError""#));

/// Maximum number of bytes of an error's text in the record.
const MAX_TEXT: usize = 1024;

/// True if calls of this method are recorded: those that make the server do work.
pub fn is_recorded(method: Method) -> bool {
    matches!(
        method,
        Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet
    )
}

/// A part of a message for a record. Copied if it is small, otherwise shared with the message.
pub(super) fn payload_part(frame: &Frame, part: &str) -> ByteString {
    if part.len() <= COPIED {
        ByteString::from(part)
    } else {
        frame.share(part)
    }
}

/// The outcome of an answered call. Includes the result if `with_result` is true.
pub(super) fn answered(frame: &Frame, with_result: bool) -> CallOutcome {
    let MessageKind::Response { body, is_error, .. } = frame.envelope().kind else {
        return CallOutcome::Answered {
            result: None,
            error: None,
        };
    };
    let body = frame.get(body);
    CallOutcome::Answered {
        result: with_result.then(|| payload_part(frame, body)),
        error: if is_error {
            Some(refused(body))
        } else {
            tool_error(body)
        },
    }
}

/// The recorded error of an error response.
fn refused(error: &str) -> RecordError {
    let words = message::shown_member(error, "message").unwrap_or_default();
    let code = message::member(error, "code").unwrap_or("?");
    RecordError {
        kind: Cow::Borrowed(FailureKind::CallFailed.code()),
        text: shortened(format!("{words} (code {code})")),
    }
}

/// The recorded error of a tool result with `isError` set. `None` for any other result.
fn tool_error(result: &str) -> Option<RecordError> {
    // Search the text first, which is cheaper than parsing: most results have no true `isError`.
    let mut places = IS_ERROR.find_iter(result.as_bytes());
    let is_true = |at: usize| {
        let rest = result[at + r#""isError""#.len()..].trim_start();
        rest.strip_prefix(':')
            .is_some_and(|value| value.trim_start().starts_with("true"))
    };
    if !places.any(is_true) || message::member(result, "isError") != Some("true") {
        return None;
    }
    let content = message::member(result, "content").and_then(items);
    let texts: Vec<_> = content
        .unwrap_or_default()
        .into_iter()
        .filter_map(|item| message::shown_member(item, "text"))
        .collect();
    Some(RecordError {
        kind: Cow::Borrowed(TOOL_ERROR),
        text: shortened(texts.join("\n")),
    })
}

/// The outcome of a failed call. `is_tried` is true if the call had an attempt.
pub(super) fn failed(failure: &Failure, is_tried: bool) -> CallOutcome {
    CallOutcome::Failed {
        status: match failure.kind {
            FailureKind::CallTimeout => Status::Timeout,
            FailureKind::Cancelled => Status::Cancelled,
            FailureKind::OutcomeUnknown => Status::Unknown,
            _ if !is_tried => Status::Refused,
            _ => Status::Error,
        },
        error: error(failure),
    }
}

pub(super) fn error(failure: &Failure) -> RecordError {
    RecordError {
        kind: Cow::Borrowed(failure.kind.code()),
        text: shortened(failure.message.clone()),
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_says_it_is_an_error_is_one() {
        for (result, expected) in [
            (r#"{"content":[]}"#, None),
            (r#"{"content":[],"isError":false}"#, None),
            (
                r#"{"isError" : true,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
                Some("a\nb"),
            ),
            (r#"{"isError":true}"#, Some("")),
            (
                r#"{"content":[{"type":"text","text":"\"isError\":true"}]}"#,
                None,
            ),
            (
                r#"{"structuredContent":{"isError":true},"isError":false}"#,
                None,
            ),
            (
                r#"{"structuredContent":{"isError":false},"isError":true}"#,
                Some(""),
            ),
        ] {
            let found = tool_error(result).map(|error| error.text);
            assert_eq!(found.as_deref(), expected, "{result}");
        }
    }

    #[test]
    fn long_texts_end_at_a_character() {
        let text = shortened("ü".repeat(MAX_TEXT));
        assert_eq!(text.len(), MAX_TEXT + '…'.len_utf8());
        assert_eq!(shortened("short".to_owned()), "short");
    }
}
