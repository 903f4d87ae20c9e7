//! The side of the store: what it takes from the queue, and what it is asked.

use std::fmt::Debug;

use mainstay_core::record::{Cid, Record, RecordId};

pub use super::{
    counters::Tally,
    entry::{Call, Ending, Rest, Waiter},
    history::Noted,
    queue::{Extras, Gathered, Keep, Queue},
};
use super::{
    error::JournalError,
    history::{History, Period},
    holder::Holder,
    records::{Filter, Page, Span},
    statistics::{Range, Series},
};

/// Keeps what it takes from a [`Queue`], and answers questions about it. All of it may block: the journal
/// calls it where that does no harm.
pub trait Store: Debug + Send + Sync {
    /// See [`Journal::records`](super::Journal::records). The latest are flushed before; so for `history`. What
    /// takes long ends early once it `is_awaited` no more.
    fn records(
        &self,
        filter: &Filter,
        limit: usize,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Page, JournalError>;

    fn record(&self, id: RecordId) -> Result<Option<Record>, JournalError>;

    fn span(&self) -> Result<Span, JournalError>;

    fn history(&self, period: &Period) -> Result<History, JournalError>;

    fn statistics(&self, range: &Range) -> Result<Vec<Series>, JournalError>;

    /// See [`Journal::is_held`](super::Journal::is_held).
    fn is_held(&self, cid: Cid, may: &dyn Fn(&Holder) -> bool) -> Result<bool, JournalError>;

    /// See [`Journal::object_slice`](super::Journal::object_slice).
    fn object_slice(
        &self,
        cid: Cid,
        offset: u64,
        length: usize,
    ) -> Result<(Vec<u8>, u64), JournalError>;

    /// Returns when what was left in the queue is written. The queue has been stopped.
    fn end(&self);
}
