//! The calls of a server in the last minute, from what was counted so far. Calls pay nothing for it: the
//! counters are read when somebody asks, and the difference to an earlier reading is what happened since.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use super::histogram::{BUCKETS, quantile};

/// The span that figures are about.
pub const WINDOW: Duration = Duration::from_mins(1);

/// Between two readings that are kept. A window is longer than a minute by no more than this.
const STEP: Duration = Duration::from_secs(5);

/// What was counted of a server's calls since it has figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub calls: u64,
    /// Failures, and results that say that they are errors.
    pub errors: u64,
    /// Calls by their duration.
    pub(super) durations: [u64; BUCKETS],
}

impl Totals {
    /// What was counted since an earlier reading. `None` if counters went back: those of tools that are
    /// gone go with them.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let mut durations = self.durations;
        for (now, then) in durations.iter_mut().zip(earlier.durations) {
            *now = now.checked_sub(then)?;
        }
        Some(Self {
            calls: self.calls.checked_sub(earlier.calls)?,
            errors: self.errors.saturating_sub(earlier.errors),
            durations,
        })
    }
}

/// What happened in a span that ends now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recent {
    /// How long ago the span began: zero at the first reading, then up to a minute.
    pub span: Duration,
    pub calls: u64,
    pub errors: u64,
    pub p50: Option<Duration>,
    pub p95: Option<Duration>,
    /// Of the last five to ten seconds, or of the whole span if it is shorter.
    pub calls_per_second: f64,
}

/// Readings of one server's counters.
#[derive(Debug, Default)]
pub struct Window(VecDeque<(Instant, Totals)>);

impl Window {
    /// Takes a reading, and compares it with the earlier ones.
    pub fn read(&mut self, now: Instant, totals: &Totals) -> Recent {
        let went_back = |(_, last): &(Instant, Totals)| totals.since(last).is_none();
        if self.0.back().is_some_and(went_back) {
            self.0.clear();
        }
        let is_past = |reading: Option<&(Instant, Totals)>| {
            reading.is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW)
        };
        // The newest of those that are a minute old is where the window begins.
        while is_past(self.0.get(1)) {
            self.0.pop_front();
        }
        // Nobody has asked for a while: what happened since is not of the last minute.
        let is_stale =
            |(at, _): &(Instant, Totals)| now.saturating_duration_since(*at) >= WINDOW + STEP;
        if self.0.front().is_some_and(is_stale) {
            self.0.pop_front();
        }
        let recent = self.recent(now, totals);
        let is_due = |(at, _): &(Instant, Totals)| now.saturating_duration_since(*at) >= STEP;
        if self.0.back().is_none_or(is_due) {
            self.0.push_back((now, *totals));
        }
        recent
    }

    fn recent(&self, now: Instant, totals: &Totals) -> Recent {
        let since = |(at, then): &(Instant, Totals)| {
            let span = now.saturating_duration_since(*at);
            totals.since(then).map(|counted| (span, counted))
        };
        let (span, counted) = self.0.front().and_then(since).unwrap_or_default();
        let mut newest_first = self.0.iter().rev().filter_map(since);
        let last = newest_first.find(|(span, _)| *span >= STEP);
        let (last_span, last) = last.unwrap_or((span, counted));
        Recent {
            span,
            calls: counted.calls,
            errors: counted.errors,
            p50: quantile(&counted.durations, 0.5),
            p95: quantile(&counted.durations, 0.95),
            calls_per_second: if last_span.is_zero() {
                0.0
            } else {
                count(last.calls) / last_span.as_secs_f64()
            },
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "nobody makes 2^52 calls in ten seconds"
)]
fn count(calls: u64) -> f64 {
    calls as f64
}

#[cfg(test)]
mod tests {
    use super::super::Histogram;
    use super::*;

    fn totals(calls: u64) -> Totals {
        let mut durations = [0; BUCKETS];
        durations[3] = calls;
        Totals {
            calls,
            errors: calls / 10,
            durations,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_is_a_minute_that_moves() {
        let mut window = Window::default();
        let start = Instant::now();
        let first = window.read(start, &totals(1000));
        assert_eq!((first.span, first.calls), (Duration::ZERO, 0));
        assert_eq!((first.p50, first.calls_per_second), (None, 0.0));
        // Ten calls in each second.
        for second in 1..=200 {
            let now = start + Duration::from_secs(second);
            let recent = window.read(now, &totals(1000 + second * 10));
            let rate = recent.calls_per_second;
            assert!((rate - 10.0).abs() < 1e-9, "{second}: {rate}");
            let covered = recent.span.as_secs();
            assert!(covered == second.min(covered) && covered < 65, "{covered}");
            assert!(second < 60 || covered >= 60, "{second}: {covered}");
            assert_eq!((recent.calls, recent.errors), (covered * 10, covered));
            assert!(window.0.len() <= 15, "{}", window.0.len());
        }
        // The rate follows in ten seconds.
        for second in 201..=211 {
            let recent = window.read(start + Duration::from_secs(second), &totals(3000));
            assert!(second < 211 || recent.calls_per_second == 0.0);
        }
        // Nobody has asked for an hour.
        let later = start + Duration::from_hours(1);
        let recent = window.read(later, &totals(90_000));
        assert_eq!((recent.span, recent.calls), (Duration::ZERO, 0));
        // A server with that name that is another one.
        let recent = window.read(later + STEP, &totals(1));
        assert_eq!((recent.span, recent.calls), (Duration::ZERO, 0));
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let histogram = Histogram::default();
        for _ in 0..90 {
            histogram.observe(Duration::from_micros(700));
        }
        for _ in 0..10 {
            histogram.observe(Duration::from_millis(40));
        }
        let mut counts = [0; BUCKETS];
        histogram.add_to(&mut counts);
        let of = |share| quantile(&counts, share).expect("there were calls");
        assert!((500..=1000).contains(&of(0.5).as_micros()), "{:?}", of(0.5));
        assert!((25..=50).contains(&of(0.95).as_millis()), "{:?}", of(0.95));
        // What has no bound is told by the last one.
        histogram.observe(Duration::from_hours(1));
        let mut counts = [0; BUCKETS];
        histogram.add_to(&mut counts);
        assert_eq!(quantile(&counts, 1.0), Some(Duration::from_mins(5)));
        assert_eq!(quantile(&[0; BUCKETS], 0.5), None);
    }
}
