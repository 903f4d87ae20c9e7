//! Counts one call in the figures of its server, from the request to the end.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use mainstay_core::{failure::FailureKind, message::Method};

use super::{Figures, Series};

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    Ok,
    /// The result has `isError` set.
    ToolError,
    Failed(FailureKind),
}

/// The count of one running call. If it is dropped before [`Count::end`], the call counts as
/// cancelled.
#[derive(Debug)]
pub struct Count {
    figures: Arc<Figures>,
    series: Arc<Series>,
    started_at: Instant,
    is_sent: bool,
    /// True when the end of the call has been counted.
    is_over: bool,
}

impl Count {
    /// Begins the count of a call. `is_offered` returns true if the server has a tool of this name.
    pub fn begin(
        figures: &Arc<Figures>,
        (method, tool): (Method, &str),
        started_at: Instant,
        request_bytes: usize,
        is_offered: impl Fn(&str) -> bool,
    ) -> Self {
        let series = figures.series_of(method, tool, is_offered);
        series
            .request_bytes
            .fetch_add(request_bytes as u64, Relaxed);
        figures.waiting.fetch_add(1, Relaxed);
        Self {
            figures: Arc::clone(figures),
            series,
            started_at,
            is_sent: false,
            is_over: false,
        }
    }

    /// True if the call's tool has its own series. The server then lists the tool.
    pub fn has_own_series(&self) -> bool {
        self.figures.is_series_of_tool(&self.series)
    }

    /// Records that the call was sent to the server. With `false`, records that it was not sent after
    /// all.
    pub fn sent(&mut self, is_sent: bool) {
        if self.is_sent == is_sent {
            return;
        }
        self.is_sent = is_sent;
        let step = if is_sent { 1 } else { -1 };
        self.figures.in_flight.fetch_add(step, Relaxed);
        self.figures.waiting.fetch_sub(step, Relaxed);
    }

    /// Counts the end of the call, its durations and the size of its response.
    pub fn end(mut self, end: CallEnd, queue: Duration, upstream: Duration, response_bytes: usize) {
        self.figures.queue.observe(queue);
        if self.is_sent {
            self.figures.upstream.observe(upstream);
        }
        self.series
            .response_bytes
            .fetch_add(response_bytes as u64, Relaxed);
        self.close(end, queue + upstream);
    }

    fn close(&mut self, end: CallEnd, duration: Duration) {
        self.is_over = true;
        let depth = if self.is_sent {
            &self.figures.in_flight
        } else {
            &self.figures.waiting
        };
        depth.fetch_sub(1, Relaxed);
        match end {
            CallEnd::Ok => {}
            CallEnd::ToolError => {
                self.series.tool_errors.fetch_add(1, Relaxed);
            }
            CallEnd::Failed(kind) => self.series.failures.add(kind),
        }
        // Record the longest duration before the call is counted, so that a reading that includes the
        // call includes its duration.
        self.figures.record_longest(duration);
        self.series.duration.observe(duration);
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        if !self.is_over {
            self.close(
                CallEnd::Failed(FailureKind::Cancelled),
                self.started_at.elapsed(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::STEP;
    use super::*;

    fn begin(figures: &Arc<Figures>) -> Count {
        let method = (Method::PromptsGet, "");
        Count::begin(figures, method, Instant::now(), 7, |_| false)
    }

    #[test]
    fn every_call_leaves_the_queues_empty() {
        let figures = Arc::new(Figures::default());
        let depths = || (figures.waiting(), figures.in_flight());
        let mut count = begin(&figures);
        assert_eq!(depths(), (1, 0));
        count.sent(true);
        count.sent(true);
        assert_eq!(depths(), (0, 1));
        // The call is attempted again.
        count.sent(false);
        assert_eq!(depths(), (1, 0));
        count.sent(true);
        count.end(
            CallEnd::ToolError,
            Duration::ZERO,
            Duration::from_secs(2),
            5,
        );
        assert_eq!(depths(), (0, 0));

        // Dropped calls: one before it was sent, and one after.
        drop(begin(&figures));
        let mut count = begin(&figures);
        count.sent(true);
        drop(count);
        assert_eq!(depths(), (0, 0));

        let (_, _, series) = figures.series().remove(0);
        assert_eq!(series.duration.read().count, 3);
        assert_eq!(series.tool_errors.load(Relaxed), 1);
        let failures: Vec<_> = series.failures.read().collect();
        assert_eq!(failures, [(FailureKind::Cancelled, 2)]);
        assert_eq!(series.request_bytes.load(Relaxed), 21);
        assert_eq!(series.response_bytes.load(Relaxed), 5);
    }

    #[test]
    fn no_share_of_the_calls_took_longer_than_the_longest() {
        let figures = Arc::new(Figures::default());
        let end = |millis| {
            let upstream = Duration::from_millis(millis);
            begin(&figures).end(CallEnd::Ok, Duration::ZERO, upstream, 0);
        };
        let start = tokio::time::Instant::now();
        let p95 = |seconds| {
            let now = start + Duration::from_secs(seconds);
            figures.recent(now).1.p95
        };
        // The bucket above 30 s reaches up to 5 minutes.
        [30_001, 2, 3].into_iter().for_each(end);
        assert_eq!(p95(1), Some(Duration::from_millis(30_001)));
        figures.take_reading(start + STEP);
        end(20_000);
        assert_eq!(p95(6), Some(Duration::from_millis(30_001)));
        figures.take_reading(start + STEP * 2);
        figures.take_reading(start + Duration::from_secs(70));
        [20_000; 3].into_iter().for_each(end);
        assert_eq!(p95(71), Some(Duration::from_secs(20)));
    }
}
