//! The calls of a server in the last minute, and a series of the last five minutes.
//!
//! A window adds no work to calls. One task reads the counters of all servers every [`STEP`]
//! (`readings`). The difference between two readings is the number of calls between them.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use super::histogram::{BUCKETS, quantile};

/// The length of the window.
const WINDOW: Duration = Duration::from_mins(1);

/// Interval of readings. A window is at most this much longer than a minute.
pub const STEP: Duration = Duration::from_secs(5);

/// Maximum number of points in a series: one for each [`STEP`] of five minutes.
const MAX_POINTS: usize = 60;

/// Counts of a server's calls, either since the server was added or in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub calls: u64,
    /// Failures, and results with `isError` set.
    pub errors: u64,
    /// Number of calls in each bucket of durations.
    pub(super) durations: [u64; BUCKETS],
    /// Duration of the longest call that ended after the last reading.
    pub(super) longest_micros: u64,
}

impl Totals {
    /// The counts since an earlier reading. A counter can be lower than before, because the counters
    /// of a removed tool are dropped.
    fn since(&self, earlier: &Self) -> Self {
        let mut durations = self.durations;
        for (now, then) in durations.iter_mut().zip(earlier.durations) {
            *now = now.saturating_sub(then);
        }
        Self {
            calls: durations.iter().sum(),
            errors: self.errors.saturating_sub(earlier.errors),
            durations,
            longest_micros: self.longest_micros,
        }
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        for (sum, count) in self.durations.iter_mut().zip(other.durations) {
            *sum += count;
        }
        self.longest_micros = self.longest_micros.max(other.longest_micros);
    }

    /// The duration that this share of the calls did not exceed. Estimated from the buckets, and at
    /// most the duration of the longest call.
    fn quantile(&self, share: f64) -> Option<Duration> {
        let longest = Duration::from_micros(self.longest_micros);
        quantile(&self.durations, share).map(|time| time.min(longest))
    }

    const fn has_successes(&self) -> bool {
        self.calls > self.errors
    }
}

/// The calls of a span of time that ends now.
#[derive(Clone, Debug, PartialEq)]
pub struct Recent {
    /// Length of the span: about a minute, or the time since the server was added if that is shorter.
    pub span: Duration,
    pub calls: u64,
    pub errors: u64,
    pub p50: Option<Duration>,
    pub p95: Option<Duration>,
    /// Average over the last five to ten seconds.
    pub calls_per_second: f64,
    /// Time of the last answer without an error, rounded down to the start of its step.
    pub answered: Option<Instant>,
    /// The complete steps of the last five minutes, oldest first. Starts with the first step that has
    /// calls.
    pub series: Vec<Point>,
}

/// The calls that ended in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub calls: u32,
    /// The 95th percentile of the calls' durations. Zero without calls.
    pub p95_micros: u32,
}

impl Point {
    fn new(counted: &Totals) -> Self {
        let p95 = counted.quantile(0.95).unwrap_or_default();
        Self {
            calls: u32::try_from(counted.calls).unwrap_or(u32::MAX),
            p95_micros: u32::try_from(p95.as_micros()).unwrap_or(u32::MAX),
        }
    }
}

/// Readings of one server's counters. Allocates memory only if the server had calls in the last five
/// minutes.
#[derive(Debug)]
pub struct CallWindow {
    /// Time at which the counters were zero.
    since: Instant,
    /// Time and values of the last reading.
    read_at: Instant,
    totals: Totals,
    /// The start and the calls of each step of the last minute, oldest first. A step ends where the
    /// next step starts. The calls before the first step are more than a minute ago.
    steps: VecDeque<(Instant, Totals)>,
    /// Points of the last five minutes, oldest first. The first point has calls.
    series: VecDeque<Point>,
    answered: Option<Instant>,
}

impl Default for CallWindow {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            since: now,
            read_at: now,
            totals: Totals::default(),
            steps: VecDeque::new(),
            series: VecDeque::new(),
            answered: None,
        }
    }
}

impl CallWindow {
    /// Adds a reading. Must be called every [`STEP`].
    pub fn read(&mut self, now: Instant, totals: &Totals) {
        let counted = totals.since(&self.totals);
        let started_at = std::mem::replace(&mut self.read_at, now);
        self.totals = *totals;
        if self.series.is_empty() && counted.calls == 0 {
            return;
        }
        if counted.has_successes() {
            self.answered = Some(started_at);
        }
        self.steps.push_back((started_at, counted));
        let is_over = |(end, _): &(Instant, Totals)| now.saturating_duration_since(*end) >= WINDOW;
        while self.steps.get(1).is_some_and(is_over) {
            self.steps.pop_front();
        }
        self.series.push_back(Point::new(&counted));
        if self.series.len() > MAX_POINTS {
            self.series.pop_front();
        }
        while self.series.front().is_some_and(|point| point.calls == 0) {
            self.series.pop_front();
        }
        if self.series.is_empty() {
            (self.steps, self.series) = Default::default();
        }
    }

    /// The calls of the last minute. `totals` are the counts at `now`.
    pub fn recent(&self, now: Instant, totals: &Totals) -> Recent {
        let since = |at: Instant| now.saturating_duration_since(at);
        let mut counted = totals.since(&self.totals);
        let answered = counted.has_successes().then_some(self.read_at);
        let mut started_at = self.read_at;
        let mut last_calls = None;
        for (step_started_at, step) in self.steps.iter().rev() {
            if since(started_at) >= WINDOW {
                break;
            }
            if since(started_at) >= STEP {
                last_calls.get_or_insert((counted.calls, since(started_at)));
            }
            counted.add(step);
            started_at = *step_started_at;
        }
        let (last_calls, last_span) = last_calls.unwrap_or((counted.calls, since(started_at)));
        Recent {
            // Old steps without calls are not stored, but the span includes them.
            span: since(started_at).max(WINDOW).min(since(self.since)),
            calls: counted.calls,
            errors: counted.errors,
            p50: counted.quantile(0.5),
            p95: counted.quantile(0.95),
            // Divide by at least one step, so that a call in the first millisecond does not count as
            // a thousand calls per second.
            calls_per_second: count(last_calls) / last_span.max(STEP).as_secs_f64(),
            answered: answered.or(self.answered),
            series: self.series.iter().copied().collect(),
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

    const SECOND: Duration = Duration::from_secs(1);

    /// Totals of calls that all have the same duration. A tenth of the calls are errors.
    fn totals(calls: u64) -> Totals {
        let mut durations = [0; BUCKETS];
        durations[3] = calls;
        Totals {
            calls,
            errors: calls / 10,
            durations,
            longest_micros: 1000,
        }
    }

    /// A window with a clock. It takes a reading every five seconds.
    struct Ticked {
        window: CallWindow,
        start: Instant,
        seconds: u32,
    }

    impl Ticked {
        fn new() -> Self {
            let window = CallWindow::default();
            Self {
                start: window.since,
                window,
                seconds: 0,
            }
        }

        fn now(&self) -> Instant {
            self.start + SECOND * self.seconds
        }

        /// Advances the clock by a second. `calls` is the total number of calls at its end.
        fn second(&mut self, calls: u64) -> Recent {
            self.seconds += 1;
            if self.seconds.is_multiple_of(5) {
                self.window.read(self.now(), &totals(calls));
            }
            self.window.recent(self.now(), &totals(calls))
        }
    }

    #[test]
    fn a_window_is_a_minute_that_moves() {
        let mut ticked = Ticked::new();
        // Ten calls in each second.
        for second in 1..=400 {
            let recent = ticked.second(second * 10);
            let rate = recent.calls_per_second;
            let expected = if second < 5 {
                count(second) * 2.0
            } else {
                10.0
            };
            assert!((rate - expected).abs() < 1e-9, "{second}: {rate}");
            let covered = recent.span.as_secs();
            assert!(covered == second.min(covered) && covered < 65, "{covered}");
            assert!(second < 60 || covered >= 60, "{second}: {covered}");
            assert_eq!((recent.calls, recent.errors), (covered * 10, covered));
            let points = usize::try_from(second / 5).unwrap_or_default();
            assert_eq!(recent.series.len(), points.min(MAX_POINTS));
            assert!(recent.series.iter().all(|point| point.calls == 50));
            assert!(ticked.window.steps.len() <= 13);
        }
        // Ten seconds after the last call, the rate is zero.
        for second in 401..=411 {
            let recent = ticked.second(4000);
            assert!(second < 411 || recent.calls_per_second == 0.0);
        }
    }

    /// All calls of the last minute count, however they are distributed over the minute.
    #[test]
    fn a_burst_and_a_rest_are_calls_of_the_last_minute() {
        let mut ticked = Ticked::new();
        for _ in 0..98 {
            let recent = ticked.second(0);
            assert_eq!((recent.calls, recent.series), (0, Vec::new()));
        }
        for second in 0..60 {
            let recent = ticked.second(50);
            assert_eq!((recent.calls, recent.errors), (50, 5), "{second}");
            assert!((60..65).contains(&recent.span.as_secs()), "{second}");
        }
        for _ in 0..5 {
            ticked.second(50);
        }
        assert_eq!(ticked.second(50).calls, 0);
    }

    /// The first query returns the whole minute and the whole series, because readings do not depend
    /// on queries.
    #[test]
    fn nobody_has_to_ask_for_figures_to_be_there() {
        let mut ticked = Ticked::new();
        for second in 1..=120 {
            let calls = if second > 60 { 7 } else { 0 };
            ticked.seconds = second;
            if second.is_multiple_of(5) {
                ticked.window.read(ticked.now(), &totals(calls));
            }
        }
        let recent = ticked.window.recent(ticked.now(), &totals(7));
        assert_eq!((recent.span, recent.calls), (WINDOW, 7));
        let counts: Vec<_> = recent.series.iter().map(|point| point.calls).collect();
        assert_eq!(counts, [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(recent.series[0].p95_micros > 500);
        assert_eq!(recent.series[1].p95_micros, 0);
        // The start of the step with the calls.
        assert_eq!(recent.answered, Some(ticked.start + WINDOW));
    }

    #[test]
    fn what_is_not_called_takes_no_memory() {
        let mut ticked = Ticked::new();
        for _ in 0..100 {
            ticked.second(0);
        }
        let capacities = |window: &CallWindow| (window.steps.capacity(), window.series.capacity());
        assert_eq!(capacities(&ticked.window), (0, 0));
        for _ in 0..300 {
            ticked.second(1);
            assert!(ticked.seconds < 105 || ticked.window.series[0].calls == 1);
        }
        for _ in 0..10 {
            ticked.second(1);
        }
        assert_eq!(capacities(&ticked.window), (0, 0));
        // The span is a whole minute, although the window stores no steps.
        let recent = ticked.second(4);
        assert_eq!((recent.span, recent.calls), (WINDOW, 3));
    }

    /// When the counters of a removed tool disappear, at most the calls of that step are lost.
    #[test]
    fn counters_that_go_back_lose_a_step_at_most() {
        let mut ticked = Ticked::new();
        for _ in 0..10 {
            ticked.second(100);
        }
        for _ in 0..5 {
            assert_eq!(ticked.second(20).calls, 100);
        }
        assert_eq!(ticked.second(23).calls, 103);
    }

    /// A late reading makes the step longer. No call is lost.
    #[test]
    fn a_late_reading_is_a_long_step() {
        let mut window = CallWindow::default();
        let start = window.since;
        window.read(start + SECOND * 5, &totals(10));
        window.read(start + SECOND * 50, &totals(30));
        let recent = window.recent(start + SECOND * 64, &totals(30));
        assert_eq!((recent.calls, recent.span), (30, SECOND * 64));
        let recent = window.recent(start + SECOND * 66, &totals(30));
        assert_eq!((recent.calls, recent.span), (20, SECOND * 61));
    }

    /// The reported time of the last answer is never later than the answer.
    #[test]
    fn only_calls_without_errors_are_answered() {
        let mut ticked = Ticked::new();
        let failed = Totals {
            errors: 1,
            ..totals(1)
        };
        let recent = ticked.window.recent(ticked.now() + SECOND, &failed);
        assert_eq!((recent.calls, recent.answered), (1, None));
        ticked.seconds = 5;
        ticked.window.read(ticked.now(), &failed);
        let answered = |ticked: &Ticked, calls| {
            let now = ticked.now() + SECOND * 3;
            let totals = Totals {
                errors: 1,
                ..totals(calls)
            };
            ticked.window.recent(now, &totals).answered
        };
        assert_eq!(answered(&ticked, 1), None);
        assert_eq!(answered(&ticked, 2), Some(ticked.now()));
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
        let time_of = |share| quantile(&counts, share).expect("there were calls");
        assert!(
            (500..=1000).contains(&time_of(0.5).as_micros()),
            "{:?}",
            time_of(0.5)
        );
        assert!(
            (25..=50).contains(&time_of(0.95).as_millis()),
            "{:?}",
            time_of(0.95)
        );
        // The last bucket has no bound, so its lower bound is reported.
        histogram.observe(Duration::from_hours(1));
        let mut counts = [0; BUCKETS];
        histogram.add_to(&mut counts);
        assert_eq!(quantile(&counts, 1.0), Some(Duration::from_mins(5)));
        assert_eq!(quantile(&[0; BUCKETS], 0.5), None);
    }
}
