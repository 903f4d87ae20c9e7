//! Counters of the journal's work, which may be read at any time.

use std::{
    fmt::Display,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::SystemTime,
};

use parking_lot::Mutex;

/// Since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that are on record, each once.
    pub recorded: u64,
    /// Calls that are not: too many waited to be written.
    pub dropped: u64,
    /// Arguments and results that are not kept, of calls that are: too many bytes waited.
    pub payloads_dropped: u64,
    /// Calls that could not be written.
    pub lost: u64,
    pub commits: u64,
    /// Changes of servers' statuses that are not on record: too many waited, or they could not be written.
    pub transitions_dropped: u64,
}

/// What the queue and the store count, and whether the store can write.
#[derive(Debug, Default)]
pub struct Tally {
    pub recorded: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) payloads_dropped: AtomicU64,
    pub lost: AtomicU64,
    pub commits: AtomicU64,
    pub transitions_dropped: AtomicU64,
    /// What records and objects take, as of the last look; 0 before the first.
    pub bytes: AtomicU64,
    /// Nothing can be written for now.
    is_failing: AtomicBool,
    /// Why. Locked to copy it.
    outage: Mutex<Option<Outage>>,
}

/// No calls are put on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    pub since: SystemTime,
    pub error: String,
    /// Calls that are not on record for it.
    pub lost: u64,
}

impl Tally {
    pub fn is_recording(&self) -> bool {
        !self.is_failing.load(Relaxed)
    }

    /// Why the journal cannot be written, if it cannot.
    pub fn outage(&self) -> Option<Outage> {
        if self.is_recording() {
            return None;
        }
        let outage = self.outage.lock().clone()?;
        let lost = self.all_lost().saturating_sub(outage.lost);
        Some(Outage { lost, ..outage })
    }

    fn all_lost(&self) -> u64 {
        self.lost.load(Relaxed) + self.dropped.load(Relaxed)
    }

    /// The journal cannot be written. Returns whether that is news.
    pub fn failing(&self, error: &impl Display) -> bool {
        let mut outage = self.outage.lock();
        let (since, lost) = match &*outage {
            Some(outage) => (outage.since, outage.lost),
            // What was lost before is not of this outage.
            None => (SystemTime::now(), self.all_lost()),
        };
        let error = error.to_string();
        *outage = Some(Outage { since, error, lost });
        !self.is_failing.swap(true, Relaxed)
    }

    /// It can be. Returns the outage that ends with it, if there was one.
    pub fn succeeding(&self) -> Option<Outage> {
        let outage = self.outage()?;
        *self.outage.lock() = None;
        self.is_failing.store(false, Relaxed);
        Some(outage)
    }

    /// Calls that are not on record because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            recorded: self.recorded.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            payloads_dropped: self.payloads_dropped.load(Relaxed),
            lost: self.lost.load(Relaxed),
            commits: self.commits.load(Relaxed),
            transitions_dropped: self.transitions_dropped.load(Relaxed),
        }
    }
}
