//! The store of the journal: records and objects in SQLite, with one writing thread
//! (docs/dev/design.md, "Journal"). [`open`] returns the [`Journal`] for the gateway.
//!
//! Every few milliseconds the thread takes the waiting calls, hashes their payloads, and commits
//! them in one transaction. Readers have their own connections.
//!
//! Every write appends to a table, because appending is cheap in SQLite. Calls and objects are
//! numbered in the order of arrival. Data that would need an index at random positions is written
//! in sorted runs: the digests of objects ([`objects`]), and the columns for filters and counts of
//! calls ([`facets`]).

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
use mainstay_journal::{Journal, store::JournalQueue};

use self::{database::Published, layout::FOLDER, opening::Opening, sqlite::Sqlite};
pub use self::{error::StoreError, read::Reader};

/// Time between two attempts to open an unusable journal.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// Opens the journal in a state directory, which must belong to this user, and starts its thread.
/// Closes calls that an earlier run left open: as `unknown` if they were sent, else as `cancelled`.
///
/// In strict mode, a journal that cannot be opened is an error. In relaxed mode, a damaged journal
/// is set aside. If no journal can be opened, calls are not recorded, and opening is tried again at
/// most once a minute.
pub fn open(state: &Path, settings: &config::Journal) -> Result<Journal, StoreError> {
    open_patiently(state, settings, RETRY_AFTER)
}

/// Opens the journal if the settings enable it.
pub fn open_if_enabled(
    state: &Path,
    settings: &config::Journal,
) -> Result<Option<Arc<Journal>>, StoreError> {
    let try_open = || open(state, settings).map(Arc::new);
    settings.enabled.then(try_open).transpose()
}

fn open_patiently(
    state: &Path,
    settings: &config::Journal,
    retry_after: Duration,
) -> Result<Journal, StoreError> {
    let folder = state.join(FOLDER);
    let queue = Arc::new(JournalQueue::new(settings.durability));
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
