//! The time by which records grow old. The machine's clock may jump by weeks for a minute, and records
//! that were deleted by such a clock would not come back. So a jump is believed after an hour only;
//! until then time goes on from where it was.

use std::time::{Duration, Instant, SystemTime};

use super::time::{micros, span};

/// Further than this from where it should be, a clock has jumped, or the machine has slept. Clocks that are
/// put right go in smaller steps.
const JUMP: Duration = Duration::from_mins(1);

/// How long a clock that has jumped must go on evenly.
const BELIEVED_AFTER: Duration = Duration::from_hours(1);

/// See the module. Times are microseconds since 1970.
#[derive(Debug)]
pub struct Age {
    /// The last look: by the machine's clock, and by one that only goes on.
    wall: i64,
    at: Instant,
    /// The time that counts.
    now: i64,
    /// Since when the machine's clock has gone on evenly, while it is not believed.
    doubted_since: Option<Instant>,
}

impl Age {
    /// `seen` is the time that the journal last saw, in this run or one before.
    pub fn new(seen: Option<i64>) -> Self {
        Self::at(seen, micros(SystemTime::now()), Instant::now())
    }

    fn at(seen: Option<i64>, wall: i64, at: Instant) -> Self {
        let seen = seen.unwrap_or(wall);
        Self {
            wall,
            at,
            now: wall.min(seen),
            doubted_since: (wall - seen > span(JUMP)).then_some(at),
        }
    }

    /// The time that counts.
    pub fn now(&mut self) -> i64 {
        self.look(micros(SystemTime::now()), Instant::now())
    }

    fn look(&mut self, wall: i64, at: Instant) -> i64 {
        let passed = span(at.saturating_duration_since(self.at));
        let expected = self.wall.saturating_add(passed);
        if wall.abs_diff(expected) > span(JUMP).unsigned_abs() {
            self.doubted_since = Some(at);
        }
        (self.wall, self.at) = (wall, at);
        self.now = self.now.saturating_add(passed);
        let is_doubted = |since: Instant| at.saturating_duration_since(since) < BELIEVED_AFTER;
        if !self.doubted_since.is_some_and(is_doubted) {
            self.doubted_since = None;
            self.now = wall;
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);
    const DAY: Duration = Duration::from_hours(24);

    /// A clock that is looked at every minute.
    struct Watched {
        age: Age,
        wall: i64,
        at: Instant,
    }

    impl Watched {
        fn new(seen: Option<i64>, wall: i64) -> Self {
            let at = Instant::now();
            let age = Age::at(seen, wall, at);
            Self { age, wall, at }
        }

        fn minutes(&mut self, count: u32) -> i64 {
            let mut now = 0;
            for _ in 0..count {
                self.wall += span(MINUTE);
                self.at += MINUTE;
                now = self.age.look(self.wall, self.at);
            }
            now
        }

        fn jump(&mut self, days: i64) {
            self.wall += days * span(DAY);
        }
    }

    #[test]
    fn an_even_clock_is_believed() {
        let mut clock = Watched::new(None, 0);
        for minutes in 1..=200 {
            assert_eq!(clock.minutes(1), minutes * span(MINUTE));
        }
        // One that is put right in small steps.
        clock.wall += span(MINUTE / 2);
        assert_eq!(clock.minutes(1), clock.wall);
    }

    #[test]
    fn a_jump_that_is_taken_back_is_nothing() {
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
    fn a_jump_that_stays_is_believed_after_an_hour() {
        let mut clock = Watched::new(None, 0);
        clock.jump(40);
        assert_eq!(clock.minutes(60), 60 * span(MINUTE));
        assert_eq!(clock.minutes(1), 61 * span(MINUTE) + 40 * span(DAY));
    }

    /// A run that begins while the clock is wrong goes on from what the one before has seen.
    #[test]
    fn a_run_begins_with_what_was_seen() {
        let seen = span(DAY);
        let mut clock = Watched::new(Some(seen), 41 * span(DAY));
        assert_eq!(clock.minutes(59), seen + 59 * span(MINUTE));
        assert_eq!(clock.minutes(1), clock.wall);
        // A clock that was put back is followed.
        assert_eq!(Watched::new(Some(seen), 0).minutes(1), span(MINUTE));
    }
}
