//! The exporter: sends spans to the collector in batches.

use std::{sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use mainstay_core::redact::Redactor;
use mainstay_transport::{Webhook, WebhookError};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{call_trace::CallTrace, otlp::OtlpResource, tracer::Tracer};

/// Maximum number of calls in one POST. The body then has about 250 kB, and at most 2 MB.
const MAX_BATCH: usize = 256;
/// Time for which spans are gathered before they are sent.
const WINDOW: Duration = Duration::from_secs(1);
/// The time limit of one POST.
const POST_LIMIT: Duration = Duration::from_secs(10);
/// Retries follow after 1, 2 and 4 s, which suffices for a collector that restarts. New spans wait
/// until the retries have ended.
const RETRIES: usize = 3;
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay that a collector may request. During the delay the queue may overflow.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// The time limit for the last spans at shutdown.
pub const FLUSH_LIMIT: Duration = Duration::from_secs(1);

pub struct Exporter {
    pub inbox: mpsc::Receiver<CallTrace>,
    pub collector: Webhook,
    pub resource: OtlpResource,
    pub redactor: Redactor,
    pub tracer: Arc<Tracer>,
    pub stop: CancellationToken,
}

impl Exporter {
    /// Sends spans until the stop, and then the remaining spans.
    pub async fn run(mut self) {
        let (mut batch, mut failures) = (Vec::with_capacity(MAX_BATCH), 0_u64);
        loop {
            self.gather(&mut batch).await;
            if batch.is_empty() {
                return;
            }
            for call in &mut batch {
                call.redact(&self.redactor);
            }
            let spans: u64 = batch.iter().map(CallTrace::spans).sum();
            let tally = &self.tracer.tally;
            match self.post(&self.resource.request(&batch)).await {
                Ok(()) => {
                    tally.exported.fetch_add(spans, Relaxed);
                    failures = 0;
                }
                Err(error) => {
                    tally.dropped.fetch_add(spans, Relaxed);
                    failures += 1;
                    // Log only some failures, so that an outage of a day has about ten log lines.
                    if failures.is_power_of_two() {
                        tracing::warn!(%error, failures, "spans were not taken by their collector");
                    }
                }
            }
            batch.clear();
        }
    }

    /// Waits for a first span, and then up to [`WINDOW`] for further spans. The batch stays empty if
    /// the exporter is stopped and no spans are left.
    async fn gather(&mut self, batch: &mut Vec<CallTrace>) {
        tokio::select! {
            biased;
            // The channel never closes, because the exporter's tracer holds a sender.
            1.. = self.inbox.recv_many(batch, MAX_BATCH) => {}
            () = self.stop.cancelled() => return,
        }
        let until = Instant::now() + WINDOW;
        while batch.len() < MAX_BATCH {
            let room = MAX_BATCH - batch.len();
            tokio::select! {
                biased;
                1.. = self.inbox.recv_many(batch, room) => {}
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    /// Posts until the collector accepts, or until the retries are used up. A stop ends the current
    /// delay: the POST is then repeated at once, and for the last time.
    async fn post(&self, request: &str) -> Result<(), WebhookError> {
        let mut delays = ExponentialBuilder::default()
            .with_min_delay(FIRST_DELAY)
            .with_max_times(RETRIES)
            .with_jitter()
            .build();
        loop {
            let is_last = self.stop.is_cancelled();
            let Err(error) = self.collector.post(request, POST_LIMIT).await else {
                return Ok(());
            };
            let Some(delay) = delays.next().filter(|_| error.is_passing() && !is_last) else {
                return Err(error);
            };
            tokio::select! {
                () = tokio::time::sleep(wait(delay, error.retry_after())) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }
}

/// The delay before the next POST: the delay that the collector has requested, within limits.
fn wait(delay: Duration, requested: Option<Duration>) -> Duration {
    requested.map_or(delay, |requested| {
        requested.clamp(delay, LONGEST_DELAY.max(delay))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_left_alone_as_it_asks() {
        for (requested, expected) in [(None, 2), (Some(0), 2), (Some(7), 7), (Some(86_400), 60)] {
            let waited = wait(Duration::from_secs(2), requested.map(Duration::from_secs));
            assert_eq!(waited, Duration::from_secs(expected), "{requested:?}");
        }
    }
}
