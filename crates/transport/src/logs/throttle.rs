//! Limits how often a log repeats the same event.

use std::time::{Duration, Instant};

/// The number of events that are reported one by one. Later events are only counted.
const FIRST: u64 = 5;

/// The time between two reports of the count.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts events of one kind, and decides which of them are reported.
#[derive(Debug, Default)]
pub struct Throttle {
    reports: u64,
    unreported: u64,
    /// Time of the last report.
    at: Option<Instant>,
}

/// Tells if a report is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleVerdict {
    /// Report this number of events, which happened since the last report.
    Report(u64),
    Silence,
}

impl Throttle {
    /// Counts `count` more events.
    pub fn happened(&mut self, count: u64, now: Instant) -> ThrottleVerdict {
        self.unreported += count;
        let waited = self
            .at
            .is_none_or(|at| now.saturating_duration_since(at) >= INTERVAL);
        if self.unreported > 0 && (self.reports < FIRST || waited) {
            self.reports += 1;
            self.at = Some(now);
            ThrottleVerdict::Report(std::mem::take(&mut self.unreported))
        } else {
            ThrottleVerdict::Silence
        }
    }

    /// Counts an event that happens now. Returns the number of events since the last report if a report is
    /// due.
    pub fn again(&mut self) -> Option<u64> {
        match self.happened(1, Instant::now()) {
            ThrottleVerdict::Report(times) => Some(times),
            ThrottleVerdict::Silence => None,
        }
    }

    /// Returns the number of events that are still unreported at the end.
    pub fn rest(&mut self) -> ThrottleVerdict {
        match std::mem::take(&mut self.unreported) {
            0 => ThrottleVerdict::Silence,
            unreported => ThrottleVerdict::Report(unreported),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_said_and_then_a_count_every_ten_seconds() {
        let (start, mut throttle) = (Instant::now(), Throttle::default());
        let mut at =
            |millis, count| throttle.happened(count, start + Duration::from_millis(millis));
        for _ in 0..FIRST {
            assert_eq!(at(0, 1), ThrottleVerdict::Report(1));
        }
        assert_eq!(at(1, 1), ThrottleVerdict::Silence);
        assert_eq!(at(9_999, 1000), ThrottleVerdict::Silence);
        assert_eq!(at(10_000, 1), ThrottleVerdict::Report(1002));
        assert_eq!(at(10_001, 7), ThrottleVerdict::Silence);
        assert_eq!(at(20_001, 0), ThrottleVerdict::Report(7));
        assert_eq!(at(40_000, 0), ThrottleVerdict::Silence);
        assert_eq!(throttle.rest(), ThrottleVerdict::Silence);
    }
}
