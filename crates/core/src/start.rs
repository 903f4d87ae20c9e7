//! Starts of processes: the load of a process before its handshake, and the limit for simultaneous
//! starts.

use std::time::{Duration, Instant};

use crate::health::BUSY_SHARE;

/// Time without CPU time, I/O and output after which a start hangs. A start that hangs does not
/// occupy a slot.
pub const HANG_AFTER: Duration = Duration::from_secs(2);

/// Time after which a start no longer occupies a slot, even if it works. Otherwise a process that
/// computes forever would block other starts. Few starts take longer, even on a shared processor.
pub const LASTS_AFTER: Duration = Duration::from_secs(20);

/// A start occupies a processor if it uses at least this fraction of the time as CPU time.
const COMPUTING_SHARE: f64 = 0.25;

/// Number of bytes read and written that count as a sign of work. Mainstay itself writes less to a
/// process before its handshake.
const MIN_IO: u64 = 4096;

/// The pause before the first look at a start. Most servers connect earlier. Each pause is twice as
/// long as the one before, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The pause before the next look at a start that hangs.
const PAUSE_AT_HANG: Duration = Duration::from_secs(1);

/// Maximum number of simultaneous starts for each processor. It also counts starts that wait,
/// because each start is a process.
const MAX_STARTS_PER_CORE: usize = 32;

/// The process tree of a start at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// CPU time of the whole tree so far.
    pub cpu: Duration,
    /// Bytes that the whole tree has read and written so far.
    pub io: u64,
    /// True if one of the processes runs or waits for a processor.
    pub is_runnable: bool,
}

/// A measurement of a start at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartSample {
    /// `None` if the processes cannot be observed, or no process exists yet.
    pub tree: Option<Tree>,
    /// Bytes written to stderr so far.
    pub stderr_bytes: u64,
}

/// The use of a processor by a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The start occupies a processor, or its load is unknown.
    Computes,
    /// The start waits, for example for the network.
    Waits,
    /// The start has done nothing for [`HANG_AFTER`].
    Hangs,
    /// The start still works after [`LASTS_AFTER`].
    Lasts,
}

/// The result of a look at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartFinding {
    /// True if there was a sign of work since the last look.
    pub worked: bool,
    pub load: Load,
}

/// Measures one start, from the spawn to the handshake.
#[derive(Clone, Debug)]
pub struct Watch {
    begun_at: Instant,
    last_look_at: Instant,
    pause: Duration,
    longest_pause: Duration,
    last_sample: StartSample,
    /// Time of the last sign of work, and the I/O at that time.
    last_work_at: Instant,
    io: u64,
}

impl Watch {
    /// Begins to observe a start at `now`. `silence` is the time limit without a sign of work.
    pub fn new(silence: Duration, now: Instant) -> Self {
        // Look several times within `silence`, so that no sign of work is missed.
        let longest_pause = (silence / 4).clamp(FIRST_PAUSE, MAX_PAUSE);
        Self {
            begun_at: now,
            last_look_at: now,
            pause: FIRST_PAUSE,
            longest_pause,
            last_sample: StartSample {
                tree: Some(Tree::default()),
                stderr_bytes: 0,
            },
            last_work_at: now,
            io: 0,
        }
    }

    /// Time of the next look.
    pub fn due(&self) -> Instant {
        self.last_look_at + self.pause
    }

    /// Compares a new measurement with the last one.
    pub fn look(&mut self, sample: StartSample, now: Instant) -> StartFinding {
        let last_sample = std::mem::replace(&mut self.last_sample, sample);
        let time = now.saturating_duration_since(self.last_look_at);
        self.last_look_at = now;
        let (mut computes, mut has_worked) =
            (true, sample.stderr_bytes != last_sample.stderr_bytes);
        match (last_sample.tree, sample.tree) {
            (Some(last_sample), Some(tree)) => {
                // The CPU time of the tree falls when one of its processes exits.
                let cpu = tree.cpu.abs_diff(last_sample.cpu);
                computes = tree.is_runnable || cpu >= time.mul_f64(COMPUTING_SHARE);
                // A process that waits for a processor is runnable at two looks in a row. A process
                // that wakes up briefly is not.
                has_worked |= tree.is_runnable && last_sample.is_runnable;
                has_worked |= !cpu.is_zero() && cpu >= time.mul_f64(BUSY_SHARE);
                has_worked |= tree.io.abs_diff(self.io) >= MIN_IO;
            }
            (None, Some(_)) => has_worked = true,
            (_, None) => {}
        }
        if has_worked {
            self.last_work_at = now;
            self.io = sample.tree.map_or(self.io, |tree| tree.io);
        }
        let is_hanging = now.saturating_duration_since(self.last_work_at) >= HANG_AFTER;
        self.pause = if is_hanging {
            PAUSE_AT_HANG.max(self.longest_pause)
        } else {
            (self.pause * 2).min(self.longest_pause)
        };
        let lasts = now.saturating_duration_since(self.begun_at) >= LASTS_AFTER;
        let load = match computes {
            _ if is_hanging => Load::Hangs,
            _ if lasts => Load::Lasts,
            true => Load::Computes,
            false => Load::Waits,
        };
        StartFinding {
            worked: has_worked,
            load,
        }
    }
}

/// The priority of a start. Lower values start first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A client or a person waits for the server.
    Requested,
    /// An earlier run has stored the server's catalog.
    Known,
    New,
}

/// The limit for simultaneous starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A fixed number of starts, regardless of their load.
    Fixed(usize),
    /// Enough starts to keep this number of processors busy. A start that waits does not occupy a
    /// processor.
    Cores(usize),
}

/// Counts the current starts and limits new ones.
#[derive(Debug)]
pub struct Slots {
    limit: Limit,
    computing: usize,
    waiting: usize,
}

impl Slots {
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            computing: 0,
            waiting: 0,
        }
    }

    /// True if another start of this rank may begin. A requested start gets one extra slot when the
    /// limit follows the processors.
    pub fn has_room(&self, rank: Rank) -> bool {
        let total = self.computing + self.waiting;
        match self.limit {
            Limit::Fixed(limit) => total < limit,
            Limit::Cores(cores) => {
                let extra_slot = usize::from(rank == Rank::Requested);
                self.computing < cores + extra_slot
                    && total < cores * MAX_STARTS_PER_CORE + extra_slot
            }
        }
    }

    /// Counts a start with this load.
    pub fn enter(&mut self, load: Load) {
        if let Some(count) = self.count(load) {
            *count += 1;
        }
    }

    /// Stops counting a start with this load. Called when the start has ended or its load has
    /// changed.
    pub fn leave(&mut self, load: Load) {
        if let Some(count) = self.count(load) {
            *count = count.saturating_sub(1);
        }
    }

    /// The counter for this load. Starts that hang or last are not counted.
    fn count(&mut self, load: Load) -> Option<&mut usize> {
        match load {
            Load::Computes => Some(&mut self.computing),
            Load::Waits => Some(&mut self.waiting),
            Load::Hangs | Load::Lasts => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(30);

    /// A start with its own clock, which only the test advances.
    struct Course {
        watch: Watch,
        now: Instant,
        sample: StartSample,
    }

    impl Course {
        fn new() -> Self {
            let now = Instant::now();
            let sample = StartSample {
                tree: Some(Tree::default()),
                stderr_bytes: 0,
            };
            Self {
                watch: Watch::new(SILENCE, now),
                now,
                sample,
            }
        }

        fn tree(&mut self) -> &mut Tree {
            self.sample.tree.get_or_insert_default()
        }

        fn look(&mut self) -> StartFinding {
            self.now = self.watch.due();
            self.watch.look(self.sample, self.now)
        }

        /// The findings of all looks within `time`. `act` changes the measurement before each look.
        fn during(
            &mut self,
            time: Duration,
            mut act: impl FnMut(&mut Self, Duration),
        ) -> Vec<StartFinding> {
            let end = self.now + time;
            let mut findings = Vec::new();
            while self.watch.due() <= end {
                let pause = self.watch.due() - self.now;
                act(self, pause);
                findings.push(self.look());
            }
            findings
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    /// Shorter than [`HANG_AFTER`].
    const SHORT_SILENCE: Duration = Duration::from_millis(1950);

    #[test]
    fn every_kind_of_activity_counts_as_work() {
        type Act = fn(&mut Course, Duration);
        let acts: [(&str, Act, Load); 5] = [
            (
                "computes",
                |course, time| course.tree().cpu += time,
                Load::Computes,
            ),
            (
                "computes a little",
                |course, time| course.tree().cpu += time / 10,
                Load::Waits,
            ),
            (
                "is kept from computing",
                |course, _| course.tree().is_runnable = true,
                Load::Computes,
            ),
            (
                "downloads",
                |course, time| {
                    course.tree().io += 100 * u64::try_from(time.as_millis()).expect("short")
                },
                Load::Waits,
            ),
            (
                "says something",
                |course, _| course.sample.stderr_bytes += 1,
                Load::Waits,
            ),
        ];
        for (activity, act, load) in acts {
            let mut course = Course::new();
            let findings = course.during(MINUTE, act);
            // It takes two looks to see that a process waits for a processor.
            let at_work = findings[1..].iter().all(|finding| finding.worked);
            assert!(at_work, "{activity}: {findings:?}");
            let quiet_looks = findings.iter().take_while(|finding| finding.load == load);
            let quiet_looks = quiet_looks.count();
            assert!((40..=50).contains(&quiet_looks), "{activity}: {findings:?}");
            let lasting_looks = findings[quiet_looks..]
                .iter()
                .all(|finding| finding.load == Load::Lasts);
            assert!(
                lasting_looks && findings.len() > 100,
                "{activity}: {findings:?}"
            );
        }
    }

    #[test]
    fn a_start_that_does_nothing_hangs_after_two_seconds() {
        let mut course = Course::new();
        // Mainstay's own requests to the process count as I/O, but are too few bytes.
        course.tree().io += 500;
        let findings = course.during(SHORT_SILENCE, |_, _| {});
        let waits = StartFinding {
            worked: false,
            load: Load::Waits,
        };
        assert!(
            findings.iter().all(|finding| *finding == waits),
            "{findings:?}"
        );
        let mut looks = 0;
        let findings = course.during(MINUTE, |course, time| {
            looks += 1;
            let tree = course.tree();
            tree.is_runnable = looks % 3 == 0;
            tree.cpu += time / 50;
        });
        // The first look may come before the two seconds are over.
        let hanging = StartFinding {
            worked: false,
            load: Load::Hangs,
        };
        assert!(
            findings[1..].iter().all(|finding| *finding == hanging),
            "{findings:?}"
        );
        // A start that waited for a resource can work again.
        course.tree().cpu += MINUTE;
        let working = StartFinding {
            worked: true,
            load: Load::Lasts,
        };
        assert_eq!(course.look(), working);
    }

    /// The I/O of several looks is added up, so a slow download also counts as work.
    #[test]
    fn slow_output_adds_up() {
        let mut course = Course::new();
        let findings = course.during(MINUTE, |course, _| course.tree().io += 512);
        let signs = findings.iter().filter(|finding| finding.worked).count();
        assert!(signs >= 10, "{findings:?}");
    }

    /// The load of processes that cannot be observed counts as computing.
    #[test]
    fn an_unobservable_start_computes_until_it_is_silent() {
        let mut course = Course::new();
        course.sample.tree = None;
        let findings = course.during(SHORT_SILENCE, |_, _| {});
        assert!(
            findings
                .iter()
                .all(|finding| finding.load == Load::Computes),
            "{findings:?}"
        );
        let findings = course.during(HANG_AFTER, |_, _| {});
        assert_eq!(
            findings.last().map(|finding| finding.load),
            Some(Load::Hangs)
        );
        let findings = course.during(LASTS_AFTER / 2, |course, _| course.sample.stderr_bytes += 1);
        assert!(
            findings
                .iter()
                .all(|finding| finding.worked && finding.load == Load::Computes),
            "{findings:?}"
        );
    }

    /// Pauses grow, but a short time limit still gets several looks.
    #[test]
    fn looks_become_rarer() {
        let mut course = Course::new();
        let findings = course.during(MINUTE, |course, time| course.tree().cpu += time);
        assert!((110..=130).contains(&findings.len()), "{}", findings.len());
        let mut course = Course::new();
        let findings = course.during(MINUTE, |_, _| {});
        assert!((55..=70).contains(&findings.len()), "{}", findings.len());
        let now = Instant::now();
        let mut watch = Watch::new(Duration::from_millis(400), now);
        for _ in 0..4 {
            watch.look(StartSample::default(), watch.due());
        }
        assert!(watch.due() - now <= Duration::from_millis(450));
    }

    #[test]
    fn slots_follow_the_load() {
        let mut slots = Slots::new(Limit::Cores(2));
        slots.enter(Load::Computes);
        assert!(slots.has_room(Rank::Known));
        slots.enter(Load::Computes);
        assert!(!slots.has_room(Rank::Known));
        // A waiting start does not occupy a processor. If both starts compute again, no slot is
        // free.
        slots.leave(Load::Computes);
        slots.enter(Load::Waits);
        assert!(slots.has_room(Rank::Known));
        slots.enter(Load::Computes);
        slots.leave(Load::Waits);
        slots.enter(Load::Computes);
        slots.leave(Load::Computes);
        assert!(!slots.has_room(Rank::Known), "two still compute");
        slots.leave(Load::Computes);
        assert!(slots.has_room(Rank::Known));
        // The total number of starts is limited, even if all of them wait.
        let additional_starts = std::iter::repeat_with(|| {
            slots.enter(Load::Waits);
            slots.has_room(Rank::Known)
        });
        assert_eq!(
            additional_starts.take_while(|has_room| *has_room).count(),
            2 * MAX_STARTS_PER_CORE - 2
        );
    }

    /// Two processes compute forever. A requested server starts at once. Other servers start when
    /// the two have lasted too long.
    #[test]
    fn a_requested_start_has_an_extra_slot() {
        let mut slots = Slots::new(Limit::Cores(2));
        slots.enter(Load::Computes);
        slots.enter(Load::Computes);
        assert!(slots.has_room(Rank::Requested) && !slots.has_room(Rank::Known));
        slots.enter(Load::Computes);
        assert!(!slots.has_room(Rank::Requested));
        for _ in 0..2 {
            slots.leave(Load::Computes);
            slots.enter(Load::Lasts);
        }
        assert!(slots.has_room(Rank::New));
    }

    #[test]
    fn a_fixed_limit_ignores_the_load() {
        let mut slots = Slots::new(Limit::Fixed(2));
        slots.enter(Load::Waits);
        slots.enter(Load::Waits);
        assert!(!slots.has_room(Rank::Known));
        // One start hangs.
        slots.leave(Load::Waits);
        slots.enter(Load::Hangs);
        assert!(slots.has_room(Rank::Known));
        slots.leave(Load::Hangs);
        assert!(slots.has_room(Rank::Known));
    }
}
