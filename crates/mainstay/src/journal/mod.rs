//! The journal: one record per call, and the arguments and results by their content (section L,
//! design section 10).
//!
//! A call leaves what is to be recorded in memory that it shares with the journal, and goes on. One
//! thread looks every few milliseconds at what has gathered, hashes it, and commits it in one
//! transaction. Whoever reads has a connection of its own, and neither waits for the other.
//!
//! Everything is written at the end of something, for that is what SQLite does for next to nothing:
//! calls and objects are numbered as they come, and what would be an index at random places is
//! written in sorted runs: by which content an object is found ([`objects`]), and what a call is
//! filtered and counted by ([`facets`]).

mod age;
mod batch;
mod counters;
mod entry;
mod facets;
mod files;
mod histogram;
mod holders;
mod intern;
mod objects;
mod packs;
mod queue;
mod read;
mod retention;
mod rollup;
mod schema;
mod statistics;
mod store;
#[cfg(test)]
mod tests;
mod time;
mod work;
mod writer;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytestring::ByteString;
use mainstay_core::{
    config::{self, Durability, Payloads},
    record::{Cid, Origin, Record, RecordId, Target},
    redact::Secrets,
};

pub use self::{
    counters::Counters,
    entry::{Acknowledged, Begun, Entry, Finished, NotWritten, Outcome},
    holders::Holder,
    read::{Filter, Page, Reader, Whose},
    statistics::{Bucket, Range, Series},
};
use self::{entry::Call, queue::Queue, read::Readers, store::Store, writer::Writer};
use crate::{state::private_dir, utc};

/// A folder of its own in the state directory: whoever watches a configuration that lies there, too,
/// would be told of every page that is written.
const FOLDER: &str = "journal";

/// How long whoever asks for records waits for the latest.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// Why the journal cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot use the journal's database")]
    Database(#[from] rusqlite::Error),
    #[error(
        "{} is of version {found}, and this Mainstay knows {known} at most: \
         use a newer Mainstay, or move the file away",
        path.display()
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("a pattern of `journal.redact` is no regular expression")]
    Pattern(#[from] regex::Error),
    #[error("the journal holds no object {0}")]
    NoSuchObject(Cid),
    #[error("of the object {0} only its identifier is kept")]
    NotKept(Cid),
    #[error("the object {0} is damaged: what is stored has another hash")]
    Damaged(Cid),
    #[error("the journal's database holds {0}, which was never written")]
    Corrupt(&'static str),
    #[error("reading the journal failed")]
    Join(#[from] tokio::task::JoinError),
    /// In strict mode nothing is begun without what was recorded before.
    #[error("the journal in {} is damaged", path.display())]
    Unusable { path: PathBuf, source: Box<Self> },
}

impl JournalError {
    /// Whether what the database holds cannot be right: it will not be read another time, either.
    fn is_damage(&self) -> bool {
        use rusqlite::{Error, ErrorCode};
        match self {
            Self::Corrupt(_) | Self::Damaged(_) => true,
            Self::Database(error) => match error {
                Error::SqliteFailure(error, _) => matches!(
                    error.code,
                    // A table that is missing is an unknown error.
                    ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
                ),
                Error::SqlInputError { .. }
                | Error::InvalidColumnType(..)
                | Error::FromSqlConversionFailure(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::Utf8Error(..)
                | Error::QueryReturnedNoRows => true,
                _ => false,
            },
            _ => false,
        }
    }
}

fn private(folder: &Path) -> Result<(), JournalError> {
    private_dir(folder).map_err(|source| JournalError::Io {
        path: folder.to_owned(),
        source: source.into(),
    })
}

/// Gives a damaged journal another name. Somebody may get records out of it yet, so nothing of it goes.
fn set_aside(folder: &Path, damage: &JournalError) -> Result<(), JournalError> {
    let now = utc::rfc3339(SystemTime::now()).replace([':', '.'], "-");
    let aside = folder.with_file_name(format!("{FOLDER}-damaged-{now}"));
    std::fs::rename(folder, &aside).map_err(|source| JournalError::Io {
        path: folder.to_owned(),
        source,
    })?;
    tracing::warn!(
        damage = damage as &dyn std::error::Error,
        aside = %aside.display(),
        "the journal is damaged; it was set aside, and a new one is begun"
    );
    Ok(())
}

/// The record of every call. Ends with [`Journal::close`].
#[derive(Debug)]
pub struct Journal {
    queue: Arc<Queue>,
    writer: Writer,
    readers: Arc<Readers>,
    payloads: Payloads,
}

impl Journal {
    /// Opens the journal in a state directory, which must be ours, and starts its thread. What a run
    /// before left open has ended: it is `unknown` if it was sent, else `cancelled`. A damaged journal is
    /// set aside, or in strict mode an error.
    pub fn open(state: &Path, settings: &config::Journal) -> Result<Self, JournalError> {
        let folder = state.join(FOLDER);
        private(&folder)?;
        let store = match Store::open(&folder, settings) {
            Err(damage) if damage.is_damage() => match settings.durability {
                Durability::Relaxed => {
                    set_aside(&folder, &damage)?;
                    private(&folder)?;
                    Store::open(&folder, settings)?
                }
                Durability::Strict => {
                    return Err(JournalError::Unusable {
                        path: folder,
                        source: damage.into(),
                    });
                }
            },
            opened => opened?,
        };
        let queue = Arc::new(Queue::new(settings.durability));
        let readers = Arc::new(Readers::new(&folder, &store));
        let writer = Writer::start(&folder, store, Arc::clone(&queue))?;
        Ok(Self {
            queue,
            writer,
            readers,
            payloads: settings.payloads,
        })
    }

    /// The same, where the settings want one.
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
        self.payloads == Payloads::Full
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

    /// What was recorded and what was dropped since the start.
    pub fn counters(&self) -> Counters {
        self.queue.tally.counters()
    }

    /// How many calls are open or wait to be written, and how many bytes of their payloads.
    pub fn depth(&self) -> (usize, usize) {
        self.queue.depth()
    }

    /// Waits until what has happened so far can be read.
    pub async fn flush(&self) -> Result<(), NotWritten> {
        self.queue.flush().await
    }

    /// Writes what is left, and joins the thread. What is recorded from then on is lost.
    pub async fn close(&self) {
        self.queue.stop();
        self.writer.join().await;
    }

    /// The newest records that the filter lets through, those among them that have just come.
    pub async fn records(&self, filter: Filter, limit: usize) -> Result<Page, JournalError> {
        // A disk that hangs hides these, and no others.
        let _ = tokio::time::timeout(WRITTEN_WITHIN, self.flush()).await;
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

    /// So many of its bytes from `offset` on, and its size. The whole is checked, and never held.
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
    /// Where nobody closed it, the thread ends by itself.
    fn drop(&mut self) {
        self.queue.stop();
    }
}
