//! Packs of calls that had ended before their first write. A pack holds many calls in one row of
//! the database, because a row for each call would cost as much as the rest of its record.
//! A call that is written while it is open has its own row in `calls`, which is updated at its end.
//! All calls of versions before 4 are also rows in `calls`.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{StoreError, schema::integer};

/// Maximum number of calls in a pack. The other limit is its size in bytes. To read one call, a
/// reader reads the whole pack.
const MAX_CALLS: usize = 512;
const FULL_BYTES: usize = 64 * 1024;
/// The first byte of a pack. A change of the encoding requires a new format and a step in
/// `MIGRATIONS`, so that an older Mainstay does not open the journal. Packs of this format stay
/// readable.
const FORMAT: u8 = 1;

/// The stored form of a call. Times are microseconds, sizes are bytes, codes are those of
/// `core::record`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRow<'r> {
    pub id: i64,
    pub target: u32,
    pub origin: u32,
    pub state: u8,
    pub status: u8,
    pub attempts: u32,
    /// Microseconds since 1970.
    pub started_at: i64,
    pub queue: i64,
    pub upstream: i64,
    /// `None` while the call is open.
    pub duration: Option<i64>,
    /// The id of the object with the arguments.
    pub arguments: Option<i64>,
    pub arguments_size: Option<i64>,
    /// The id of the object with the result.
    pub result: Option<i64>,
    pub result_size: Option<i64>,
    pub error_kind: Option<Cow<'r, str>>,
    pub error: Option<Cow<'r, str>>,
    pub trace: Option<[u8; 16]>,
}

const COLUMNS: &str = "id, target, origin, state, status, attempts, started_at, queue, upstream, duration, \
                       arguments, arguments_size, result, result_size, error_kind, error, trace";

impl CallRow<'_> {
    /// Reads a row of `calls`, in the order of [`COLUMNS`].
    fn read(row: &Row<'_>) -> rusqlite::Result<CallRow<'static>> {
        let text =
            |index| Ok::<_, rusqlite::Error>(row.get::<_, Option<String>>(index)?.map(Cow::Owned));
        Ok(CallRow {
            id: row.get(0)?,
            target: row.get(1)?,
            origin: row.get(2)?,
            state: row.get(3)?,
            status: row.get(4)?,
            attempts: row.get(5)?,
            started_at: row.get(6)?,
            queue: row.get(7)?,
            upstream: row.get(8)?,
            duration: row.get(9)?,
            arguments: row.get(10)?,
            arguments_size: row.get(11)?,
            result: row.get(12)?,
            result_size: row.get(13)?,
            error_kind: text(14)?,
            error: text(15)?,
            trace: row.get(16)?,
        })
    }

    /// Writes the call as a row of `calls`.
    pub fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "INSERT INTO calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, \
                 ?15, ?16, ?17)",
            )?
            .execute(params![
                self.id,
                self.target,
                self.origin,
                self.state,
                self.status,
                self.attempts,
                self.started_at,
                self.queue,
                self.upstream,
                self.duration,
                self.arguments,
                self.arguments_size,
                self.result,
                self.result_size,
                self.error_kind,
                self.error,
                self.trace,
            ])?;
        Ok(())
    }

    /// The end of the call, or its start if the call is open.
    fn last_sign(&self) -> i64 {
        self.started_at.saturating_add(self.duration.unwrap_or(0))
    }

    /// Appends the call to a pack whose first call is `first_id`.
    fn encode(&self, first_id: i64, bytes: &mut Vec<u8>) {
        let mut add = |number: u64| put(bytes, number);
        add((self.id - first_id).unsigned_abs());
        add(self.target.into());
        add(self.origin.into());
        add(self.state.into());
        add(self.status.into());
        add(self.attempts.into());
        // Zigzag encoding: the lowest bit is the sign.
        add((self.started_at << 1 ^ self.started_at >> 63).cast_unsigned());
        add(self.queue.unsigned_abs());
        add(self.upstream.unsigned_abs());
        for optional in [
            self.duration,
            self.arguments,
            self.arguments_size,
            self.result,
            self.result_size,
        ] {
            add(optional.map_or(0, |number| number.unsigned_abs().saturating_add(1)));
        }
        for text in [&self.error_kind, &self.error] {
            put(bytes, text.as_ref().map_or(0, |text| text.len() as u64 + 1));
            bytes.extend_from_slice(text.as_deref().unwrap_or_default().as_bytes());
        }
        bytes.push(self.trace.is_some().into());
        bytes.extend_from_slice(self.trace.as_ref().map_or(&[][..], <[u8; 16]>::as_slice));
    }
}

/// Appends a number as LEB128: seven bits in each byte, the lowest first. The highest bit of a
/// byte is set if more bytes follow.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

const UNREADABLE_PACK: StoreError = StoreError::Corrupt("a pack of calls that cannot be read");

/// The unread bytes of a pack.
struct PackReader<'b>(&'b [u8]);

impl<'b> PackReader<'b> {
    fn bytes(&mut self, count: usize) -> Result<&'b [u8], StoreError> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(UNREADABLE_PACK)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, StoreError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.bytes(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(UNREADABLE_PACK)
    }

    fn read_number<T: TryFrom<u64>>(&mut self) -> Result<T, StoreError> {
        T::try_from(self.number()?).map_err(|_| UNREADABLE_PACK)
    }

    fn optional(&mut self) -> Result<Option<i64>, StoreError> {
        Ok(self.number()?.checked_sub(1).map(integer))
    }

    fn text(&mut self) -> Result<Option<Cow<'static, str>>, StoreError> {
        let Some(length) = self.number()?.checked_sub(1) else {
            return Ok(None);
        };
        let bytes = self.bytes(usize::try_from(length).map_err(|_| UNREADABLE_PACK)?)?;
        let text =
            str::from_utf8(bytes).map_err(|_| StoreError::Corrupt("an error that is no text"))?;
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn call(&mut self, first_id: i64) -> Result<CallRow<'static>, StoreError> {
        Ok(CallRow {
            id: first_id.saturating_add(integer(self.number()?)),
            target: self.read_number()?,
            origin: self.read_number()?,
            state: self.read_number()?,
            status: self.read_number()?,
            attempts: self.read_number()?,
            started_at: {
                let number = self.number()?;
                (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
            },
            queue: integer(self.number()?),
            upstream: integer(self.number()?),
            duration: self.optional()?,
            arguments: self.optional()?,
            arguments_size: self.optional()?,
            result: self.optional()?,
            result_size: self.optional()?,
            error_kind: self.text()?,
            error: self.text()?,
            trace: match self.bytes(1)? {
                [0] => None,
                _ => self.bytes(16)?.first_chunk().copied(),
            },
        })
    }
}

/// Ended calls that are not written yet, in the order of their ids.
#[derive(Debug, Default)]
pub struct CallPacker {
    first: i64,
    last: i64,
    /// Start of the last call.
    until: i64,
    count: usize,
    bytes: Vec<u8>,
}

impl CallPacker {
    /// Adds an ended call. Its id must exceed all earlier ids.
    pub fn push(&mut self, connection: &Connection, call: &CallRow<'_>) -> rusqlite::Result<()> {
        debug_assert!(
            call.duration.is_some(),
            "its end could not be written later"
        );
        if self.count == 0 {
            self.bytes.push(FORMAT);
            self.first = call.id;
            self.until = call.started_at;
        }
        debug_assert!(
            self.count == 0 || call.id > self.last,
            "in the order of numbers"
        );
        self.last = call.id;
        self.until = self.until.max(call.started_at);
        self.count += 1;
        call.encode(self.first, &mut self.bytes);
        if self.count == MAX_CALLS || self.bytes.len() >= FULL_BYTES {
            self.write(connection)?;
        }
        Ok(())
    }

    pub fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        connection
            .prepare_cached("INSERT INTO call_packs VALUES (?, ?, ?, ?, ?)")?
            .execute(params![
                self.first,
                self.last,
                integer(self.count),
                self.until,
                self.bytes
            ])?;
        self.bytes.clear();
        self.count = 0;
        Ok(())
    }
}

/// A pack in its decoded form.
#[derive(Debug)]
struct CallPack {
    first: i64,
    last: i64,
    calls: Vec<CallRow<'static>>,
}

impl CallPack {
    /// Reads the columns `first`, `last`, `count` and `calls`.
    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let first = row.get(0)?;
        let bytes = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        let mut reader = PackReader(bytes);
        if reader.bytes(1)? != [FORMAT] {
            return Err(StoreError::Corrupt("a pack of calls of another format"));
        }
        let calls = (0..row.get::<_, u32>(2)?).map(|_| reader.call(first));
        Ok(Self {
            first,
            last: row.get(1)?,
            calls: calls.collect::<Result<_, _>>()?,
        })
    }

    fn get(&self, id: i64) -> Option<&CallRow<'static>> {
        let position = self.calls.binary_search_by_key(&id, |call| call.id);
        position.ok().map(|index| &self.calls[index])
    }
}

/// Finds calls by their ids. Caches the last pack, because queries request neighbouring calls
/// together.
#[derive(Debug, Default)]
pub struct Calls {
    last_pack: Option<CallPack>,
}

impl Calls {
    pub fn get(
        &mut self,
        connection: &Connection,
        id: i64,
    ) -> Result<Option<CallRow<'static>>, StoreError> {
        let is_held = self
            .last_pack
            .as_ref()
            .is_some_and(|pack| (pack.first..=pack.last).contains(&id));
        if !is_held {
            let mut statement = connection.prepare_cached(
                "SELECT first, last, count, calls FROM call_packs WHERE first <= ? ORDER BY first DESC LIMIT 1",
            )?;
            let mut rows = statement.query([id])?;
            self.last_pack = match rows.next()? {
                // Decode the pack only if it includes this call.
                Some(row) if row.get::<_, i64>(1)? >= id => Some(CallPack::read(row)?),
                Some(_) | None => None,
            };
        }
        if let Some(call) = self.last_pack.as_ref().and_then(|pack| pack.get(id)) {
            return Ok(Some(call.clone()));
        }
        let call = connection
            .prepare_cached(&format!("SELECT {COLUMNS} FROM calls WHERE id = ?"))?
            .query_row([id], CallRow::read)
            .optional()?;
        Ok(call)
    }
}

/// Visits all calls with this id or a higher one, first those in packs and then those in `calls`.
pub fn calls_from(
    connection: &Connection,
    id: i64,
    mut visit: impl FnMut(CallRow<'static>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(
        "SELECT first, last, count, calls FROM call_packs
         WHERE first >= (SELECT coalesce(max(first), 0) FROM call_packs WHERE first <= ?) ORDER BY first",
    )?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        let calls = CallPack::read(row)?.calls;
        calls
            .into_iter()
            .filter(|call| call.id >= id)
            .try_for_each(&mut visit)?;
    }
    let mut statement = connection.prepare(&format!(
        "SELECT {COLUMNS} FROM calls WHERE id >= ? ORDER BY id"
    ))?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        visit(CallRow::read(row)?)?;
    }
    Ok(())
}

/// The id of the first call.
pub fn first_call(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    one_of_both(
        connection,
        "SELECT min(id) FROM calls",
        "SELECT min(first) FROM call_packs",
        i64::min,
    )
}

/// The id of the last call.
pub fn last_call(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let query = "SELECT last FROM call_packs WHERE first = (SELECT max(first) FROM call_packs)";
    one_of_both(connection, "SELECT max(id) FROM calls", query, i64::max)
}

/// Start of the newest call.
pub fn newest_start(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let query = "SELECT max(until) FROM call_packs";
    one_of_both(
        connection,
        "SELECT max(started_at) FROM calls",
        query,
        i64::max,
    )
}

/// The end of the last call, or its start if the call is open.
pub fn last_sign(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let Some(last_id) = last_call(connection)? else {
        return Ok(None);
    };
    let call = Calls::default().get(connection, last_id)?;
    Ok(call.map(|call| call.last_sign()))
}

fn one_of_both(
    connection: &Connection,
    calls: &str,
    packs: &str,
    choose: impl Fn(i64, i64) -> i64,
) -> rusqlite::Result<Option<i64>> {
    let query_id = |query: &str| {
        let mut statement = connection.prepare_cached(query)?;
        let id = statement.query_row([], |row| row.get(0)).optional()?;
        Ok::<Option<i64>, rusqlite::Error>(id.flatten())
    };
    let (calls, packs) = (query_id(calls)?, query_id(packs)?);
    Ok(match (calls, packs) {
        (Some(left), Some(right)) => Some(choose(left, right)),
        (left, right) => left.or(right),
    })
}

/// The first call below `end` that started at `oldest` or later, and not in the future.
pub fn find_first_between(
    connection: &Connection,
    end: i64,
    oldest: i64,
    now: i64,
) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT min(id) FROM (
                SELECT min(id) AS id FROM calls WHERE id < ?1 AND started_at BETWEEN ?2 AND ?3
                UNION ALL
                SELECT min(first) FROM call_packs WHERE first < ?1 AND until BETWEEN ?2 AND ?3
            )",
        )?
        .query_row([end, oldest, now], |row| row.get(0))
}

/// Deletes the calls below `end` that started before `oldest`, and returns their number. Packs are
/// deleted as a whole: the last pack may hold a few calls beyond `end`, but no call that started at
/// `oldest` or later.
pub fn delete(connection: &Connection, end: i64, oldest: i64) -> rusqlite::Result<i64> {
    let single_count = connection
        .prepare_cached("DELETE FROM calls WHERE id < ? AND started_at < ?")?
        .execute([end, oldest])?;
    let packed_count: i64 = connection
        .prepare_cached(
            "SELECT coalesce(sum(count), 0) FROM call_packs WHERE first < ? AND until < ?",
        )?
        .query_row([end, oldest], |row| row.get(0))?;
    if packed_count > 0 {
        connection
            .prepare_cached("DELETE FROM call_packs WHERE first < ? AND until < ?")?
            .execute([end, oldest])?;
    }
    Ok(packed_count + integer(single_count))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call() -> impl Strategy<Value = CallRow<'static>> {
        let optional = || proptest::option::of(0_i64..i64::MAX);
        let text = || proptest::option::of(".{0,20}".prop_map(Cow::Owned));
        let head = (
            1_i64..1000,
            any::<u32>(),
            any::<u32>(),
            any::<u8>(),
            any::<u8>(),
            any::<u32>(),
        );
        let times = (any::<i64>(), 0_i64..i64::MAX, 0_i64..i64::MAX);
        let optional_columns = (optional(), optional(), optional(), optional(), optional());
        (
            head,
            times,
            optional_columns,
            (text(), text(), any::<Option<[u8; 16]>>()),
        )
            .prop_map(
                |(head, times, optional_columns, (error_kind, error, trace))| CallRow {
                    id: head.0,
                    target: head.1,
                    origin: head.2,
                    state: head.3,
                    status: head.4,
                    attempts: head.5,
                    started_at: times.0,
                    queue: times.1,
                    upstream: times.2,
                    duration: optional_columns.0,
                    arguments: optional_columns.1,
                    arguments_size: optional_columns.2,
                    result: optional_columns.3,
                    result_size: optional_columns.4,
                    error_kind,
                    error,
                    trace,
                },
            )
    }

    proptest! {
        #[test]
        fn calls_are_read_back_unchanged(calls in proptest::collection::vec(call(), 1..20)) {
            let mut bytes = Vec::new();
            for call in &calls {
                call.encode(1, &mut bytes);
            }
            let mut reader = PackReader(&bytes);
            for call in &calls {
                prop_assert_eq!(&reader.call(1).expect("a call"), call);
            }
            prop_assert!(reader.0.is_empty());
        }

        #[test]
        fn bytes_of_any_kind_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = PackReader(&bytes);
            while reader.call(1).is_ok() {}
        }
    }
}
