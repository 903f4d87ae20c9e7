//! State of the writing thread: its connection, and the memory for the next record.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use mainstay_core::{
    config,
    failure::FailureKind,
    record::{CallOrigin, State, Status, Target},
    redact::Redactor,
};
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    StoreError,
    bounds::Bounds,
    call_packs,
    facets::{self, CallStanding, Chunk, Facets},
    files::Files,
    history,
    holders::Holders,
    intern::{self, Interner},
    objects::{Failed, Objects, SharedRecent, is_in_file},
    opened_files::OpenedFiles,
    rollup::{EndedCall, Rollups},
    schema,
};

/// Maximum number of targets with statistics of their own between two writes of statistics. The
/// number is bounded because clients can invent names and URIs.
const MAX_SERIES: usize = 4096;

#[derive(Debug)]
pub struct Database {
    pub connection: Connection,
    pub files: Files,
    pub memory: Memory,
    pub settings: config::Journal,
    pub bounds: Bounds,
    pub redactor: Redactor,
    pub opened_files: OpenedFiles,
    /// True if the memory must be reloaded from the database.
    stale: bool,
    pub published: Published,
}

/// State that the writer shares with readers, besides the database.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The incomplete last chunk. `None` before the journal is opened.
    chunk: Arc<Mutex<Option<Chunk>>>,
    /// Number of times that a journal was opened. A connection to an earlier journal must not be
    /// used again.
    pub opened: Arc<AtomicU64>,
    pub recent: SharedRecent,
}

impl Published {
    pub fn chunk(&self) -> Option<Chunk> {
        self.lock().clone()
    }

    /// The lock is held only while the writer or a reader copies a chunk.
    fn lock(&self) -> MutexGuard<'_, Option<Chunk>> {
        self.chunk.lock()
    }
}

/// A cache of the database's contents. A failed transaction makes it stale.
#[derive(Debug)]
pub struct Memory {
    pub next_call: i64,
    pub origins: Interner<CallOrigin>,
    pub targets: Interner<Target>,
    pub objects: Objects,
    pub holders: Holders,
    pub facets: Facets,
    pub rollups: Rollups,
}

/// Counters that outlive their rows: ids that must not be used again, and the call up to which
/// statistics are complete.
const NEXT_CALL: &str = "next_call";
const NEXT_OBJECT: &str = "next_object";
const ROLLED_UP_CALL: &str = "rolled_up";
/// The last recorded time of the journal; see [`super::age`].
const LAST_SEEN: &str = "seen";

impl Memory {
    fn load(
        connection: &Connection,
        max_bytes: u64,
        recent: &SharedRecent,
    ) -> Result<Self, StoreError> {
        let last_id = call_packs::last_call(connection)?.unwrap_or(0);
        let next_call = counter(connection, NEXT_CALL)?.max(last_id + 1);
        let mut memory = Self {
            next_call,
            origins: Interner::load(connection)?,
            targets: Interner::load(connection)?,
            objects: Objects::load(
                connection,
                counter(connection, NEXT_OBJECT)?,
                max_bytes,
                recent,
            )?,
            holders: Holders::default(),
            facets: Facets::load(connection, next_call)?,
            rollups: Rollups::default(),
        };
        memory.roll_up(connection)?;
        Ok(memory)
    }

    /// Adds to the statistics the calls that ended after the last write of statistics. After a
    /// kill, one kind of call is missing: written as open before that write, and ended after it.
    fn roll_up(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let rolled_up = counter(connection, ROLLED_UP_CALL)?;
        call_packs::calls_from(connection, rolled_up, |call| {
            let Some(duration) = call.duration else {
                return Ok(());
            };
            let Some(target) = intern::target(connection, call.target)? else {
                return Ok(());
            };
            let ended_call = EndedCall {
                started_at: call.started_at,
                duration,
                status: Status::from_code(call.status).unwrap_or(Status::Unknown),
                argument_bytes: call.arguments_size.unwrap_or(0),
                result_bytes: call.result_size.unwrap_or(0),
            };
            // Records do not store if the tool was listed.
            let is_listed = !is_unlisted(ended_call.status, call.error_kind.as_deref());
            let series = self.target(connection, &target, is_listed)?.1;
            self.rollups.add(series, ended_call);
            Ok(())
        })
    }

    /// The ids of a target and of its statistics. URIs and unlisted names share statistics, because
    /// there are too many of them.
    pub fn target(
        &mut self,
        connection: &Connection,
        target: &Target,
        is_listed: bool,
    ) -> rusqlite::Result<(u32, u32)> {
        let id = self.targets.id(connection, target)?;
        let is_named = matches!(&*target.method, "tools/call" | "prompts/get");
        if is_named && is_listed && target.server.is_some() && self.rollups.len() < MAX_SERIES {
            return Ok((id, id));
        }
        Ok((id, self.rest_target(connection, target)?))
    }

    /// The id of the statistics that a server's targets of one method share, unless they have their
    /// own.
    fn rest_target(&mut self, connection: &Connection, target: &Target) -> rusqlite::Result<u32> {
        let rest_target = Target {
            tool: Arc::from(""),
            ..target.clone()
        };
        self.targets.id(connection, &rest_target)
    }

    /// Writes statistics, and the call up to which they are complete.
    pub fn write_rollups(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.rollups.write(connection)?;
        for (name, value) in [
            (ROLLED_UP_CALL, self.next_call),
            (NEXT_CALL, self.next_call),
            (NEXT_OBJECT, self.objects.next()),
        ] {
            connection
                .prepare_cached("INSERT OR REPLACE INTO counters VALUES (?, ?)")?
                .execute(params![name, value])?;
        }
        Ok(())
    }
}

/// True for a call that was refused because of a wrong name or method, which a client may have
/// invented.
fn is_unlisted(status: Status, kind: Option<&str>) -> bool {
    let listed_kinds = [
        FailureKind::ServerNotConnected,
        FailureKind::ServerNotAnswering,
        FailureKind::CallCrashesServer,
    ];
    let is_listed = |kind| listed_kinds.iter().any(|listed| listed.code() == kind);
    status == Status::Refused && !kind.is_some_and(is_listed)
}

fn counter(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    Ok(kept_counter(connection, name)?.unwrap_or(1))
}

fn kept_counter(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT value FROM counters WHERE name = ?")?
        .query_row([name], |row| row.get(0))
        .optional()
}

/// The last recorded time of the journal, in microseconds since 1970. `None` for a new journal.
pub fn last_recorded_time(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    if let Some(last_recorded_time) = kept_counter(connection, LAST_SEEN)? {
        return Ok(Some(last_recorded_time));
    }
    // An older journal has no counter of the time.
    call_packs::newest_start(connection)
}

/// The last time at which the previous run was certainly running.
fn last_seen(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let last_call = call_packs::last_sign(connection)?;
    Ok(last_call.max(kept_counter(connection, LAST_SEEN)?))
}

pub fn write_last_recorded_time(
    connection: &Connection,
    last_recorded_time: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO counters VALUES (?, ?)")?
        .execute(params![LAST_SEEN, last_recorded_time])?;
    Ok(())
}

impl Database {
    pub fn open(
        state: &Path,
        settings: &config::Journal,
        published: Published,
    ) -> Result<Self, StoreError> {
        let redactor = Redactor::new(&settings.redact, Instant::now)?;
        let bounds = Bounds::new(settings.max_bytes);
        let connection = schema::open(state, settings.durability, bounds)?;
        let files = Files::new(state).with_durability(settings.durability);
        let mut memory = Memory::load(&connection, settings.max_bytes, &published.recent)?;
        close_open_calls(&connection, &mut memory)?;
        if let Err(error) = history::begin(&connection, last_seen(&connection)?) {
            // The disk may be full. Records are still readable.
            tracing::warn!(%error, "the journal does not say that Mainstay started");
        }
        files.sweep(|cid| is_in_file(&connection, cid))?;
        published.opened.fetch_add(1, Relaxed);
        let database = Self {
            opened_files: OpenedFiles::new(state),
            published,
            connection,
            files,
            memory,
            settings: settings.clone(),
            bounds,
            redactor,
            stale: false,
        };
        database.publish();
        Ok(database)
    }

    /// Makes the committed state visible to readers.
    pub fn publish(&self) {
        let mut published = self.published.lock();
        let chunk = published.get_or_insert_default();
        chunk.take(&self.memory.facets.last);
    }

    /// Marks the memory as stale after a failed transaction, because it may contain more than the
    /// database.
    pub fn roll_back(&mut self) -> rusqlite::Result<()> {
        self.stale = true;
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.connection.execute_batch("ROLLBACK")
    }

    /// Begins a transaction. Reloads stale memory.
    pub fn begin(&mut self) -> Result<(), Failed> {
        if self.stale {
            let recent = &self.published.recent;
            let memory = Memory::load(&self.connection, self.settings.max_bytes, recent);
            self.memory = memory.map_err(Box::new)?;
            self.stale = false;
        }
        self.connection
            .prepare_cached("BEGIN IMMEDIATE")?
            .execute([])?;
        Ok(())
    }

    pub fn commit(&self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

/// Closes the calls that a previous run left open.
fn close_open_calls(connection: &Connection, memory: &mut Memory) -> Result<(), StoreError> {
    let mut open_calls = Vec::new();
    let last_chunk = memory.facets.last.clone();
    facets::scan(
        connection,
        &last_chunk,
        i64::MIN,
        i64::MAX,
        i64::MAX,
        |id, facet| {
            if facet.standing.status() == Status::Open.code() {
                open_calls.push(id);
            }
            ControlFlow::Continue(())
        },
    )?;
    let transaction = connection.unchecked_transaction()?;
    for id in open_calls {
        let state: Option<u8> = transaction
            .prepare_cached("SELECT state FROM calls WHERE id = ?")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        // The call was deleted for its age, before the rest of its chunk.
        let Some(state) = state else {
            continue;
        };
        let (status, kind, text) = if state > State::NotSent.code() {
            let kind = FailureKind::OutcomeUnknown.code();
            (
                Status::Unknown,
                kind,
                "Mainstay ended while the server had the call",
            )
        } else {
            let kind = FailureKind::Cancelled.code();
            (
                Status::Cancelled,
                kind,
                "Mainstay ended before the call was sent",
            )
        };
        transaction
            .prepare_cached("UPDATE calls SET status = ?, error_kind = ?, error = ? WHERE id = ?")?
            .execute(params![status.code(), kind, text, id])?;
        memory
            .facets
            .change(id, CallStanding::from_codes(status.code(), state));
    }
    memory.facets.settle(&transaction)?;
    transaction.commit()?;
    Ok(())
}
