//! Decides which calls are recorded, gives ids, and queues the calls that have ended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mainstay_core::{
    record::TraceId,
    trace::{SpanId, TraceContext},
};
use tokio::sync::mpsc;

use super::call_trace::CallTrace;

/// Counts of spans since the start.
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

    /// Decides whether a call with this context is recorded, and returns its trace and its parent. The origin of
    /// the trace decides for all of it (OpenTelemetry, `parentbased_traceidratio`).
    pub fn sample(&self, parent: Option<TraceContext>) -> Option<(TraceId, Option<SpanId>)> {
        if let Some(parent) = parent {
            return parent.sampled.then_some((parent.trace, Some(parent.span)));
        }
        let (high, low) = (self.number(), self.number());
        let trace = u128::from(high) << 64 | u128::from(low);
        // From 0 to just below 1, as random as the number.
        let lot = f64::from((low >> 32) as u32) / 2_f64.powi(32);
        (lot < self.sample_ratio).then_some((TraceId(trace.to_be_bytes()), None))
    }

    pub fn span_id(&self) -> SpanId {
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

    /// Queues a call that has ended. If the queue is full, its spans are counted as dropped.
    pub fn take(&self, ended: CallTrace) {
        let spans = ended.spans();
        if self.queue.try_send(ended).is_err() {
            self.tally.dropped.fetch_add(spans, Relaxed);
        }
    }
}
