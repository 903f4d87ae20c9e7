//! The span of a call, and the spans of the requests to its server.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use mainstay_core::{era::Revision, record::TraceId, redact::Secrets, trace::TraceContext};

use super::{
    call_trace::{CallTrace, Hop, SpanError, SpanTimes, Subject},
    tracer::Tracer,
};

/// The span of a running call. If it is dropped before [`Span::end`], the call counts as cancelled.
#[derive(Debug)]
pub struct Span {
    tracer: Arc<Tracer>,
    /// The monotonic time of the start. Durations are measured by it, because the system's clock may
    /// be changed during the call.
    since: Instant,
    /// The open span of a request that the server has not answered yet.
    hop: Option<Hop>,
    /// `None` after the call has been queued for export.
    call: Option<CallTrace>,
}

impl Span {
    /// Begins the span of a call with this trace context. `None` if the call is not traced.
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
            times: SpanTimes {
                started: now,
                ended: now,
            },
            hops: Vec::new(),
            error: None,
        };
        Some(Self {
            tracer: Arc::clone(tracer),
            since: Instant::now(),
            hop: None,
            call: Some(call),
        })
    }

    /// The id of the call's trace.
    pub fn trace(&self) -> Option<TraceId> {
        self.call.as_ref().map(|call| call.trace)
    }

    fn now(&self) -> Option<SystemTime> {
        let call = self.call.as_ref()?;
        Some(call.times.started + self.since.elapsed())
    }

    /// Begins the span of a request to the server, and ends an open span as cancelled. Returns the
    /// trace context for the request. `None` after the call has ended.
    pub fn ask(&mut self, revision: Revision) -> Option<TraceContext> {
        self.answered(Some("cancelled"));
        let now = self.now()?;
        let trace = self.trace()?;
        let id = self.tracer.span_id();
        self.hop = Some(Hop {
            id,
            times: SpanTimes {
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

    /// Ends the span of the request. `failed` is the code of the failure, or `None` if the server has
    /// answered.
    pub fn answered(&mut self, failed: Option<&'static str>) {
        // Return before the clock is read if there is no open span.
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

    /// Ends the span of the call. `secrets` are the secrets of the server at the end.
    pub fn end(mut self, secrets: Option<Arc<Secrets>>, error: Option<SpanError>) {
        if let (Some(call), Some(secrets)) = (&mut self.call, secrets) {
            call.subject.secrets = Some(secrets);
        }
        self.close(error);
    }

    fn close(&mut self, error: Option<SpanError>) {
        self.answered(Some("cancelled"));
        let now = self.now();
        if let Some((mut call, now)) = self.call.take().zip(now) {
            call.times.ended = now;
            call.error = error.map(SpanError::bounded);
            self.tracer.take(call);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.close(Some(SpanError::CANCELLED));
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::{
        config::{Secret, Telemetry, Webhook},
        ids::ServerName,
        message::Method,
        record::{CallOrigin, Door},
    };
    use tokio::sync::mpsc;

    use super::{super::otlp::OtlpResource, *};

    #[test]
    fn what_others_choose_the_length_of_is_cut() {
        let (queue, mut inbox) = mpsc::channel(1);
        let tracer = Arc::new(Tracer::new(1.0, 1, queue));
        let subject = || Subject {
            server: ServerName::new("x").expect("a name"),
            method: Method::ResourcesRead,
            name: format!("file:///{}", "ü".repeat(100_000)).into(),
            origin: Arc::new(CallOrigin::from_door(Door::Rest)),
            revision: Revision::LATEST,
            request_id: format!("\"{}\"", "i".repeat(100_000)).into(),
            is_piped: false,
            secrets: None,
        };
        let span = Span::begin(&tracer, None, subject).expect("it is recorded");
        let error = SpanError {
            kind: "-3".repeat(100_000).into(),
            message: Some("m".repeat(100_000)),
            is_rpc: true,
        };
        span.end(None, Some(error));
        let call = inbox.try_recv().expect("it has call");
        assert_eq!(*call.subject.name, *format!("file:///{}", "ü".repeat(124)));
        assert_eq!(*call.subject.request_id, *"i".repeat(256));
        let error = call.error.as_ref().expect("it failed");
        assert_eq!(error.kind.len(), 256);
        assert_eq!(error.message.as_ref().map(String::len), Some(1024));
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
        let body = OtlpResource::new(&settings, 1).request(&[call]);
        assert!(body.len() < 8 * 1024, "{} bytes", body.len());
        assert_eq!(body.matches("service.version").count(), 1, "{body}");
    }
}
