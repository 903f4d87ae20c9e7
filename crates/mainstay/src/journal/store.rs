//! What the writing thread owns: the connection, what has to be known to write the next record, and
//! how a call becomes rows.

use std::{
    borrow::Cow,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use bytestring::ByteString;
use mainstay_core::{
    config::{self, Payloads},
    failure::FailureKind,
    record::{Cid, Origin, RecordError, State, Status, Target},
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::{
    JournalError,
    entry::{Call, Ending, Finished, Outcome, Rest},
    facets::{Chunk, Facet, Facets},
    files::Files,
    intern::{self, Interner},
    objects::{Content, Failed, Insert, Objects, Shared, is_in_file},
    redact::Redactor,
    rollup::{Ended, Rollups},
    schema::{self, integer},
    time::{micros, span},
};

/// Targets with statistics of their own until these are written. Clients can make up names and URIs.
const MAX_SERIES: usize = 4096;

#[derive(Debug)]
pub struct Store {
    pub connection: Connection,
    pub files: Files,
    pub memory: Memory,
    pub settings: config::Journal,
    redactor: Option<Redactor>,
    /// What is held is to be read again.
    stale: bool,
    /// What readers see of the chunk that is not complete.
    pub published: Arc<Mutex<Chunk>>,
    pub recent: Shared,
}

/// What is held of the database, and read from it again when a transaction has failed.
#[derive(Debug)]
pub struct Memory {
    pub next_call: i64,
    pub origins: Interner<Origin>,
    pub targets: Interner<Target>,
    pub objects: Objects,
    pub facets: Facets,
    pub rollups: Rollups,
}

/// Numbers that must not be given again, though their rows have gone; and up to which call
/// statistics are complete.
const NEXT_CALL: &str = "next_call";
const NEXT_OBJECT: &str = "next_object";
const ROLLED_UP: &str = "rolled_up";

impl Memory {
    fn load(
        connection: &Connection,
        max_bytes: u64,
        recent: &Shared,
    ) -> Result<Self, JournalError> {
        let last: i64 =
            connection.query_row("SELECT coalesce(max(id), 0) FROM calls", [], |row| {
                row.get(0)
            })?;
        let next_call = counter(connection, NEXT_CALL)?.max(last + 1);
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
            facets: Facets::load(connection, next_call)?,
            rollups: Rollups::default(),
        };
        memory.roll_up(connection)?;
        Ok(memory)
    }

    /// Adds up what had ended, and was not in the statistics when they were last written. A call
    /// that was written as open before that, and ended after it, is missing there if we were killed.
    fn roll_up(&mut self, connection: &Connection) -> Result<(), JournalError> {
        let mut calls = connection.prepare(
            "SELECT t.server, t.method, t.tool, started_at, duration, status, arguments_size,
                    result_size
             FROM calls c JOIN targets t ON t.id = c.target
             WHERE c.id >= ? AND duration IS NOT NULL",
        )?;
        let mut calls = calls.query([counter(connection, ROLLED_UP)?])?;
        while let Some(row) = calls.next()? {
            let ended = Ended {
                started_at: row.get(3)?,
                duration: row.get(4)?,
                status: Status::from_code(row.get(5)?).unwrap_or(Status::Unknown),
                argument_bytes: row.get::<_, Option<i64>>(6)?.unwrap_or(0),
                result_bytes: row.get::<_, Option<i64>>(7)?.unwrap_or(0),
            };
            let (_, series) = self.target(connection, &intern::target(row, 0)?)?;
            self.rollups.add(series, ended);
        }
        Ok(())
    }

    /// A target's number, and that under which its statistics are kept: URIs, and names that nobody
    /// knows, are too many to have their own.
    fn target(&mut self, connection: &Connection, target: &Target) -> rusqlite::Result<(u32, u32)> {
        let id = self.targets.id(connection, target)?;
        let is_named = matches!(&*target.method, "tools/call" | "prompts/get");
        if is_named && target.server.is_some() && self.rollups.len() < MAX_SERIES {
            return Ok((id, id));
        }
        let all = Target {
            tool: Arc::from(""),
            ..target.clone()
        };
        Ok((id, self.targets.id(connection, &all)?))
    }

    /// Writes statistics, and up to where they are complete.
    pub fn write_rollups(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.rollups.write(connection)?;
        for (name, value) in [
            (ROLLED_UP, self.next_call),
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

fn counter(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    let value = connection
        .prepare_cached("SELECT value FROM counters WHERE name = ?")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(value.unwrap_or(1))
}

impl Store {
    pub fn open(state: &Path, settings: &config::Journal) -> Result<Self, JournalError> {
        let redactor = Redactor::new(&settings.redact)?;
        let connection = schema::open(state, settings.durability)?;
        let files = Files::new(state).written(settings.durability);
        let recent = Shared::default();
        let mut memory = Memory::load(&connection, settings.max_bytes, &recent)?;
        close_open_calls(&connection, &mut memory)?;
        files.sweep(|cid| is_in_file(&connection, cid))?;
        let store = Self {
            published: Arc::default(),
            connection,
            files,
            memory,
            settings: settings.clone(),
            redactor,
            stale: false,
            recent,
        };
        store.publish();
        Ok(store)
    }

    /// Lets readers see what has been committed.
    pub fn publish(&self) {
        // Held to copy a chunk, as readers do.
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        published.take(&self.memory.facets.last);
    }

    /// After a transaction that failed: what is held is more than the database says.
    pub fn roll_back(&mut self) -> rusqlite::Result<()> {
        self.stale = true;
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.connection.execute_batch("ROLLBACK")
    }

    /// Begins a transaction.
    pub fn begin(&mut self) -> Result<(), Failed> {
        if self.stale {
            let loaded = Memory::load(&self.connection, self.settings.max_bytes, &self.recent);
            self.memory = loaded.map_err(Box::new)?;
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

/// What a run before left open.
fn close_open_calls(connection: &Connection, memory: &mut Memory) -> Result<(), JournalError> {
    let mut open = Vec::new();
    let last = memory.facets.last.clone();
    super::facets::scan(connection, &last, i64::MIN, i64::MAX, |id, facet| {
        if facet.status == Status::Open.code() {
            open.push(id);
        }
    })?;
    let transaction = connection.unchecked_transaction()?;
    for id in open {
        let sent: Option<bool> = transaction
            .prepare_cached("SELECT state > 0 FROM calls WHERE id = ?")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        // One that was too old has gone before the others of its chunk.
        let Some(sent) = sent else {
            continue;
        };
        let (status, kind, text) = if sent {
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
        memory.facets.change(id, status);
    }
    memory.facets.settle(&transaction)?;
    transaction.commit()?;
    Ok(())
}

/// Where a call stands in the database.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub id: i64,
    pub state: State,
    /// The target under which its statistics are kept.
    pub series: u32,
}

/// One transaction's writing.
pub struct Batch<'s> {
    connection: &'s Connection,
    memory: &'s mut Memory,
    payloads: Payloads,
    redactor: Option<&'s Redactor>,
    objects: Insert<'s>,
    insert: CachedStatement<'s>,
    update: CachedStatement<'s>,
}

const INSERT: &str = "INSERT INTO calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, \
                      ?13, ?14, ?15, ?16, ?17)";
const UPDATE: &str = "UPDATE calls SET state = ?2, status = ?3, attempts = ?4, queue = ?5, \
                      upstream = ?6, duration = ?7, result = ?8, result_size = ?9, \
                      error_kind = ?10, error = ?11 WHERE id = ?1";

impl<'s> Batch<'s> {
    pub fn new(store: &'s mut Store) -> rusqlite::Result<Self> {
        let Store {
            connection,
            files,
            memory,
            settings,
            redactor,
            stale: _,
            published: _,
            recent: _,
        } = store;
        let connection: &Connection = connection;
        Ok(Self {
            connection,
            memory,
            payloads: settings.payloads,
            redactor: redactor.as_ref(),
            objects: Insert::new(connection, files),
            insert: connection.prepare_cached(INSERT)?,
            update: connection.prepare_cached(UPDATE)?,
        })
    }

    /// Writes a call for the first time, ended or open.
    pub fn insert(&mut self, call: &Call, state: State, rest: &Rest) -> Result<Row, Failed> {
        let connection = self.connection;
        let shown = self
            .redactor
            .and_then(|redactor| shown(redactor, &call.target));
        let target = shown.as_ref().unwrap_or(&call.target);
        let (target, series) = self.memory.target(connection, target)?;
        let origin = self.memory.origins.id(connection, &call.origin)?;
        let arguments = self.object(rest.arguments.as_ref())?;
        let ended = self.ended(state, rest.ending.as_ref())?;
        let id = self.memory.next_call;
        let started_at = micros(call.started_at);
        self.insert.execute(params![
            id,
            target,
            origin,
            state.code(),
            ended.status.code(),
            ended.attempts,
            started_at,
            ended.queue,
            ended.upstream,
            ended.duration,
            arguments,
            integer(call.arguments_size),
            ended.result,
            ended.result_size,
            ended.error.map(|error| &*error.kind),
            ended.words,
            call.trace.as_ref().map(|trace| &trace.0),
        ])?;
        let facet = Facet {
            started_at,
            target,
            origin,
            status: ended.status.code(),
        };
        self.memory.facets.push(connection, id, facet)?;
        self.memory.next_call += 1;
        let row = Row { id, state, series };
        self.roll_up(call, row, &ended);
        Ok(row)
    }

    /// Writes the end of a call that was written as open.
    pub fn end(&mut self, call: &Call, row: Row, state: State, rest: &Rest) -> Result<Row, Failed> {
        let ended = self.ended(state, rest.ending.as_ref())?;
        self.update.execute(params![
            row.id,
            state.code(),
            ended.status.code(),
            ended.attempts,
            ended.queue,
            ended.upstream,
            ended.duration,
            ended.result,
            ended.result_size,
            ended.error.map(|error| &*error.kind),
            ended.words,
        ])?;
        self.memory.facets.change(row.id, ended.status);
        self.roll_up(call, row, &ended);
        Ok(Row { state, ..row })
    }

    /// Writes how far an open call has got.
    pub fn reached(&self, row: Row, state: State) -> rusqlite::Result<Row> {
        self.connection
            .prepare_cached("UPDATE calls SET state = ? WHERE id = ?")?
            .execute(params![state.code(), row.id])?;
        Ok(Row { state, ..row })
    }

    /// Stores a text that more than a record is to lead to.
    pub fn keep(&mut self, text: &ByteString) -> Result<Cid, Failed> {
        let text = redacted(self.redactor, text);
        let cid = Cid::of(text.as_bytes());
        self.put(cid, Content::Kept(&text))?;
        Ok(cid)
    }

    /// What is to be written beside the calls, before the commit. Returns the bytes of new files.
    pub fn settle(mut self) -> rusqlite::Result<u64> {
        self.objects.packer.write(self.connection)?;
        self.memory.facets.settle(self.connection)?;
        Ok(self.objects.file_bytes)
    }

    fn ended<'e>(&mut self, state: State, ending: Option<&'e Ending>) -> Result<End<'e>, Failed> {
        let Some(ending) = ending else {
            return Ok(End::OPEN);
        };
        let end = End {
            duration: Some(span(ending.duration)),
            result_size: ending.result_size.map(integer),
            ..End::OPEN
        };
        let Some(finished) = &ending.finished else {
            return Ok(End {
                status: Status::Cancelled,
                ..end
            });
        };
        let Finished {
            outcome,
            attempts,
            at: _,
            queue,
            upstream,
        } = finished;
        let (status, error, result) = match outcome {
            Outcome::Answered { result, error } => {
                debug_assert_eq!(state, State::Answered, "an answer is its last state");
                let status = error.as_ref().map_or(Status::Ok, |_| Status::Error);
                (status, error.as_ref(), self.object(result.as_ref())?)
            }
            Outcome::Failed { status, error } => (*status, Some(error), None),
        };
        let words = match (outcome, self.payloads) {
            // They are the result's.
            (Outcome::Answered { .. }, Payloads::Digest | Payloads::Off) => None,
            _ => error.map(|error| redacted(self.redactor, &error.text)),
        };
        Ok(End {
            status,
            attempts: *attempts,
            queue: span(*queue),
            upstream: span(*upstream),
            result,
            error,
            words,
            ..end
        })
    }

    /// The number of the object that holds this text, redacted.
    fn object(&mut self, text: Option<&ByteString>) -> Result<Option<i64>, Failed> {
        let Some(text) = text.filter(|_| self.payloads != Payloads::Off) else {
            return Ok(None);
        };
        let text = redacted(self.redactor, text);
        let content = match self.payloads {
            Payloads::Full => Content::Kept(&text),
            Payloads::Digest | Payloads::Off => Content::Hashed(text.len()),
        };
        self.put(Cid::of(text.as_bytes()), content).map(Some)
    }

    fn put(&mut self, cid: Cid, content: Content<'_>) -> Result<i64, Failed> {
        let Memory {
            objects, next_call, ..
        } = self.memory;
        objects.put(&mut self.objects, cid, content, *next_call)
    }

    fn roll_up(&mut self, call: &Call, row: Row, end: &End<'_>) {
        let Some(duration) = end.duration else {
            return;
        };
        let ended = Ended {
            started_at: micros(call.started_at),
            duration,
            status: end.status,
            argument_bytes: integer(call.arguments_size),
            result_bytes: end.result_size.unwrap_or(0),
        };
        self.memory.rollups.add(row.series, ended);
    }
}

/// How a call stands, in the columns of its row.
struct End<'e> {
    status: Status,
    attempts: u32,
    queue: i64,
    upstream: i64,
    duration: Option<i64>,
    result: Option<i64>,
    result_size: Option<i64>,
    error: Option<&'e RecordError>,
    /// What is kept of its text.
    words: Option<Cow<'e, str>>,
}

impl End<'_> {
    const OPEN: Self = Self {
        status: Status::Open,
        attempts: 0,
        queue: 0,
        upstream: 0,
        duration: None,
        result: None,
        result_size: None,
        error: None,
        words: None,
    };
}

fn redacted<'t>(redactor: Option<&Redactor>, text: &'t str) -> Cow<'t, str> {
    match redactor {
        Some(redactor) => redactor.redact(text),
        None => Cow::Borrowed(text),
    }
}

/// A target whose name, which may be a URI, holds what is to be hidden.
fn shown(redactor: &Redactor, target: &Target) -> Option<Target> {
    match redactor.redact(&target.tool) {
        Cow::Borrowed(_) => None,
        Cow::Owned(name) => Some(Target {
            tool: name.into(),
            ..target.clone()
        }),
    }
}
