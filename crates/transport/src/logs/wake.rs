//! Wakes the thread that writes logs.

use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The time at which the writer must check its files.
#[derive(Debug, Default)]
pub struct Wake {
    due: Mutex<Due>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Due {
    #[default]
    Never,
    At(Instant),
    Stop,
}

impl Wake {
    fn due(&self) -> MutexGuard<'_, Due> {
        self.due.lock()
    }

    fn update(&self, change: impl FnOnce(&mut Due)) {
        // Locked for the comparison only.
        let mut due = self.due();
        let before = *due;
        change(&mut due);
        if *due != before {
            self.changed.notify_one();
        }
    }

    /// Wakes the writer at this time, or earlier.
    pub fn by(&self, at: Instant) {
        self.update(|due| match *due {
            Due::Never => *due = Due::At(at),
            Due::At(sooner) => *due = Due::At(sooner.min(at)),
            Due::Stop => {}
        });
    }

    /// Makes the writer write the queued lines and end.
    pub fn stop(&self) {
        self.update(|due| *due = Due::Stop);
    }

    /// Waits until the writer must check its files. Returns `true` if the writer must end after
    /// that.
    pub fn wait(&self) -> bool {
        let mut due = self.due();
        loop {
            let now = Instant::now();
            match *due {
                Due::Stop => return true,
                Due::At(at) if at <= now => {
                    *due = Due::Never;
                    return false;
                }
                Due::At(at) => drop(self.changed.wait_until(&mut due, at)),
                Due::Never => self.changed.wait(&mut due),
            }
        }
    }
}
