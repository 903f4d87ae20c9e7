//! The clock that determines the age of records. A machine's clock may jump by weeks for a minute,
//! and the jump must not delete records. So this clock follows a jump only after an hour. Until
//! then it continues from its last value.

use std::time::{Duration, Instant, SystemTime};

use super::time::{micros, span};

/// Minimum difference between a clock and its expected value that counts as a jump (or as a sleep
/// of the machine). Time synchronisation corrects clocks in smaller steps.
const MIN_JUMP: Duration = Duration::from_mins(1);

/// Time for which a clock must run evenly after a jump before its value is used.
const TRUST_DELAY: Duration = Duration::from_hours(1);

/// The clock that determines the age of records. Times are microseconds since 1970.
#[derive(Debug)]
pub struct Age {
    /// The last reading of the machine's clock, and of a monotonic clock.
    machine_time: i64,
    read_at: Instant,
    /// The current value of this clock.
    now: i64,
    /// Time of the last jump of the machine's clock. `None` once the clock is trusted again.
    doubted_since: Option<Instant>,
}

impl Age {
    /// `last_seen` is the last recorded time of the journal, in this run or an earlier one.
    pub fn new(last_seen: Option<i64>) -> Self {
        Self::with_times(last_seen, micros(SystemTime::now()), Instant::now())
    }

    fn with_times(last_seen: Option<i64>, machine_time: i64, read_at: Instant) -> Self {
        let last_seen = last_seen.unwrap_or(machine_time);
        Self {
            machine_time,
            read_at,
            now: machine_time.min(last_seen),
            doubted_since: (machine_time - last_seen > span(MIN_JUMP)).then_some(read_at),
        }
    }

    /// The current time in microseconds, from which the ages of records are computed.
    pub fn now(&mut self) -> i64 {
        self.look(micros(SystemTime::now()), Instant::now())
    }

    fn look(&mut self, machine_time: i64, read_at: Instant) -> i64 {
        let passed = span(read_at.saturating_duration_since(self.read_at));
        let expected = self.machine_time.saturating_add(passed);
        if machine_time.abs_diff(expected) > span(MIN_JUMP).unsigned_abs() {
            self.doubted_since = Some(read_at);
        }
        (self.machine_time, self.read_at) = (machine_time, read_at);
        self.now = self.now.saturating_add(passed);
        let is_doubted = |since: Instant| read_at.saturating_duration_since(since) < TRUST_DELAY;
        if !self.doubted_since.is_some_and(is_doubted) {
            self.doubted_since = None;
            self.now = machine_time;
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);
    const DAY: Duration = Duration::from_hours(24);

    /// A clock that is read every minute.
    struct Watched {
        age: Age,
        machine_time: i64,
        read_at: Instant,
    }

    impl Watched {
        fn new(last_seen: Option<i64>, machine_time: i64) -> Self {
            let read_at = Instant::now();
            let age = Age::with_times(last_seen, machine_time, read_at);
            Self {
                age,
                machine_time,
                read_at,
            }
        }

        fn minutes(&mut self, count: u32) -> i64 {
            let mut now = 0;
            for _ in 0..count {
                self.machine_time += span(MINUTE);
                self.read_at += MINUTE;
                now = self.age.look(self.machine_time, self.read_at);
            }
            now
        }

        fn jump(&mut self, days: i64) {
            self.machine_time += days * span(DAY);
        }
    }

    #[test]
    fn an_even_clock_is_followed() {
        let mut clock = Watched::new(None, 0);
        for minutes in 1..=200 {
            assert_eq!(clock.minutes(1), minutes * span(MINUTE));
        }
        // Small corrections of the machine's clock.
        clock.machine_time += span(MINUTE / 2);
        assert_eq!(clock.minutes(1), clock.machine_time);
    }

    #[test]
    fn a_reverted_jump_has_no_effect() {
        for days in [40, -40] {
            let mut clock = Watched::new(None, 0);
            clock.minutes(10);
            clock.jump(days);
            assert_eq!(clock.minutes(1), 11 * span(MINUTE));
            clock.jump(-days);
            assert_eq!(clock.minutes(1), 12 * span(MINUTE));
            assert_eq!(clock.minutes(70), 82 * span(MINUTE));
        }
    }

    #[test]
    fn a_permanent_jump_is_followed_after_an_hour() {
        let mut clock = Watched::new(None, 0);
        clock.jump(40);
        assert_eq!(clock.minutes(60), 60 * span(MINUTE));
        assert_eq!(clock.minutes(1), 61 * span(MINUTE) + 40 * span(DAY));
    }

    /// A run that starts while the clock is wrong continues from the last time of the previous run.
    #[test]
    fn a_run_begins_with_the_last_recorded_time() {
        let last_seen = span(DAY);
        let mut clock = Watched::new(Some(last_seen), 41 * span(DAY));
        assert_eq!(clock.minutes(59), last_seen + 59 * span(MINUTE));
        assert_eq!(clock.minutes(1), clock.machine_time);
        // The clock follows a machine's clock that was set back.
        assert_eq!(Watched::new(Some(last_seen), 0).minutes(1), span(MINUTE));
    }
}
