//! Deletes records that are too old or too many, in small steps between commits.

use std::{
    collections::{HashSet, VecDeque},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use mainstay_core::record::Cid;
use rusqlite::{Connection, params};

use super::{
    StoreError,
    age::Age,
    batch::WrittenCall,
    call_packs::{self, first_call},
    database::{self, Database},
    facets, gaps, history, holders,
    objects::{self, RUN_LENGTH, first_row_of, is_in_file},
    rollup::MINUTE_RETENTION,
    schema::integer,
    time::{HOUR, MINUTE, span},
};

/// Time between two checks of age and size.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of calls that one step deletes. A step takes about 5 ms, and deletes more calls
/// than one turn writes under full load.
const CALLS_PER_STEP: i64 = 4096;
/// Maximum number of objects that one step deletes: two for each call.
const OBJECTS_PER_STEP: i64 = 2 * CALLS_PER_STEP;
/// Maximum number of free pages that one step returns to the file system. Each may move another
/// page.
const PAGES_PER_STEP: i64 = 512;
/// Number of deleted calls between two sweeps for unused names. A sweep reads all facets.
const CALLS_PER_SWEEP: i64 = 256 * 1024;

/// Interval at which the last recorded time of the journal is written.
const SEEN_INTERVAL: i64 = MINUTE;

/// Maximum number of marks in this run.
const MAX_MARKS: u32 = 64;

#[derive(Debug)]
pub struct Retention {
    age: Age,
    /// The last recorded time that was written.
    written_time: i64,
    /// Bytes of objects in files.
    file_bytes: u64,
    looked: Instant,
    /// Approximate number of bytes written since the last check. Without this count, the journal
    /// could stay too large while the thread sleeps.
    grown: u64,
    busy: bool,
    /// Number of calls deleted since the last sweep.
    gone: i64,
    /// Bytes of records and objects at the last check.
    bytes: u64,
    /// Rows of the history of servers.
    history_rows: i64,
    run: Run,
}

/// The age of this run's calls by a monotonic clock, because the machine's clock may have been
/// wrong at their start.
#[derive(Debug)]
struct Run {
    /// Points in time, each with the id of the next call, in ascending order.
    marks: VecDeque<(i64, Instant)>,
    /// The first call of this run that is younger than the retention.
    first: i64,
}

impl Run {
    fn new(first: i64) -> Self {
        Self {
            marks: VecDeque::new(),
            first,
        }
    }

    /// The id of the first call that is too young to be deleted. `next` is the id of the next call.
    fn first_young(&mut self, next: i64, retention: Duration, now: Instant) -> i64 {
        let newest_mark = self.marks.back().map(|(_, time)| *time);
        if newest_mark.is_none_or(|time| now.duration_since(time) >= retention / MAX_MARKS) {
            self.marks.push_back((next, now));
        }
        while let Some((call, time)) = self.marks.front()
            && now.duration_since(*time) >= retention
        {
            self.first = *call;
            self.marks.pop_front();
        }
        self.first
    }
}

impl Retention {
    pub fn new(database: &Database) -> rusqlite::Result<Self> {
        let query = "SELECT coalesce(sum(size), 0) FROM (SELECT DISTINCT digest, size FROM files)";
        let file_bytes: i64 = database.connection.query_row(query, [], |row| row.get(0))?;
        Ok(Self {
            age: Age::new(database::last_recorded_time(&database.connection)?),
            written_time: 0,
            file_bytes: file_bytes.unsigned_abs(),
            looked: Instant::now(),
            grown: 0,
            // Data of an earlier run may already be too old or too large.
            busy: true,
            gone: 0,
            bytes: used_bytes(&database.connection)? + file_bytes.unsigned_abs(),
            history_rows: history::rows(&database.connection)?,
            run: Run::new(database.memory.next_call),
        })
    }

    /// Bytes of records and objects at the last check.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if a step is due, now or soon.
    pub fn is_busy(&self) -> bool {
        self.busy || self.grown > 0
    }

    /// Adds an approximate number of written bytes. `file_bytes` of them are in files.
    pub fn add_bytes(&mut self, bytes: u64, file_bytes: u64) {
        self.file_bytes += file_bytes;
        self.grown += bytes;
    }

    /// Adds rows that were written to the history of servers.
    pub fn add_history_rows(&mut self, rows: usize) {
        self.history_rows += integer(rows);
    }

    /// Does one step, or more if one step deletes less than was written. `in_use` are the calls
    /// that are not completely written.
    pub fn step(
        &mut self,
        database: &mut Database,
        in_use: impl Iterator<Item = WrittenCall>,
    ) -> Result<(), StoreError> {
        let is_due =
            self.looked.elapsed() >= CHECK_INTERVAL || self.grown >= database.bounds.between_looks;
        if !self.busy && !is_due {
            return Ok(());
        }
        self.looked = Instant::now();
        let now = self.age.now();
        if now - self.written_time >= SEEN_INTERVAL {
            database::write_last_recorded_time(&database.connection, now)?;
            self.written_time = now;
        }
        let grown = std::mem::take(&mut self.grown);
        // After a failure, the next check tries again.
        self.busy = false;
        // Delete more than was written, so that the journal stays within its bound under any load.
        let previous_size = self.size(database)?;
        self.bytes = previous_size;
        let target_size = previous_size
            .saturating_sub(2 * grown)
            .max(database.bounds.max_bytes);
        loop {
            // Calls are deleted only to make objects deletable. While objects can be deleted, calls
            // stay.
            let is_more = self.objects(database)?
                || self.calls(database, now)?
                || vacuum(&database.connection, database.bounds.spare_pages)?;
            self.bytes = self.size(database)?;
            if !is_more || self.bytes <= target_size {
                self.busy = is_more;
                break;
            }
        }
        if !self.busy {
            self.history(database, now)?;
            rollups(database, now)?;
            if self.gone >= CALLS_PER_SWEEP {
                sweep(database, in_use)?;
                self.gone = 0;
            }
        }
        Ok(())
    }

    /// Deletes the oldest changes of servers' statuses.
    fn history(&mut self, database: &Database, now: i64) -> rusqlite::Result<()> {
        let (oldest, max_rows) = (oldest_retained(database, now), database.bounds.history_rows);
        let deleted_rows =
            history::prune(&database.connection, oldest, self.history_rows, max_rows)?;
        self.history_rows -= deleted_rows;
        self.busy |= history::is_full_step(deleted_rows);
        gaps::prune(&database.connection, oldest)?;
        Ok(())
    }

    /// Deletes the oldest calls. Returns `true` if there may be more.
    fn calls(&mut self, database: &mut Database, now: i64) -> Result<bool, StoreError> {
        let connection = &database.connection;
        let Some(first_id) = first_call(connection)? else {
            return Ok(false);
        };
        let first_retained_call = self.first_retained_call(database, first_id)?;
        let (next_id, retention) = (database.memory.next_call, database.settings.retention);
        let first_young = self.run.first_young(next_id, retention, Instant::now());
        let (end, oldest) = match first_retained_call {
            Some(first_retained_call) => {
                (first_retained_call.min(first_id + CALLS_PER_STEP), i64::MAX)
            }
            None => {
                let oldest = oldest_retained(database, now);
                let end = first_young.min(first_id + CALLS_PER_STEP);
                // A call after a young call is young, even if its recorded start is wrong.
                let first_retained = call_packs::find_first_between(connection, end, oldest, now)?;
                (first_retained.unwrap_or(end), oldest)
            }
        };
        let transaction = connection.unchecked_transaction()?;
        let deleted_calls = call_packs::delete(&transaction, end, oldest)?;
        if deleted_calls == 0 {
            return Ok(false);
        }
        let first_id = first_call(&transaction)?.unwrap_or(database.memory.next_call);
        transaction
            .prepare_cached("DELETE FROM facets WHERE chunk < ?")?
            .execute([first_id / facets::CHUNK_LENGTH])?;
        transaction
            .prepare_cached("DELETE FROM attempts WHERE call < ?")?
            .execute([first_id])?;
        transaction.commit()?;
        self.gone += deleted_calls;
        Ok(true)
    }

    /// Deletes the oldest objects of runs to which no call refers.
    fn objects(&mut self, database: &mut Database) -> Result<bool, StoreError> {
        let connection = &database.connection;
        let first_call = first_call(connection)?.unwrap_or(database.memory.next_call);
        let last_turned_run: Option<i64> = connection
            .prepare_cached("SELECT max(run) FROM runs WHERE last_call < ?")?
            .query_row([first_call], |row| row.get(0))?;
        let Some(last_turned_run) = last_turned_run else {
            return Ok(false);
        };
        // The first run to which a call may refer.
        let first_retained = last_turned_run - 1;
        let query = "SELECT min(first) FROM packs";
        let oldest: Option<i64> = connection.query_row(query, [], |row| row.get(0))?;
        let Some(oldest) = oldest.filter(|id| *id < first_retained * RUN_LENGTH) else {
            return Ok(false);
        };
        let end = (oldest + OBJECTS_PER_STEP).min(first_retained * RUN_LENGTH);
        // A pack belongs to one run, and is deleted as a whole.
        let end: i64 = connection
            .prepare_cached("SELECT max(first + count) FROM packs WHERE first < ?")?
            .query_row([end], |row| row.get(0))?;
        let files: Vec<(Cid, i64)> = connection
            .prepare_cached("SELECT digest, size FROM files WHERE object < ?")?
            .query_map([end], |row| {
                Ok((Cid::from_digest(row.get(0)?), row.get(1)?))
            })?
            .collect::<Result<_, _>>()?;
        let transaction = connection.unchecked_transaction()?;
        transaction
            .prepare_cached("DELETE FROM packs WHERE first < ?")?
            .execute([end])?;
        transaction
            .prepare_cached("DELETE FROM files WHERE object < ?")?
            .execute([end])?;
        transaction
            .prepare_cached("DELETE FROM digests WHERE id < ?")?
            .execute([first_row_of(end / RUN_LENGTH)])?;
        transaction
            .prepare_cached("DELETE FROM runs WHERE run < ?")?
            .execute([last_turned_run])?;
        transaction.commit()?;
        let files: HashSet<(Cid, i64)> = files.into_iter().collect();
        for (cid, size) in files {
            // A newer object with the same content may use the file.
            if !is_in_file(connection, &cid)? {
                database
                    .files
                    .remove(&cid)
                    .map_err(|source| StoreError::Io {
                        path: database.files.path(&cid),
                        source,
                    })?;
                self.file_bytes = self.file_bytes.saturating_sub(size.unsigned_abs());
            }
        }
        Ok(true)
    }

    /// The first call to retain in a journal that is too large. The oldest run of objects is
    /// deletable after the calls before this one.
    fn first_retained_call(
        &self,
        database: &Database,
        first: i64,
    ) -> rusqlite::Result<Option<i64>> {
        if self.size(database)? <= database.bounds.max_bytes {
            return Ok(None);
        }
        let last_call: Option<i64> = database
            .connection
            .prepare_cached("SELECT min(last_call) FROM runs WHERE last_call >= ?")?
            .query_row([first], |row| row.get(0))?;
        Ok(match last_call {
            Some(last_call) => Some(last_call + 1),
            // The records alone exceed the bound. The remaining files belong to the newest calls.
            None if used_bytes(&database.connection)? > database.bounds.max_bytes => Some(i64::MAX),
            None => None,
        })
    }

    /// Bytes of records and objects.
    fn size(&self, database: &Database) -> rusqlite::Result<u64> {
        Ok(used_bytes(&database.connection)? + self.file_bytes)
    }
}

/// The start of the oldest calls to retain.
fn oldest_retained(database: &Database, now: i64) -> i64 {
    now - span(database.settings.retention)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// The bytes of the database that are in use.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let used_pages = pragma(connection, "page_count")? - pragma(connection, "freelist_count")?;
    Ok((used_pages * pragma(connection, "page_size")?).unsigned_abs())
}

/// Returns freed pages to the file system, except for `spare_pages`.
fn vacuum(connection: &Connection, spare_pages: i64) -> rusqlite::Result<bool> {
    let extra_pages = pragma(connection, "freelist_count")? - spare_pages;
    if extra_pages <= 0 {
        return Ok(false);
    }
    let pages = extra_pages.min(PAGES_PER_STEP);
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = statement.query([])?;
    // Each row is one page.
    while rows.next()?.is_some() {}
    Ok(extra_pages > pages)
}

fn rollups(database: &Database, now: i64) -> rusqlite::Result<()> {
    for (span, oldest) in [
        (MINUTE, now - MINUTE_RETENTION),
        (HOUR, oldest_retained(database, now)),
    ] {
        database
            .connection
            .prepare_cached("DELETE FROM rollups WHERE span = ? AND start < ?")?
            .execute([span, oldest - oldest.rem_euclid(span)])?;
    }
    Ok(())
}

/// Removes origins, targets and holders without a call, object or statistic.
fn sweep(
    database: &mut Database,
    in_use: impl Iterator<Item = WrittenCall>,
) -> Result<(), StoreError> {
    let Database {
        connection,
        memory,
        published,
        ..
    } = database;
    let mut holders: HashSet<u32> = objects::lock(&published.recent).holders().collect();
    let mut targets: HashSet<u32> = memory.rollups.targets().collect();
    for row in in_use {
        // The statistics and the result of the call may not be written yet.
        targets.insert(row.series);
        holders.insert(row.holder);
    }
    let mut origins = HashSet::new();
    facets::scan(
        connection,
        &memory.facets.last,
        i64::MIN,
        i64::MAX,
        i64::MAX,
        |_, facet| {
            targets.insert(facet.target);
            origins.insert(facet.origin);
            ControlFlow::Continue(())
        },
    )?;
    let mut statement = connection.prepare("SELECT DISTINCT target FROM rollups")?;
    for target in statement.query_map([], |row| row.get(0))? {
        targets.insert(target?);
    }
    let mut statement =
        connection.prepare("SELECT holders FROM digests WHERE holders IS NOT NULL")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let column = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        holders.extend(holders::decode(Some(column), column.len() / 4));
    }
    memory.origins.forget();
    memory.targets.forget();
    memory.holders.forget();
    let transaction = connection.unchecked_transaction()?;
    for (table, used_ids) in [
        ("origins", &origins),
        ("targets", &targets),
        ("holders", &holders),
    ] {
        let mut delete = transaction.prepare(&format!("DELETE FROM {table} WHERE id = ?"))?;
        let mut ids = transaction.prepare(&format!("SELECT id FROM {table}"))?;
        let ids: Vec<u32> = ids
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for id in ids.iter().filter(|id| !used_ids.contains(id)) {
            delete.execute(params![id])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of this run is deleted when the retention has passed by the monotonic clock.
    #[test]
    fn calls_of_this_run_age_by_a_monotonic_clock() {
        const DAY: Duration = Duration::from_hours(24);
        let (mut run, start) = (Run::new(100), Instant::now());
        // Ten calls a day.
        let mut first_young =
            |day: u32| run.first_young(100 + i64::from(day) * 10, DAY * 30, start + DAY * day);
        for day in 0..30 {
            assert_eq!(first_young(day), 100);
        }
        assert_eq!(first_young(30), 100);
        assert_eq!(first_young(45), 250);
        assert!(run.marks.len() <= 2 + MAX_MARKS as usize);
    }
}
