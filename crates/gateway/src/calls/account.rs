//! Opens and closes a call's entry in the journal, in the figures and in traces
//! (docs/dev/requirements.md, section L).

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
    time::Instant,
};

use bytestring::ByteString;
use mainstay_core::{
    catalog::ListKind,
    era::Revision,
    failure::{Failure, FailureKind},
    message::{self, Kind, Method, items},
    record::{RecordError, State, Status, Target},
    trace::{self, TraceContext},
};
use mainstay_journal::{Acknowledged, Begun, Entry, Finished, Outcome};
use mainstay_transport::Frame;
use memchr::memmem::Finder;

use super::{Answer, CallSink, Calls, Receipt, Request, Upstream};
use crate::{
    metrics::{Count, Ended, TOOL_ERROR},
    traces::{Span, Subject, Trouble},
};

/// Up to here a payload is copied: sharing it would hold all that was read from the connection with it,
/// and keep the connection from using its buffer again.
const COPIED: usize = 16 * 1024;

/// Finds the member of a result that says whether it is an error.
static IS_ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""isError""#));

/// How much of an error's text is kept.
const MAX_TEXT: usize = 1024;

/// One call's account.
#[derive(Debug)]
pub(super) struct Account {
    entry: Entry,
    begun: Instant,
    /// When the attempt that counts was sent.
    left: Option<Instant>,
    attempts: u32,
    count: Option<Count>,
    span: Option<Span>,
}

impl Account {
    /// Opens the account of a call that is forwarded. A request that asks for no work of a server's own is
    /// not recorded.
    pub fn open(
        calls: &Calls,
        receipt: &Receipt,
        upstream: &Upstream,
        request: &Request,
        sink: &CallSink,
    ) -> Self {
        let mut account = Self {
            entry: Entry::none(),
            begun: receipt.came(),
            left: None,
            attempts: 0,
            count: None,
            span: None,
        };
        if let Some(method) = recorded(&request.frame) {
            receipt.forwarded();
            account.begin(method, calls, upstream, request, sink);
        }
        account
    }

    fn begin(
        &mut self,
        method: Method,
        calls: &Calls,
        upstream: &Upstream,
        request: &Request,
        sink: &CallSink,
    ) {
        let (frame, server) = (&request.frame, upstream.server());
        let name = request.subject().unwrap_or_default();
        let count = Count::begin(
            &server.figures,
            (method, &name),
            self.begun,
            frame.text().len(),
            |tool| server.has_tool(tool),
        );
        let is_listed = match method {
            Method::PromptsGet => server.has(ListKind::Prompts, &name),
            _ => count.is_of_tool(),
        };
        self.count = Some(count);
        if calls.journal.is_none() && calls.tracer.is_none() {
            return;
        }
        let meta = message::meta::of(frame.text(), frame.envelope());
        let context = meta.ok().flatten().and_then(trace::of_meta);
        let of_caller = context.as_ref().map(|(context, _)| context.trace);
        if let Some(tracer) = &calls.tracer {
            self.span = Span::begin(tracer, context, || Subject {
                server: server.name.clone(),
                method,
                name: Arc::clone(&name),
                origin: Arc::clone(&sink.client.origin),
                revision: sink.client.caller.revision,
                request_id: request.id().into(),
                is_piped: server.transport() == "stdio",
                secrets: server.log.secrets(),
            });
        }
        if let Some(journal) = &calls.journal {
            let of_span = self.span.as_ref().and_then(Span::trace);
            self.entry = journal.begin(Begun {
                origin: Arc::clone(&sink.client.origin),
                target: Target {
                    server: Some(server.name.clone()),
                    method: Cow::Borrowed(method.name()),
                    tool: name,
                },
                is_listed,
                arguments: frame
                    .envelope()
                    .arguments()
                    .map(|span| kept(frame, frame.get(span))),
                since: self.begun,
                trace: of_caller.or(of_span),
                secrets: server.log.secrets(),
            });
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

    /// A server of this revision is asked; returns the context that its request is to carry.
    pub fn ask(&mut self, revision: Revision) -> Option<TraceContext> {
        self.span.as_mut()?.ask(revision)
    }

    /// The server has answered, or not.
    pub fn answered(&mut self, failed: Option<&Failure>) {
        if let Some(span) = &mut self.span {
            span.answered(failed.map(|failure| failure.kind.code()));
        }
    }

    pub fn sent(&mut self) {
        self.left = Some(Instant::now());
        self.entry.reached(State::Sent);
        self.count_sent(true);
    }

    pub fn is_sent(&self) -> bool {
        self.left.is_some()
    }

    /// What seemed to be sent was not.
    pub fn not_sent(&mut self) {
        self.left = None;
        self.entry.reached(State::NotSent);
        self.count_sent(false);
    }

    fn count_sent(&mut self, is_sent: bool) {
        if let Some(count) = &mut self.count {
            count.sent(is_sent);
        }
    }

    /// The call has ended. In strict mode its answer waits for that to be on record.
    pub async fn close(self, outcome: Result<Answer, Failure>) -> Result<Answer, Failure> {
        let now = Instant::now();
        let left = self.left.unwrap_or(now);
        let finished = Finished {
            outcome: match &outcome {
                Ok(answer) => answered(&answer.frame, self.entry.is_some()),
                Err(failure) => failed(failure, self.attempts > 0),
            },
            attempts: self.attempts,
            at: now,
            queue: left.saturating_duration_since(self.begun),
            upstream: now.saturating_duration_since(left),
        };
        if let Some(count) = self.count {
            let bytes = outcome
                .as_ref()
                .map_or(0, |answer| answer.frame.text().len());
            let ended = ended(&outcome, &finished.outcome);
            count.end(ended, finished.queue, finished.upstream, bytes);
        }
        if let Some(span) = self.span {
            span.end(trouble(&outcome, &finished.outcome));
        }
        let acknowledged: Acknowledged = self.entry.finish(finished);
        match acknowledged.await {
            Ok(()) => outcome,
            Err(error) => Err(match outcome {
                Ok(_) => {
                    let message = format!("the call has ended, but {error}");
                    Failure::new(FailureKind::NotRecorded, message)
                }
                // It says so itself, and that the call was not sent.
                Err(failure) if failure.kind == FailureKind::NotRecorded => failure,
                // How far the call got is more than that it is not on record.
                Err(failure) => Failure {
                    message: format!("{}; and {error}", failure.message),
                    ..failure
                },
            }),
        }
    }
}

/// The method of a request that asks for work of a server's own.
fn recorded(frame: &Frame) -> Option<Method> {
    frame.method().filter(|method| is_recorded(*method))
}

pub(super) fn is_recorded(method: Method) -> bool {
    matches!(
        method,
        Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet
    )
}

fn ended(outcome: &Result<Answer, Failure>, said: &Outcome) -> Ended {
    match (outcome, said) {
        (Err(failure), _) => Ended::Failed(failure.kind),
        (
            Ok(_),
            Outcome::Answered {
                error: Some(error), ..
            },
        ) if error.kind == TOOL_ERROR => Ended::ToolError,
        (Ok(_), Outcome::Answered { error: Some(_), .. }) => Ended::Failed(FailureKind::CallFailed),
        (Ok(_), _) => Ended::Ok,
    }
}

/// The error of a call for its span. A tool's own error text is its result, and stays out.
fn trouble(outcome: &Result<Answer, Failure>, said: &Outcome) -> Option<Trouble> {
    match (outcome, ended(outcome, said)) {
        (_, Ended::Ok) => None,
        (Err(failure), _) => Some(Trouble {
            kind: failure.kind.code().into(),
            message: Some(failure.message.clone()),
            is_rpc: false,
        }),
        (Ok(_), Ended::ToolError) => Some(Trouble {
            kind: TOOL_ERROR.into(),
            message: None,
            is_rpc: false,
        }),
        (Ok(answer), Ended::Failed(kind)) => {
            let error = answer.frame.error().unwrap_or_default();
            let code = message::member(error, "code");
            Some(Trouble {
                kind: code.map_or(kind.code().into(), |code| code.to_owned().into()),
                message: message::text_member(error, "message").map(String::from),
                is_rpc: code.is_some(),
            })
        }
    }
}

/// A part of a message.
pub(super) fn kept(frame: &Frame, part: &str) -> ByteString {
    if part.len() <= COPIED {
        ByteString::from(part)
    } else {
        frame.share(part)
    }
}

/// `is_kept` says whether the result will be on record.
fn answered(frame: &Frame, is_kept: bool) -> Outcome {
    let Kind::Response { body, is_error, .. } = frame.envelope().kind else {
        return Outcome::Answered {
            result: None,
            error: None,
        };
    };
    let body = frame.get(body);
    Outcome::Answered {
        result: is_kept.then(|| kept(frame, body)),
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

/// What a tool's result says was wrong: `isError`.
fn tool_error(result: &str) -> Option<RecordError> {
    // Most results do not speak of it, or deny it; a search costs less than reading them.
    let mut spoken_of = IS_ERROR.find_iter(result.as_bytes());
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
        kind: Cow::Borrowed(TOOL_ERROR),
        text: shortened(texts.join("\n")),
    })
}

/// `is_tried` says whether the call was about to be sent at least once.
pub(super) fn failed(failure: &Failure, is_tried: bool) -> Outcome {
    Outcome::Failed {
        status: match failure.kind {
            FailureKind::CallTimeout => Status::Timeout,
            FailureKind::Cancelled => Status::Cancelled,
            FailureKind::OutcomeUnknown => Status::Unknown,
            _ if !is_tried => Status::Refused,
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
