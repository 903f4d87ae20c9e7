//! The span of a call, and the spans of the requests to its server.
//!
//! Clients and servers choose how long names, ids and errors are. The queue to the collector is bounded
//! in calls, so each text is cut to a length that still tells it from others.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Instant, SystemTime},
};

use mainstay_core::{
    era::Revision,
    ids::ServerName,
    message::{self, Method},
    record::{Origin, TraceId},
    redact::{Redactor, Secrets},
    trace::{SpanId, TraceContext},
};

use super::Tracer;

/// Characters of a URI, a name or a request's id.
const MAX_NAME: usize = 256;
/// Characters of an error, in the server's words.
const MAX_MESSAGE: usize = 1024;

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
    /// Secrets of the server.
    pub secrets: Option<Arc<Secrets>>,
}

impl Subject {
    fn bounded(mut self) -> Self {
        if self.name.len() > MAX_NAME {
            self.name = Arc::from(start(&self.name, MAX_NAME));
        }
        if self.request_id.len() > MAX_NAME {
            // A text that is cut is no JSON text any more.
            let text = message::text(&self.request_id).map(String::from);
            let text = text.as_deref().unwrap_or(&self.request_id);
            self.request_id = Box::from(start(text, MAX_NAME));
        }
        self
    }
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

    fn bounded(self) -> Self {
        let Self {
            kind,
            message,
            is_rpc,
        } = self;
        Self {
            kind: match kind {
                Cow::Owned(code) if code.len() > MAX_NAME => {
                    start(&code, MAX_NAME).to_owned().into()
                }
                kind => kind,
            },
            message: message.map(|message| match start(&message, MAX_MESSAGE) {
                whole if whole.len() == message.len() => message,
                start => start.to_owned(),
            }),
            is_rpc,
        }
    }
}

/// At most so many bytes of a text.
fn start(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The beginning and the end of a span.
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

    /// Takes secrets out of what was asked for, and of what the server said was wrong.
    pub fn redact(&mut self, redactor: &Redactor) {
        let secrets = self.subject.secrets.as_deref();
        if let Cow::Owned(name) = redactor.redact(&self.subject.name, secrets) {
            self.subject.name = name.into();
        }
        let client = self.subject.origin.client.as_ref();
        if let Some(client) = client.and_then(|client| client.redacted(redactor)) {
            Arc::make_mut(&mut self.subject.origin).client = Some(client);
        }
        let Some(trouble) = &mut self.trouble else {
            return;
        };
        if let Cow::Owned(kind) = redactor.redact(&trouble.kind, secrets) {
            trouble.kind = kind.into();
        }
        if let Some(message) = &mut trouble.message
            && let Cow::Owned(shown) = redactor.redact(message, secrets)
        {
            *message = shown;
        }
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
    /// Begins the span of a call with this context; `None` if it is not to be recorded.
    pub fn begin(
        tracer: &Arc<Tracer>,
        context: Option<(TraceContext, Option<String>)>,
        subject: impl FnOnce() -> Subject,
    ) -> Option<Self> {
        let (parent, state) = context.unzip();
        let (trace, parent) = tracer.place(parent)?;
        let now = SystemTime::now();
        let call = Ended {
            subject: subject().bounded(),
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

    fn now(&self) -> Option<SystemTime> {
        let call = self.call.as_ref()?;
        Some(call.times.started + self.since.elapsed())
    }

    /// The server is about to be asked; returns the context of that request.
    pub fn ask(&mut self, revision: Revision) -> Option<TraceContext> {
        self.answered(Some("cancelled"));
        let now = self.now()?;
        let trace = self.trace()?;
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
        // The clock is read only if a span needs it.
        let Some(mut hop) = self.hop.take() else {
            return;
        };
        let now = self.now();
        if let Some((call, now)) = self.call.as_mut().zip(now) {
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
        if let Some((mut call, now)) = self.call.take().zip(now) {
            call.times.ended = now;
            call.trouble = trouble.map(Trouble::bounded);
            self.tracer.take(call);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.close(Some(Trouble::CANCELLED));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use mainstay_core::{
        config::{Secret, Telemetry, Webhook},
        record::Door,
    };
    use tokio::sync::mpsc;

    use super::{
        super::{Tally, otlp::Resource},
        *,
    };

    #[test]
    fn what_others_choose_the_length_of_is_cut() {
        let (queue, mut inbox) = mpsc::channel(1);
        let tracer = Arc::new(Tracer {
            sample_ratio: 1.0,
            next: AtomicU64::new(1),
            queue,
            tally: Tally::default(),
        });
        let subject = || Subject {
            server: ServerName::new("x").expect("a name"),
            method: Method::ResourcesRead,
            name: format!("file:///{}", "ü".repeat(100_000)).into(),
            origin: Arc::new(Origin::of(Door::Rest)),
            revision: Revision::LATEST,
            request_id: format!("\"{}\"", "i".repeat(100_000)).into(),
            is_piped: false,
            secrets: None,
        };
        let span = Span::begin(&tracer, None, subject).expect("it is recorded");
        span.end(Some(Trouble {
            kind: "-3".repeat(100_000).into(),
            message: Some("m".repeat(100_000)),
            is_rpc: true,
        }));
        let ended = inbox.try_recv().expect("it has ended");
        assert_eq!(*ended.subject.name, *format!("file:///{}", "ü".repeat(124)));
        assert_eq!(*ended.subject.request_id, *"i".repeat(256));
        let trouble = ended.trouble.as_ref().expect("it failed");
        assert_eq!(trouble.kind.len(), 256);
        assert_eq!(trouble.message.as_ref().map(String::len), Some(1024));
        let settings = Telemetry {
            collector: Webhook {
                url: Secret::new("http://c"),
                headers: Vec::new(),
            },
            service_name: "gate".to_owned(),
            sample_ratio: 1.0,
            attributes: vec![("service.version".to_owned(), "mine".to_owned())],
            other_protocol: None,
        };
        let told = Resource::new(&settings, 1).request(&[ended]);
        assert!(told.len() < 8 * 1024, "{} bytes", told.len());
        assert_eq!(told.matches("service.version").count(), 1, "{told}");
    }
}
