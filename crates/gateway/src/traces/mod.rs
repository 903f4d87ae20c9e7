//! Traces: a span for each call, and a child span for each request to its server, sent to a collector
//! over OTLP/HTTP (OpenTelemetry). Without `telemetry` in the configuration there are none, at no cost.
//!
//! Spans wait in a bounded queue; when it is full they are dropped and counted. One task sends them. No
//! call waits for it.

mod exporter;
mod otlp;
mod span;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use mainstay_core::{
    config,
    record::TraceId,
    redact::Redactor,
    trace::{SpanId, TraceContext},
};
use mainstay_transport::Webhook;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub use self::span::{Hop, Span, Subject, Trouble};
use self::{exporter::Exporter, span::Ended};

/// Calls that may wait to be sent: seconds of them at saturation, about 2 MB; at most 10 MB, for what
/// others choose the length of is cut (see [`span`]).
const MAX_WAITING: usize = 4096;

/// What becomes of spans, since the start.
#[derive(Debug, Default)]
pub struct Tally {
    pub exported: AtomicU64,
    /// Too many waited, or the collector did not take them.
    pub dropped: AtomicU64,
}

/// Begins spans.
#[derive(Debug)]
pub struct Tracer {
    /// Which part of the traces that begin here is recorded.
    sample_ratio: f64,
    /// The number that the next id is made of.
    next: AtomicU64,
    queue: mpsc::Sender<Ended>,
    pub tally: Tally,
}

impl Tracer {
    /// Whether, and as whose child, a call with this context is recorded. The origin of the trace has
    /// decided for all of it (OpenTelemetry, `parentbased_traceidratio`).
    fn place(&self, parent: Option<TraceContext>) -> Option<(TraceId, Option<SpanId>)> {
        if let Some(parent) = parent {
            return parent.sampled.then_some((parent.trace, Some(parent.span)));
        }
        let (high, low) = (self.number(), self.number());
        let trace = u128::from(high) << 64 | u128::from(low);
        // From 0 to just below 1, as random as the number.
        let lot = f64::from((low >> 32) as u32) / 2_f64.powi(32);
        (lot < self.sample_ratio).then_some((TraceId(trace.to_be_bytes()), None))
    }

    fn span_id(&self) -> SpanId {
        SpanId(self.number())
    }

    /// Random enough to be unique, without a lock and without a system call; never 0 but once in 2⁶⁴.
    /// This is SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators").
    fn number(&self) -> u64 {
        let mut number = self.next.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)).max(1)
    }

    fn take(&self, ended: Ended) {
        let spans = ended.spans();
        if self.queue.try_send(ended).is_err() {
            self.tally.dropped.fetch_add(spans, Relaxed);
        }
    }
}

/// The traces of a daemon, until [`Traces::stop`].
#[derive(Debug)]
pub struct Traces {
    tracer: Arc<Tracer>,
    exporter: JoinHandle<()>,
    stop: CancellationToken,
}

impl Traces {
    /// Starts sending; `None`, with a word in the log, where the collector's URL cannot be used.
    /// What is told of calls is redacted as their records are.
    pub fn start(settings: &config::Telemetry, rules: &config::Redact) -> Option<Self> {
        let redactor = Redactor::new(rules)
            .inspect_err(
                |error| tracing::error!(%error, "no traces: a pattern of `journal.redact` is none"),
            )
            .ok()?;
        let collector = Webhook::new(&settings.collector)
            .inspect_err(
                |error| tracing::error!(%error, "no traces: the URL of `telemetry` cannot be used"),
            )
            .ok()?;
        if let Some(other) = &settings.other_protocol {
            tracing::warn!(
                "spans are sent as http/json, though OTEL_EXPORTER_OTLP_PROTOCOL asks for {other:?}: \
                 the endpoint must be one for OTLP over HTTP"
            );
        }
        let seed = getrandom::u64()
            .inspect_err(|error| tracing::error!(%error, "no traces: there are no random numbers"))
            .ok()?;
        let (queue, inbox) = mpsc::channel(MAX_WAITING);
        let tracer = Arc::new(Tracer {
            sample_ratio: settings.sample_ratio,
            next: AtomicU64::new(seed),
            queue,
            tally: Tally::default(),
        });
        let stop = CancellationToken::new();
        let exporter = Exporter {
            inbox,
            collector,
            resource: otlp::Resource::new(settings, seed),
            redactor,
            tracer: Arc::clone(&tracer),
            stop: stop.clone(),
        };
        Some(Self {
            tracer,
            exporter: tokio::spawn(exporter.run()),
            stop,
        })
    }

    pub fn tracer(&self) -> Arc<Tracer> {
        Arc::clone(&self.tracer)
    }

    /// Sends what is left, for as long as [`exporter::FLUSH_LIMIT`] allows.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let flushed = tokio::time::timeout(exporter::FLUSH_LIMIT, &mut self.exporter).await;
        let ended = match flushed {
            Ok(ended) => ended,
            Err(_) => {
                tracing::warn!("the last spans were not taken in time");
                self.exporter.abort();
                self.exporter.await
            }
        };
        if let Err(error) = ended
            && !error.is_cancelled()
        {
            tracing::error!(%error, "the exporter of spans failed");
        }
    }
}
