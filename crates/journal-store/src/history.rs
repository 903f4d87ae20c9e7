//! The history of servers: every change of a status, and the times at which Mainstay started and
//! stopped. Its rows are few compared with those of calls, and have a small share of the journal.
//!
//! The last row before a time gives the status at that time. So the newest row of each server
//! outlives the retention during the run of Mainstay that wrote it. Each run starts with a row for
//! every server.

use std::time::SystemTime;

use mainstay_core::redact::Redactor;
use mainstay_journal::{Mark, store::PendingTransition};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    schema::integer,
    time::{micros, span, time},
};

/// Maximum number of rows that one step reads or deletes.
const ROWS_PER_STEP: i64 = 4096;

/// The server name in rows about Mainstay itself. No server has an empty name.
pub(super) const DAEMON: &str = "";
/// Joins the lines of a server's stderr. No line contains a line break.
pub(super) const LINE_END: &str = "\n";

const INSERT: &str = "
    INSERT INTO transitions
        (at, server, status, degraded, reason, exit_code, exit_signal, attempt, next_retry, stderr)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Writes a transition, redacted.
pub fn write(
    connection: &Connection,
    redactor: &Redactor,
    record: &PendingTransition,
) -> rusqlite::Result<()> {
    let PendingTransition {
        server,
        transition,
        secrets,
    } = record;
    let redact_text = |text| redactor.redact(text, secrets.as_deref());
    let lines: Vec<_> = transition
        .stderr
        .iter()
        .map(|line| redact_text(line))
        .collect();
    connection.prepare_cached(INSERT)?.execute(params![
        micros(transition.at),
        server.as_str(),
        transition.status,
        transition.degraded,
        transition.reason.as_deref().map(redact_text),
        transition.exit_code,
        transition.exit_signal,
        transition.attempt,
        transition.next_retry.map(span),
        (!lines.is_empty()).then(|| lines.join(LINE_END)),
    ])?;
    Ok(())
}

/// Writes a start or stop of Mainstay.
pub fn mark(connection: &Connection, time: SystemTime, mark: Mark) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO transitions (at, server, status, degraded) VALUES (?, ?, ?, 0)",
        )?
        .execute(params![micros(time), DAEMON, mark.as_str()])?;
    Ok(())
}

/// Begins a run. `last_recorded` is the last time at which the previous run was certainly running.
pub fn begin(connection: &Connection, last_recorded: Option<i64>) -> rusqlite::Result<()> {
    if let Some((started_at, Mark::Started)) = last_mark(connection, i64::MAX)? {
        let newest: i64 = connection
            .prepare_cached("SELECT at FROM transitions ORDER BY id DESC LIMIT 1")?
            .query_row([], |row| row.get(0))?;
        let last_recorded = newest
            .max(last_recorded.unwrap_or(started_at))
            .max(started_at);
        mark(connection, time(last_recorded), Mark::Lost)?;
    }
    mark(connection, SystemTime::now(), Mark::Started)
}

/// The last mark up to this time.
pub(super) fn last_mark(
    connection: &Connection,
    until: i64,
) -> rusqlite::Result<Option<(i64, Mark)>> {
    let newest_mark = connection
        .prepare_cached(
            "SELECT at, status FROM transitions WHERE server = '' AND at <= ?
             ORDER BY at DESC, id DESC LIMIT 1",
        )?
        .query_row([until], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    Ok(newest_mark.and_then(|(time, word)| Some((time, Mark::parse(&word)?))))
}

/// Counts the rows.
pub fn rows(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM transitions", [], |row| row.get(0))
}

/// Deletes some of the rows that are older than `oldest`, and of the oldest rows above `max_rows`.
/// `rows` is the current number of rows. Returns the number of deleted rows. More may be left after
/// [`ROWS_PER_STEP`] deletions.
pub fn prune(
    connection: &Connection,
    oldest: i64,
    rows: i64,
    max_rows: i64,
) -> rusqlite::Result<i64> {
    let first_kept: Option<i64> = connection
        .prepare_cached("SELECT id FROM transitions WHERE at >= ? ORDER BY id LIMIT 1")?
        .query_row([oldest], |row| row.get(0))
        .optional()?;
    let too_many = (rows - max_rows).clamp(0, ROWS_PER_STEP);
    let first_in_bounds: Option<i64> = connection
        .prepare_cached("SELECT id FROM transitions ORDER BY id LIMIT 1 OFFSET ?")?
        .query_row([too_many], |row| row.get(0))
        .optional()?;
    let end = first_kept
        .unwrap_or(i64::MAX)
        .max(first_in_bounds.unwrap_or(0));
    let deleted_rows = connection
        .prepare_cached(
            "DELETE FROM transitions WHERE id IN (
                SELECT t.id FROM transitions t
                WHERE t.id < ?1 AND (
                    t.id < (SELECT max(id) FROM transitions WHERE server = '' AND status = 'started')
                    OR EXISTS (
                        SELECT 1 FROM transitions n
                        WHERE n.server = t.server AND n.at >= t.at AND n.id > t.id AND n.id < ?1
                    )
                )
                ORDER BY t.id LIMIT ?2
            )",
        )?
        .execute([end, ROWS_PER_STEP])?;
    Ok(integer(deleted_rows))
}

/// True if more rows may be left after this number of deletions.
pub const fn is_full_step(deleted_rows: i64) -> bool {
    deleted_rows >= ROWS_PER_STEP
}
