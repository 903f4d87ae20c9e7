//! Periods in which calls were not recorded, because writes failed or too many calls waited. Gaps
//! are few, and are retained as long as calls.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay_journal::{Gap, Outage, RecordFilter, RecordPage};
use rusqlite::{Connection, params};

use super::{
    schema::integer,
    time::{micros, span, time},
};

/// Maximum time between two gaps that are joined if they have the same reason. A full disk may have
/// free space briefly.
const JOIN_WINDOW: Duration = Duration::from_mins(1);
/// Maximum number of stored gaps. The newest are retained.
const MAX_GAPS: i64 = 1000;

const TOO_MANY_WAITED: &str = "too many calls waited to be written";

/// The gap of an outage that has ended.
pub fn from_outage(outage: Outage) -> Gap {
    Gap {
        since: outage.since,
        until: Some(SystemTime::now()),
        calls: outage.lost,
        reason: outage.error,
    }
}

/// The gap of calls that were dropped since this time.
pub fn from_dropped_calls(calls: u64, since: SystemTime) -> Gap {
    Gap {
        since,
        until: Some(SystemTime::now()),
        calls,
        reason: TOO_MANY_WAITED.to_owned(),
    }
}

/// Joins a later gap with an unwritten one.
pub fn join(earlier: Option<Gap>, later: Gap) -> Gap {
    match earlier {
        Some(earlier) => Gap {
            since: earlier.since.min(later.since),
            calls: earlier.calls + later.calls,
            ..later
        },
        None => later,
    }
}

/// Writes a gap that has ended.
pub fn write(connection: &Connection, gap: &Gap) -> rusqlite::Result<()> {
    let since = micros(gap.since);
    let until = gap.until.map_or(since, micros);
    let calls = integer(gap.calls);
    let joined_rows = connection
        .prepare_cached(
            "UPDATE gaps SET until = max(until, ?2), calls = calls + ?3
             WHERE id = (SELECT max(id) FROM gaps) AND reason = ?4 AND until >= ?1 - ?5",
        )?
        .execute(params![since, until, calls, gap.reason, span(JOIN_WINDOW)])?;
    if joined_rows == 0 {
        connection
            .prepare_cached("INSERT INTO gaps (since, until, calls, reason) VALUES (?, ?, ?, ?)")?
            .execute(params![since, until, calls, gap.reason])?;
    }
    Ok(())
}

/// The gaps that overlap this period, oldest first.
pub fn read(
    connection: &Connection,
    since: SystemTime,
    until: SystemTime,
) -> rusqlite::Result<Vec<Gap>> {
    let mut statement = connection.prepare_cached(
        "SELECT since, until, calls, reason FROM gaps WHERE until >= ? AND since <= ? ORDER BY since",
    )?;
    let gaps = statement.query_map(params![micros(since), micros(until)], |row| {
        Ok(Gap {
            since: time(row.get(0)?),
            until: Some(time(row.get(1)?)),
            calls: row.get::<_, i64>(2)?.unsigned_abs(),
            reason: row.get(3)?,
        })
    })?;
    gaps.collect()
}

/// The gaps between the calls of a page.
pub fn read_page(
    connection: &Connection,
    filter: &RecordFilter,
    page: &RecordPage,
) -> rusqlite::Result<Vec<Gap>> {
    let newest = page.calls.first().map(|call| call.started_at);
    let oldest = page.calls.last().map(|call| call.started_at);
    // A gap before or after this page belongs to an adjacent page.
    let until = match filter.before {
        Some(_) => newest.unwrap_or(UNIX_EPOCH),
        None => filter.until.unwrap_or_else(SystemTime::now),
    };
    let since = if page.truncated {
        page.searched_back_to.or(oldest)
    } else {
        filter.since
    };
    read(connection, since.unwrap_or(UNIX_EPOCH), until)
}

/// Deletes gaps older than `oldest`, and the oldest gaps above the limit.
pub fn prune(connection: &Connection, oldest: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM gaps WHERE until < ? OR id <= (SELECT max(id) FROM gaps) - ?")?
        .execute(params![oldest, MAX_GAPS])?;
    Ok(())
}
