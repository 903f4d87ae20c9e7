//! Counters of the journal's work, which may be read at any time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

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
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub recorded: AtomicU64,
    pub dropped: AtomicU64,
    pub payloads_dropped: AtomicU64,
    pub lost: AtomicU64,
    pub commits: AtomicU64,
    /// Nothing can be written for now.
    is_failing: AtomicBool,
}

impl Tally {
    pub fn is_recording(&self) -> bool {
        !self.is_failing.load(Relaxed)
    }

    /// The journal cannot be written. Returns whether that is news.
    pub fn failing(&self) -> bool {
        !self.is_failing.swap(true, Relaxed)
    }

    /// It can be. Returns whether that is news.
    pub fn succeeding(&self) -> bool {
        !self.is_recording() && self.is_failing.swap(false, Relaxed)
    }

    pub fn counters(&self) -> Counters {
        Counters {
            recorded: self.recorded.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            payloads_dropped: self.payloads_dropped.load(Relaxed),
            lost: self.lost.load(Relaxed),
            commits: self.commits.load(Relaxed),
        }
    }
}
