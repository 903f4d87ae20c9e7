//! The span of a call, and the spans of the requests to its server.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use mainstay_core::{era::Revision, record::TraceId, trace::TraceContext};

use super::{
    call_trace::{CallTrace, Hop, Subject, Times, Trouble},
    tracer::Tracer,
};

/// A call under way. Dropped before its end, it was cancelled.
#[derive(Debug)]
pub struct Span {
    tracer: Arc<Tracer>,
    /// Durations come from this clock, because the system's clock may be set meanwhile.
    since: Instant,
    /// The request that the server has.
    hop: Option<Hop>,
    /// `None` once it is on its way.
    call: Option<CallTrace>,
}

impl Span {
    /// Begins the span of a call with this context; `None` if it is not to be recorded.
    pub fn begin(
        tracer: &Arc<Tracer>,
        context: Option<(TraceContext, Option<String>)>,
        subject: impl FnOnce() -> Subject,
    ) -> Option<Self> {
        let (parent, state) = context.unzip();
        let (trace, parent) = tracer.sample(parent)?;
        let now = SystemTime::now();
        let call = CallTrace {
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
    use mainstay_core::{
        config::{Secret, Telemetry, Webhook},
        ids::ServerName,
        message::Method,
        record::{Door, Origin},
    };
    use tokio::sync::mpsc;

    use super::{super::otlp::Resource, *};

    #[test]
    fn what_others_choose_the_length_of_is_cut() {
        let (queue, mut inbox) = mpsc::channel(1);
        let tracer = Arc::new(Tracer::new(1.0, 1, queue));
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
