//! What the journal has done, in numbers that anybody may read at any time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
}

impl Tally {
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
