//! Starts of processes: what a process is seen to do before its handshake, and how many may start at
//! once.

use std::time::{Duration, Instant};

use crate::health::BUSY_SHARE;

/// A start hangs after this time without CPU time, I/O or output. Its slot is free for another start
/// then.
pub const HANG_AFTER: Duration = Duration::from_secs(2);

/// A start that goes on for longer no longer keeps others from starting, whatever it does: a process that
/// computes for ever must not stand in the way of the rest. Few starts take so long, even where several
/// share a processor.
pub const LASTS_AFTER: Duration = Duration::from_secs(20);

/// CPU time of a start, as a fraction of the time between two looks. From here on the start takes up a
/// processor.
const COMPUTING_SHARE: f64 = 0.25;

/// Bytes read and written since the last sign of work that are a sign of work. What Mainstay itself
/// writes to a process before its handshake is less.
const LEAST_IO: u64 = 4096;

/// The pause before the first look at a start. Most servers are up before it. Each further pause is
/// twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The pause before the next look at a start that hangs.
const PAUSE_AT_HANG: Duration = Duration::from_secs(1);

/// Starts that go on at once for each processor, however little they compute: each is a process.
const MOST_PER_CORE: usize = 32;

/// The processes of a start at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// CPU time of all of them so far.
    pub cpu: Duration,
    /// Bytes that all of them have read and written so far.
    pub io: u64,
    /// Whether one of them runs, or waits for a processor.
    pub is_runnable: bool,
}

/// A start as it is found at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// `None` where the processes cannot be looked at, or there is none yet.
    pub tree: Option<Tree>,
    /// Bytes that it has written to stderr so far.
    pub said: u64,
}

/// What a start does to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It takes up a processor, as far as is known.
    Computes,
    /// It waits for something, such as the network.
    Waits,
    /// It has done nothing for [`HANG_AFTER`].
    Hangs,
    /// It is at work and goes on for longer than [`LASTS_AFTER`].
    Lasts,
}

/// What a look at a start has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether there was a sign of work since the last one.
    pub worked: bool,
    pub load: Load,
}

/// Looks at one start, from its beginning to its handshake.
#[derive(Clone, Debug)]
pub struct Watch {
    began: Instant,
    looked: Instant,
    pause: Duration,
    longest_pause: Duration,
    last: Sight,
    /// When there was a sign of work last, and the I/O by then.
    worked: Instant,
    io: u64,
}

impl Watch {
    /// The start begins now, and is ended after `silence` without a sign of work.
    pub fn new(silence: Duration, now: Instant) -> Self {
        // Several looks before that, so that one sign is not missed.
        let longest_pause = (silence / 4).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        Self {
            began: now,
            looked: now,
            pause: FIRST_PAUSE,
            longest_pause,
            last: Sight {
                tree: Some(Tree::default()),
                said: 0,
            },
            worked: now,
            io: 0,
        }
    }

    /// When the next look is due.
    pub fn due(&self) -> Instant {
        self.looked + self.pause
    }

    /// What was found now.
    pub fn look(&mut self, sight: Sight, now: Instant) -> Finding {
        let before = std::mem::replace(&mut self.last, sight);
        let time = now.saturating_duration_since(self.looked);
        self.looked = now;
        let (mut computes, mut worked) = (true, sight.said != before.said);
        match (before.tree, sight.tree) {
            (Some(before), Some(tree)) => {
                // Less than before means that a process has ended.
                let cpu = tree.cpu.abs_diff(before.cpu);
                computes = tree.is_runnable || cpu >= time.mul_f64(COMPUTING_SHARE);
                // A process that others keep from computing is runnable at every look. One that wakes
                // up now and then is not.
                worked |= tree.is_runnable && before.is_runnable;
                worked |= !cpu.is_zero() && cpu >= time.mul_f64(BUSY_SHARE);
                worked |= tree.io.abs_diff(self.io) >= LEAST_IO;
            }
            (None, Some(_)) => worked = true,
            (_, None) => {}
        }
        if worked {
            self.worked = now;
            self.io = sight.tree.map_or(self.io, |tree| tree.io);
        }
        let is_hanging = now.saturating_duration_since(self.worked) >= HANG_AFTER;
        self.pause = if is_hanging {
            PAUSE_AT_HANG.max(self.longest_pause)
        } else {
            (self.pause * 2).min(self.longest_pause)
        };
        let lasts = now.saturating_duration_since(self.began) >= LASTS_AFTER;
        let load = match computes {
            _ if is_hanging => Load::Hangs,
            _ if lasts => Load::Lasts,
            true => Load::Computes,
            false => Load::Waits,
        };
        Finding { worked, load }
    }
}

/// Which start begins first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A client or a person waits for the server.
    Asked,
    /// What the server offers is known from an earlier run.
    Known,
    New,
}

/// How many starts may go on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A fixed number, whatever the starts do.
    Fixed(usize),
    /// As many as keep this many processors busy: a start that waits makes room for another.
    Cores(usize),
}

/// The starts that go on, and room for more.
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

    /// Whether another start of this rank may begin. Where somebody waits for a server, it is one more
    /// than there are processors.
    pub fn has_room(&self, rank: Rank) -> bool {
        let all = self.computing + self.waiting;
        match self.limit {
            Limit::Fixed(most) => all < most,
            Limit::Cores(cores) => {
                let more = usize::from(rank == Rank::Asked);
                self.computing < cores + more && all < cores * MOST_PER_CORE + more
            }
        }
    }

    /// A start with this load goes on from now on.
    pub fn enter(&mut self, load: Load) {
        if let Some(count) = self.count(load) {
            *count += 1;
        }
    }

    /// A start that had this load is over, or has another load.
    pub fn leave(&mut self, load: Load) {
        if let Some(count) = self.count(load) {
            *count = count.saturating_sub(1);
        }
    }

    /// One that hangs or lasts is not counted.
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

    /// A start, and a clock that stands still unless told.
    struct Course {
        watch: Watch,
        now: Instant,
        sight: Sight,
    }

    impl Course {
        fn new() -> Self {
            let now = Instant::now();
            let sight = Sight {
                tree: Some(Tree::default()),
                said: 0,
            };
            Self {
                watch: Watch::new(SILENCE, now),
                now,
                sight,
            }
        }

        fn tree(&mut self) -> &mut Tree {
            self.sight.tree.get_or_insert_default()
        }

        fn look(&mut self) -> Finding {
            self.now = self.watch.due();
            self.watch.look(self.sight, self.now)
        }

        /// The findings of the next looks within `time`, while each look sees what `act` has done.
        fn during(
            &mut self,
            time: Duration,
            mut act: impl FnMut(&mut Self, Duration),
        ) -> Vec<Finding> {
            let end = self.now + time;
            let mut found = Vec::new();
            while self.watch.due() <= end {
                let pause = self.watch.due() - self.now;
                act(self, pause);
                found.push(self.look());
            }
            found
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    /// Shorter than [`HANG_AFTER`].
    const ALMOST: Duration = Duration::from_millis(1950);

    #[test]
    fn work_of_any_kind_is_work() {
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
                |course, _| course.sight.said += 1,
                Load::Waits,
            ),
        ];
        for (what, act, load) in acts {
            let mut course = Course::new();
            let found = course.during(MINUTE, act);
            // At the first look one cannot tell whether a process is kept from computing.
            let at_work = found[1..].iter().all(|finding| finding.worked);
            assert!(at_work, "{what}: {found:?}");
            let short = found.iter().take_while(|finding| finding.load == load);
            let short = short.count();
            assert!((40..=50).contains(&short), "{what}: {found:?}");
            let lasts = found[short..].iter().all(|it| it.load == Load::Lasts);
            assert!(lasts && found.len() > 100, "{what}: {found:?}");
        }
    }

    #[test]
    fn a_start_that_does_nothing_hangs_after_two_seconds() {
        let mut course = Course::new();
        // What reading our requests costs, and a process that wakes up now and then.
        course.tree().io += 500;
        let found = course.during(ALMOST, |_, _| {});
        let waits = Finding {
            worked: false,
            load: Load::Waits,
        };
        assert!(found.iter().all(|finding| *finding == waits), "{found:?}");
        let mut looks = 0;
        let found = course.during(MINUTE, |course, time| {
            looks += 1;
            let tree = course.tree();
            tree.is_runnable = looks % 3 == 0;
            tree.cpu += time / 50;
        });
        // One look may come before the two seconds are over.
        let hangs = Finding {
            worked: false,
            load: Load::Hangs,
        };
        assert!(
            found[1..].iter().all(|finding| *finding == hangs),
            "{found:?}"
        );
        // It may have waited for something after all.
        course.tree().cpu += MINUTE;
        let works = Finding {
            worked: true,
            load: Load::Lasts,
        };
        assert_eq!(course.look(), works);
    }

    /// Little by little is a download, too.
    #[test]
    fn slow_output_adds_up() {
        let mut course = Course::new();
        let found = course.during(MINUTE, |course, _| course.tree().io += 512);
        let signs = found.iter().filter(|finding| finding.worked).count();
        assert!(signs >= 10, "{found:?}");
    }

    /// Where processes cannot be looked at, output alone speaks for a start.
    #[test]
    fn without_a_look_a_start_computes_until_it_is_silent() {
        let mut course = Course::new();
        course.sight.tree = None;
        let found = course.during(ALMOST, |_, _| {});
        assert!(
            found.iter().all(|it| it.load == Load::Computes),
            "{found:?}"
        );
        let found = course.during(HANG_AFTER, |_, _| {});
        assert_eq!(found.last().map(|it| it.load), Some(Load::Hangs));
        let found = course.during(LASTS_AFTER / 2, |course, _| course.sight.said += 1);
        assert!(
            found
                .iter()
                .all(|it| it.worked && it.load == Load::Computes),
            "{found:?}"
        );
    }

    /// A look costs the same for every start, and a short limit has several looks within it.
    #[test]
    fn looks_become_rarer() {
        let mut course = Course::new();
        let found = course.during(MINUTE, |course, time| course.tree().cpu += time);
        assert!((110..=130).contains(&found.len()), "{}", found.len());
        let mut course = Course::new();
        let found = course.during(MINUTE, |_, _| {});
        assert!((55..=70).contains(&found.len()), "{}", found.len());
        let now = Instant::now();
        let mut watch = Watch::new(Duration::from_millis(400), now);
        for _ in 0..4 {
            watch.look(Sight::default(), watch.due());
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
        // One waits, and another comes: both may compute from here on.
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
        // However little they compute, there is a bound.
        let more = std::iter::repeat_with(|| {
            slots.enter(Load::Waits);
            slots.has_room(Rank::Known)
        });
        assert_eq!(
            more.take_while(|has_room| *has_room).count(),
            2 * MOST_PER_CORE - 2
        );
    }

    /// Two processes compute for ever: who waits for a third server has it at once, and the rest start when
    /// the two have had their time.
    #[test]
    fn a_start_that_somebody_waits_for_has_one_slot_more() {
        let mut slots = Slots::new(Limit::Cores(2));
        slots.enter(Load::Computes);
        slots.enter(Load::Computes);
        assert!(slots.has_room(Rank::Asked) && !slots.has_room(Rank::Known));
        slots.enter(Load::Computes);
        assert!(!slots.has_room(Rank::Asked));
        for _ in 0..2 {
            slots.leave(Load::Computes);
            slots.enter(Load::Lasts);
        }
        assert!(slots.has_room(Rank::New));
    }

    #[test]
    fn a_fixed_limit_is_one() {
        let mut slots = Slots::new(Limit::Fixed(2));
        slots.enter(Load::Waits);
        slots.enter(Load::Waits);
        assert!(!slots.has_room(Rank::Known));
        // One hangs.
        slots.leave(Load::Waits);
        slots.enter(Load::Hangs);
        assert!(slots.has_room(Rank::Known));
        slots.leave(Load::Hangs);
        assert!(slots.has_room(Rank::Known));
    }
}
