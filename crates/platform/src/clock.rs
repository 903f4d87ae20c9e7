//! Measures how long the machine has slept. Timers stand still in suspend, and connections die.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Tells how long the machine has slept so far.
#[derive(Clone, Debug)]
pub struct SleepClock(Source);

#[derive(Clone, Debug)]
enum Source {
    System(system::Clock),
    /// Milliseconds; tests put the machine to sleep with it.
    Manual(Arc<AtomicU64>),
}

impl SleepClock {
    pub fn system() -> Self {
        Self(Source::System(system::Clock::new()))
    }

    /// One that says what [`SleepClock::sleep`] tells it.
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::default()))
    }

    /// Lets a manual clock's machine sleep; does nothing to the system's.
    pub fn sleep(&self, duration: Duration) {
        if let Source::Manual(slept) = &self.0 {
            let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            slept.fetch_add(millis, Ordering::Relaxed);
        }
    }

    /// Time slept since some fixed point in the past.
    pub fn slept(&self) -> Duration {
        match &self.0 {
            Source::System(clock) => clock.slept(),
            Source::Manual(slept) => Duration::from_millis(slept.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::time::Duration;

    use rustix::time::{ClockId, Timespec, clock_gettime};

    /// CLOCK_BOOTTIME goes on in suspend, CLOCK_MONOTONIC does not.
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

    /// Wall time that passed without a timer noticing. A clock that is set counts as sleep, which
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
