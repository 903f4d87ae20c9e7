//! Objects in the database. Consecutive objects share a row, because each row has a cost and a call
//! has two objects.
//!
//! A pack holds the heads of its objects (digest, size, storage), followed by the bytes of the
//! objects that it stores itself.

use std::mem;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{StoreError, holders, objects::Storage, schema::integer};

/// The bytes of a head: digest, size and storage.
const HEAD_BYTES: usize = 32 + 8 + 1;
/// Maximum number of objects in a pack. The other limit is its size in bytes. A reader of one
/// object reads the whole pack, and a page of records needs one or two packs.
const MAX_OBJECTS: usize = 512;
const FULL_BYTES: usize = 64 * 1024;

/// Objects with consecutive ids that are not written yet.
#[derive(Debug, Default)]
pub struct Packer {
    first: i64,
    heads: Vec<u8>,
    holders: Vec<u8>,
    data: Vec<u8>,
}

impl Packer {
    /// Adds the object with the next id.
    pub fn push(
        &mut self,
        connection: &Connection,
        id: i64,
        head: Head,
        holder: u32,
        data: &[u8],
    ) -> rusqlite::Result<()> {
        if self.heads.is_empty() {
            self.first = id;
        }
        debug_assert_eq!(id, self.first + integer(self.heads.len() / HEAD_BYTES));
        self.heads.extend_from_slice(&head.digest);
        self.heads.extend_from_slice(&head.size.to_le_bytes());
        self.heads.push(head.storage as u8);
        self.holders.extend_from_slice(&holder.to_le_bytes());
        self.data.extend_from_slice(data);
        if self.heads.len() == MAX_OBJECTS * HEAD_BYTES || self.data.len() >= FULL_BYTES {
            self.write(connection)?;
        }
        Ok(())
    }

    pub fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.heads.is_empty() {
            return Ok(());
        }
        let count = integer(self.heads.len() / HEAD_BYTES);
        let mut objects = mem::take(&mut self.heads);
        objects.append(&mut self.data);
        connection
            .prepare_cached("INSERT INTO packs VALUES (?, ?, ?, ?)")?
            .execute(params![self.first, count, objects, self.holders])?;
        self.holders.clear();
        objects.clear();
        self.heads = objects;
        Ok(())
    }
}

/// An object without its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub digest: [u8; 32],
    pub size: u64,
    pub storage: Storage,
}

impl Head {
    fn read(bytes: &[u8; HEAD_BYTES]) -> Result<Self, StoreError> {
        let (digest, rest) = bytes.split_first_chunk().expect("41 bytes");
        let (size, storage) = rest.split_first_chunk().expect("9 bytes");
        Ok(Self {
            digest: *digest,
            size: u64::from_le_bytes(*size),
            storage: Storage::from_code(storage[0])?,
        })
    }

    /// The length of the object's bytes in its pack.
    fn length(&self) -> usize {
        match self.storage {
            Storage::Database => usize::try_from(self.size).unwrap_or(usize::MAX),
            Storage::Nowhere | Storage::File => 0,
        }
    }
}

/// A pack in its decoded form.
#[derive(Debug)]
pub struct Pack {
    first: i64,
    count: usize,
    objects: Vec<u8>,
    /// Offsets of the objects' bytes, computed at the first use.
    starts: Vec<usize>,
}

impl Pack {
    /// Reads the pack that holds this object.
    pub fn find(connection: &Connection, object: i64) -> rusqlite::Result<Option<Self>> {
        let pack = connection
            .prepare_cached(
                "SELECT first, count, objects FROM packs WHERE first <= ? ORDER BY first DESC LIMIT 1",
            )?
            .query_row([object], Self::read)
            .optional()?;
        Ok(pack.filter(|pack| pack.has(object)))
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            first: row.get(0)?,
            count: row.get::<_, u32>(1)? as usize,
            objects: row.get(2)?,
            starts: Vec::new(),
        })
    }

    pub fn has(&self, object: i64) -> bool {
        object >= self.first && object < self.first + integer(self.count)
    }

    /// The head of an object, and its bytes if the pack stores them.
    pub fn get(&mut self, object: i64) -> Result<(Head, &[u8]), StoreError> {
        if self.starts.is_empty() {
            self.starts = self.starts()?;
        }
        let index = usize::try_from(object - self.first).map_err(|_| TRUNCATED_PACK)?;
        let (heads, _) = self.objects.as_chunks::<HEAD_BYTES>();
        let head = heads.get(index).filter(|_| index < self.count);
        let head = Head::read(head.ok_or(TRUNCATED_PACK)?)?;
        let start = self.starts.get(index).ok_or(TRUNCATED_PACK)?;
        let bytes = self
            .objects
            .get(*start..start.saturating_add(head.length()));
        Ok((head, bytes.ok_or(TRUNCATED_PACK)?))
    }

    fn starts(&self) -> Result<Vec<usize>, StoreError> {
        let mut data = self.count * HEAD_BYTES;
        self.heads()
            .map(|part| {
                let start = data;
                data = data.saturating_add(part?.1.length());
                Ok(start)
            })
            .collect()
    }

    /// The heads of the pack's objects, by id.
    pub fn heads(&self) -> impl Iterator<Item = Result<(i64, Head), StoreError>> {
        let (heads, _) = self.objects.as_chunks::<HEAD_BYTES>();
        (self.first..)
            .zip(heads.iter().take(self.count))
            .map(|(id, head)| Ok((id, Head::read(head)?)))
    }
}

const TRUNCATED_PACK: StoreError = StoreError::Corrupt("a pack of objects that is cut short");

/// True if a pack holds the object.
pub fn has(connection: &Connection, object: i64) -> rusqlite::Result<bool> {
    let end: Option<i64> = connection
        .prepare_cached(
            "SELECT first + count FROM packs WHERE first <= ? ORDER BY first DESC LIMIT 1",
        )?
        .query_row([object], |row| row.get(0))
        .optional()?;
    Ok(end.is_some_and(|end| object < end))
}

/// Visits the heads of all objects with this id or a higher one, with their holders.
pub fn heads_from(
    connection: &Connection,
    object: i64,
    mut visit: impl FnMut(i64, Head, u32),
) -> Result<(), StoreError> {
    // A read-only journal may have an older version without holders.
    let prepare_packs = |holders| {
        let query = format!("SELECT first, count, objects, {holders} FROM packs WHERE first >= ?");
        connection.prepare(&query)
    };
    let mut statement = prepare_packs("holders").or_else(|_| prepare_packs("NULL"))?;
    let mut rows = statement.query([object])?;
    while let Some(row) = rows.next()? {
        let pack = Pack::read(row)?;
        let column = row.get_ref(3)?.as_blob_or_null();
        let column = column.map_err(rusqlite::Error::from)?;
        for (head, holder) in pack.heads().zip(holders::decode(column, pack.count)) {
            let (id, head) = head?;
            visit(id, head, holder);
        }
    }
    Ok(())
}
