//! The interface of a store: the queue that supplies the calls, and the queries.

use std::fmt::Debug;

use mainstay_core::record::{Cid, Record, RecordId};

pub use super::{
    counters::JournalTally,
    entry::{Ending, RecordedCall, Rest, Waiter},
    history::PendingTransition,
    queue::{Extras, Gathered, JournalQueue, Keep},
};
use super::{
    error::JournalError,
    history::{JournalHistory, Period},
    holder::Holder,
    records::{RecordFilter, RecordPage, RecordsSpan},
    statistics::{Range, Series},
};

/// Writes the calls of a [`JournalQueue`], and answers queries about them. All methods may block,
/// so the journal calls them outside of the runtime.
pub trait Store: Debug + Send + Sync {
    /// See [`Journal::records`](super::Journal::records). Before this method and `history`, the
    /// journal waits until the latest calls are written. A long search ends early when `is_awaited`
    /// becomes false.
    fn records(
        &self,
        filter: &RecordFilter,
        limit: usize,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<RecordPage, JournalError>;

    fn record(&self, id: RecordId) -> Result<Option<Record>, JournalError>;

    fn span(&self) -> Result<RecordsSpan, JournalError>;

    fn history(&self, period: &Period) -> Result<JournalHistory, JournalError>;

    fn statistics(&self, range: &Range) -> Result<Vec<Series>, JournalError>;

    /// See [`Journal::is_held`](super::Journal::is_held).
    fn is_held(&self, cid: Cid, is_allowed: &dyn Fn(&Holder) -> bool)
    -> Result<bool, JournalError>;

    /// See [`Journal::object_slice`](super::Journal::object_slice).
    fn object_slice(
        &self,
        cid: Cid,
        offset: u64,
        length: usize,
    ) -> Result<(Vec<u8>, u64), JournalError>;

    /// Returns after the remaining calls of the queue are written. The caller must stop the queue
    /// first.
    fn end(&self);
}
