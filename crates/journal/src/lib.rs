//! The journal: one record for each call, with the arguments and results by their content
//! (docs/dev/design.md, "Journal"). `mainstay-journal-store` implements its [`Store`].
//!
//! The record of a call is in memory that the store shares. The store takes the collected records
//! from the [queue](store::JournalQueue) at its own pace, and answers queries. Calls never wait for
//! queries, and queries never wait for calls.

mod counters;
mod entry;
mod error;
mod history;
mod holder;
mod queue;
mod records;
mod statistics;
pub mod store;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, SystemTime},
};

use bytestring::ByteString;
use mainstay_core::{
    config::{self, Payloads},
    ids::ServerName,
    record::{CallOrigin, Cid, Record, RecordId, Target},
    redact::Secrets,
};
use mainstay_platform::blocking::try_off_the_runtime;
use tokio::sync::Semaphore;

pub use self::{
    counters::{Counters, Outage},
    entry::{Acknowledged, Begun, CallOutcome, Finished, JournalEntry, NotWritten},
    error::JournalError,
    history::{Gap, JournalHistory, Mark, Period, ServerHistory, Transition},
    holder::Holder,
    records::{PrincipalFilter, RecordFilter, RecordPage, RecordsSpan},
    statistics::{Bucket, By, Order, Range, Series},
};
use self::{
    history::PendingTransition,
    store::{JournalQueue, RecordedCall, Store},
};

/// Maximum time that a query waits until the latest calls are written.
const FLUSH_TIME_LIMIT: Duration = Duration::from_secs(1);

/// Maximum number of simultaneous searches that read calls. Each occupies a core for a few seconds
/// at most.
const MAX_SEARCHES: usize = 2;

/// The records of all calls. [`Journal::close`] must be called at the end.
#[derive(Debug)]
pub struct Journal {
    queue: Arc<JournalQueue>,
    store: Arc<dyn Store>,
    /// Permits of searches that read calls.
    searches: Arc<Semaphore>,
    settings: config::Journal,
    folder: PathBuf,
}

impl Journal {
    /// A journal whose store takes calls from `queue` and writes its files to `folder`.
    pub fn new(
        queue: Arc<JournalQueue>,
        store: Arc<dyn Store>,
        settings: config::Journal,
        folder: PathBuf,
    ) -> Self {
        Self {
            queue,
            store,
            searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
            settings,
            folder,
        }
    }

    /// Starts a call. In strict mode, [`JournalEntry::intent`] must be awaited before the call is
    /// sent.
    pub fn begin(&self, new_call: Begun) -> JournalEntry {
        JournalEntry::new(RecordedCall::begin(new_call, &self.queue))
    }

    /// True if arguments and results are stored.
    pub fn keeps_payloads(&self) -> bool {
        self.settings.payloads == Payloads::Full
    }

    /// Redacts a text, stores it as an object without a record, and returns its identifier. The
    /// object is retained as long as calls of the same age. Everyone who may see a call of this
    /// origin to this target can read the object.
    pub async fn keep(
        &self,
        text: ByteString,
        origin: Arc<CallOrigin>,
        target: Target,
        secrets: Option<Arc<Secrets>>,
    ) -> Result<Cid, NotWritten> {
        let cid = self.queue.keep(text, origin, target, secrets).await;
        cid.unwrap_or(Err(NotWritten(None)))
    }

    /// Records a change of a server's status, redacted. Does not wait for the write.
    pub fn note(&self, server: ServerName, transition: Transition, secrets: Option<Arc<Secrets>>) {
        self.queue.note(PendingTransition {
            server,
            transition,
            secrets,
        });
    }

    /// The status changes of servers in a period, and the starts and ends of Mainstay.
    pub async fn history(&self, period: Period) -> Result<JournalHistory, JournalError> {
        self.flush_in_time().await;
        let (since, until) = (period.since, period.until);
        let mut history = self
            .query_store(move |store| store.history(&period))
            .await?;
        history.gaps.extend(self.open_gap(since, until));
        Ok(history)
    }

    /// Counts since the journal was opened.
    pub fn counters(&self) -> Counters {
        self.queue.tally.counters()
    }

    /// True while calls are recorded, and false while the journal cannot be opened or written.
    pub fn is_recording(&self) -> bool {
        self.queue.tally.is_recording()
    }

    /// The error that prevents calls from being recorded. `None` while calls are recorded.
    pub fn error(&self) -> Option<String> {
        self.outage().map(|outage| outage.error)
    }

    /// The current outage: its start, and the number of lost calls.
    pub fn outage(&self) -> Option<Outage> {
        self.queue.tally.outage()
    }

    /// The gap of the current outage, if it overlaps the period.
    fn open_gap(&self, since: SystemTime, until: SystemTime) -> Option<Gap> {
        let outage = self.outage()?;
        let gap = Gap {
            since: outage.since,
            until: None,
            calls: outage.lost,
            reason: outage.error,
        };
        (gap.since <= until && since <= SystemTime::now()).then_some(gap)
    }

    pub fn settings(&self) -> &config::Journal {
        &self.settings
    }

    /// The path of the journal's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of records and objects at the last check. `None` before the first check.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.queue.tally.bytes.load(Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// The number of recorded calls, and the start of the oldest call. Takes constant time.
    pub async fn span(&self) -> Result<RecordsSpan, JournalError> {
        self.query_store(|store| store.span()).await
    }

    /// The number of calls that are open or wait to be written, and the bytes of their payloads.
    pub fn depth(&self) -> (usize, usize) {
        self.queue.depth()
    }

    /// Waits until all earlier records can be read.
    pub async fn flush(&self) -> Result<(), NotWritten> {
        self.queue.flush().await
    }

    /// Waits until the latest records are written, so that a query returns them. If the disk hangs,
    /// the query returns without them.
    async fn flush_in_time(&self) {
        let _ = tokio::time::timeout(FLUSH_TIME_LIMIT, self.flush()).await;
    }

    /// Stops the queue, and waits until its calls are written. Later calls are lost.
    pub async fn close(&self) {
        self.queue.stop();
        let store = Arc::clone(&self.store);
        // The store waits on another thread, because a disk that hangs must not block the runtime.
        let result = try_off_the_runtime(move || store.end()).await;
        if let Err(error) = result {
            tracing::error!(%error, "it is not known whether the journal was written to its end");
        }
    }

    /// The newest records that match the filter, including the latest calls. A search that reads
    /// calls waits for a permit, and ends soon after its caller stops waiting.
    pub async fn records(
        &self,
        filter: RecordFilter,
        limit: usize,
    ) -> Result<RecordPage, JournalError> {
        self.flush_in_time().await;
        let permit = if filter.reads_calls() {
            let turns = Arc::clone(&self.searches);
            Some(turns.acquire_owned().await.expect("nobody closes it"))
        } else {
            None
        };
        let caller = Arc::new(());
        let awaited = Arc::downgrade(&caller);
        self.query_store(move |store| {
            // The permit is held until the search ends, even if the caller has stopped waiting.
            let _turn = permit;
            store.records(&filter, limit, &|| awaited.strong_count() > 0)
        })
        .await
    }

    pub async fn record(&self, id: RecordId) -> Result<Option<Record>, JournalError> {
        self.query_store(move |store| store.record(id)).await
    }

    /// True if an object with this content is stored for a holder that `is_allowed` accepts. The
    /// check takes as long for an object of another holder as for a missing object.
    pub async fn is_held(
        &self,
        cid: Cid,
        is_allowed: impl Fn(&Holder) -> bool + Send + 'static,
    ) -> Result<bool, JournalError> {
        self.query_store(move |store| store.is_held(cid, &is_allowed))
            .await
    }

    /// An object's bytes. Their hash is checked.
    pub async fn object(&self, cid: Cid) -> Result<Vec<u8>, JournalError> {
        let (content, _) = self.object_slice(cid, 0, usize::MAX).await?;
        Ok(content)
    }

    /// A part of an object from `offset` on, and the object's size. The hash of the whole object is
    /// checked. A large object is hashed in pieces, so only the part is in memory.
    pub async fn object_slice(
        &self,
        cid: Cid,
        offset: u64,
        length: usize,
    ) -> Result<(Vec<u8>, u64), JournalError> {
        self.query_store(move |store| store.object_slice(cid, offset, length))
            .await
    }

    /// Calls, errors, latencies and bytes by server and tool, over time.
    pub async fn statistics(&self, range: Range) -> Result<Vec<Series>, JournalError> {
        self.query_store(move |store| store.statistics(&range))
            .await
    }

    async fn query_store<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Store) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let store = Arc::clone(&self.store);
        try_off_the_runtime(move || question(&*store)).await?
    }
}

impl Drop for Journal {
    /// Stops the queue, so that the store of an unclosed journal ends in the background.
    fn drop(&mut self) {
        self.queue.stop();
    }
}
