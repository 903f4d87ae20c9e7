//! The measured window, and what is reported of it.
#![expect(
    clippy::cast_precision_loss,
    reason = "counts of calls stay far below 2^52"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::cpu::Spent;

/// The time whose calls count: what completes before it is warm-up.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub start: Instant,
    pub end: Instant,
}

impl Window {
    /// A window of `length` that begins when `warmup` is over.
    pub fn after(warmup: Duration, length: Duration) -> Self {
        let start = Instant::now() + warmup;
        let end = start + length;
        Self { start, end }
    }
}

/// One worker's counted calls.
#[derive(Debug)]
pub struct Latencies {
    window: Window,
    taken: Vec<Duration>,
    /// Warm-up and the last call included.
    made: usize,
}

impl Latencies {
    pub fn new(window: Window) -> Self {
        Self {
            window,
            taken: Vec::new(),
            made: 0,
        }
    }

    /// Counts a call if it completed inside the window; says whether to go on.
    pub fn record(&mut self, began: Instant) -> bool {
        let now = Instant::now();
        self.made += 1;
        if now >= self.window.end {
            return false;
        }
        if now >= self.window.start {
            self.taken.push(now - began);
        }
        true
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: Self) {
        self.taken.extend(other.taken);
        self.made += other.made;
    }
}

/// What is called, and how.
#[derive(Debug, Serialize)]
pub struct Run {
    pub target: String,
    /// Connections, or calls in flight on a pipe.
    pub connections: usize,
    pub seconds: f64,
    pub payload_bytes: usize,
    /// Calls per second that were wanted; 0 is as many as were answered.
    pub rate: f64,
}

/// What a run has yielded.
#[derive(Debug)]
pub struct Measured {
    pub latencies: Latencies,
    /// CPU time inside the window.
    pub spent: Spent,
    /// One line for each worker that met a wrong answer or a failure.
    pub failures: Vec<String>,
}

/// The outcome of one run; times in microseconds.
#[derive(Debug, Serialize)]
pub struct Report {
    pub run: Run,
    pub calls: usize,
    /// Before and after the window, too.
    pub calls_made: usize,
    pub calls_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// By process name: the measured trees and the load generator itself.
    pub cpu_us_per_call: BTreeMap<String, f64>,
    /// Cores that everything else on the machine kept busy: near 0 if the run was undisturbed.
    pub others_cores: f64,
    /// Any makes the run invalid.
    pub failures: Vec<String>,
}

impl Report {
    pub fn new(run: Run, measured: Measured) -> Self {
        let mut taken = measured.latencies.taken;
        taken.sort_unstable();
        let per_call = |spent: Duration| micros(spent) / taken.len().max(1) as f64;
        Self {
            calls: taken.len(),
            calls_made: measured.latencies.made,
            calls_per_s: tidy(taken.len() as f64 / run.seconds),
            p50_us: tidy(micros(percentile(&taken, 50))),
            p99_us: tidy(micros(percentile(&taken, 99))),
            max_us: tidy(micros(percentile(&taken, 100))),
            cpu_us_per_call: measured
                .spent
                .by_name
                .into_iter()
                .map(|(name, spent)| (name, tidy(per_call(spent))))
                .collect(),
            others_cores: tidy(measured.spent.by_others.as_secs_f64() / run.seconds),
            failures: measured.failures,
            run,
        }
    }

    pub fn is_valid(&self) -> bool {
        self.failures.is_empty() && self.calls > 0
    }
}

/// The nearest-rank percentile of sorted values; zero when there are none.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Two decimals: more would be noise in the committed results.
fn tidy(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let taken: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        let at = |percent| percentile(&taken, percent).as_micros();
        assert_eq!((at(50), at(99), at(100)), (100, 198, 200));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
        assert_eq!(percentile(&taken[..1], 50), taken[0]);
    }
}
