//! Limits how often a log repeats the same event.

use std::time::{Duration, Instant};

/// Said one by one before they are only counted.
const FIRST: u64 = 5;

/// The count is reported this often.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts what happens again and again.
#[derive(Debug, Default)]
pub struct Throttle {
    said: u64,
    unsaid: u64,
    /// When it was reported last.
    at: Option<Instant>,
}

/// How to say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This often, since it was said last.
    Say(u64),
    Silence,
}

impl Throttle {
    /// It happened `count` times more.
    pub fn happened(&mut self, count: u64, now: Instant) -> Verdict {
        self.unsaid += count;
        let waited = self
            .at
            .is_none_or(|at| now.saturating_duration_since(at) >= INTERVAL);
        if self.unsaid > 0 && (self.said < FIRST || waited) {
            self.said += 1;
            self.at = Some(now);
            Verdict::Say(std::mem::take(&mut self.unsaid))
        } else {
            Verdict::Silence
        }
    }

    /// It happened once more, just now. Returns how often it did since it was said last, if it is to be said.
    pub fn again(&mut self) -> Option<u64> {
        match self.happened(1, Instant::now()) {
            Verdict::Say(times) => Some(times),
            Verdict::Silence => None,
        }
    }

    /// What has not been said at the end.
    pub fn rest(&mut self) -> Verdict {
        match std::mem::take(&mut self.unsaid) {
            0 => Verdict::Silence,
            unsaid => Verdict::Say(unsaid),
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
            assert_eq!(at(0, 1), Verdict::Say(1));
        }
        assert_eq!(at(1, 1), Verdict::Silence);
        assert_eq!(at(9_999, 1000), Verdict::Silence);
        assert_eq!(at(10_000, 1), Verdict::Say(1002));
        assert_eq!(at(10_001, 7), Verdict::Silence);
        assert_eq!(at(20_001, 0), Verdict::Say(7));
        assert_eq!(at(40_000, 0), Verdict::Silence);
        assert_eq!(throttle.rest(), Verdict::Silence);
    }
}
