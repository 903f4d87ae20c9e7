//! The store of the journal: records and objects in SQLite, with one writing thread (docs/dev/design.md,
//! "Journal"). [`open`] makes the [`Journal`] that the gateway takes.
//!
//! The thread looks every few milliseconds at what has gathered, hashes it, and commits it in one
//! transaction. Readers have connections of their own.
//!
//! Everything is written at the end of something, because SQLite does that at almost no cost. Calls and
//! objects are numbered as they come. What would be an index at random places is written in sorted
//! runs: the digests of objects ([`objects`]), and the columns by which calls are filtered and counted
//! ([`facets`]).

mod age;
mod batch;
mod bounds;
mod call_packs;
mod database;
mod error;
mod facets;
mod files;
mod gaps;
mod histogram;
mod history;
mod history_read;
mod holders;
mod intern;
mod layout;
mod objects;
mod opened_files;
mod opening;
mod packs;
mod read;
mod retention;
mod rollup;
mod schema;
mod search;
mod sqlite;
mod statistics;
pub mod table_file;
#[cfg(test)]
mod tests;
mod time;
mod unwritten_gap;
mod work;
mod writer;

use std::{path::Path, sync::Arc, time::Duration};

use mainstay_core::config;
use mainstay_journal::{Journal, store::Queue};

use self::{database::Published, layout::FOLDER, opening::Opening, sqlite::Sqlite};
pub use self::{error::StoreError, read::Reader};

/// How long a journal that cannot be opened is left alone before it is tried again.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// Opens the journal in a state directory, which must be ours, and starts its thread. What a run
/// before left open has ended: it is `unknown` if it was sent, else `cancelled`.
///
/// In strict mode a journal that cannot be opened is an error. In relaxed mode a damaged one is set
/// aside; where no journal can be opened at all, calls are lost, and it is tried again when calls come,
/// once a minute.
pub fn open(state: &Path, settings: &config::Journal) -> Result<Journal, StoreError> {
    open_patiently(state, settings, RETRY_AFTER)
}

/// Opens the journal if the settings want one.
pub fn open_if_wanted(
    state: &Path,
    settings: &config::Journal,
) -> Result<Option<Arc<Journal>>, StoreError> {
    let open = || open(state, settings).map(Arc::new);
    settings.enabled.then(open).transpose()
}

fn open_patiently(
    state: &Path,
    settings: &config::Journal,
    retry_after: Duration,
) -> Result<Journal, StoreError> {
    let folder = state.join(FOLDER);
    let queue = Arc::new(Queue::new(settings.durability));
    let store = Sqlite::start(Opening {
        folder: folder.clone(),
        settings: settings.clone(),
        published: Published::default(),
        queue: Arc::clone(&queue),
        retry_after,
    })?;
    Ok(Journal::new(
        queue,
        Arc::new(store),
        settings.clone(),
        folder,
    ))
}
