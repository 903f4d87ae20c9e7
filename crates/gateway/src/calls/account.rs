//! Opens and closes a call's entry in the journal, in the figures and in traces
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
    record::{Attempt, State, Target},
    trace::{self, TraceContext},
};
use mainstay_journal::{Acknowledged, Begun, Entry, Finished, Outcome};
use mainstay_transport::Frame;

use super::{
    outcome::{answered, error, failed, is_recorded, kept},
    receipt::Receipt,
    request::{Answer, Request, Upstream},
    shared::Calls,
    sink::CallSink,
};
use crate::{
    metrics::{Count, Ended, TOOL_ERROR},
    traces::{Span, Subject, Trouble},
};

/// One call's account.
#[derive(Debug)]
pub(super) struct Account {
    entry: Entry,
    begun: Instant,
    /// When the attempt that counts was sent.
    left: Option<Instant>,
    attempts: u32,
    /// Those that another followed.
    earlier: Vec<Attempt>,
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
            earlier: Vec::new(),
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

    /// The call is tried on a session, in one exchange or in several.
    pub fn tried(&mut self) {
        self.attempts += 1;
    }

    /// The attempt failed after it got so far, and another follows.
    pub fn failed(&mut self, state: State, failure: &Failure) {
        if self.entry.is_some() {
            self.earlier.push(Attempt {
                ended: self.begun.elapsed(),
                state,
                error: error(failure),
            });
        }
    }

    /// The call is about to be sent: in strict mode not before that is on record.
    pub async fn about_to_send(&mut self) -> Result<(), Failure> {
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

    /// When the request left.
    pub fn sent_at(&self) -> Option<SystemTime> {
        SystemTime::now().checked_sub(self.left?.elapsed())
    }

    /// The request was not sent after all.
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
        let earlier = u32::try_from(self.earlier.len()).unwrap_or(u32::MAX);
        let finished = Finished {
            outcome: match &outcome {
                Ok(answer) => answered(&answer.frame, self.entry.is_some()),
                Err(failure) => failed(failure, self.attempts > 0),
            },
            // The last attempt may have ended before it had a session.
            attempts: self
                .attempts
                .max(earlier.saturating_add(u32::from(earlier > 0))),
            earlier: self.earlier,
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
                message: message::shown_member(error, "message").map(String::from),
                is_rpc: code.is_some(),
            })
        }
    }
}
