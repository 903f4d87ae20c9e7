//! The tables of `journal.db`, by version, and the connections to it.

use std::path::{Path, PathBuf};

use mainstay_core::config::Durability;
use mainstay_platform::state::{open_private, private_options};
use rusqlite::{Connection, OpenFlags};

use super::{StoreError, bounds::Bounds, facets, layout};

/// Each step migrates the tables to the next version. Released steps never change.
const MIGRATIONS: [&str; 5] = [VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5];

const VERSION_1: &str = "
    -- Who called; a row may come twice.
    CREATE TABLE origins (
        id INTEGER PRIMARY KEY, door INTEGER NOT NULL, profile TEXT, client TEXT, version TEXT,
        principal TEXT, session TEXT
    ) STRICT;
    -- What was called; a row may come twice.
    CREATE TABLE targets (
        id INTEGER PRIMARY KEY, server TEXT NOT NULL, method TEXT NOT NULL, tool TEXT NOT NULL
    ) STRICT;
    -- Times are microseconds, started_at since 1970.
    CREATE TABLE calls (
        id INTEGER PRIMARY KEY, target INTEGER NOT NULL, origin INTEGER NOT NULL,
        state INTEGER NOT NULL, status INTEGER NOT NULL, attempts INTEGER NOT NULL,
        started_at INTEGER NOT NULL, queue INTEGER NOT NULL, upstream INTEGER NOT NULL,
        duration INTEGER, arguments INTEGER, arguments_size INTEGER, result INTEGER,
        result_size INTEGER, error_kind TEXT, error TEXT, trace BLOB
    ) STRICT;
    -- Arguments and results: the heads of so many objects with the numbers from first on, and their
    -- bytes.
    CREATE TABLE packs (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, objects BLOB NOT NULL) STRICT;
    -- Those of them whose bytes are in files.
    CREATE TABLE files (
        object INTEGER PRIMARY KEY, digest BLOB NOT NULL, size INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX files_by_digest ON files (digest, size);
    -- The objects of a run that is complete, by the first bits of their digests: run * 2048 + these, and
    -- for each object its digest's first eight bytes and its place in the run.
    CREATE TABLE digests (id INTEGER PRIMARY KEY, objects BLOB NOT NULL) STRICT;
    -- The last call that may name an object of the run two before this one.
    CREATE TABLE runs (run INTEGER PRIMARY KEY, last_call INTEGER NOT NULL) STRICT;
    -- What calls are filtered by, of a chunk of calls that is complete.
    CREATE TABLE facets (
        chunk INTEGER PRIMARY KEY, since INTEGER NOT NULL, until INTEGER NOT NULL, rows BLOB NOT NULL
    ) STRICT;
    -- Statistics of a target over a span of time (microseconds).
    CREATE TABLE rollups (
        span INTEGER NOT NULL, start INTEGER NOT NULL, target INTEGER NOT NULL,
        calls INTEGER NOT NULL, errors INTEGER NOT NULL, argument_bytes INTEGER NOT NULL,
        result_bytes INTEGER NOT NULL, latencies BLOB NOT NULL,
        PRIMARY KEY (span, start, target)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

const VERSION_2: &str = "
    -- For whom objects are kept: whose token the call came with, the server that it named, and the tool.
    -- What there is none of is an empty text.
    CREATE TABLE holders (
        id INTEGER PRIMARY KEY, principal TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL,
        UNIQUE (principal, server, tool)
    ) STRICT;
    -- The holder of each object, in the order of the objects, four bytes each; none are those of rows
    -- from before.
    ALTER TABLE packs ADD COLUMN holders BLOB;
    ALTER TABLE digests ADD COLUMN holders BLOB;
";

/// [`facets::add_states`] is part of this step.
const VERSION_3: &str = "
    -- Changes of servers' statuses, and with an empty name what happened to Mainstay itself.
    CREATE TABLE transitions (
        id INTEGER PRIMARY KEY, at INTEGER NOT NULL, server TEXT NOT NULL, status TEXT NOT NULL,
        degraded INTEGER NOT NULL, reason TEXT, exit_code INTEGER, exit_signal INTEGER,
        attempt INTEGER, next_retry INTEGER, stderr TEXT
    ) STRICT;
    CREATE INDEX transitions_by_server ON transitions (server, at);
";

/// See [`super::call_packs`].
const VERSION_4: &str = "
    -- Calls that had ended when they were first written, with numbers from first to last; until is when the
    -- newest of them started.
    CREATE TABLE call_packs (
        first INTEGER PRIMARY KEY, last INTEGER NOT NULL, count INTEGER NOT NULL, until INTEGER NOT NULL,
        calls BLOB NOT NULL
    ) STRICT;
    -- The attempts before the last one, of calls that were tried several times. ended is the time since the
    -- call came, in microseconds.
    CREATE TABLE attempts (
        call INTEGER NOT NULL, number INTEGER NOT NULL, ended INTEGER NOT NULL, state INTEGER NOT NULL,
        error_kind TEXT NOT NULL, error TEXT NOT NULL,
        PRIMARY KEY (call, number)
    ) STRICT, WITHOUT ROWID;
";
/// The first version with packs of calls.
const CALL_PACKS_VERSION: i64 = 4;

const VERSION_5: &str = "
    -- Times of which so many calls are not on record, and why.
    CREATE TABLE gaps (
        id INTEGER PRIMARY KEY, since INTEGER NOT NULL, until INTEGER NOT NULL, calls INTEGER NOT NULL,
        reason TEXT NOT NULL
    ) STRICT;
";
/// The first version with gaps.
const GAPS_VERSION: i64 = 5;

/// Size of the writer's cache: 8 MiB, because the writer appends to a few tables.
const WRITER_CACHE_KIB: i32 = 8 * 1024;
/// Size of a reader's cache: enough for a page of records and its facets.
const READER_CACHE_KIB: i32 = 4 * 1024;
/// Size of the cache of prepared statements: more than the number of statements.
const STATEMENTS: usize = 64;

pub fn path(state: &Path) -> PathBuf {
    state.join("journal.db")
}

/// Opens the writer's connection.
pub fn open(
    state: &Path,
    durability: Durability,
    bounds: Bounds,
) -> Result<Connection, StoreError> {
    let path = path(state);
    // Created here, so that no other user can read the database. SQLite creates its other files
    // with the same mode.
    open_private(&path, private_options().write(true)).map_err(|source| StoreError::Io {
        path: path.clone(),
        source: source.into(),
    })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let synchronous = match durability {
        Durability::Relaxed => "NORMAL",
        Durability::Strict => "FULL",
    };
    let mut connection = Connection::open_with_flags(&path, flags)?;
    check(&connection, &path, state)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    // The writer decides when to checkpoint.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", bounds.kept_log)?;
    migrate(&mut connection, &path)?;
    Ok(connection)
}

pub fn open_to_read(state: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path(state), flags)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    Ok(connection)
}

/// Adds missing tables to a read-only journal of an older version: empty temporary tables for packs
/// of calls and gaps.
pub fn fill_in(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    for (since, step) in [(CALL_PACKS_VERSION, VERSION_4), (GAPS_VERSION, VERSION_5)] {
        if version < since {
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            connection.execute_batch(&step.replace("CREATE TABLE", "CREATE TEMP TABLE"))?;
        }
    }
    Ok(())
}

/// Converts a number for SQLite, whose integers are signed. All numbers of the journal are within
/// their range.
pub fn integer(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// The version of the tables, 0 for an empty database. A version above the latest is an error.
pub fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let supported = integer(MIGRATIONS.len());
    let found_version: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found_version > supported {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found: found_version,
            supported,
        });
    }
    Ok(found_version)
}

/// Checks that the database is a journal or empty. A database of another program stays unchanged.
fn check(connection: &Connection, path: &Path, folder: &Path) -> Result<(), StoreError> {
    if version(connection, path)? > 0 {
        return Ok(());
    }
    let query = "SELECT count(*) FROM sqlite_schema";
    let table_count: i64 = connection.query_row(query, [], |row| row.get(0))?;
    if table_count > 0 || layout::holds_objects(folder)? {
        return Err(StoreError::Foreign(path.to_owned()));
    }
    Ok(())
}

/// Migrates the tables to the current version.
fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let found_version = version(connection, path)?;
    match take_steps(connection, found_version) {
        // The tables do not match the version.
        Err(error) if error.is_damage() => Err(StoreError::OtherVersion {
            path: path.to_owned(),
            found: found_version,
        }),
        result => result,
    }
}

fn take_steps(connection: &mut Connection, found_version: i64) -> Result<(), StoreError> {
    for (version, step) in (1..)
        .zip(MIGRATIONS)
        .filter(|(version, _)| *version > found_version)
    {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        if version == 3 {
            facets::add_states(&transaction)?;
        }
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}
