//! The journal: one record for each call, and the arguments and results by their content
//! (docs/dev/design.md, "Journal").
//!
//! A call leaves its record in memory that it shares with the journal, and goes on. One thread looks
//! every few milliseconds at what has gathered, hashes it, and commits it in one transaction. Readers
//! have connections of their own. Neither side waits for the other.
//!
//! Everything is written at the end of something, because SQLite does that at almost no cost. Calls and
//! objects are numbered as they come. What would be an index at random places is written in sorted
//! runs: the digests of objects ([`objects`]), and the columns by which calls are filtered and counted
//! ([`facets`]).

mod age;
mod batch;
mod bounds;
mod call_packs;
mod counters;
mod entry;
mod error;
mod facets;
mod files;
mod histogram;
mod history;
mod history_read;
mod holders;
mod intern;
mod layout;
mod objects;
mod opening;
mod packs;
mod queue;
mod read;
mod retention;
mod rollup;
mod schema;
mod statistics;
mod store;
pub mod table_file;
#[cfg(test)]
mod tests;
mod time;
mod work;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytestring::ByteString;
use mainstay_core::{
    config::{self, Payloads},
    ids::ServerName,
    record::{Cid, Origin, Record, RecordId, Target},
    redact::Secrets,
};

pub use self::{
    counters::Counters,
    entry::{Acknowledged, Begun, Entry, Finished, NotWritten, Outcome},
    error::JournalError,
    history::{History, Mark, Period, ServerHistory, Transition},
    holders::Holder,
    read::{Filter, Page, Reader, Span, Whose},
    statistics::{Bucket, By, Order, Range, Series},
};
use self::{
    entry::Call, history::Noted, opening::Opening, queue::Queue, read::Readers, store::Published,
    writer::Writer,
};

/// A folder of its own in the state directory. If the configuration lies there too, its watcher would
/// otherwise be woken for every page that is written.
const FOLDER: &str = "journal";

/// How long a journal that cannot be opened is left alone before it is tried again.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// How long a reader of records waits for the latest.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// The record of every call. Ends with [`Journal::close`].
#[derive(Debug)]
pub struct Journal {
    queue: Arc<Queue>,
    writer: Writer,
    readers: Arc<Readers>,
    settings: config::Journal,
    folder: PathBuf,
}

impl Journal {
    /// Opens the journal in a state directory, which must be ours, and starts its thread. What a run
    /// before left open has ended: it is `unknown` if it was sent, else `cancelled`.
    ///
    /// In strict mode a journal that cannot be opened is an error. In relaxed mode a damaged one is set
    /// aside; where no journal can be opened at all, calls are lost, and it is tried again when calls come,
    /// once a minute.
    pub fn open(state: &Path, settings: &config::Journal) -> Result<Self, JournalError> {
        Self::open_patiently(state, settings, RETRY_AFTER)
    }

    fn open_patiently(
        state: &Path,
        settings: &config::Journal,
        retry_after: Duration,
    ) -> Result<Self, JournalError> {
        let queue = Arc::new(Queue::new(settings.durability));
        let published = Published::default();
        let opening = Opening {
            folder: state.join(FOLDER),
            settings: settings.clone(),
            published: published.clone(),
            queue: Arc::clone(&queue),
            retry_after,
        };
        let readers = Arc::new(Readers::new(&opening.folder, published));
        Ok(Self {
            folder: opening.folder.clone(),
            writer: Writer::start(opening)?,
            queue,
            readers,
            settings: settings.clone(),
        })
    }

    /// Opens the journal if the settings want one.
    pub fn wanted(
        state: &Path,
        settings: &config::Journal,
    ) -> Result<Option<Arc<Self>>, JournalError> {
        let open = || Self::open(state, settings).map(Arc::new);
        settings.enabled.then(open).transpose()
    }

    /// A call has come. In strict mode its [`Entry::intent`] is to be awaited before it is sent.
    pub fn begin(&self, begun: Begun) -> Entry {
        Entry::new(Call::begin(begun, &self.queue))
    }

    /// Whether arguments and results can be read again.
    pub fn keeps_payloads(&self) -> bool {
        self.settings.payloads == Payloads::Full
    }

    /// Stores a text beside the records, for as long as the calls of this time are kept, and returns by
    /// which identifier it can be read from now on: redacted, as what is recorded. It is kept for those
    /// that may see the call of this origin to this target.
    pub async fn keep(
        &self,
        text: ByteString,
        origin: Arc<Origin>,
        target: Target,
        secrets: Option<Arc<Secrets>>,
    ) -> Result<Cid, NotWritten> {
        let kept = self.queue.keep(text, origin, target, secrets).await;
        kept.unwrap_or(Err(NotWritten(None)))
    }

    /// A server's status has changed. Written behind it, without its secrets.
    pub fn note(&self, server: ServerName, transition: Transition, secrets: Option<Arc<Secrets>>) {
        self.queue.note(Noted {
            server,
            transition,
            secrets,
        });
    }

    /// What happened to servers in a period, and when Mainstay ran.
    pub async fn history(&self, period: Period) -> Result<History, JournalError> {
        self.flush_in_time().await;
        self.read(move |reader| reader.history(&period)).await
    }

    /// What was recorded and what was dropped since the start.
    pub fn counters(&self) -> Counters {
        self.queue.tally.counters()
    }

    /// Whether calls are put on record: false while the journal cannot be opened or written.
    pub fn is_recording(&self) -> bool {
        self.queue.tally.is_recording()
    }

    /// Why no calls are put on record for now; `None` while they are.
    pub fn error(&self) -> Option<String> {
        self.queue.tally.error()
    }

    pub fn settings(&self) -> &config::Journal {
        &self.settings
    }

    /// Where the journal is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The bytes that records and objects take, as of the last look at them; `None` before the first.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.queue.tally.bytes.load(Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// How many calls are on record, and since when. Costs the same however many there are.
    pub async fn span(&self) -> Result<Span, JournalError> {
        self.read(|reader| reader.span()).await
    }

    /// How many calls are open or wait to be written, and how many bytes of their payloads.
    pub fn depth(&self) -> (usize, usize) {
        self.queue.depth()
    }

    /// Waits until what has happened so far can be read.
    pub async fn flush(&self) -> Result<(), NotWritten> {
        self.queue.flush().await
    }

    /// Waits for the latest, so that a reader sees it. A disk that hangs hides the latest, and nothing else.
    async fn flush_in_time(&self) {
        let _ = tokio::time::timeout(WRITTEN_WITHIN, self.flush()).await;
    }

    /// Writes what is left, and joins the thread. What is recorded from then on is lost.
    pub async fn close(&self) {
        self.queue.stop();
        self.writer.join().await;
    }

    /// The newest records that the filter lets through, those among them that have just come.
    pub async fn records(&self, filter: Filter, limit: usize) -> Result<Page, JournalError> {
        self.flush_in_time().await;
        self.read(move |reader| reader.records(&filter, limit))
            .await
    }

    pub async fn record(&self, id: RecordId) -> Result<Option<Record>, JournalError> {
        self.read(move |reader| reader.record(id)).await
    }

    /// Whether an object with this content is kept for a holder that `may` see it. One of another holder
    /// costs what one costs that is not there.
    pub async fn is_held(
        &self,
        cid: Cid,
        may: impl Fn(&Holder) -> bool + Send + 'static,
    ) -> Result<bool, JournalError> {
        self.read(move |reader| reader.is_held(cid, may)).await
    }

    /// An object's bytes, checked against its identifier.
    pub async fn object(&self, cid: Cid) -> Result<Vec<u8>, JournalError> {
        self.read(move |reader| reader.object(cid)).await
    }

    /// A part of an object from `offset` on, and the object's size. The whole is checked, and never
    /// held.
    pub async fn object_slice(
        &self,
        cid: Cid,
        offset: u64,
        length: usize,
    ) -> Result<(Vec<u8>, u64), JournalError> {
        self.read(move |reader| reader.object_slice(cid, offset, length))
            .await
    }

    /// Calls, errors, latencies and bytes by server and tool, over time.
    pub async fn statistics(&self, range: Range) -> Result<Vec<Series>, JournalError> {
        self.read(move |reader| reader.statistics(&range)).await
    }

    async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut read::Reader) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let readers = Arc::clone(&self.readers);
        tokio::task::spawn_blocking(move || readers.with(ask)).await?
    }
}

impl Drop for Journal {
    /// If it was not closed, the thread ends by itself.
    fn drop(&mut self) {
        self.queue.stop();
    }
}
