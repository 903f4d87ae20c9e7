//! One-time codes, by which a browser signs in or downloads. Only their hashes are stored, and only
//! in memory.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::book::Fingerprint;

/// Maximum number of unused codes. A further code invalidates the oldest.
const MAX_CODES: usize = 16;

/// Lifetime of a code that signs a browser in.
pub const LIFETIME: Duration = Duration::from_mins(15);

/// Minimum time between two answers to wrong codes. It slows down guessing.
const FAILURE_SPACING: Duration = Duration::from_millis(100);

/// Maximum delay of an answer to a wrong code. An answer to a right code is never delayed.
const MAX_DELAY: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct Codes {
    /// Oldest first.
    unused: VecDeque<Code>,
    /// Time at which the last answer to a wrong code is sent.
    last_failure: Option<Instant>,
}

#[derive(Debug)]
struct Code {
    fingerprint: Fingerprint,
    expires_at: Instant,
}

impl Codes {
    pub fn add(&mut self, code: &[u8], lifetime: Duration, now: Instant) {
        self.unused.retain(|code| code.expires_at > now);
        if self.unused.len() >= MAX_CODES {
            self.unused.pop_front();
        }
        self.unused.push_back(Code {
            fingerprint: Fingerprint::new(code),
            expires_at: now + lifetime,
        });
    }

    /// True if the code is valid. The code becomes invalid.
    pub fn take(&mut self, code: &[u8], now: Instant) -> bool {
        let fingerprint = Fingerprint::new(code);
        let index = self
            .unused
            .iter()
            .position(|code| code.fingerprint == fingerprint);
        let code = index.and_then(|index| self.unused.remove(index));
        code.is_some_and(|code| code.expires_at > now)
    }

    pub fn clear(&mut self) {
        self.unused.clear();
    }

    /// The delay for the next answer to a wrong code or token.
    pub fn delay(&mut self, now: Instant) -> Duration {
        let last_failure = self
            .last_failure
            .map_or(now, |last_failure| last_failure.max(now));
        let due = (last_failure + FAILURE_SPACING).min(now + MAX_DELAY);
        self.last_failure = Some(due);
        due - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_used_once_within_its_time() {
        let (mut codes, now) = (Codes::default(), Instant::now());
        codes.add(b"one", LIFETIME, now);
        codes.add(b"two", LIFETIME, now);
        for wrong_code in [&b""[..], b"on", b"onee"] {
            assert!(!codes.take(wrong_code, now));
        }
        assert!(codes.take(b"one", now) && !codes.take(b"one", now));
        assert!(!codes.take(b"two", now + LIFETIME));
        codes.add(b"three", LIFETIME, now + Duration::from_millis(1));
        assert!(codes.take(b"three", now + LIFETIME));
        codes.add(b"four", LIFETIME, now);
        codes.clear();
        assert!(!codes.take(b"four", now));
    }

    #[test]
    fn the_oldest_code_is_removed() {
        let (mut codes, now) = (Codes::default(), Instant::now());
        for number in 0..=MAX_CODES {
            codes.add(&number.to_be_bytes(), LIFETIME, now);
        }
        assert!(!codes.take(&0_usize.to_be_bytes(), now));
        for number in 1..=MAX_CODES {
            assert!(codes.take(&number.to_be_bytes(), now), "{number}");
        }
    }

    #[test]
    fn failures_are_answered_in_turn_with_a_bounded_delay() {
        let (mut codes, now) = (Codes::default(), Instant::now());
        assert_eq!(codes.delay(now), FAILURE_SPACING);
        assert_eq!(codes.delay(now), 2 * FAILURE_SPACING);
        for _ in 0..1000 {
            codes.delay(now);
        }
        assert_eq!(codes.delay(now), MAX_DELAY);
        let later_time = now + 2 * MAX_DELAY;
        assert_eq!(codes.delay(later_time), FAILURE_SPACING);
    }
}
