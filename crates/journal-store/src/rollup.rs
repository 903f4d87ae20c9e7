//! Statistics by target and time, added up as calls end: by the minute for two days, by the hour as
//! long as records are retained.

use std::collections::HashMap;

use mainstay_core::record::Status;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    histogram::Histogram,
    schema::integer,
    time::{HOUR, MINUTE},
};

/// Lengths of the periods of statistics, in microseconds.
pub const SPANS: [i64; 2] = [MINUTE, HOUR];

/// Retention of the statistics by the minute, in microseconds. Longer periods are read by the hour.
pub const MINUTE_RETENTION: i64 = 48 * HOUR;

/// The sum for one target over one period.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    pub calls: u64,
    pub errors: u64,
    pub argument_bytes: u64,
    pub result_bytes: u64,
    pub latencies: Histogram,
}

impl Sum {
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.argument_bytes += other.argument_bytes;
        self.result_bytes += other.result_bytes;
        self.latencies.merge(&other.latencies);
    }
}

/// The figures of an ended call for the statistics.
#[derive(Clone, Copy, Debug)]
pub struct EndedCall {
    pub started_at: i64,
    pub duration: i64,
    pub status: Status,
    pub argument_bytes: i64,
    pub result_bytes: i64,
}

/// Sums that are not written yet, by minute and target.
#[derive(Clone, Debug, Default)]
pub struct Rollups(HashMap<(i64, u32), Sum, foldhash::fast::RandomState>);

impl Rollups {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn targets(&self) -> impl Iterator<Item = u32> {
        self.0.keys().map(|(_, target)| *target)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, target: u32, ended_call: EndedCall) {
        let minute = ended_call.started_at - ended_call.started_at.rem_euclid(MINUTE);
        let sum = self.0.entry((minute, target)).or_default();
        sum.calls += 1;
        sum.errors += u64::from(ended_call.status != Status::Ok);
        sum.argument_bytes += ended_call.argument_bytes.unsigned_abs();
        sum.result_bytes += ended_call.result_bytes.unsigned_abs();
        sum.latencies.add(ended_call.duration.unsigned_abs());
    }

    pub fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for ((minute, target), sum) in self.0.drain() {
            for span in SPANS {
                write(
                    connection,
                    span,
                    minute - minute.rem_euclid(span),
                    target,
                    &sum,
                )?;
            }
        }
        Ok(())
    }
}

fn write(
    connection: &Connection,
    span: i64,
    start: i64,
    target: u32,
    sum: &Sum,
) -> rusqlite::Result<()> {
    let stored_sum = connection
        .prepare_cached(
            "SELECT calls, errors, argument_bytes, result_bytes, latencies
             FROM rollups WHERE span = ? AND start = ? AND target = ?",
        )?
        .query_row(params![span, start, target], |row| read(row, 0))
        .optional()?;
    let mut total = stored_sum.unwrap_or_default();
    total.merge(sum);
    connection
        .prepare_cached("INSERT OR REPLACE INTO rollups VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?
        .execute(params![
            span,
            start,
            target,
            integer(total.calls),
            integer(total.errors),
            integer(total.argument_bytes),
            integer(total.result_bytes),
            total.latencies.encode()
        ])?;
    Ok(())
}

/// Reads a sum from five columns, beginning with column `first_column`. An unreadable histogram
/// counts as empty.
pub fn read(row: &rusqlite::Row<'_>, first_column: usize) -> rusqlite::Result<Sum> {
    let number = |index| Ok::<_, rusqlite::Error>(row.get::<_, i64>(index)?.unsigned_abs());
    let latencies = row.get_ref(first_column + 4)?.as_blob().unwrap_or_default();
    Ok(Sum {
        calls: number(first_column)?,
        errors: number(first_column + 1)?,
        argument_bytes: number(first_column + 2)?,
        result_bytes: number(first_column + 3)?,
        latencies: Histogram::decode(latencies).unwrap_or_default(),
    })
}
