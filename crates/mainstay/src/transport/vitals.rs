//! Signs of life of one connection: written by whoever reads and calls, read by whoever judges.
//!
//! They are touched on every message, so they are a few atomics.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

#[derive(Debug)]
pub struct Vitals {
    opened: Instant,
    /// When a byte came last; times are milliseconds since `opened`.
    heard: AtomicU64,
    in_flight: AtomicU32,
    /// The latest deadline of the calls that the server may be at work on.
    busy_until: AtomicU64,
    hang_after: Duration,
}

impl Vitals {
    /// Silence of `hang_after` makes the calls that follow it no excuse any more.
    pub fn new(hang_after: Duration) -> Self {
        Self {
            opened: Instant::now(),
            heard: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            busy_until: AtomicU64::new(0),
            hang_after,
        }
    }

    fn millis(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.opened);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// Something came from the server.
    pub fn hear(&self) {
        self.heard
            .store(self.millis(Instant::now()), Ordering::Relaxed);
    }

    /// When something came last.
    pub fn heard(&self) -> Instant {
        self.opened + Duration::from_millis(self.heard.load(Ordering::Relaxed))
    }

    /// Notes a call that may take until `deadline`.
    pub fn call(self: &Arc<Self>, deadline: Instant) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        // What is sent into a long silence says nothing for the server: else calls that keep coming
        // would hide a hang for ever.
        if self.heard().elapsed() < self.hang_after {
            self.busy_until
                .fetch_max(self.millis(deadline), Ordering::Relaxed);
        }
        InFlight(Arc::clone(self))
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether the server may be at work on a call that is within its deadline.
    pub fn may_be_at_work(&self) -> bool {
        self.in_flight() > 0
            && self.millis(Instant::now()) < self.busy_until.load(Ordering::Relaxed)
    }
}

/// A call in flight, until it is dropped.
#[derive(Debug)]
pub struct InFlight(Arc<Vitals>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Design section 6: a call protects its server until its deadline, and no longer.
    #[tokio::test(start_paused = true)]
    async fn a_server_at_work_is_excused_until_the_calls_deadline() {
        let vitals = Arc::new(Vitals::new(SECOND * 120));
        let call = vitals.call(Instant::now() + SECOND * 30);
        assert!(vitals.may_be_at_work());
        tokio::time::advance(SECOND * 31).await;
        assert!(!vitals.may_be_at_work());
        drop(call);
        assert_eq!(vitals.in_flight(), 0);
    }

    /// Calls that keep coming must not hide a hang.
    #[tokio::test(start_paused = true)]
    async fn calls_sent_into_a_long_silence_are_no_excuse() {
        let vitals = Arc::new(Vitals::new(SECOND * 120));
        tokio::time::advance(SECOND * 120).await;
        let _call = vitals.call(Instant::now() + SECOND * 30);
        assert!(!vitals.may_be_at_work());
        vitals.hear();
        let _call = vitals.call(Instant::now() + SECOND * 30);
        assert!(vitals.may_be_at_work());
    }
}
