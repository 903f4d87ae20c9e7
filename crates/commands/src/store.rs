//! What the program does for the commands that read records without a daemon, or write them to a file: it reads
//! and writes files in the form of the journal's store. The commands do not know that form.

use std::path::Path;

use mainstay_api::CallRecord;
use mainstay_command_line::{CommandError, JournalFault, host::Host};
use mainstay_core::record::{Cid, Record, RecordId};
use mainstay_journal::{Filter, History, JournalError, Page, Period};

/// The program that these commands are part of.
pub trait StoreHost: Host {
    /// The journal in a state directory, to be read without its daemon; `None` if there is none.
    fn journal(&self, state: &Path) -> Result<Option<Box<dyn JournalReader>>, StoreFault>;

    /// Begins a SQLite file with one table of calls, in an empty file.
    fn call_table(&self, path: &Path) -> Result<Box<dyn CallTable>, StoreFault>;
}

/// A journal as it is now, even while it is being written.
pub trait JournalReader {
    /// The newest records that the filter lets through.
    fn records(&mut self, filter: &Filter, limit: usize) -> Result<Page, StoreFault>;

    fn record(&mut self, id: RecordId) -> Result<Option<Record>, StoreFault>;

    fn object(&mut self, cid: Cid) -> Result<Vec<u8>, StoreFault>;

    fn history(&mut self, period: &Period) -> Result<History, StoreFault>;
}

/// A SQLite file while it is written.
pub trait CallTable {
    fn insert(&mut self, calls: &[CallRecord]) -> Result<(), StoreFault>;

    /// Closes the file.
    fn finish(self: Box<Self>) -> Result<(), StoreFault>;
}

/// A [`JournalFault`] of a kind that is known.
#[derive(Debug)]
pub struct StoreFault {
    pub error: JournalError,
    /// What to do next.
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
