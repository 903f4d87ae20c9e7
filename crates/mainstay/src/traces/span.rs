//! A call's span, from its coming to its end, and the spans of the requests to its server below it.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Instant, SystemTime},
};

use mainstay_core::{
    era::Revision,
    ids::ServerName,
    message::Method,
    record::{Origin, TraceId},
    trace::{SpanId, TraceContext},
};

use super::Tracer;

/// What a span is about.
#[derive(Debug)]
pub struct Subject {
    pub server: ServerName,
    pub method: Method,
    /// The server's own name of the tool or prompt, or the resource's URI.
    pub name: Arc<str>,
    pub origin: Arc<Origin>,
    /// What the client speaks.
    pub revision: Revision,
    /// The client's id of its request, as JSON text.
    pub request_id: Box<str>,
    /// Whether the server is a process.
    pub is_piped: bool,
}

/// Why a call failed.
#[derive(Debug)]
pub struct Trouble {
    /// The JSON-RPC code of a server's error, `tool_error`, or the code of a failure's kind.
    pub kind: Cow<'static, str>,
    pub message: Option<String>,
    /// Whether `kind` is a JSON-RPC code.
    pub is_rpc: bool,
}

impl Trouble {
    const CANCELLED: Self = Self {
        kind: Cow::Borrowed("cancelled"),
        message: None,
        is_rpc: false,
    };
}

/// From when to when something lasted.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub started: SystemTime,
    pub ended: SystemTime,
}

/// A request to the server.
#[derive(Debug)]
pub struct Hop {
    pub id: SpanId,
    pub times: Times,
    /// What the server speaks.
    pub revision: Revision,
    /// `None` where it was answered, with a result or an error.
    pub failed: Option<&'static str>,
}

/// A call that has ended, on its way to the collector.
#[derive(Debug)]
pub struct Ended {
    pub subject: Subject,
    pub trace: TraceId,
    pub parent: Option<SpanId>,
    pub state: Option<String>,
    pub id: SpanId,
    pub times: Times,
    pub hops: Vec<Hop>,
    pub trouble: Option<Trouble>,
}

impl Ended {
    pub fn spans(&self) -> u64 {
        1 + self.hops.len() as u64
    }
}

/// A call under way. Dropped before its end, it was cancelled.
#[derive(Debug)]
pub struct Span {
    tracer: Arc<Tracer>,
    /// The clock of the system may be set meanwhile: how long things last is told by the other.
    since: Instant,
    /// The request that the server has.
    hop: Option<Hop>,
    /// `None` once it is on its way.
    call: Option<Ended>,
}

impl Span {
    /// Of a call that comes with this context; `None` if it is not to be recorded.
    pub fn begin(
        tracer: &Arc<Tracer>,
        context: Option<(TraceContext, Option<String>)>,
        subject: impl FnOnce() -> Subject,
    ) -> Option<Self> {
        let (parent, state) = context.unzip();
        let (trace, parent) = tracer.place(parent)?;
        let now = SystemTime::now();
        let call = Ended {
            subject: subject(),
            trace,
            parent,
            state: state.flatten(),
            id: tracer.span_id(),
            times: Times {
                started: now,
                ended: now,
            },
            hops: Vec::new(),
            trouble: None,
        };
        Some(Self {
            tracer: Arc::clone(tracer),
            since: Instant::now(),
            hop: None,
            call: Some(call),
        })
    }

    /// The trace that the call belongs to.
    pub fn trace(&self) -> Option<TraceId> {
        self.call.as_ref().map(|call| call.trace)
    }

    fn now(&self) -> SystemTime {
        let started = self.call.as_ref().map(|call| call.times.started);
        started.map_or_else(SystemTime::now, |started| started + self.since.elapsed())
    }

    /// The server is about to be asked; returns the context of that request.
    pub fn ask(&mut self, revision: Revision) -> Option<TraceContext> {
        self.answered(Some("cancelled"));
        let now = self.now();
        let trace = self.call.as_ref()?.trace;
        let id = self.tracer.span_id();
        self.hop = Some(Hop {
            id,
            times: Times {
                started: now,
                ended: now,
            },
            revision,
            failed: None,
        });
        Some(TraceContext {
            trace,
            span: id,
            sampled: true,
        })
    }

    /// The server has answered, or the request failed.
    pub fn answered(&mut self, failed: Option<&'static str>) {
        let now = self.now();
        if let (Some(mut hop), Some(call)) = (self.hop.take(), &mut self.call) {
            hop.times.ended = now;
            hop.failed = failed;
            call.hops.push(hop);
        }
    }

    pub fn end(mut self, trouble: Option<Trouble>) {
        self.close(trouble);
    }

    fn close(&mut self, trouble: Option<Trouble>) {
        self.answered(Some("cancelled"));
        let now = self.now();
        if let Some(mut call) = self.call.take() {
            call.times.ended = now;
            call.trouble = trouble;
            self.tracer.take(call);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.close(Some(Trouble::CANCELLED));
    }
}
