//! Sends the collected spans to the collector.

use std::{sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use mainstay_core::redact::Redactor;
use mainstay_transport::{Webhook, WebhookError};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{call_trace::CallTrace, otlp::OtlpResource, tracer::Tracer};

/// Maximum number of calls in one POST. A POST has a quarter of a megabyte, at most two. Further
/// calls wait for the next one.
const MAX_BATCH: usize = 256;
/// Time that spans are gathered before they are sent.
const WINDOW: Duration = Duration::from_secs(1);
/// The time limit of one POST.
const POST_LIMIT: Duration = Duration::from_secs(10);
/// Retries follow after 1, 2 and 4 s, which suffices for a collector that restarts. New spans wait
/// meanwhile.
const RETRIES: usize = 3;
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay that a collector may request, so that not too many spans are lost.
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
    /// Sends spans until it is stopped, and then the remaining ones.
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
                    // Log a collector that is away for a day only about ten times.
                    if failures.is_power_of_two() {
                        tracing::warn!(%error, failures, "spans were not taken by their collector");
                    }
                }
            }
            batch.clear();
        }
    }

    /// Waits for spans, and a little longer for further ones. The batch stays empty at shutdown if
    /// no spans are left.
    async fn gather(&mut self, batch: &mut Vec<CallTrace>) {
        tokio::select! {
            biased;
            // The tracer holds a sender, too, so the channel never closes.
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

    /// Posts until the collector accepts, or has refused too often. After the stop there are no
    /// more delays: a refused POST is repeated only once, at once.
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

/// The delay before the next POST: as the collector requests, within limits.
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
