//! Latencies on a logarithmic scale with eight steps to each doubling, so that a percentile is
//! precise to 6 %. A histogram occupies a few dozen bytes in the database, and histograms can be
//! added.

use std::collections::BTreeMap;

/// Steps to a doubling, as a power of two.
const STEP_BITS: u32 = 3;
const STEPS: u64 = 1 << STEP_BITS;

/// Number of calls by latency step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(BTreeMap<u16, u64>);

impl Histogram {
    pub fn add(&mut self, micros: u64) {
        *self.0.entry(step(micros)).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for (step, count) in &other.0 {
            *self.0.entry(*step).or_default() += count;
        }
    }

    /// The percentile of the latencies, in microseconds. 0 without calls.
    pub fn percentile(&self, percent: u64) -> u64 {
        let total: u64 = self.0.values().sum();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut passed_calls = 0;
        for (step, count) in &self.0 {
            passed_calls += count;
            if passed_calls >= rank {
                return middle(*step);
            }
        }
        0
    }

    /// Encodes pairs of numbers: the distance to the previous step, and the number of calls. Each
    /// number is encoded in groups of seven bits, the lowest first.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 3);
        let mut previous_step = 0;
        for (step, count) in &self.0 {
            put(&mut bytes, u64::from(*step - previous_step));
            put(&mut bytes, *count);
            previous_step = *step;
        }
        bytes
    }

    /// Decodes a histogram. `None` for bytes that [`Self::encode`] cannot have written.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut steps = BTreeMap::new();
        let mut step = 0_u16;
        while !bytes.is_empty() {
            step = step.checked_add(u16::try_from(take(&mut bytes)?).ok()?)?;
            steps.insert(step, take(&mut bytes)?);
        }
        Some(Self(steps))
    }
}

/// The step of a latency. Below eight microseconds, each microsecond has its own step.
fn step(micros: u64) -> u16 {
    let octave = (micros | 1).ilog2().saturating_sub(STEP_BITS);
    (u64::from(octave) * STEPS + (micros >> octave)) as u16
}

fn middle(step: u16) -> u64 {
    let step = u64::from(step);
    let octave = (step / STEPS).saturating_sub(1);
    let lowest_latency = (step - octave * STEPS) << octave;
    lowest_latency + (1 << octave) / 2
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_step_is_within_a_sixteenth(micros in 0..1_u64 << 50) {
            let estimate = middle(step(micros));
            prop_assert!(estimate.abs_diff(micros) * 16 <= micros.max(1), "{} {}", micros, estimate);
        }

        #[test]
        fn steps_grow(micros in 0..1_u64 << 50) {
            prop_assert!(step(micros) <= step(micros + 1));
            prop_assert!(step(micros + 1) - step(micros) <= 1);
        }

        #[test]
        fn a_histogram_is_read_back(times in proptest::collection::vec(0..1_u64 << 40, 0..200)) {
            let mut histogram = Histogram::default();
            for time in &times {
                histogram.add(*time);
            }
            prop_assert_eq!(Histogram::decode(&histogram.encode()), Some(histogram));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let _ = Histogram::decode(&bytes);
        }
    }

    #[test]
    fn percentiles_are_precise() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(50), 0);
        (1..=1000).for_each(|micros| histogram.add(micros));
        let is_close = |estimate: u64, exact: u64| estimate.abs_diff(exact) * 16 <= exact;
        assert!(is_close(histogram.percentile(50), 500));
        assert!(is_close(histogram.percentile(99), 990));
        let mut doubled_histogram = histogram.clone();
        doubled_histogram.merge(&histogram);
        assert_eq!(doubled_histogram.percentile(95), histogram.percentile(95));
    }
}
