//! Limits the rate of a server's messages that answer no call. Beyond the limit, Mainstay reads more slowly:
//! the server waits for room in its pipe or connection, and other servers keep their CPU time.

use std::time::Duration;

use tokio::time::Instant;

/// The rate in bytes per second after the first [`BURST`] bytes. A start with much output is not a flood.
const RATE: u64 = 16 * 1024 * 1024;
const BURST: u64 = 4 * 1024 * 1024;

/// The cost of a message in addition to its bytes, because it is parsed and passed on.
pub const MESSAGE_COST: usize = 2 * 1024;

/// The shortest pause. Shorter pauses add up to one pause, because timers are not finer than this.
const LEAST_PAUSE: Duration = Duration::from_millis(5);

/// The longest pause. It is limited because an answer to a call may follow.
const MOST_PAUSE: Duration = Duration::from_secs(1);

/// The number of log messages that are passed on per second, and the number that are passed on at once.
const LOG_RATE: u64 = 200;
const LOG_BURST: u64 = 1000;

/// A token bucket that may be overdrawn.
#[derive(Debug)]
pub struct TokenBucket {
    rate: u64,
    burst: u64,
    /// Time at which the bucket is full again.
    full_at: Instant,
}

impl TokenBucket {
    fn new(rate: u64, burst: u64) -> Self {
        Self {
            rate,
            burst,
            full_at: Instant::now(),
        }
    }

    /// Creates a bucket that limits reading. A token is a byte.
    pub fn for_reading() -> Self {
        Self::new(RATE, BURST)
    }

    /// Creates a bucket that limits the log messages that are passed on. A token is a message.
    pub fn for_log_messages() -> Self {
        Self::new(LOG_RATE, LOG_BURST)
    }

    fn time(&self, cost: u64) -> Duration {
        Duration::from_nanos(cost.saturating_mul(1_000_000_000) / self.rate)
    }

    /// Takes `cost` tokens, even if fewer are left. Returns the time to wait before the next read.
    pub fn spend(&mut self, cost: usize) -> Duration {
        let now = Instant::now();
        self.full_at = self.full_at.max(now) + self.time(cost as u64);
        let debt = (self.full_at - now).saturating_sub(self.time(self.burst));
        if debt < LEAST_PAUSE {
            Duration::ZERO
        } else {
            debt.min(MOST_PAUSE)
        }
    }

    /// Takes one token. Returns `false` if none is left.
    pub fn take(&mut self) -> bool {
        let now = Instant::now();
        let full_at = self.full_at.max(now) + self.time(1);
        let has_one = full_at - now <= self.time(self.burst);
        if has_one {
            self.full_at = full_at;
        }
        has_one
    }

    /// True if no token is missing.
    pub fn is_full(&self) -> bool {
        self.full_at <= Instant::now()
    }
}

/// Waits for the time that [`TokenBucket::spend`] returned.
pub async fn pause(pause: Duration) {
    if pause.is_zero() {
        // Let other tasks run from time to time.
        tokio::task::consume_budget().await;
    } else {
        tokio::time::sleep(pause).await;
    }
}

/// Waits for the time that [`TokenBucket::spend`] returned. Lets other tasks run in any case.
pub async fn rest(pause: Duration) {
    if pause.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_then_the_rate_holds() {
        let mut reading = TokenBucket::for_reading();
        assert_eq!(reading.spend(BURST as usize), Duration::ZERO);
        let mut waited = Duration::ZERO;
        for _ in 0..160 {
            let pause = reading.spend(RATE as usize / 10);
            waited += pause;
            tokio::time::advance(pause).await;
        }
        assert!(
            waited.abs_diff(Duration::from_secs(16)) <= LEAST_PAUSE,
            "{waited:?}"
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(reading.is_full());
        assert_eq!(reading.spend(1), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_log_messages_are_passed_on() {
        let mut messages = TokenBucket::for_log_messages();
        let mut passed = || (0..10_000).filter(|_| messages.take()).count() as u64;
        assert_eq!(passed(), LOG_BURST);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(passed(), LOG_RATE);
    }
}
