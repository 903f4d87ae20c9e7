//! The columns that filters and counts of calls use, in chunks of a few bytes per call. A filter of
//! a million calls reads 17 MB sequentially, for any query. An index for each query would cost
//! every call more than the rest of its record.
//!
//! A complete chunk is written to the database. The writer holds the last chunk, and publishes it
//! to readers with every commit.

use std::{collections::BTreeMap, ops::ControlFlow};

use mainstay_core::record::{State, Status};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{StoreError, call_packs, schema::integer};

/// Number of calls in a chunk. The chunks of a million calls are read in milliseconds. One chunk is
/// cheap to rewrite when one of its calls ends late.
pub const CHUNK_LENGTH: i64 = 2048;
const CALLS: usize = CHUNK_LENGTH.unsigned_abs() as usize;

/// Size of a call in bytes: start, target, origin, and one byte for status and state.
const ROW_BYTES: usize = 8 + 4 + 4 + 1;
/// The byte of an id without a call.
const NO_CALL: u8 = u8::MAX;
/// The lower bits of the byte are the status, the upper bits the state.
const STATE_BITS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facet {
    pub started_at: i64,
    pub target: u32,
    pub origin: u32,
    pub standing: CallStanding,
}

/// The codes of a call's status and state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallStanding(u8);

impl CallStanding {
    const NONE: Self = Self(NO_CALL);

    pub fn new(status: Status, state: State) -> Self {
        Self::from_codes(status.code(), state.code())
    }

    pub const fn from_codes(status: u8, state: u8) -> Self {
        Self(status | state << STATE_BITS)
    }

    pub const fn status(self) -> u8 {
        self.0 & ((1 << STATE_BITS) - 1)
    }

    pub const fn state(self) -> u8 {
        self.0 >> STATE_BITS
    }
}

impl Facet {
    const NONE: Self = Self {
        started_at: 0,
        target: 0,
        origin: 0,
        standing: CallStanding::NONE,
    };

    pub fn is_call(&self) -> bool {
        self.standing != CallStanding::NONE
    }

    fn encode(&self) -> [u8; ROW_BYTES] {
        let mut row = [0; ROW_BYTES];
        row[..8].copy_from_slice(&self.started_at.to_le_bytes());
        row[8..12].copy_from_slice(&self.target.to_le_bytes());
        row[12..16].copy_from_slice(&self.origin.to_le_bytes());
        row[16] = self.standing.0;
        row
    }

    fn decode(row: &[u8; ROW_BYTES]) -> Self {
        let (started_at, rest) = row.split_first_chunk().expect("17 bytes");
        let (target, rest) = rest.split_first_chunk().expect("9 more");
        let (origin, rest) = rest.split_first_chunk().expect("5 more");
        Self {
            started_at: i64::from_le_bytes(*started_at),
            target: u32::from_le_bytes(*target),
            origin: u32::from_le_bytes(*origin),
            standing: CallStanding(rest[0]),
        }
    }
}

/// The incomplete last chunk, and pending changes of complete chunks.
#[derive(Clone, Debug, Default)]
pub struct Facets {
    pub last: Chunk,
    late: BTreeMap<i64, CallStanding>,
}

/// A row for each call, from the call with id `first` on.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    pub first: i64,
    pub rows: Vec<Facet>,
}

impl Facets {
    /// Loads the last chunk. `next` is the id of the next call.
    pub fn load(connection: &Connection, next: i64) -> Result<Self, StoreError> {
        let mut facets = Self {
            // A full chunk is complete only when the next one begins.
            last: Chunk::starting((next - 1) / CHUNK_LENGTH * CHUNK_LENGTH),
            late: BTreeMap::new(),
        };
        let mut last_facets = Vec::new();
        call_packs::calls_from(connection, facets.last.first, |call| {
            let facet = Facet {
                started_at: call.started_at,
                target: call.target,
                origin: call.origin,
                standing: CallStanding::from_codes(call.status, call.state),
            };
            last_facets.push((call.id, facet));
            Ok(())
        })?;
        last_facets.sort_unstable_by_key(|(id, _)| *id);
        for (id, facet) in last_facets {
            facets.last.put(id, facet);
        }
        Ok(facets)
    }

    /// Adds the next call.
    pub fn push(&mut self, connection: &Connection, id: i64, facet: Facet) -> rusqlite::Result<()> {
        if id >= self.last.first + CHUNK_LENGTH {
            self.last.write(connection)?;
            self.last = Chunk::starting(id - id % CHUNK_LENGTH);
        }
        self.last.put(id, facet);
        Ok(())
    }

    pub fn change(&mut self, id: i64, standing: CallStanding) {
        match usize::try_from(id - self.last.first) {
            // The call is in the incomplete chunk.
            Ok(index) => {
                if let Some(row) = self.last.rows.get_mut(index) {
                    row.standing = standing;
                }
            }
            Err(_) => {
                self.late.insert(id, standing);
            }
        }
    }

    /// Writes the pending changes of complete chunks.
    pub fn settle(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut late_changes = std::mem::take(&mut self.late);
        while let Some((&id, _)) = late_changes.first_key_value() {
            let chunk = id / CHUNK_LENGTH;
            let rest = late_changes.split_off(&((chunk + 1) * CHUNK_LENGTH));
            if let Some(mut rows) = rows(connection, chunk)? {
                for (id, standing) in late_changes {
                    rows[index_in_chunk(id, chunk * CHUNK_LENGTH) * ROW_BYTES + ROW_BYTES - 1] =
                        standing.0;
                }
                connection
                    .prepare_cached("UPDATE facets SET rows = ? WHERE chunk = ?")?
                    .execute(params![rows, chunk])?;
            }
            late_changes = rest;
        }
        Ok(())
    }
}

/// Adds the states of calls to chunks of an older version, which lack states.
pub fn add_states(connection: &Connection) -> rusqlite::Result<()> {
    let mut chunk_statement = connection.prepare("SELECT chunk FROM facets")?;
    let chunks: Vec<i64> = chunk_statement
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut statement =
        connection.prepare("SELECT id, status, state FROM calls WHERE id >= ? AND id < ?")?;
    let mut update = connection.prepare("UPDATE facets SET rows = ? WHERE chunk = ?")?;
    for chunk in chunks {
        let first = chunk * CHUNK_LENGTH;
        let Some(mut rows) = rows(connection, chunk)? else {
            continue;
        };
        let mut calls = statement.query([first, first + CHUNK_LENGTH])?;
        while let Some(call) = calls.next()? {
            let standing = CallStanding::from_codes(call.get(1)?, call.get(2)?);
            let index = index_in_chunk(call.get(0)?, first) * ROW_BYTES + ROW_BYTES - 1;
            if let Some(byte) = rows.get_mut(index) {
                *byte = standing.0;
            }
        }
        update.execute(params![rows, chunk])?;
    }
    Ok(())
}

/// The index of a call in a chunk that starts at `first`, the lowest id in the chunk.
fn index_in_chunk(id: i64, first: i64) -> usize {
    usize::try_from(id - first).unwrap_or_default()
}

fn rows(connection: &Connection, chunk: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .prepare_cached("SELECT rows FROM facets WHERE chunk = ?")?
        .query_row([chunk], |row| row.get(0))
        .optional()
}

impl Chunk {
    fn starting(first: i64) -> Self {
        Self {
            first,
            rows: Vec::with_capacity(CALLS),
        }
    }

    /// Copies the other chunk, and reuses this chunk's memory.
    pub fn take(&mut self, other: &Self) {
        self.first = other.first;
        self.rows.clone_from(&other.rows);
    }

    /// Adds a call's columns. Skipped ids get [`Facet::NONE`].
    fn put(&mut self, id: i64, facet: Facet) {
        self.rows
            .resize(index_in_chunk(id, self.first), Facet::NONE);
        self.rows.push(facet);
    }

    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let times = || {
            let calls = self.rows.iter().filter(|row| row.is_call());
            calls.map(|row| row.started_at)
        };
        let (Some(since), Some(until)) = (times().min(), times().max()) else {
            return Ok(());
        };
        let mut rows = Vec::with_capacity(CALLS * ROW_BYTES);
        for index in 0..CALLS {
            let row = self.rows.get(index).unwrap_or(&Facet::NONE);
            rows.extend_from_slice(&row.encode());
        }
        connection
            .prepare_cached("INSERT INTO facets (chunk, since, until, rows) VALUES (?, ?, ?, ?)")?
            .execute(params![self.first / CHUNK_LENGTH, since, until, rows])?;
        Ok(())
    }
}

/// Passes calls to `visit`, from the newest to the oldest, until `visit` breaks. Skips calls that
/// started outside `since..=until`, and chunks that begin at `before` or later. `last` is the
/// incomplete chunk at the time when the connection's view began, or an older copy.
pub fn scan(
    connection: &Connection,
    last: &Chunk,
    since: i64,
    until: i64,
    before: i64,
    mut visit: impl FnMut(i64, &Facet) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut visit = |id, facet: &Facet| {
        if facet.is_call() && facet.started_at >= since && facet.started_at <= until {
            visit(id, facet)
        } else {
            ControlFlow::Continue(())
        }
    };
    let mut statement = connection.prepare_cached(
        "SELECT chunk, rows FROM facets WHERE until >= ? AND since <= ? AND chunk <= ? ORDER BY chunk DESC",
    )?;
    let query = "SELECT max(chunk) FROM facets";
    let last_complete: Option<i64> = connection.query_row(query, [], |row| row.get(0))?;
    if last_complete.is_none_or(|last_complete| last.first / CHUNK_LENGTH > last_complete) {
        for (index, facet) in last.rows.iter().enumerate().rev() {
            if visit(last.first + integer(index), facet).is_break() {
                return Ok(());
            }
        }
    }
    let mut rows = statement.query([since, until, before / CHUNK_LENGTH])?;
    while let Some(row) = rows.next()? {
        let first = row.get::<_, i64>(0)? * CHUNK_LENGTH;
        let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let (facet_rows, rest) = bytes.as_chunks::<ROW_BYTES>();
        if facet_rows.len() != CALLS || !rest.is_empty() {
            return Err(StoreError::Corrupt("a chunk of another size"));
        }
        for (index, row) in facet_rows.iter().enumerate().rev() {
            if visit(first + integer(index), &Facet::decode(row)).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}
