//! Measures how long the machine has slept. In suspend, timers stop and connections die.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A clock that counts the time in suspend.
#[derive(Clone, Debug)]
pub struct SleepClock(SleepSource);

#[derive(Clone, Debug)]
enum SleepSource {
    System(system::Clock),
    /// Milliseconds of sleep that a test has set.
    Manual(Arc<AtomicU64>),
}

impl SleepClock {
    pub fn system() -> Self {
        Self(SleepSource::System(system::Clock::new()))
    }

    /// A clock that only [`SleepClock::sleep`] advances.
    pub fn manual() -> Self {
        Self(SleepSource::Manual(Arc::default()))
    }

    /// Adds sleep to a manual clock. Does nothing to the system's clock.
    pub fn sleep(&self, duration: Duration) {
        if let SleepSource::Manual(slept) = &self.0 {
            let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            slept.fetch_add(millis, Ordering::Relaxed);
        }
    }

    /// Time slept since a fixed point in the past.
    pub fn slept(&self) -> Duration {
        match &self.0 {
            SleepSource::System(clock) => clock.slept(),
            SleepSource::Manual(slept) => Duration::from_millis(slept.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::time::Duration;

    use rustix::time::{ClockId, Timespec, clock_gettime};

    /// The difference between CLOCK_BOOTTIME, which runs in suspend, and CLOCK_MONOTONIC, which does not.
    #[derive(Clone, Debug)]
    pub struct Clock;

    impl Clock {
        pub fn new() -> Self {
            Self
        }

        #[expect(clippy::unused_self, reason = "other systems' clocks have a beginning")]
        pub fn slept(&self) -> Duration {
            let read = |clock| duration(clock_gettime(clock));
            let awake = read(ClockId::Monotonic);
            read(ClockId::Boottime).saturating_sub(awake)
        }
    }

    fn duration(time: Timespec) -> Duration {
        Duration::try_from(time).unwrap_or_default()
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    use std::time::{Duration, Instant, SystemTime};

    /// The wall time that passed while timers stood still. Setting the clock also counts as sleep, which only
    /// costs a probe.
    #[derive(Clone, Debug)]
    pub struct Clock {
        wall: SystemTime,
        timer: Instant,
    }

    impl Clock {
        pub fn new() -> Self {
            Self {
                wall: SystemTime::now(),
                timer: Instant::now(),
            }
        }

        pub fn slept(&self) -> Duration {
            let wall = self.wall.elapsed().unwrap_or_default();
            wall.saturating_sub(self.timer.elapsed())
        }
    }
}
