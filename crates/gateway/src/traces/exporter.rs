//! Sends the collected spans to the collector.

use std::{sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use mainstay_core::redact::Redactor;
use mainstay_transport::{NotTaken, Webhook};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{call_trace::CallTrace, otlp::Resource, tracer::Tracer};

/// Calls of one POST; more wait for the next. A quarter of a megabyte, and two at most.
const MAX_BATCH: usize = 256;
/// How long spans gather before they are sent.
const WINDOW: Duration = Duration::from_secs(1);
/// The time limit of one POST.
const POST_LIMIT: Duration = Duration::from_secs(10);
/// Tried again after 1, 2 and 4 s: a collector that restarts is back within them, and what comes
/// meanwhile waits.
const RETRIES: usize = 3;
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// A collector may ask to be left alone for longer, but not for so long that everything is lost.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// The time limit for the last spans when Mainstay ends.
pub const FLUSH_LIMIT: Duration = Duration::from_secs(1);

pub struct Exporter {
    pub inbox: mpsc::Receiver<CallTrace>,
    pub collector: Webhook,
    pub resource: Resource,
    pub redactor: Redactor,
    pub tracer: Arc<Tracer>,
    pub stop: CancellationToken,
}

impl Exporter {
    /// Sends until it is stopped, and then what is left.
    pub async fn run(mut self) {
        let (mut batch, mut failures) = (Vec::with_capacity(MAX_BATCH), 0_u64);
        loop {
            self.gather(&mut batch).await;
            if batch.is_empty() {
                return;
            }
            for ended in &mut batch {
                ended.redact(&self.redactor);
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
                    // A collector that is away for a day is told of ten times.
                    if failures.is_power_of_two() {
                        tracing::warn!(%error, failures, "spans were not taken by their collector");
                    }
                }
            }
            batch.clear();
        }
    }

    /// Waits for spans, and a little longer for those that follow; nothing comes of it when Mainstay
    /// ends and none are left.
    async fn gather(&mut self, batch: &mut Vec<CallTrace>) {
        tokio::select! {
            biased;
            // The tracer holds a sender, too, so that there is always a next.
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

    /// Posts until it is taken, or has been refused too often. Once Mainstay ends nothing is waited
    /// for any more: what was refused is tried once more, at once.
    async fn post(&self, request: &str) -> Result<(), NotTaken> {
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

/// How long a collector is left alone: as it asks, within bounds.
fn wait(delay: Duration, asked: Option<Duration>) -> Duration {
    asked.map_or(delay, |asked| asked.clamp(delay, LONGEST_DELAY.max(delay)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_left_alone_as_it_asks() {
        for (asked, expected) in [(None, 2), (Some(0), 2), (Some(7), 7), (Some(86_400), 60)] {
            let waited = wait(Duration::from_secs(2), asked.map(Duration::from_secs));
            assert_eq!(waited, Duration::from_secs(expected), "{asked:?}");
        }
    }
}
