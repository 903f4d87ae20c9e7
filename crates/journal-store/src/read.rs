//! Readers: each has its own connection, and a view of the data that was committed when its query
//! began.

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use mainstay_core::record::{
    CallAttempt, Cid, Payload, Record, RecordError, RecordId, State, Status, TraceId,
};
use mainstay_journal::{
    Holder, JournalError, PrincipalFilter, RecordFilter, RecordPage, RecordsSpan,
};
use mainstay_platform::state::trusted_dir;
use parking_lot::Mutex;
use rusqlite::{Connection, types::Value};

use super::{
    StoreError,
    call_packs::{self, CallRow, Calls, first_call},
    database::Published,
    facets::{self, Chunk, Facet, Facets},
    files::Files,
    gaps, holders,
    intern::{origin, target},
    layout::FOLDER,
    objects::{self, HeldObject, Objects, Search, Storage},
    packs::{self, Head, Pack},
    schema,
    search::{CallSearch, Candidate, PATIENCE},
    time::{duration, micros, time},
};

/// Maximum number of idle connections in the pool.
const MAX_IDLE: usize = 4;
/// Maximum bytes of arguments that are returned with their record. The bound limits the size of a
/// page of records.
const MAX_SHOWN_ARGUMENTS: u64 = 1024;

/// The pool of idle connections.
#[derive(Debug)]
pub struct Readers {
    state: PathBuf,
    published: Published,
    /// Each connection with the number of its journal (see [`Published::opened`]).
    idle: Mutex<Vec<(u64, Connection)>>,
}

impl Readers {
    pub fn new(state: &Path, published: Published) -> Self {
        Self {
            state: state.to_owned(),
            published,
            idle: Mutex::default(),
        }
    }

    pub fn with<T>(
        &self,
        query: impl FnOnce(&mut Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // The lock is held only to take or return a connection.
        let idle = || self.idle.lock();
        // Copy the chunk before the view begins. With a newer chunk, a chunk that was completed in
        // between would be missing.
        let last_chunk = self.published.chunk();
        let last_chunk = last_chunk.ok_or_else(|| JournalError::Absent(self.state.clone()))?;
        let opened_count = self.published.opened.load(Relaxed);
        let pooled = {
            let mut idle = idle();
            idle.retain(|(journal, _)| *journal == opened_count);
            idle.pop()
        };
        let connection = match pooled {
            Some((_, connection)) => connection,
            None => schema::open_to_read(&self.state)?,
        };
        connection.execute_batch("BEGIN")?;
        let mut reader = Reader {
            connection,
            files: Files::new(&self.state),
            last: last_chunk,
            recent: Arc::clone(&self.published.recent),
            calls: Calls::default(),
            pack: None,
            patience: PATIENCE,
        };
        let answer = query(&mut reader);
        let Reader { connection, .. } = reader;
        connection.execute_batch("COMMIT")?;
        let mut idle = idle();
        if idle.len() < MAX_IDLE {
            idle.push((opened_count, connection));
        }
        answer
    }
}

/// A condition: the value of a column is one of these values.
struct Condition {
    expression: &'static str,
    values: Vec<Value>,
}

impl Condition {
    fn one_of(expression: &'static str, values: &[String]) -> Self {
        let values = values.iter().cloned().map(Value::Text).collect();
        Self { expression, values }
    }

    fn sql(&self) -> String {
        format!(
            "({})",
            vec![self.expression; self.values.len()].join(" OR ")
        )
    }
}

/// A set of codes.
#[derive(Clone, Copy)]
struct Codes(u16);

impl Codes {
    /// A set of these codes. Without codes, the set contains all.
    fn new(codes: impl Iterator<Item = u8>) -> Self {
        let bits = codes.fold(0, |bits, code| bits | 1 << code);
        Self(if bits == 0 { u16::MAX } else { bits })
    }

    fn has(self, code: u8) -> bool {
        self.0 >> code & 1 == 1
    }
}

/// A view of the journal for one query.
#[derive(Debug)]
pub struct Reader {
    pub(super) connection: Connection,
    files: Files,
    last: Chunk,
    recent: objects::SharedRecent,
    calls: Calls,
    /// A cache of the last pack, because queries request neighbouring objects together.
    pack: Option<Pack>,
    /// Time limit of a search that reads calls.
    pub(super) patience: Duration,
}

/// The matching records so far.
struct FoundRecords {
    before: i64,
    limit: usize,
    uncounted: bool,
    /// Ids of the page, newest first.
    ids: Vec<i64>,
    total_count: u64,
    /// True if more records match than fit on the page.
    truncated: bool,
}

impl FoundRecords {
    /// Adds the next record. Breaks when the page is full.
    fn add(&mut self, id: i64) -> ControlFlow<()> {
        self.total_count += 1;
        if id < self.before {
            if self.ids.len() < self.limit {
                self.ids.push(id);
            } else {
                self.truncated = true;
            }
        }
        if self.truncated && self.uncounted {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

impl Reader {
    /// Opens the journal in a state directory for reading, even while another process writes it.
    /// `None` if there is no journal. Rebuilds the parts that only the writer has in memory.
    pub fn open(state: &Path) -> Result<Option<Self>, StoreError> {
        let folder = state.join(FOLDER);
        let path = schema::path(&folder);
        let is_there = path.try_exists();
        if !is_there.map_err(|source| StoreError::Io {
            path: path.clone(),
            source,
        })? {
            return Ok(None);
        }
        trusted_dir(&folder).map_err(|source| StoreError::Io {
            path: folder.clone(),
            source: source.into(),
        })?;
        let connection = schema::open_to_read(&folder)?;
        connection.execute_batch("BEGIN")?;
        let version = schema::version(&connection, &path)?;
        if version == 0 {
            return Ok(None);
        }
        schema::fill_in(&connection, version)?;
        let newest = call_packs::last_call(&connection)?.unwrap_or(0);
        let recent = objects::SharedRecent::default();
        Objects::load(&connection, 1, u64::MAX, &recent)?;
        Ok(Some(Self {
            last: Facets::load(&connection, newest + 1)?.last,
            files: Files::new(&folder),
            connection,
            recent,
            calls: Calls::default(),
            pack: None,
            patience: PATIENCE,
        }))
    }

    /// The newest records that match the filter. A search that reads calls ends early when
    /// `is_awaited` becomes false.
    pub fn records(
        &mut self,
        filter: &RecordFilter,
        limit: usize,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<RecordPage, StoreError> {
        let targets = self.targets(filter)?;
        let named_targets = self.named(filter)?;
        let origins = self.origins(filter)?;
        let first_id = first_call(&self.connection)?.unwrap_or(i64::MAX);
        let before = filter.before.map_or(i64::MAX, |id| id.0);
        let statuses = Codes::new(filter.statuses.iter().map(|status| status.code()));
        let states = Codes::new(filter.states.iter().map(|state| state.code()));
        let matches_facet = |id: i64, facet: &Facet| {
            id >= first_id
                && statuses.has(facet.standing.status())
                && states.has(facet.standing.state())
                && targets.as_ref().is_none_or(|ids| ids.has(facet.target))
                && origins.as_ref().is_none_or(|ids| ids.has(facet.origin))
        };
        let mut search = CallSearch::new(filter, self.patience);
        let connection = &self.connection;
        // For a search, counting would cost as much as reading all calls.
        let uncounted = filter.uncounted || search.is_some();
        let mut found_records = FoundRecords {
            before,
            limit,
            uncounted,
            ids: Vec::new(),
            total_count: 0,
            truncated: false,
        };
        let (calls, pack) = (&mut self.calls, &mut self.pack);
        let mut read_batch = |search: &mut CallSearch, found_records: &mut FoundRecords| {
            let (ids, last_candidate) = search.read(connection, calls, pack)?;
            let flow = ids.into_iter().try_for_each(|id| found_records.add(id));
            Ok::<_, StoreError>((flow, last_candidate))
        };
        let (mut result, mut cut_candidate) = (Ok(()), None);
        let since = filter.since.map_or(i64::MIN, micros);
        let until = filter.until.map_or(i64::MAX, micros);
        let from = if uncounted { before } else { i64::MAX };
        facets::scan(connection, &self.last, since, until, from, |id, facet| {
            if !matches_facet(id, facet) {
                return ControlFlow::Continue(());
            }
            let Some(search) = &mut search else {
                return found_records.add(id);
            };
            let candidate = Candidate {
                id,
                started_at: facet.started_at,
                is_named: named_targets.has(facet.target),
            };
            if id >= before || !search.add(candidate) {
                return ControlFlow::Continue(());
            }
            match read_batch(search, &mut found_records) {
                Err(error) => {
                    result = Err(error);
                    ControlFlow::Break(())
                }
                Ok((ControlFlow::Continue(()), last_candidate))
                    if search.is_over() || !is_awaited() =>
                {
                    cut_candidate = last_candidate;
                    ControlFlow::Break(())
                }
                Ok((flow, _)) => flow,
            }
        })?;
        result?;
        if let Some(search) = search.as_mut().filter(|_| cut_candidate.is_none()) {
            // Read the rest of the last batch.
            let (_flow, _last) = read_batch(search, &mut found_records)?;
        }
        let FoundRecords {
            ids,
            total_count,
            truncated,
            ..
        } = found_records;
        // If the page is full, the next page starts after its last record, not where the search
        // ended.
        let cut_candidate = cut_candidate.filter(|_| !truncated);
        let next = if truncated {
            ids.last().copied()
        } else {
            cut_candidate.map(|last_candidate| last_candidate.id)
        };
        let calls = ids
            .iter()
            .filter_map(|id| self.record(RecordId(*id)).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let page = RecordPage {
            next: next.map(RecordId),
            calls,
            total_count,
            truncated: truncated || cut_candidate.is_some(),
            searched_back_to: cut_candidate.map(|last_candidate| time(last_candidate.started_at)),
            gaps: Vec::new(),
        };
        let gaps = gaps::read_page(&self.connection, filter, &page)?;
        Ok(RecordPage { gaps, ..page })
    }

    /// The number of calls, and the time of the oldest one.
    pub fn span(&self) -> Result<RecordsSpan, StoreError> {
        let (first_id, last_id) = (
            first_call(&self.connection)?,
            call_packs::last_call(&self.connection)?,
        );
        let Some((first_id, last_id)) = first_id.zip(last_id) else {
            return Ok(RecordsSpan {
                records: 0,
                oldest: None,
            });
        };
        let oldest_call = Calls::default().get(&self.connection, first_id)?;
        Ok(RecordsSpan {
            records: (last_id - first_id + 1).unsigned_abs(),
            oldest: oldest_call.map(|call| time(call.started_at)),
        })
    }

    pub fn record(&mut self, id: RecordId) -> Result<Option<Record>, StoreError> {
        let Self {
            connection,
            calls,
            pack,
            ..
        } = self;
        let Some(call) = calls.get(connection, id.0)? else {
            return Ok(None);
        };
        let (arguments, result) = (call.arguments, call.result);
        let Some(mut record) = record(connection, call)? else {
            return Ok(None);
        };
        if let Some((head, data)) = look_up(connection, pack, arguments)? {
            if let Some(payload) = &mut record.arguments {
                payload.cid = Some(Cid::from_digest(head.digest));
            }
            if head.storage == Storage::Database && head.size <= MAX_SHOWN_ARGUMENTS {
                record.arguments_text = Some(text(data)?);
            }
        }
        if let Some((head, _)) = look_up(connection, pack, result)?
            && let Some(payload) = &mut record.result
        {
            payload.cid = Some(Cid::from_digest(head.digest));
        }
        Ok(Some(record))
    }

    /// The bytes of an object. Their hash is checked.
    pub fn object(&mut self, cid: Cid) -> Result<Vec<u8>, StoreError> {
        let (content, _) = self.object_slice(cid, 0, usize::MAX)?;
        Ok(content)
    }

    /// See [`mainstay_journal::Journal::object_slice`].
    pub fn object_slice(
        &mut self,
        cid: Cid,
        offset: u64,
        length: usize,
    ) -> Result<(Vec<u8>, u64), StoreError> {
        let id = self.find(&cid)?.ok_or(JournalError::NoSuchObject(cid))?;
        let Self {
            connection,
            pack,
            files,
            ..
        } = self;
        let Some((head, data)) = look_up(connection, pack, Some(id))? else {
            return Err(JournalError::NoSuchObject(cid).into());
        };
        let content = match head.storage {
            Storage::Nowhere => return Err(JournalError::NotKept(cid).into()),
            Storage::File => files.read(&cid, offset, length)?,
            Storage::Database => {
                if Cid::for_content(data) != cid {
                    return Err(JournalError::Damaged(cid).into());
                }
                let from =
                    usize::try_from(offset).map_or(data.len(), |offset| offset.min(data.len()));
                let until = from.saturating_add(length).min(data.len());
                data[from..until].to_vec()
            }
        };
        Ok((content, head.size))
    }

    /// The id of the newest object with this content.
    fn find(&mut self, cid: &Cid) -> Result<Option<i64>, StoreError> {
        self.find_held(cid, Search::Anybodys, |_, _| Ok(true))
    }

    /// See [`mainstay_journal::Journal::is_held`].
    pub fn is_held(
        &mut self,
        cid: Cid,
        is_allowed: impl Fn(&Holder) -> bool,
    ) -> Result<bool, StoreError> {
        // Most content has one holder, so this map stays small.
        let mut decisions: HashMap<u32, bool> = HashMap::new();
        let object = self.find_held(&cid, Search::Held, |connection, object| {
            if let Some(is_held) = decisions.get(&object.holder) {
                return Ok(*is_held);
            }
            let holder = holders::read(connection, object.holder)?;
            let is_held = holder.is_some_and(|holder| is_allowed(&holder));
            decisions.insert(object.holder, is_held);
            Ok(is_held)
        })?;
        Ok(object.is_some())
    }

    /// The id of the newest object with this content that `is_match` accepts. Other objects are not
    /// compared in full, so that the time does not reveal if they exist.
    fn find_held(
        &mut self,
        cid: &Cid,
        search: Search,
        mut is_match: impl FnMut(&Connection, HeldObject) -> Result<bool, StoreError>,
    ) -> Result<Option<i64>, StoreError> {
        let Self {
            connection,
            pack,
            recent: recent_objects,
            ..
        } = self;
        let recent_objects: Vec<HeldObject> = objects::lock(recent_objects).with(cid).collect();
        for object in recent_objects {
            // The object may not have been committed when this view began.
            if is_match(connection, object)? && packs::has(connection, object.id)? {
                return Ok(Some(object.id));
            }
        }
        objects::find(connection, cid, search, |object| {
            if !is_match(connection, object)? {
                return Ok(false);
            }
            let stored_object = look_up(connection, pack, Some(object.id))?;
            Ok(stored_object.is_some_and(|(head, _)| head.digest == *cid.digest()))
        })
    }

    /// The targets that match the filter. `None` if all targets match.
    fn targets(&self, filter: &RecordFilter) -> Result<Option<Ids>, StoreError> {
        self.ids(
            "targets",
            &[
                Condition::one_of("server = ?", &filter.servers),
                Condition::one_of("? IN (tool, server || '/' || tool)", &filter.tools),
            ],
        )
    }

    /// The targets whose names contain the text. Empty without a text.
    fn named(&self, filter: &RecordFilter) -> Result<Ids, StoreError> {
        let targets_with_text = filter.text.as_ref().map(|text| {
            let escaped_text = text
                .replace('\\', r"\\")
                .replace('%', r"\%")
                .replace('_', r"\_");
            format!("%{escaped_text}%")
        });
        let condition = Condition::one_of(
            r"server || '/' || tool LIKE ? ESCAPE '\'",
            targets_with_text.as_slice(),
        );
        Ok(self.ids("targets", &[condition])?.unwrap_or_default())
    }

    fn origins(&self, filter: &RecordFilter) -> Result<Option<Ids>, StoreError> {
        let door = filter.door.map(|door| door.code().to_string());
        let principal = match &filter.principal {
            PrincipalFilter::Anybodys => None,
            PrincipalFilter::Of(None) => Some(Value::Null),
            PrincipalFilter::Of(Some(principal)) => Some(Value::Text(principal.clone())),
        };
        self.ids(
            "origins",
            &[
                Condition::one_of("door = CAST(? AS INTEGER)", door.as_slice()),
                Condition::one_of("client = ?", &filter.clients),
                Condition::one_of("session = ?", filter.session.as_slice()),
                Condition {
                    expression: "principal IS ?",
                    values: principal.into_iter().collect(),
                },
            ],
        )
    }

    /// The rows of a table that meet all conditions. A condition without values is skipped.
    fn ids(&self, table: &str, conditions: &[Condition]) -> Result<Option<Ids>, StoreError> {
        let with_values = || {
            conditions
                .iter()
                .filter(|condition| !condition.values.is_empty())
        };
        let sql_conditions: Vec<String> = with_values().map(Condition::sql).collect();
        if sql_conditions.is_empty() {
            return Ok(None);
        }
        let values = with_values().flat_map(|condition| &condition.values);
        let rows = format!(
            "SELECT id FROM {table} WHERE {}",
            sql_conditions.join(" AND ")
        );
        let mut rows = self.connection.prepare_cached(&rows)?;
        let mut ids = Ids::default();
        for id in rows.query_map(rusqlite::params_from_iter(values), |row| row.get(0))? {
            ids.add(id?);
        }
        Ok(Some(ids))
    }
}

/// An object, and its bytes if they are in the database. `cached` is the last decoded pack.
pub(super) fn look_up<'p>(
    connection: &Connection,
    cached: &'p mut Option<Pack>,
    object: Option<i64>,
) -> Result<Option<(Head, &'p [u8])>, StoreError> {
    let Some(object) = object else {
        return Ok(None);
    };
    if !cached.as_ref().is_some_and(|pack| pack.has(object)) {
        *cached = Pack::find(connection, object)?;
    }
    cached.as_mut().map(|pack| pack.get(object)).transpose()
}

/// A set of short ids. A million lookups take a millisecond or two.
#[derive(Debug, Default)]
struct Ids(Vec<u64>);

impl Ids {
    fn add(&mut self, id: u32) {
        let word = id as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (id % 64);
    }

    fn has(&self, id: u32) -> bool {
        let word = self.0.get(id as usize / 64);
        word.is_some_and(|word| word >> (id % 64) & 1 == 1)
    }
}

/// The record of a call, with only the sizes of its payloads. `None` if its target or origin was
/// deleted.
fn record(connection: &Connection, call: CallRow<'_>) -> Result<Option<Record>, StoreError> {
    let status = Status::from_code(call.status).ok_or(StoreError::Corrupt("a status"))?;
    let state = State::from_code(call.state).ok_or(StoreError::Corrupt("a state"))?;
    let origin_and_target = origin(connection, call.origin)?.zip(target(connection, call.target)?);
    let Some((origin, target)) = origin_and_target else {
        return Ok(None);
    };
    Ok(Some(Record {
        id: RecordId(call.id),
        origin,
        target,
        attempts: call.attempts,
        earlier: earlier(connection, &call)?,
        arguments: payload(call.arguments_size),
        arguments_text: None,
        result: payload(call.result_size),
        started_at: time(call.started_at),
        queue: duration(call.queue),
        upstream: duration(call.upstream),
        duration: call.duration.map(duration),
        state,
        status,
        error: call.error_kind.map(|kind| RecordError {
            kind: kind.into_owned().into(),
            text: call.error.map(Cow::into_owned).unwrap_or_default(),
        }),
        trace: call.trace.map(TraceId),
    }))
}

/// The attempts before the last one.
fn earlier(connection: &Connection, call: &CallRow<'_>) -> Result<Vec<CallAttempt>, StoreError> {
    if call.attempts < 2 {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(
        "SELECT ended, state, error_kind, error FROM attempts WHERE call = ? ORDER BY number",
    )?;
    let mut rows = statement.query([call.id])?;
    let mut attempts = Vec::new();
    while let Some(row) = rows.next()? {
        attempts.push(CallAttempt {
            ended: duration(row.get(0)?),
            state: State::from_code(row.get(1)?).ok_or(StoreError::Corrupt("a state"))?,
            error: RecordError {
                kind: row.get::<_, String>(2)?.into(),
                text: row.get(3)?,
            },
        });
    }
    Ok(attempts)
}

fn payload(size: Option<i64>) -> Option<Payload> {
    let size = size?.unsigned_abs();
    Some(Payload { cid: None, size })
}

/// Decodes the text of an object. Objects of calls are UTF-8, redacted or not.
fn text(bytes: &[u8]) -> Result<String, StoreError> {
    let text = String::from_utf8(bytes.to_vec());
    text.map_err(|_| StoreError::Corrupt("arguments that are no text"))
}
