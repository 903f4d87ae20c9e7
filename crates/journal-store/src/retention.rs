//! Deletes what is too old or too much, a little at a time, between commits.

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
    batch::Row,
    call_packs::{self, first_call},
    database::{self, Database},
    facets, gaps, history, holders,
    objects::{self, RUN, first_row_of, is_in_file},
    rollup::MINUTES_KEPT,
    schema::integer,
    time::{HOUR, MINUTE, span},
};

/// How often it is looked at what is too old, or too much.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Calls that go in one step: about 5 ms, and more than come in a window at saturation.
const CALLS: i64 = 4096;
/// Objects that go in one step: twice as many, as they came.
const OBJECTS: i64 = 2 * CALLS;
/// Pages that are given back in one step, each of which may move another.
const PAGES: i64 = 512;
/// Calls that go before unused names are looked for, which reads all facets.
const SWEEP_AFTER: i64 = 256 * 1024;

/// How often the time is kept for the next run.
const KEEP_SEEN: i64 = MINUTE;

/// Moments of this run at which it is known which calls had come.
const MARKS: u32 = 64;

#[derive(Debug)]
pub struct Retention {
    age: Age,
    /// The time that was kept last.
    kept: i64,
    /// Of objects in files.
    file_bytes: u64,
    looked: Instant,
    /// Bytes that were written since, about. A thread that sleeps until the next call would otherwise
    /// leave too much.
    grown: u64,
    busy: bool,
    /// Calls that went since the last sweep.
    gone: i64,
    /// What records and objects took at the last look.
    bytes: u64,
    /// Rows of the history of servers.
    history_rows: i64,
    run: Run,
}

/// How old the calls of this run are, by a clock that only goes on: the machine's may have been wrong when it
/// dated them.
#[derive(Debug)]
struct Run {
    /// The first call that came after each of these moments, in order.
    marks: VecDeque<(i64, Instant)>,
    /// Before it all calls of this run are younger than records may grow.
    first: i64,
}

impl Run {
    fn new(first: i64) -> Self {
        Self {
            marks: VecDeque::new(),
            first,
        }
    }

    /// The first call that may not go for its age, where `next` is the next one to come.
    fn first_young(&mut self, next: i64, retention: Duration, now: Instant) -> i64 {
        let newest = self.marks.back().map(|(_, at)| *at);
        if newest.is_none_or(|at| now.duration_since(at) >= retention / MARKS) {
            self.marks.push_back((next, now));
        }
        while let Some((call, at)) = self.marks.front()
            && now.duration_since(*at) >= retention
        {
            self.first = *call;
            self.marks.pop_front();
        }
        self.first
    }
}

impl Retention {
    pub fn new(database: &Database) -> rusqlite::Result<Self> {
        let files = "SELECT coalesce(sum(size), 0) FROM (SELECT DISTINCT digest, size FROM files)";
        let bytes: i64 = database.connection.query_row(files, [], |row| row.get(0))?;
        Ok(Self {
            age: Age::new(database::seen(&database.connection)?),
            kept: 0,
            file_bytes: bytes.unsigned_abs(),
            looked: Instant::now(),
            grown: 0,
            // What has gathered since the last run.
            busy: true,
            gone: 0,
            bytes: used_bytes(&database.connection)? + bytes.unsigned_abs(),
            history_rows: history::rows(&database.connection)?,
            run: Run::new(database.memory.next_call),
        })
    }

    /// What records and objects took at the last look.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there is something to do, now or soon.
    pub fn is_busy(&self) -> bool {
        self.busy || self.grown > 0
    }

    /// `bytes` were written, about, and `file_bytes` of them into files.
    pub fn grew(&mut self, bytes: u64, file_bytes: u64) {
        self.file_bytes += file_bytes;
        self.grown += bytes;
    }

    /// So many changes of servers' statuses were written.
    pub fn noted(&mut self, rows: usize) {
        self.history_rows += integer(rows);
    }

    /// One step, or as many as it takes to remove more than has come. `in_use` are calls that are not
    /// written to their end.
    pub fn step(
        &mut self,
        database: &mut Database,
        in_use: impl Iterator<Item = Row>,
    ) -> Result<(), StoreError> {
        let is_due =
            self.looked.elapsed() >= LOOK_EVERY || self.grown >= database.bounds.between_looks;
        if !self.busy && !is_due {
            return Ok(());
        }
        self.looked = Instant::now();
        let now = self.age.now();
        if now - self.kept >= KEEP_SEEN {
            database::keep_seen(&database.connection, now)?;
            self.kept = now;
        }
        let grown = std::mem::take(&mut self.grown);
        // Where this fails it is tried again when it is time to look again, not at once.
        self.busy = false;
        // More goes than has come, so that the journal stays small however much comes.
        let before = self.size(database)?;
        self.bytes = before;
        let goal = before
            .saturating_sub(2 * grown)
            .max(database.bounds.max_bytes);
        loop {
            // Calls go for the sake of their objects: while some still can go, no more calls need to.
            let is_more = self.objects(database)?
                || self.calls(database, now)?
                || vacuum(&database.connection, database.bounds.spare_pages)?;
            self.bytes = self.size(database)?;
            if !is_more || self.bytes <= goal {
                self.busy = is_more;
                break;
            }
        }
        if !self.busy {
            self.history(database, now)?;
            rollups(database, now)?;
            if self.gone >= SWEEP_AFTER {
                sweep(database, in_use)?;
                self.gone = 0;
            }
        }
        Ok(())
    }

    /// The oldest changes of servers' statuses.
    fn history(&mut self, database: &Database, now: i64) -> rusqlite::Result<()> {
        let (oldest, max_rows) = (oldest_kept(database, now), database.bounds.history_rows);
        let gone = history::prune(&database.connection, oldest, self.history_rows, max_rows)?;
        self.history_rows -= gone;
        self.busy |= history::is_full_step(gone);
        gaps::prune(&database.connection, oldest)?;
        Ok(())
    }

    /// The oldest calls. `true` if there may be more.
    fn calls(&mut self, database: &mut Database, now: i64) -> Result<bool, StoreError> {
        let connection = &database.connection;
        let Some(first) = first_call(connection)? else {
            return Ok(false);
        };
        let too_many = self.too_many(database, first)?;
        let (next, retention) = (database.memory.next_call, database.settings.retention);
        let first_young = self.run.first_young(next, retention, Instant::now());
        let (end, oldest) = match too_many {
            Some(too_many) => (too_many.min(first + CALLS), i64::MAX),
            None => {
                let oldest = oldest_kept(database, now);
                let end = first_young.min(first + CALLS);
                // A call that came after a young one is young, whatever a clock that was wrong says.
                let kept = call_packs::first_between(connection, end, oldest, now)?;
                (kept.unwrap_or(end), oldest)
            }
        };
        let transaction = connection.unchecked_transaction()?;
        let gone = call_packs::delete(&transaction, end, oldest)?;
        if gone == 0 {
            return Ok(false);
        }
        let first = first_call(&transaction)?.unwrap_or(database.memory.next_call);
        transaction
            .prepare_cached("DELETE FROM facets WHERE chunk < ?")?
            .execute([first / facets::CHUNK])?;
        transaction
            .prepare_cached("DELETE FROM attempts WHERE call < ?")?
            .execute([first])?;
        transaction.commit()?;
        self.gone += gone;
        Ok(true)
    }

    /// The oldest objects of runs that no call names any more.
    fn objects(&mut self, database: &mut Database) -> Result<bool, StoreError> {
        let connection = &database.connection;
        let first_call = first_call(connection)?.unwrap_or(database.memory.next_call);
        let turned: Option<i64> = connection
            .prepare_cached("SELECT max(run) FROM runs WHERE last_call < ?")?
            .query_row([first_call], |row| row.get(0))?;
        let Some(turned) = turned else {
            return Ok(false);
        };
        // The first run that may be named.
        let kept = turned - 1;
        let oldest = "SELECT min(first) FROM packs";
        let oldest: Option<i64> = connection.query_row(oldest, [], |row| row.get(0))?;
        let Some(oldest) = oldest.filter(|id| *id < kept * RUN) else {
            return Ok(false);
        };
        let end = (oldest + OBJECTS).min(kept * RUN);
        // No pack is of two runs, and one goes as a whole.
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
            .execute([first_row_of(end / RUN)])?;
        transaction
            .prepare_cached("DELETE FROM runs WHERE run < ?")?
            .execute([turned])?;
        transaction.commit()?;
        let files: HashSet<(Cid, i64)> = files.into_iter().collect();
        for (cid, size) in files {
            // It may have come again.
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

    /// The first call that may stay, if the journal is too large: the oldest run of objects can go
    /// with those before it.
    fn too_many(&self, database: &Database, first: i64) -> rusqlite::Result<Option<i64>> {
        if self.size(database)? <= database.bounds.max_bytes {
            return Ok(None);
        }
        let last: Option<i64> = database
            .connection
            .prepare_cached("SELECT min(last_call) FROM runs WHERE last_call >= ?")?
            .query_row([first], |row| row.get(0))?;
        Ok(match last {
            Some(last) => Some(last + 1),
            // The records themselves are too many. Files are those of the newest calls now.
            None if used_bytes(&database.connection)? > database.bounds.max_bytes => Some(i64::MAX),
            None => None,
        })
    }

    /// What records and objects take.
    fn size(&self, database: &Database) -> rusqlite::Result<u64> {
        Ok(used_bytes(&database.connection)? + self.file_bytes)
    }
}

/// The start of the oldest calls that may stay.
fn oldest_kept(database: &Database, now: i64) -> i64 {
    now - span(database.settings.retention)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// The bytes of the database that are in use.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let used = pragma(connection, "page_count")? - pragma(connection, "freelist_count")?;
    Ok((used * pragma(connection, "page_size")?).unsigned_abs())
}

/// Returns freed pages to the file system, but for so many.
fn vacuum(connection: &Connection, spare_pages: i64) -> rusqlite::Result<bool> {
    let spare = pragma(connection, "freelist_count")? - spare_pages;
    if spare <= 0 {
        return Ok(false);
    }
    let pages = spare.min(PAGES);
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut vacuum = vacuum.query([])?;
    // Each row is a page.
    while vacuum.next()?.is_some() {}
    Ok(spare > pages)
}

fn rollups(database: &Database, now: i64) -> rusqlite::Result<()> {
    for (span, oldest) in [
        (MINUTE, now - MINUTES_KEPT),
        (HOUR, oldest_kept(database, now)),
    ] {
        database
            .connection
            .prepare_cached("DELETE FROM rollups WHERE span = ? AND start < ?")?
            .execute([span, oldest - oldest.rem_euclid(span)])?;
    }
    Ok(())
}

/// Removes origins, targets and holders that no call, no object and no statistic names any more.
fn sweep(database: &mut Database, in_use: impl Iterator<Item = Row>) -> Result<(), StoreError> {
    let Database {
        connection,
        memory,
        published,
        ..
    } = database;
    let mut holders: HashSet<u32> = objects::lock(&published.recent).holders().collect();
    let mut targets: HashSet<u32> = memory.rollups.targets().collect();
    for row in in_use {
        // Its statistics are yet to be written, and its result may be.
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
    let mut rolled_up = connection.prepare("SELECT DISTINCT target FROM rollups")?;
    for target in rolled_up.query_map([], |row| row.get(0))? {
        targets.insert(target?);
    }
    let mut digests =
        connection.prepare("SELECT holders FROM digests WHERE holders IS NOT NULL")?;
    let mut digests = digests.query([])?;
    while let Some(row) = digests.next()? {
        let column = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        holders.extend(holders::decode(Some(column), column.len() / 4));
    }
    memory.origins.forget();
    memory.targets.forget();
    memory.holders.forget();
    let transaction = connection.unchecked_transaction()?;
    for (table, used) in [
        ("origins", &origins),
        ("targets", &targets),
        ("holders", &holders),
    ] {
        let mut delete = transaction.prepare(&format!("DELETE FROM {table} WHERE id = ?"))?;
        let mut ids = transaction.prepare(&format!("SELECT id FROM {table}"))?;
        let ids: Vec<u32> = ids
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for id in ids.iter().filter(|id| !used.contains(id)) {
            delete.execute(params![id])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of this run goes when as much time has passed as records are kept, whatever the clock says.
    #[test]
    fn calls_of_this_run_grow_old_by_a_clock_that_only_goes_on() {
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
        assert!(run.marks.len() <= 2 + MARKS as usize);
    }
}
