//! Arguments and results by their content, each stored once (L3).
//!
//! Objects are numbered as they come, in runs. What comes again within two runs is the same object;
//! later it is stored once more, or, where it is a file, finds it there. So a run can go as soon as
//! the calls have gone that came while it or the next was filled: nobody counts who names an object,
//! and nothing is looked up on the disk for a call.

use std::{collections::HashMap, io, mem};

use mainstay_core::record::Cid;
use rusqlite::{CachedStatement, Connection, params};

use super::{JournalError, files::Files};

/// Objects in a run, at most. The digests of two are held, 5 MB when they are full; and a lookup by
/// content asks every run that is kept, each for a microsecond.
pub const RUN: i64 = 32 * 1024;
/// Of the journal's size, what a run may hold: what is to go goes by runs.
const RUNS_IN_JOURNAL: u64 = 32;

/// Larger objects are files. Below 100 KiB a database is read faster than a file system
/// (sqlite.org/intern-v-extern-blob.html), and writes without a sync of its own.
pub const INLINE_BYTES: usize = 64 * 1024;

/// Where an object's bytes are. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Nowhere = 0,
    Database = 1,
    File = 2,
}

impl Place {
    pub fn from_code(code: i64) -> Result<Self, JournalError> {
        match code {
            0 => Ok(Self::Nowhere),
            1 => Ok(Self::Database),
            2 => Ok(Self::File),
            _ => Err(JournalError::Corrupt("an object in an unknown place")),
        }
    }
}

type Numbers = HashMap<Cid, i64, foldhash::fast::RandomState>;

/// The objects of the last runs, by content.
#[derive(Debug)]
pub struct Objects {
    next: i64,
    run: Numbers,
    run_before: Numbers,
    /// Of the run.
    bytes: u64,
    max_bytes: u64,
}

/// Why an object could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("cannot write an object's file")]
    File(#[from] io::Error),
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

impl Objects {
    /// Those of a journal in which `next` is the number of the next object, at least.
    pub fn load(connection: &Connection, next: i64, max_bytes: u64) -> rusqlite::Result<Self> {
        let last: i64 =
            connection.query_row("SELECT coalesce(max(id), 0) FROM objects", [], |row| {
                row.get(0)
            })?;
        let next = next.max(last + 1);
        let (mut run, mut bytes) = (Numbers::default(), 0);
        let mut objects =
            connection.prepare("SELECT digest, id, size FROM objects WHERE id >= ?")?;
        let mut objects = objects.query([next - next % RUN])?;
        while let Some(row) = objects.next()? {
            run.insert(Cid::from_digest(row.get(0)?), row.get(1)?);
            bytes += row.get::<_, i64>(2)?.unsigned_abs();
        }
        Ok(Self {
            next,
            run,
            run_before: Numbers::default(),
            bytes,
            max_bytes: max_bytes / RUNS_IN_JOURNAL,
        })
    }

    pub fn next(&self) -> i64 {
        self.next
    }

    /// The number of an object with this content. `next_call` is the call
    /// that names it, or the next one after that.
    pub fn put(
        &mut self,
        insert: &mut Insert<'_>,
        cid: Cid,
        content: Content<'_>,
        next_call: i64,
    ) -> Result<i64, Failed> {
        let known = self.run.get(&cid).or_else(|| self.run_before.get(&cid));
        if let Some(id) = known {
            return Ok(*id);
        }
        if self.bytes >= self.max_bytes {
            // Numbers that are left out do no harm.
            self.next += RUN - self.next % RUN;
        }
        let id = self.next;
        if id % RUN == 0 {
            self.turn(insert.connection, id / RUN, next_call)?;
        }
        self.bytes += insert.object(id, &cid, content)?;
        self.next += 1;
        self.run.insert(cid, id);
        Ok(id)
    }

    /// The run before `run` is complete.
    fn turn(&mut self, connection: &Connection, run: i64, next_call: i64) -> rusqlite::Result<()> {
        let mut complete: Vec<(i64, i64)> = self
            .run
            .iter()
            .map(|(cid, id)| (prefix(cid), *id))
            .collect();
        complete.sort_unstable();
        let mut digests = connection.prepare_cached("INSERT INTO digests VALUES (?, ?, ?)")?;
        for (prefix, id) in complete {
            digests.execute([run - 1, prefix, id])?;
        }
        connection
            .prepare_cached("INSERT INTO runs VALUES (?, ?)")?
            .execute([run, next_call])?;
        self.run_before = mem::take(&mut self.run);
        self.bytes = 0;
        Ok(())
    }
}

/// The number of the first object of a run.
pub const fn first_of(run: i64) -> i64 {
    run * RUN
}

/// By which a digest is found in a run; what is found is compared in full.
pub fn prefix(cid: &Cid) -> i64 {
    let (prefix, _) = cid.digest().split_first_chunk().expect("32 bytes");
    i64::from_be_bytes(*prefix)
}

#[derive(Clone, Copy, Debug)]
pub enum Content<'t> {
    Kept(&'t str),
    /// Of so many bytes only the digest is kept.
    Hashed(usize),
}

/// How objects are written during one transaction.
pub struct Insert<'c> {
    pub connection: &'c Connection,
    pub files: &'c Files,
    statement: CachedStatement<'c>,
    /// Of files that were new.
    pub file_bytes: u64,
}

impl<'c> Insert<'c> {
    pub fn new(connection: &'c Connection, files: &'c Files) -> rusqlite::Result<Self> {
        Ok(Self {
            connection,
            files,
            statement: connection.prepare_cached("INSERT INTO objects VALUES (?, ?, ?, ?, ?)")?,
            file_bytes: 0,
        })
    }

    /// Returns its size.
    fn object(&mut self, id: i64, cid: &Cid, content: Content<'_>) -> Result<u64, Failed> {
        let (size, place, data) = match content {
            Content::Kept(text) if text.len() <= INLINE_BYTES => {
                (text.len(), Place::Database, Some(text.as_bytes()))
            }
            Content::Kept(text) => {
                self.files.write(cid, text.as_bytes())?;
                self.file_bytes += text.len() as u64;
                (text.len(), Place::File, None)
            }
            Content::Hashed(size) => (size, Place::Nowhere, None),
        };
        self.statement
            .execute(params![id, cid.digest(), size as i64, place as i64, data])?;
        Ok(size as u64)
    }
}
