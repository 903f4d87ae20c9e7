//! A histogram of times made of atomics. Those of the `prometheus-client` crate take a lock for each
//! observation.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// The upper bounds of the buckets, in microseconds: from what Mainstay itself takes to the time limits
/// of slow tools.
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

/// How long things took.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The last one has no bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// In microseconds: half a million years of calls.
    sum: AtomicU64,
}

/// A histogram as of one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Bound in seconds, and how many are within it and above the one before.
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    /// In seconds.
    pub sum: f64,
}

impl Histogram {
    pub fn observe(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| u64::from(*bound) < micros);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(micros, Relaxed);
    }

    pub fn read(&self) -> Times {
        let bounds = BOUNDS.iter().map(|micros| f64::from(*micros) / 1e6);
        let counts = self.buckets.iter().map(|count| count.load(Relaxed));
        let buckets: Vec<_> = bounds.chain([f64::INFINITY]).zip(counts).collect();
        Times {
            // The sum of the buckets, so that the two never differ.
            count: buckets.iter().map(|(_, count)| count).sum(),
            sum: Duration::from_micros(self.sum.load(Relaxed)).as_secs_f64(),
            buckets,
        }
    }
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
        let of = |index: usize| read.buckets[index].1;
        assert_eq!((of(0), of(1), of(15), of(16)), (2, 1, 1, 1));
        assert_eq!(read.count, 5);
        assert!((read.sum - 600.000_202).abs() < 1e-9, "{}", read.sum);
    }
}
