//! Counters of the journal. They may be read at any time.

use std::{
    fmt::Display,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::SystemTime,
};

use parking_lot::Mutex;

/// Counts since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Recorded calls.
    pub recorded: u64,
    /// Calls without a record, because the queue was full.
    pub dropped: u64,
    /// Arguments and results that are missing in recorded calls, because too many bytes waited.
    pub payloads_dropped: u64,
    /// Calls that could not be written.
    pub lost: u64,
    pub commits: u64,
    /// Changes of servers' statuses without a record, because the queue was full or the write
    /// failed.
    pub transitions_dropped: u64,
}

/// Counters of the queue and the store, and the outage of the store.
#[derive(Debug, Default)]
pub struct JournalTally {
    pub recorded: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) payloads_dropped: AtomicU64,
    pub lost: AtomicU64,
    pub commits: AtomicU64,
    pub transitions_dropped: AtomicU64,
    /// Bytes of records and objects at the last check. 0 before the first check.
    pub bytes: AtomicU64,
    /// True while no write succeeds.
    is_failing: AtomicBool,
    /// The current outage. The lock is held only for a copy.
    outage: Mutex<Option<Outage>>,
}

/// A period in which no calls are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    pub since: SystemTime,
    pub error: String,
    /// Number of calls that this outage has lost so far.
    pub lost: u64,
}

impl JournalTally {
    pub fn is_recording(&self) -> bool {
        !self.is_failing.load(Relaxed)
    }

    /// The current outage, if the journal cannot be written.
    pub fn outage(&self) -> Option<Outage> {
        if self.is_recording() {
            return None;
        }
        let outage = self.outage.lock().clone()?;
        let lost_calls = self.all_lost().saturating_sub(outage.lost);
        Some(Outage {
            lost: lost_calls,
            ..outage
        })
    }

    fn all_lost(&self) -> u64 {
        self.lost.load(Relaxed) + self.dropped.load(Relaxed)
    }

    /// Records that the journal cannot be written. Returns true if the outage is new.
    pub fn failing(&self, error: &impl Display) -> bool {
        let mut outage = self.outage.lock();
        let (since, lost) = match &*outage {
            Some(outage) => (outage.since, outage.lost),
            // Calls that were lost earlier are not part of this outage.
            None => (SystemTime::now(), self.all_lost()),
        };
        let error = error.to_string();
        *outage = Some(Outage { since, error, lost });
        !self.is_failing.swap(true, Relaxed)
    }

    /// Records that the journal can be written. Returns the outage that ends, if any.
    pub fn succeeding(&self) -> Option<Outage> {
        let outage = self.outage()?;
        *self.outage.lock() = None;
        self.is_failing.store(false, Relaxed);
        Some(outage)
    }

    /// Calls without a record, because the queue was full.
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
