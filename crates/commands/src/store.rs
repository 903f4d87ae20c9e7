//! The interface by which the program reads and writes records for commands without a daemon. The
//! commands do not know the format of the journal's store.

use std::path::Path;

use mainstay_api::CallRecord;
use mainstay_command_line::{CommandError, JournalFault, host::Host};
use mainstay_core::record::{Cid, Record, RecordId};
use mainstay_journal::{JournalError, JournalHistory, Period, RecordFilter, RecordPage};

/// The program that runs these commands.
pub trait StoreHost: Host {
    /// Opens the journal in a state directory without its daemon. `None` if there is none.
    fn journal(&self, state: &Path) -> Result<Option<Box<dyn JournalReader>>, StoreFault>;

    /// Creates a SQLite file with one table of calls. `path` is an empty file.
    fn call_table(&self, path: &Path) -> Result<Box<dyn CallTable>, StoreFault>;
}

/// A reader of a journal. Another process may write the journal at the same time.
pub trait JournalReader {
    /// The newest records that match the filter.
    fn records(&mut self, filter: &RecordFilter, limit: usize) -> Result<RecordPage, StoreFault>;

    fn record(&mut self, id: RecordId) -> Result<Option<Record>, StoreFault>;

    fn object(&mut self, cid: Cid) -> Result<Vec<u8>, StoreFault>;

    fn history(&mut self, period: &Period) -> Result<JournalHistory, StoreFault>;
}

/// A SQLite file that is being written.
pub trait CallTable {
    fn insert(&mut self, calls: &[CallRecord]) -> Result<(), StoreFault>;

    /// Closes the file.
    fn finish(self: Box<Self>) -> Result<(), StoreFault>;
}

/// A fault of the journal's store, as a [`JournalFault`] with a typed error.
#[derive(Debug)]
pub struct StoreFault {
    pub error: JournalError,
    /// The next step for the person.
    pub hint: Option<String>,
}

impl From<StoreFault> for CommandError {
    fn from(StoreFault { error, hint }: StoreFault) -> Self {
        Self::Journal(JournalFault {
            error: error.into(),
            hint,
        })
    }
}
