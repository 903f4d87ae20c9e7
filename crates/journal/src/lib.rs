//! The journal as its users know it: one record for each call, and the arguments and results by their content
//! (docs/dev/design.md, "Journal"). What keeps them is a [`Store`]: `mainstay-journal-store` has it.
//!
//! A call leaves its record in memory that it shares with the store, and goes on. The store takes from the
//! [queue](store::Queue) what has gathered, in its own time. Questions go to the store. Neither side waits for
//! the other.

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
    record::{Cid, Origin, Record, RecordId, Target},
    redact::Secrets,
};
use mainstay_platform::blocking::try_off_the_runtime;
use tokio::sync::Semaphore;

pub use self::{
    counters::{Counters, Outage},
    entry::{Acknowledged, Begun, Entry, Finished, NotWritten, Outcome},
    error::JournalError,
    history::{Gap, History, Mark, Period, ServerHistory, Transition},
    holder::Holder,
    records::{Filter, Page, Span, Whose},
    statistics::{Bucket, By, Order, Range, Series},
};
use self::{
    history::Noted,
    store::{Call, Queue, Store},
};

/// How long a reader of records waits for the latest.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// Searches that read calls at the same time: each takes a core for as long as it lasts, some seconds at most.
const SEARCHES: usize = 2;

/// The record of every call. Ends with [`Journal::close`].
#[derive(Debug)]
pub struct Journal {
    queue: Arc<Queue>,
    store: Arc<dyn Store>,
    /// The turns of searches that read calls.
    searches: Arc<Semaphore>,
    settings: config::Journal,
    folder: PathBuf,
}

impl Journal {
    /// The journal of a store that takes from this queue and keeps its files in `folder`.
    pub fn new(
        queue: Arc<Queue>,
        store: Arc<dyn Store>,
        settings: config::Journal,
        folder: PathBuf,
    ) -> Self {
        Self {
            queue,
            store,
            searches: Arc::new(Semaphore::new(SEARCHES)),
            settings,
            folder,
        }
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
        let (since, until) = (period.since, period.until);
        let mut history = self.ask(move |store| store.history(&period)).await?;
        history.gaps.extend(self.open_gap(since, until));
        Ok(history)
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
        self.outage().map(|outage| outage.error)
    }

    /// Since when no calls are put on record, and how many are not.
    pub fn outage(&self) -> Option<Outage> {
        self.queue.tally.outage()
    }

    /// The gap that lasts, if some of it is of this time.
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
        self.ask(|store| store.span()).await
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

    /// Waits until what is left is written. What is recorded from then on is lost.
    pub async fn close(&self) {
        self.queue.stop();
        let store = Arc::clone(&self.store);
        // Not waited for here: a disk that hangs must not hang the runtime.
        let ended = try_off_the_runtime(move || store.end()).await;
        if let Err(error) = ended {
            tracing::error!(%error, "it is not known whether the journal was written to its end");
        }
    }

    /// The newest records that the filter lets through, those among them that have just come. A search that reads
    /// calls waits for its turn, and ends soon after its caller stopped waiting.
    pub async fn records(&self, filter: Filter, limit: usize) -> Result<Page, JournalError> {
        self.flush_in_time().await;
        let turn = if filter.reads_calls() {
            let turns = Arc::clone(&self.searches);
            Some(turns.acquire_owned().await.expect("nobody closes it"))
        } else {
            None
        };
        let caller = Arc::new(());
        let awaited = Arc::downgrade(&caller);
        self.ask(move |store| {
            // Held to the end, even if the caller stopped waiting.
            let _turn = turn;
            store.records(&filter, limit, &|| awaited.strong_count() > 0)
        })
        .await
    }

    pub async fn record(&self, id: RecordId) -> Result<Option<Record>, JournalError> {
        self.ask(move |store| store.record(id)).await
    }

    /// Whether an object with this content is kept for a holder that `may` see it. One of another holder
    /// costs what one costs that is not there.
    pub async fn is_held(
        &self,
        cid: Cid,
        may: impl Fn(&Holder) -> bool + Send + 'static,
    ) -> Result<bool, JournalError> {
        self.ask(move |store| store.is_held(cid, &may)).await
    }

    /// An object's bytes, checked against its identifier.
    pub async fn object(&self, cid: Cid) -> Result<Vec<u8>, JournalError> {
        let (content, _) = self.object_slice(cid, 0, usize::MAX).await?;
        Ok(content)
    }

    /// A part of an object from `offset` on, and the object's size. The whole is checked, and never
    /// held.
    pub async fn object_slice(
        &self,
        cid: Cid,
        offset: u64,
        length: usize,
    ) -> Result<(Vec<u8>, u64), JournalError> {
        self.ask(move |store| store.object_slice(cid, offset, length))
            .await
    }

    /// Calls, errors, latencies and bytes by server and tool, over time.
    pub async fn statistics(&self, range: Range) -> Result<Vec<Series>, JournalError> {
        self.ask(move |store| store.statistics(&range)).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Store) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let store = Arc::clone(&self.store);
        try_off_the_runtime(move || question(&*store)).await?
    }
}

impl Drop for Journal {
    /// If it was not closed, the store ends by itself.
    fn drop(&mut self) {
        self.queue.stop();
    }
}
