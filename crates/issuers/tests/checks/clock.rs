//! A wall clock that tests set.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use mainstay_issuers::WallClock;

/// The time at which tests begin, in seconds since 1970.
pub const START: u64 = 1_800_000_000;

#[derive(Clone, Debug)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START)))
    }

    /// Seconds since 1970.
    pub fn seconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.seconds())
    }

    pub fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }

    pub fn wall_clock(&self) -> WallClock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}
