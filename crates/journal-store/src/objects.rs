//! Stores arguments and results as objects, by content. Equal content is normally stored once.
//!
//! Objects are numbered in the order of arrival. A run is a range of up to [`RUN_LENGTH`] numbers.
//! Content that recurs in the same run or in the next run is the same object. Content that recurs
//! later becomes a new object, which shares the file if the content is in a file. So all references
//! to a run come from calls of that run or of the next run. When these calls are deleted, the run
//! can be deleted. Thus the journal counts no references, and no call searches the disk.
//!
//! The same content is a separate object for each of its holders (see [`super::holders`]).

use std::{collections::HashMap, io, mem, sync::Arc};

use mainstay_core::record::Cid;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};

use super::{
    StoreError,
    error::database_is_damaged,
    files::Files,
    holders,
    packs::{self, Head, Packer},
    schema::integer,
};

/// Maximum number of objects in a run. The digests of two runs are in memory (5 MB for full runs).
/// A search by content reads every run, at a microsecond or two for each.
pub const RUN_LENGTH: i64 = 32 * 1024;
/// Maximum number of rows (buckets) for the digests of one complete run. The first bits of a digest
/// determine its row.
const MAX_BUCKETS: i64 = 2048;
/// An object in its bucket: the first bytes of its digest, and its index in the run.
const ENTRY_BYTES: usize = 8 + 2;
/// Number of runs in a journal of maximum size. Content is deleted by runs.
const RUNS_IN_JOURNAL: u64 = 32;

/// Maximum size of an object in the database, in bytes. Larger objects are files. Below 100 KiB,
/// reads of a database are faster than those of a file system
/// (sqlite.org/intern-v-extern-blob.html), and no object needs its own sync.
pub const INLINE_BYTES: usize = 64 * 1024;

/// The storage of an object's bytes. The numbers are stored in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    Nowhere = 0,
    Database = 1,
    File = 2,
}

impl Storage {
    pub fn from_code(code: u8) -> Result<Self, StoreError> {
        match code {
            0 => Ok(Self::Nowhere),
            1 => Ok(Self::Database),
            2 => Ok(Self::File),
            _ => Err(StoreError::Corrupt("an object in an unknown place")),
        }
    }
}

type ByContent<T> = HashMap<Cid, T, foldhash::fast::RandomState>;

/// The objects of a run, by content and holder.
#[derive(Debug, Default)]
struct Numbers {
    first: ByContent<HeldObject>,
    /// Other holders of the same content. Many tools are called with `{}`.
    more: ByContent<HashMap<u32, i64>>,
}

/// An object and its holder.
#[derive(Clone, Copy, Debug)]
pub struct HeldObject {
    pub id: i64,
    pub holder: u32,
}

impl Numbers {
    fn get(&self, cid: &Cid, holder: u32) -> Option<i64> {
        let first_object = self.first.get(cid)?;
        if first_object.holder == holder {
            return Some(first_object.id);
        }
        self.more.get(cid)?.get(&holder).copied()
    }

    fn insert(&mut self, cid: Cid, object: HeldObject) {
        let first_object = self.first.entry(cid).or_insert(object);
        if first_object.holder != object.holder {
            let more_holders = self.more.entry(cid).or_default();
            more_holders.insert(object.holder, object.id);
        }
    }

    fn clear(&mut self) {
        self.first.clear();
        self.more.clear();
    }

    /// All objects with this content.
    fn with(&self, cid: &Cid) -> impl Iterator<Item = HeldObject> {
        let more_objects = self.more.get(cid).into_iter().flatten().map(held_object);
        self.first.get(cid).copied().into_iter().chain(more_objects)
    }

    fn all(&self) -> impl Iterator<Item = (&Cid, HeldObject)> {
        let first_objects = self.first.iter().map(|(cid, object)| (cid, *object));
        let other_objects = self.more.iter();
        first_objects.chain(
            other_objects.flat_map(|(cid, holders)| {
                holders.iter().map(move |entry| (cid, held_object(entry)))
            }),
        )
    }
}

fn held_object((holder, id): (&u32, &i64)) -> HeldObject {
    HeldObject {
        id: *id,
        holder: *holder,
    }
}

/// The objects of the incomplete run and of the previous run, by content. Readers find objects of
/// the incomplete run only here, including some uncommitted ones.
#[derive(Debug, Default)]
pub struct Recent {
    run: Numbers,
    run_before: Numbers,
}

impl Recent {
    fn get(&self, cid: &Cid, holder: u32) -> Option<i64> {
        let existing_id = self.run.get(cid, holder);
        existing_id.or_else(|| self.run_before.get(cid, holder))
    }

    /// All objects with this content, those of the incomplete run first.
    pub fn with(&self, cid: &Cid) -> impl Iterator<Item = HeldObject> {
        self.run.with(cid).chain(self.run_before.with(cid))
    }

    /// The holders of the objects in the incomplete run.
    pub fn holders(&self) -> impl Iterator<Item = u32> {
        self.run.all().map(|(_, object)| object.holder)
    }
}

pub type SharedRecent = Arc<Mutex<Recent>>;

/// The lock is held for one operation on the maps.
pub fn lock(shared: &SharedRecent) -> MutexGuard<'_, Recent> {
    shared.lock()
}

/// Stores objects and assigns their ids. Content that the same holder stored in this run or the
/// previous one keeps its id.
#[derive(Debug)]
pub struct Objects {
    next: i64,
    recent: SharedRecent,
    /// Bytes of the incomplete run.
    bytes: u64,
    max_bytes: u64,
}

/// The error of an object that could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("cannot write an object's file")]
    File(#[from] io::Error),
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    #[error("what was written before cannot be read again")]
    Memory(#[from] Box<StoreError>),
    /// The files of the journal were removed or replaced.
    #[error(transparent)]
    Lost(StoreError),
}

impl Failed {
    /// See [`StoreError::is_damage`].
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::File(_) => false,
            // SQLite reports a missing table as an unknown error. The table may come back.
            Self::Database(error) => {
                database_is_damaged(error) && error.sqlite_error_code() != Some(ErrorCode::Unknown)
            }
            Self::Memory(error) => error.is_damage(),
            Self::Lost(error) => error.is_damage(),
        }
    }
}

impl Objects {
    /// Loads the runs of a journal. `next` is the lowest id for the next object.
    pub fn load(
        connection: &Connection,
        next: i64,
        max_bytes: u64,
        recent: &SharedRecent,
    ) -> Result<Self, StoreError> {
        let last_id: i64 = connection.query_row(
            "SELECT coalesce(max(first + count), 1) FROM packs",
            [],
            |row| row.get(0),
        )?;
        let next = next.max(last_id);
        let (mut run, mut bytes) = (Numbers::default(), 0);
        // A full run is complete only when the next one begins.
        packs::heads_from(
            connection,
            (next - 1) / RUN_LENGTH * RUN_LENGTH,
            |id, head, holder| {
                run.insert(Cid::from_digest(head.digest), HeldObject { id, holder });
                bytes += head.size;
            },
        )?;
        *lock(recent) = Recent {
            run,
            run_before: Numbers::default(),
        };
        Ok(Self {
            next,
            recent: Arc::clone(recent),
            bytes,
            max_bytes: max_bytes / RUNS_IN_JOURNAL,
        })
    }

    pub fn next(&self) -> i64 {
        self.next
    }

    /// The id of the object with this content for this holder. `next_call` is the call that refers
    /// to the object, or the call after it.
    pub fn put(
        &mut self,
        insert: &mut Insert<'_>,
        (cid, holder): (Cid, u32),
        content: Content<'_>,
        next_call: i64,
    ) -> Result<i64, Failed> {
        let existing_id = lock(&self.recent).get(&cid, holder);
        if let Some(id) = existing_id {
            return Ok(id);
        }
        if self.bytes >= self.max_bytes {
            // Skipped ids are harmless.
            self.next = (self.next + RUN_LENGTH - 1) / RUN_LENGTH * RUN_LENGTH;
        }
        let id = self.next;
        if id % RUN_LENGTH == 0 {
            insert.packer.write(insert.connection)?;
            self.complete_previous_run(insert.connection, id / RUN_LENGTH, next_call)?;
        }
        let object = HeldObject { id, holder };
        self.bytes += insert.object(object, &cid, content)?;
        self.next += 1;
        lock(&self.recent).run.insert(cid, object);
        Ok(id)
    }

    /// Completes the run before `run`.
    fn complete_previous_run(
        &mut self,
        connection: &Connection,
        run: i64,
        next_call: i64,
    ) -> rusqlite::Result<()> {
        let mut complete_run: Vec<(u64, i64, u32)> = {
            let recent = lock(&self.recent);
            let run_objects = recent.run.all();
            run_objects
                .map(|(cid, object)| (prefix(cid), object.id, object.holder))
                .collect()
        };
        complete_run.sort_unstable();
        let mut statement = connection.prepare_cached("INSERT INTO digests VALUES (?, ?, ?)")?;
        let mut objects = Vec::new();
        for bucket in
            complete_run.chunk_by(|(left, ..), (right, ..)| bucket(*left) == bucket(*right))
        {
            objects.clear();
            for (prefix, id, _) in bucket {
                let index = u16::try_from(id % RUN_LENGTH).expect("a place in a run");
                objects.extend_from_slice(&prefix.to_le_bytes());
                objects.extend_from_slice(&index.to_le_bytes());
            }
            let (prefix, ..) = bucket[0];
            let holders = holders::encode(bucket.iter().map(|(_, _, holder)| *holder));
            statement.execute(params![row_of(run - 1, prefix), objects, holders])?;
        }
        connection
            .prepare_cached("INSERT INTO runs VALUES (?, ?)")?
            .execute([run, next_call])?;
        let mut recent = lock(&self.recent);
        // Swap the maps to reuse their memory. Growing them again would cost more than all searches
        // of a run.
        let mut empty = mem::take(&mut recent.run_before);
        empty.clear();
        recent.run_before = mem::replace(&mut recent.run, empty);
        self.bytes = 0;
        Ok(())
    }
}

/// The prefix that finds a digest in a run. Matches are then compared in full.
fn prefix(cid: &Cid) -> u64 {
    let (prefix, _) = cid.digest().split_first_chunk().expect("32 bytes");
    u64::from_be_bytes(*prefix)
}

/// The first bits of the prefix.
fn bucket(prefix: u64) -> i64 {
    integer(prefix >> (u64::BITS - MAX_BUCKETS.trailing_zeros()))
}

/// The row of a run that holds digests with this prefix.
fn row_of(run: i64, prefix: u64) -> i64 {
    run * MAX_BUCKETS + bucket(prefix)
}

/// The first row of a run's digests.
pub fn first_row_of(run: i64) -> i64 {
    row_of(run, 0)
}

/// Selects objects by their holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Any object. Works in a journal of a version without holders.
    Anybodys,
    Held,
}

impl Search {
    const fn sql(self) -> &'static str {
        match self {
            Self::Anybodys => {
                "SELECT r.run - 1, d.objects, NULL FROM runs r
                 CROSS JOIN digests d ON d.id = (r.run - 1) * ?1 + ?2 ORDER BY r.run DESC"
            }
            Self::Held => {
                "SELECT r.run - 1, d.objects, d.holders FROM runs r
                 CROSS JOIN digests d ON d.id = (r.run - 1) * ?1 + ?2 ORDER BY r.run DESC"
            }
        }
    }
}

/// The newest object with this content in the complete runs. `is_match` compares in full.
pub fn find(
    connection: &Connection,
    cid: &Cid,
    search: Search,
    mut is_match: impl FnMut(HeldObject) -> Result<bool, StoreError>,
) -> Result<Option<i64>, StoreError> {
    let prefix = prefix(cid);
    let mut statement = connection.prepare_cached(search.sql())?;
    let mut rows = statement.query([MAX_BUCKETS, bucket(prefix)])?;
    while let Some(row) = rows.next()? {
        let run: i64 = row.get(0)?;
        let objects = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let objects = objects.as_chunks::<ENTRY_BYTES>().0;
        let holders = row.get_ref(2)?.as_blob_or_null();
        let holders = holders.map_err(rusqlite::Error::from)?;
        let holders = holders::decode(holders, objects.len());
        for (object, holder) in objects.iter().zip(holders) {
            let (found_prefix, index) = object.split_first_chunk().expect("10 bytes");
            if u64::from_le_bytes(*found_prefix) != prefix {
                continue;
            }
            let id = run * RUN_LENGTH + i64::from(u16::from_le_bytes([index[0], index[1]]));
            if is_match(HeldObject { id, holder })? {
                return Ok(Some(id));
            }
        }
    }
    Ok(None)
}

/// True if an object with this content is a file.
pub fn is_in_file(connection: &Connection, cid: &Cid) -> rusqlite::Result<bool> {
    let file = connection
        .prepare_cached("SELECT 1 FROM files WHERE digest = ? LIMIT 1")?
        .query_row([cid.digest()], |_| Ok(()))
        .optional()?;
    Ok(file.is_some())
}

#[derive(Clone, Copy, Debug)]
pub enum Content<'t> {
    Kept(&'t str),
    /// Content of this size in bytes, of which only the digest is stored.
    Hashed(usize),
}

/// Writes objects during one transaction. Packs are written at the end of the transaction.
pub struct Insert<'c> {
    pub connection: &'c Connection,
    pub files: &'c Files,
    pub packer: Packer,
    /// Bytes of new files.
    pub file_bytes: u64,
}

impl<'c> Insert<'c> {
    pub fn new(connection: &'c Connection, files: &'c Files) -> Self {
        Self {
            connection,
            files,
            packer: Packer::default(),
            file_bytes: 0,
        }
    }

    /// Writes an object and returns its size.
    fn object(
        &mut self,
        HeldObject { id, holder }: HeldObject,
        cid: &Cid,
        content: Content<'_>,
    ) -> Result<u64, Failed> {
        let (size, storage, data) = match content {
            Content::Kept(text) if text.len() <= INLINE_BYTES => {
                (text.len(), Storage::Database, text.as_bytes())
            }
            Content::Kept(text) => {
                if !is_in_file(self.connection, cid)? {
                    self.file_bytes += text.len() as u64;
                }
                self.files.write(cid, text.as_bytes())?;
                self.connection
                    .prepare_cached("INSERT INTO files VALUES (?, ?, ?)")?
                    .execute(params![id, cid.digest(), integer(text.len())])?;
                (text.len(), Storage::File, &[][..])
            }
            Content::Hashed(size) => (size, Storage::Nowhere, &[][..]),
        };
        let size = size as u64;
        let head = Head {
            digest: *cid.digest(),
            size,
            storage,
        };
        self.packer.push(self.connection, id, head, holder, data)?;
        Ok(size)
    }
}
