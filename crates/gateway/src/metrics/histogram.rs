//! A histogram of durations without locks. The histograms of the `prometheus-client` crate lock a
//! mutex for each observation.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// The upper bounds of the buckets in microseconds. They range from Mainstay's own overhead to the
/// timeouts of slow tools.
const BOUNDS: [u32; 16] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    5_000_000,
    30_000_000,
    300_000_000,
];

/// Number of buckets. The last bucket has no upper bound.
pub(super) const BUCKETS: usize = BOUNDS.len() + 1;

/// The distribution of observed durations.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    /// The sum in microseconds. Overflows after half a million years of calls.
    sum: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramReading {
    /// Each bucket's upper bound in seconds, and its number of observations. Not cumulative.
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    /// The sum of all observations, in seconds.
    pub sum: f64,
}

impl Histogram {
    pub fn observe(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| u64::from(*bound) < micros);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(micros, Relaxed);
    }

    /// Adds the counts of the buckets to `counts`.
    pub(super) fn add_to(&self, counts: &mut [u64; BUCKETS]) {
        for (sum, bucket) in counts.iter_mut().zip(&self.buckets) {
            *sum += bucket.load(Relaxed);
        }
    }

    pub fn read(&self) -> HistogramReading {
        let bounds = BOUNDS.iter().map(|micros| f64::from(*micros) / 1e6);
        let counts = self.buckets.iter().map(|count| count.load(Relaxed));
        let buckets: Vec<_> = bounds.chain([f64::INFINITY]).zip(counts).collect();
        HistogramReading {
            // The sum of the buckets, so that the count always agrees with them.
            count: buckets.iter().map(|(_, count)| count).sum(),
            sum: Duration::from_micros(self.sum.load(Relaxed)).as_secs_f64(),
            buckets,
        }
    }
}

/// The duration that this share of the observations did not exceed, if they are distributed evenly
/// within each bucket. `None` without observations.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate of at most five minutes"
)]
pub(super) fn quantile(counts: &[u64; BUCKETS], share: f64) -> Option<Duration> {
    let all: u64 = counts.iter().sum();
    let target = all as f64 * share;
    let (mut below, mut from) = (0, 0.0);
    for (count, bound) in counts.iter().zip(BOUNDS) {
        let (bound, inside) = (f64::from(bound), *count as f64);
        if *count > 0 && below as f64 + inside >= target {
            let part = (target - below as f64) / inside;
            let micros = from + (bound - from) * part.clamp(0.0, 1.0);
            return Some(Duration::from_micros(micros as u64));
        }
        below += count;
        from = bound;
    }
    let last = BOUNDS.last().copied().unwrap_or_default();
    (all > 0).then(|| Duration::from_micros(last.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::default();
        for micros in [0, 100, 101, 300_000_000, 300_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let read = histogram.read();
        let count_of = |index: usize| read.buckets[index].1;
        assert_eq!(
            (count_of(0), count_of(1), count_of(15), count_of(16)),
            (2, 1, 1, 1)
        );
        assert_eq!(read.count, 5);
        assert!((read.sum - 600.000_202).abs() < 1e-9, "{}", read.sum);
    }
}
