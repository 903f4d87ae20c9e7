//! The account of a call: its entry in the journal, in the metrics and in the traces
//! (docs/dev/requirements.md, section L).

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Instant, SystemTime},
};

use mainstay_core::{
    catalog::ListKind,
    era::Revision,
    failure::{Failure, FailureKind},
    message::{self, Method},
    record::{CallAttempt, State, Target},
    redact::Secrets,
    trace::{self, TraceContext},
};
use mainstay_journal::{Acknowledged, Begun, CallOutcome, Finished, JournalEntry};
use mainstay_transport::Frame;

use super::{
    outcome::{answered, error, failed, is_recorded, payload_part},
    receipt::Receipt,
    request::{CallAnswer, CallRequest, Upstream},
    shared::Calls,
    sink::CallSink,
};
use crate::{
    metrics::{CallEnd, Count, TOOL_ERROR},
    traces::{Span, SpanError, Subject},
};

/// The account of one call: its journal entry, its metrics and its trace span.
#[derive(Debug)]
pub(super) struct Account {
    entry: JournalEntry,
    started_at: Instant,
    /// Time at which the request was sent in the current attempt.
    sent_at: Option<Instant>,
    attempts: u32,
    /// Failed attempts that were followed by another attempt.
    earlier: Vec<CallAttempt>,
    count: Option<Count>,
    span: Option<Span>,
}

impl Account {
    /// Opens the account of a forwarded request. Requests of other methods than [`is_recorded`] names
    /// are not recorded, counted or traced.
    pub fn open(
        calls: &Calls,
        receipt: &Receipt,
        upstream: &Upstream,
        request: &CallRequest,
        sink: &CallSink,
    ) -> Self {
        let mut account = Self {
            entry: JournalEntry::none(),
            started_at: receipt.received_at(),
            sent_at: None,
            attempts: 0,
            earlier: Vec::new(),
            count: None,
            span: None,
        };
        if let Some(method) = recorded(&request.frame) {
            receipt.set_forwarded();
            account.begin(method, calls, upstream, request, sink);
        }
        account
    }

    fn begin(
        &mut self,
        method: Method,
        calls: &Calls,
        upstream: &Upstream,
        request: &CallRequest,
        sink: &CallSink,
    ) {
        let (frame, server) = (&request.frame, upstream.server());
        let name = request.subject().unwrap_or_default();
        let count = Count::begin(
            &server.figures,
            (method, &name),
            self.started_at,
            frame.text().len(),
            |tool| server.has_tool(tool),
        );
        let is_listed = match method {
            Method::PromptsGet => server.has(ListKind::Prompts, &name),
            _ => count.has_own_series(),
        };
        self.count = Some(count);
        if calls.journal.is_none() && calls.tracer.is_none() {
            return;
        }
        let meta = message::meta::raw(frame.text(), frame.envelope());
        let context = meta.ok().flatten().and_then(trace::from_meta);
        let caller_trace = context.as_ref().map(|(context, _)| context.trace);
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
            let span_trace = self.span.as_ref().and_then(Span::trace);
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
                    .map(|span| payload_part(frame, frame.get(span))),
                since: self.started_at,
                trace: caller_trace.or(span_trace),
                secrets: server.log.secrets(),
            });
        }
    }

    /// True if the call is recorded or traced.
    pub fn is_kept(&self) -> bool {
        self.entry.is_some() || self.span.is_some()
    }

    /// Counts an attempt. An attempt may take several exchanges on its session.
    pub fn tried(&mut self) {
        self.attempts += 1;
    }

    /// Records an attempt that failed in this call state and is followed by another attempt.
    pub fn attempt_failed(&mut self, state: State, failure: &Failure) {
        if self.entry.is_some() {
            self.earlier.push(CallAttempt {
                ended: self.started_at.elapsed(),
                state,
                error: error(failure),
            });
        }
    }

    /// Records the intent to send the call. In strict mode, waits until the intent is on disk, and
    /// fails if it cannot be written.
    pub async fn about_to_send(&mut self) -> Result<(), Failure> {
        self.entry.intent().await.map_err(|error| {
            let message = format!("the call was not sent, since {error}");
            Failure::new(FailureKind::NotRecorded, message)
        })
    }

    /// Begins the span of a request to a server of this revision. Returns the trace context for the
    /// request. `None` if the call is not traced.
    pub fn ask(&mut self, revision: Revision) -> Option<TraceContext> {
        self.span.as_mut()?.ask(revision)
    }

    /// Ends the span of the request, with the failure if there was no answer.
    pub fn answered(&mut self, failed: Option<&Failure>) {
        if let Some(span) = &mut self.span {
            span.answered(failed.map(|failure| failure.kind.code()));
        }
    }

    pub fn sent(&mut self) {
        self.sent_at = Some(Instant::now());
        self.entry.reached(State::Sent);
        self.count_sent(true);
    }

    pub fn is_sent(&self) -> bool {
        self.sent_at.is_some()
    }

    /// Time at which the request was sent. `None` if it was not sent.
    pub fn sent_at(&self) -> Option<SystemTime> {
        SystemTime::now().checked_sub(self.sent_at?.elapsed())
    }

    /// Records that the request was not sent after all.
    pub fn not_sent(&mut self) {
        self.sent_at = None;
        self.entry.reached(State::NotSent);
        self.count_sent(false);
    }

    fn count_sent(&mut self, is_sent: bool) {
        if let Some(count) = &mut self.count {
            count.sent(is_sent);
        }
    }

    /// Closes the account, and returns the outcome for the client. In strict mode, waits until the
    /// end of the call is on disk.
    ///
    /// `secrets` are the secrets of the server at the end. The call may have got a new token.
    pub async fn close(
        self,
        outcome: Result<CallAnswer, Failure>,
        secrets: Option<Arc<Secrets>>,
    ) -> Result<CallAnswer, Failure> {
        let now = Instant::now();
        let sent_at = self.sent_at.unwrap_or(now);
        let earlier = u32::try_from(self.earlier.len()).unwrap_or(u32::MAX);
        let finished = Finished {
            outcome: match &outcome {
                Ok(answer) => answered(&answer.frame, self.entry.is_some()),
                Err(failure) => failed(failure, self.attempts > 0),
            },
            // `attempts` does not count an attempt that failed before it had a session. `earlier`
            // does.
            attempts: self
                .attempts
                .max(earlier.saturating_add(u32::from(earlier > 0))),
            earlier: self.earlier,
            at: now,
            queue: sent_at.saturating_duration_since(self.started_at),
            upstream: now.saturating_duration_since(sent_at),
            secrets: secrets.clone(),
        };
        if let Some(count) = self.count {
            let bytes = outcome
                .as_ref()
                .map_or(0, |answer| answer.frame.text().len());
            let end = call_end(&outcome, &finished.outcome);
            count.end(end, finished.queue, finished.upstream, bytes);
        }
        if let Some(span) = self.span {
            span.end(secrets, span_error(&outcome, &finished.outcome));
        }
        let acknowledged: Acknowledged = self.entry.finish(finished);
        match acknowledged.await {
            Ok(()) => outcome,
            Err(error) => Err(match outcome {
                Ok(_) => {
                    let message = format!("the call has ended, but {error}");
                    Failure::new(FailureKind::NotRecorded, message)
                }
                // This failure already says that the call was not recorded and not sent.
                Err(failure) if failure.kind == FailureKind::NotRecorded => failure,
                // Keep the failure's kind: the call state matters more than the missing record.
                Err(failure) => Failure {
                    message: format!("{}; and {error}", failure.message),
                    ..failure
                },
            }),
        }
    }
}

/// The method of a request. `None` if requests of this method are not recorded.
fn recorded(frame: &Frame) -> Option<Method> {
    frame.method().filter(|method| is_recorded(*method))
}

fn call_end(outcome: &Result<CallAnswer, Failure>, recorded: &CallOutcome) -> CallEnd {
    match (outcome, recorded) {
        (Err(failure), _) => CallEnd::Failed(failure.kind),
        (
            Ok(_),
            CallOutcome::Answered {
                error: Some(error), ..
            },
        ) if error.kind == TOOL_ERROR => CallEnd::ToolError,
        (Ok(_), CallOutcome::Answered { error: Some(_), .. }) => {
            CallEnd::Failed(FailureKind::CallFailed)
        }
        (Ok(_), _) => CallEnd::Ok,
    }
}

/// The error of a call for its span. Without the error text of a tool, which is part of the tool's
/// result.
fn span_error(outcome: &Result<CallAnswer, Failure>, recorded: &CallOutcome) -> Option<SpanError> {
    match (outcome, call_end(outcome, recorded)) {
        (_, CallEnd::Ok) => None,
        (Err(failure), _) => Some(SpanError {
            kind: failure.kind.code().into(),
            message: Some(failure.message.clone()),
            is_rpc: false,
        }),
        (Ok(_), CallEnd::ToolError) => Some(SpanError {
            kind: TOOL_ERROR.into(),
            message: None,
            is_rpc: false,
        }),
        (Ok(answer), CallEnd::Failed(kind)) => {
            let error = answer.frame.error().unwrap_or_default();
            let code = message::member(error, "code");
            Some(SpanError {
                kind: code.map_or(kind.code().into(), |code| code.to_owned().into()),
                message: message::shown_member(error, "message").map(String::from),
                is_rpc: code.is_some(),
            })
        }
    }
}
