//! The tracer: decides which calls are traced, creates ids, and queues the spans of ended calls.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mainstay_core::{
    record::TraceId,
    trace::{SpanId, TraceContext},
};
use tokio::sync::mpsc;

use super::call_trace::CallTrace;

/// Counts of spans since Mainstay started.
#[derive(Debug, Default)]
pub struct Tally {
    pub exported: AtomicU64,
    /// Spans that did not fit into the queue, or that the collector did not accept.
    pub dropped: AtomicU64,
}

/// Samples calls, creates ids, and queues ended calls for the exporter.
#[derive(Debug)]
pub struct Tracer {
    /// The share of calls that are traced, among the calls without a trace context.
    sample_ratio: f64,
    /// The state of the id generator.
    next: AtomicU64,
    queue: mpsc::Sender<CallTrace>,
    pub tally: Tally,
}

impl Tracer {
    pub fn new(sample_ratio: f64, seed: u64, queue: mpsc::Sender<CallTrace>) -> Self {
        Self {
            sample_ratio,
            next: AtomicU64::new(seed),
            queue,
            tally: Tally::default(),
        }
    }

    /// Decides whether a call with this trace context is traced. Returns the ids of its trace and of
    /// its parent span. A call with a context follows the decision in the context (OpenTelemetry,
    /// `parentbased_traceidratio`).
    pub fn sample(&self, parent: Option<TraceContext>) -> Option<(TraceId, Option<SpanId>)> {
        if let Some(parent) = parent {
            return parent.sampled.then_some((parent.trace, Some(parent.span)));
        }
        let (high, low) = (self.number(), self.number());
        let trace = u128::from(high) << 64 | u128::from(low);
        // A random number in [0, 1).
        let random_share = f64::from((low >> 32) as u32) / 2_f64.powi(32);
        (random_share < self.sample_ratio).then_some((TraceId(trace.to_be_bytes()), None))
    }

    pub fn span_id(&self) -> SpanId {
        SpanId(self.number())
    }

    /// A random number for ids, without a lock and without a system call: SplitMix64 (Steele, Lea,
    /// Flood: "Fast Splittable Pseudorandom Number Generators"). Never 0, which is not a valid id.
    fn number(&self) -> u64 {
        let mut number = self.next.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)).max(1)
    }

    /// Queues an ended call. If the queue is full, its spans are counted as dropped.
    pub fn take(&self, call: CallTrace) {
        let spans = call.spans();
        if self.queue.try_send(call).is_err() {
            self.tally.dropped.fetch_add(spans, Relaxed);
        }
    }
}
