//! What a call leaves in the journal, and when (section L; design section 10).

use std::{borrow::Cow, time::Instant};

use bytestring::ByteString;
use mainstay_core::{
    failure::{Failure, FailureKind},
    message::{self, Kind, Method, items},
    record::{RecordError, State, Status, Target, TraceId},
};

use super::{Answer, Outlet, Request, Upstream};
use crate::{
    journal::{Acknowledged, Begun, Entry, Finished, Journal, Outcome},
    transport::Frame,
};

/// Up to here a payload is copied: sharing it would keep the connection from using its buffer again.
const COPIED: usize = 4 * 1024;

/// How much of an error's text is kept.
const MAX_TEXT: usize = 1024;

/// One call's account.
#[derive(Debug)]
pub(super) struct Account {
    entry: Entry,
    begun: Instant,
    /// When the attempt that counts left us.
    left: Option<Instant>,
    attempts: u32,
}

impl Account {
    /// Of a call that comes. Whatever asks for no work of a server's own is not recorded.
    pub fn open(
        journal: Option<&Journal>,
        upstream: &Upstream,
        request: &Request,
        outlet: &Outlet,
    ) -> Self {
        let entry = journal
            .and_then(|journal| Some(journal.begin(begun(upstream, request, outlet)?)))
            .unwrap_or_else(Entry::none);
        Self {
            entry,
            begun: Instant::now(),
            left: None,
            attempts: 0,
        }
    }

    /// The call is about to be sent: in strict mode not before that is on record.
    pub async fn about_to_send(&mut self) -> Result<(), Failure> {
        self.attempts += 1;
        self.entry.intent().await.map_err(|error| {
            let message = format!("the call was not sent, since {error}");
            Failure::new(FailureKind::NotRecorded, message)
        })
    }

    pub fn sent(&mut self) {
        self.left = Some(Instant::now());
        self.entry.reached(State::Sent);
    }

    /// What seemed to be sent was not.
    pub fn not_sent(&mut self) {
        self.left = None;
        self.entry.reached(State::NotSent);
    }

    /// The call has ended. In strict mode its answer waits for that to be on record.
    pub async fn close(self, outcome: Result<Answer, Failure>) -> Result<Answer, Failure> {
        let now = Instant::now();
        let left = self.left.unwrap_or(now);
        let finished = Finished {
            outcome: match &outcome {
                Ok(answer) => answered(&answer.frame),
                Err(failure) => failed(failure),
            },
            attempts: self.attempts,
            queue: left.saturating_duration_since(self.begun),
            upstream: now.saturating_duration_since(left),
        };
        let acknowledged: Acknowledged = self.entry.finish(finished);
        match acknowledged.await {
            Ok(()) => outcome,
            Err(error) => {
                let message = format!("the call has ended, but {error}");
                Err(Failure::new(FailureKind::NotRecorded, message))
            }
        }
    }
}

fn begun(upstream: &Upstream, request: &Request, outlet: &Outlet) -> Option<Begun> {
    let frame = &request.frame;
    let method = frame.method()?;
    if !matches!(
        method,
        Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet
    ) {
        return None;
    }
    let envelope = frame.envelope();
    let meta = message::meta::of(frame.text(), envelope).ok().flatten();
    let trace = meta
        .and_then(|meta| message::text_member(meta, "traceparent"))
        .and_then(|parent| TraceId::of_traceparent(&parent));
    Some(Begun {
        origin: outlet.client.origin.clone(),
        target: Target {
            server: upstream.server().name.clone(),
            method: Cow::Borrowed(method.name()),
            tool: request.subject().unwrap_or_default(),
        },
        arguments: envelope
            .arguments()
            .map(|span| kept(frame, frame.get(span))),
        trace,
    })
}

/// A part of a message.
fn kept(frame: &Frame, part: &str) -> ByteString {
    if part.len() <= COPIED {
        ByteString::from(part)
    } else {
        frame.share(part)
    }
}

fn answered(frame: &Frame) -> Outcome {
    let Kind::Response { body, is_error, .. } = frame.envelope().kind else {
        return Outcome::Answered {
            result: None,
            error: None,
        };
    };
    let body = frame.get(body);
    Outcome::Answered {
        result: Some(kept(frame, body)),
        error: if is_error {
            Some(refused(body))
        } else {
            tool_error(body)
        },
    }
}

/// A server's own error.
fn refused(error: &str) -> RecordError {
    let words = message::text_member(error, "message").unwrap_or_default();
    let code = message::member(error, "code").unwrap_or("?");
    RecordError {
        kind: Cow::Borrowed(FailureKind::CallFailed.code()),
        text: shortened(format!("{words} (code {code})")),
    }
}

/// What a tool's result says was wrong (K3): `isError`.
fn tool_error(result: &str) -> Option<RecordError> {
    // Most results do not speak of it, or deny it; a search costs less than reading them.
    let mut spoken_of = memchr::memmem::find_iter(result.as_bytes(), br#""isError""#);
    let affirmed = |at: usize| {
        let rest = result[at + r#""isError""#.len()..].trim_start();
        rest.strip_prefix(':')
            .is_some_and(|value| value.trim_start().starts_with("true"))
    };
    if !spoken_of.any(affirmed) || message::member(result, "isError") != Some("true") {
        return None;
    }
    let content = message::member(result, "content").and_then(items);
    let texts: Vec<_> = content
        .unwrap_or_default()
        .into_iter()
        .filter_map(|item| message::text_member(item, "text"))
        .collect();
    Some(RecordError {
        kind: Cow::Borrowed("tool_error"),
        text: shortened(texts.join("\n")),
    })
}

fn failed(failure: &Failure) -> Outcome {
    Outcome::Failed {
        status: match failure.kind {
            FailureKind::CallTimeout => Status::Timeout,
            FailureKind::Cancelled => Status::Cancelled,
            FailureKind::OutcomeUnknown => Status::Unknown,
            _ => Status::Error,
        },
        error: RecordError {
            kind: Cow::Borrowed(failure.kind.code()),
            text: shortened(failure.message.clone()),
        },
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
