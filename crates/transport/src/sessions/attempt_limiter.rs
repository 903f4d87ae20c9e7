//! Limits the attempts to open connections per second, over all servers together. Servers that are lost at
//! the same time reconnect one after the other.

use std::time::Duration;

use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

/// The time over which the attempts of one second are spread. It exceeds one second because attempts reach
/// their servers after varying delays: servers must not receive more attempts in a second than the limit,
/// either.
const SPAN: Duration = Duration::from_millis(1100);

/// Lets attempts begin one after the other (`maxAttemptsPerSecond`).
#[derive(Debug)]
pub struct AttemptLimiter {
    gap: Duration,
    /// Time at which the next attempt may begin. The caller of that attempt holds the lock until then. If the
    /// attempt begins late, the attempts after it are delayed as well, so that they do not all begin at once.
    next: Mutex<Instant>,
}

impl AttemptLimiter {
    pub fn new(per_second: u32) -> Self {
        Self {
            gap: SPAN / per_second.max(1),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Resolves when the caller may begin its attempt.
    pub async fn take(&self) {
        let mut next = self.next.lock().await;
        sleep_until(*next).await;
        *next = Instant::now() + self.gap;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesOrdered};

    use super::*;

    /// `maxAttemptsPerSecond` holds over any second.
    #[tokio::test(start_paused = true)]
    async fn attempts_are_spread() {
        let limiter = AttemptLimiter::new(50);
        let start = Instant::now();
        for turn in 0..100u32 {
            limiter.take().await;
            assert!(start.elapsed() >= Duration::from_millis(22) * turn);
        }
        assert!(start.elapsed() < Duration::from_millis(2300));
    }

    /// After the machine was suspended, delayed attempts do not all begin at once.
    #[tokio::test(start_paused = true)]
    async fn attempts_that_come_late_do_not_come_in_a_heap() {
        let limiter = AttemptLimiter::new(50);
        let turn = || async {
            limiter.take().await;
            Instant::now()
        };
        let mut starts = Vec::new();
        let mut all: FuturesOrdered<_> = (0..3).map(|_| turn()).collect();
        starts.extend(all.next().await);
        assert!(all.next().now_or_never().is_none());
        tokio::time::advance(Duration::from_secs(10)).await;
        while let Some(at) = all.next().await {
            assert!(starts.last().is_none_or(|last| at >= *last + limiter.gap));
            starts.push(at);
        }
        assert_eq!(starts.len(), 3);
    }
}
