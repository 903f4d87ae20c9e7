//! Writes calls as rows, in one transaction.

use std::borrow::Cow;

use bytestring::ByteString;
use mainstay_core::{
    config::Payloads,
    record::{CallAttempt, CallOrigin, Cid, RecordError, State, Status, Target},
    redact::{Redactor, Secrets},
};
use mainstay_journal::{
    CallOutcome, Finished,
    store::{Ending, Keep, PendingTransition, RecordedCall, Rest},
};
use rusqlite::{CachedStatement, Connection, params};

use super::{
    bounds::Bounds,
    call_packs::{CallPacker, CallRow},
    database::{Database, Memory},
    facets::{CallStanding, Facet},
    history,
    objects::{Content, Failed, Insert},
    rollup::EndedCall,
    schema::integer,
    time::{micros, span},
};

/// The row of a call, and the ids for later writes of the same call.
#[derive(Clone, Copy, Debug)]
pub struct WrittenCall {
    pub id: i64,
    pub state: State,
    /// The target of the call's statistics.
    pub series: u32,
    /// The holder of the call's objects.
    pub holder: u32,
}

/// The writes of one transaction.
pub struct Batch<'s> {
    connection: &'s Connection,
    memory: &'s mut Memory,
    payloads: Payloads,
    bounds: Bounds,
    redactor: &'s Redactor,
    objects: Insert<'s>,
    calls: CallPacker,
    update: CachedStatement<'s>,
}

const UPDATE: &str = "UPDATE calls SET state = ?2, status = ?3, attempts = ?4, queue = ?5, \
                      upstream = ?6, duration = ?7, result = ?8, result_size = ?9, \
                      error_kind = ?10, error = ?11 WHERE id = ?1";

impl<'s> Batch<'s> {
    pub fn new(database: &'s mut Database) -> rusqlite::Result<Self> {
        let Database {
            connection,
            files,
            memory,
            settings,
            bounds,
            redactor,
            ..
        } = database;
        let connection: &Connection = connection;
        Ok(Self {
            connection,
            memory,
            payloads: settings.payloads,
            bounds: *bounds,
            redactor,
            objects: Insert::new(connection, files),
            calls: CallPacker::default(),
            update: connection.prepare_cached(UPDATE)?,
        })
    }

    /// Writes a call for the first time. The call may be open or ended.
    pub fn insert(
        &mut self,
        call: &RecordedCall,
        state: State,
        rest: &Rest,
    ) -> Result<WrittenCall, Failed> {
        let secrets = call.secrets(rest.ending.as_ref());
        let RowIds {
            target,
            series,
            origin,
            holder,
        } = self.row_ids(&call.origin, (&call.target, call.is_listed), secrets)?;
        let arguments = self.object(rest.arguments.as_ref(), secrets, holder)?;
        let end_columns = self.end_columns(state, rest.ending.as_ref(), call, holder)?;
        let id = self.memory.next_call;
        let started_at = micros(call.started_at);
        let row = CallRow {
            id,
            target,
            origin,
            state: state.code(),
            status: end_columns.status.code(),
            attempts: end_columns.attempts,
            started_at,
            queue: end_columns.queue,
            upstream: end_columns.upstream,
            duration: end_columns.duration,
            arguments,
            arguments_size: Some(integer(call.arguments_size)),
            result: end_columns.result,
            result_size: end_columns.result_size,
            error_kind: end_columns.error.map(|error| Cow::Borrowed(&*error.kind)),
            error: end_columns.error_text.as_deref().map(Cow::Borrowed),
            trace: call.trace.as_ref().map(|trace| trace.0),
        };
        if row.duration.is_some() {
            self.calls.push(self.connection, &row)?;
        } else {
            row.insert(self.connection)?;
        }
        let facet = Facet {
            started_at,
            target,
            origin,
            standing: CallStanding::new(end_columns.status, state),
        };
        self.memory.facets.push(self.connection, id, facet)?;
        self.memory.next_call += 1;
        self.write_attempts(id, &end_columns, secrets)?;
        let row = WrittenCall {
            id,
            state,
            series,
            holder,
        };
        self.roll_up(call, row, &end_columns);
        Ok(row)
    }

    /// Writes the end of a call whose row is open.
    pub fn end(
        &mut self,
        call: &RecordedCall,
        row: WrittenCall,
        state: State,
        rest: &Rest,
    ) -> Result<WrittenCall, Failed> {
        let end_columns = self.end_columns(state, rest.ending.as_ref(), call, row.holder)?;
        self.update.execute(params![
            row.id,
            state.code(),
            end_columns.status.code(),
            end_columns.attempts,
            end_columns.queue,
            end_columns.upstream,
            end_columns.duration,
            end_columns.result,
            end_columns.result_size,
            end_columns.error.map(|error| &*error.kind),
            end_columns.error_text,
        ])?;
        let secrets = call.secrets(rest.ending.as_ref());
        self.write_attempts(row.id, &end_columns, secrets)?;
        let standing = CallStanding::new(end_columns.status, state);
        self.memory.facets.change(row.id, standing);
        self.roll_up(call, row, &end_columns);
        Ok(WrittenCall { state, ..row })
    }

    /// Writes the new state of an open call.
    pub fn set_state(&mut self, row: WrittenCall, state: State) -> rusqlite::Result<WrittenCall> {
        let standing = CallStanding::new(Status::Open, state);
        self.memory.facets.change(row.id, standing);
        self.connection
            .prepare_cached("UPDATE calls SET state = ? WHERE id = ?")?
            .execute(params![state.code(), row.id])?;
        Ok(WrittenCall { state, ..row })
    }

    /// Stores a text as an object that is not part of a record.
    pub fn keep(&mut self, keep: &Keep) -> Result<Cid, Failed> {
        let secrets = keep.secrets.as_deref();
        let RowIds { holder, .. } = self.row_ids(&keep.origin, (&keep.target, true), secrets)?;
        let text = self.redactor.redact(&keep.text, secrets);
        let cid = Cid::for_content(text.as_bytes());
        self.put((cid, holder), Content::Kept(&text))?;
        Ok(cid)
    }

    /// Writes a change of a server's status.
    pub fn note(&self, transition: &PendingTransition) -> rusqlite::Result<()> {
        history::write(self.connection, self.redactor, transition)
    }

    /// The ids of the caller and of the target.
    fn row_ids(
        &mut self,
        origin: &CallOrigin,
        (target, is_listed): (&Target, bool),
        secrets: Option<&Secrets>,
    ) -> rusqlite::Result<RowIds> {
        let connection = self.connection;
        let redacted_target = redacted_target(self.redactor, target, secrets);
        let target = redacted_target.as_ref().unwrap_or(target);
        let redactor = self.redactor;
        let origins = &mut self.memory.origins;
        let origin_id = origins.id_as(connection, origin, |origin| {
            redacted_origin(redactor, origin)
        })?;
        let (target_id, series) = self.memory.target(connection, target, is_listed)?;
        let holders = &mut self.memory.holders;
        let holder = holders.id(connection, (target_id, target), (origin_id, origin))?;
        Ok(RowIds {
            target: target_id,
            series,
            origin: origin_id,
            holder,
        })
    }

    /// Writes packs and facets, before the commit. Returns the number of bytes in new files.
    pub fn settle(mut self) -> rusqlite::Result<u64> {
        self.calls.write(self.connection)?;
        self.objects.packer.write(self.connection)?;
        self.memory.facets.settle(self.connection)?;
        Ok(self.objects.file_bytes)
    }

    fn end_columns<'e>(
        &mut self,
        state: State,
        ending: Option<&'e Ending>,
        call: &RecordedCall,
        holder: u32,
    ) -> Result<End<'e>, Failed> {
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
            earlier,
            at: _,
            queue,
            upstream,
            secrets: _,
        } = finished;
        let secrets = call.secrets(Some(ending));
        let (status, error, result) = match outcome {
            CallOutcome::Answered { result, error } => {
                debug_assert_eq!(state, State::Answered, "an answer is its last state");
                let status = error.as_ref().map_or(Status::Ok, |_| Status::Error);
                (
                    status,
                    error.as_ref(),
                    self.object(result.as_ref(), secrets, holder)?,
                )
            }
            CallOutcome::Failed { status, error } => (*status, Some(error), None),
        };
        let error_text = match (outcome, self.payloads) {
            // The error's text is part of the result, which is not stored.
            (CallOutcome::Answered { .. }, Payloads::Digest | Payloads::Off) => None,
            _ => error.map(|error| self.redactor.redact(&error.text, secrets)),
        };
        Ok(End {
            status,
            attempts: *attempts,
            earlier,
            queue: span(*queue),
            upstream: span(*upstream),
            result,
            error,
            error_text,
            ..end
        })
    }

    /// Writes the attempts before the last one. Most calls have none.
    fn write_attempts(
        &self,
        call_id: i64,
        end_columns: &End<'_>,
        secrets: Option<&Secrets>,
    ) -> rusqlite::Result<()> {
        for (number, attempt) in (1_i64..).zip(end_columns.earlier) {
            let error_texts = self.redactor.redact(&attempt.error.text, secrets);
            self.connection
                .prepare_cached("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?)")?
                .execute(params![
                    call_id,
                    number,
                    span(attempt.ended),
                    attempt.state.code(),
                    attempt.error.kind,
                    error_texts,
                ])?;
        }
        Ok(())
    }

    /// Stores a text as an object, redacted, and returns its id. `None` without a text, or if
    /// payloads are not stored.
    fn object(
        &mut self,
        text: Option<&ByteString>,
        secrets: Option<&Secrets>,
        holder: u32,
    ) -> Result<Option<i64>, Failed> {
        let Some(text) = text.filter(|_| self.payloads != Payloads::Off) else {
            return Ok(None);
        };
        let text = self.redactor.redact(text, secrets);
        let content = match self.payloads {
            Payloads::Full if text.len() as u64 <= self.bounds.object => Content::Kept(&text),
            Payloads::Full | Payloads::Digest | Payloads::Off => Content::Hashed(text.len()),
        };
        self.put((Cid::for_content(text.as_bytes()), holder), content)
            .map(Some)
    }

    fn put(&mut self, object: (Cid, u32), content: Content<'_>) -> Result<i64, Failed> {
        let Memory {
            objects, next_call, ..
        } = self.memory;
        objects.put(&mut self.objects, object, content, *next_call)
    }

    fn roll_up(&mut self, call: &RecordedCall, row: WrittenCall, end: &End<'_>) {
        let Some(duration) = end.duration else {
            return;
        };
        let ended_call = EndedCall {
            started_at: micros(call.started_at),
            duration,
            status: end.status,
            argument_bytes: integer(call.arguments_size),
            result_bytes: end.result_size.unwrap_or(0),
        };
        self.memory.rollups.add(row.series, ended_call);
    }
}

/// The ids of the caller and of the target.
struct RowIds {
    target: u32,
    /// The target of the call's statistics.
    series: u32,
    origin: u32,
    holder: u32,
}

/// The end of a call, in the columns of its row.
struct End<'e> {
    status: Status,
    attempts: u32,
    earlier: &'e [CallAttempt],
    queue: i64,
    upstream: i64,
    duration: Option<i64>,
    result: Option<i64>,
    result_size: Option<i64>,
    error: Option<&'e RecordError>,
    /// The stored part of the error's text.
    error_text: Option<Cow<'e, str>>,
}

impl End<'_> {
    const OPEN: Self = Self {
        status: Status::Open,
        attempts: 0,
        earlier: &[],
        queue: 0,
        upstream: 0,
        duration: None,
        result: None,
        result_size: None,
        error: None,
        error_text: None,
    };
}

/// The target with its name redacted. `None` if the name, which may be a URI, contains no secret.
fn redacted_target(
    redactor: &Redactor,
    target: &Target,
    secrets: Option<&Secrets>,
) -> Option<Target> {
    match redactor.redact(&target.tool, secrets) {
        Cow::Borrowed(_) => None,
        Cow::Owned(name) => Some(Target {
            tool: name.into(),
            ..target.clone()
        }),
    }
}

/// The origin with its client's name redacted. `None` if the name contains no secret.
fn redacted_origin(redactor: &Redactor, origin: &CallOrigin) -> Option<CallOrigin> {
    let client = origin.client.as_ref()?.redacted(redactor)?;
    Some(CallOrigin {
        client: Some(client),
        ..origin.clone()
    })
}
