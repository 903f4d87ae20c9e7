//! Statistics of servers and tools over time, from the sums of ended calls.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use mainstay_journal::{Bucket, By, Order, Range, Series};

use super::{
    StoreError,
    read::Reader,
    rollup::{self, MINUTE_RETENTION, Sum},
    time::{HOUR, MINUTE, micros, span, time},
};

fn bucket_of(start: i64, sum: &Sum) -> Bucket {
    let percentile = |percent| Duration::from_micros(sum.latencies.percentile(percent));
    Bucket {
        start: time(start),
        calls: sum.calls,
        errors: sum.errors,
        p50: percentile(50),
        p95: percentile(95),
        p99: percentile(99),
        argument_bytes: sum.argument_bytes,
        result_bytes: sum.result_bytes,
    }
}

type Name = (String, String, String);

impl Reader {
    /// One series for each server, method and tool, in this order unless the range sets another.
    pub fn statistics(&self, range: &Range) -> Result<Vec<Series>, StoreError> {
        let (since, until) = (micros(range.since), micros(range.until));
        let minutes = until.saturating_sub(since) <= MINUTE_RETENTION / 2
            && since >= micros(SystemTime::now()) - MINUTE_RETENTION
            && range.bucket < Duration::from_hours(1);
        let unit = if minutes { MINUTE } else { HOUR };
        let bucket = (span(range.bucket).max(1) + unit - 1) / unit * unit;
        let mut statement = self.connection.prepare_cached(
            "SELECT r.start, t.server, t.method, t.tool,
                    r.calls, r.errors, r.argument_bytes, r.result_bytes, r.latencies
             FROM rollups r CROSS JOIN targets t ON t.id = r.target
             WHERE r.span = ?1 AND r.start BETWEEN ?2 AND ?3
               AND (?4 IS NULL OR t.server = ?4) AND (?5 IS NULL OR t.tool = ?5)",
        )?;
        let mut rows = statement.query((
            unit,
            since - since.rem_euclid(unit),
            until,
            &range.server,
            &range.tool,
        ))?;
        let mut sums: BTreeMap<Name, BTreeMap<i64, Sum>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let start: i64 = row.get(0)?;
            let name = match range.by {
                By::Tool => (row.get(1)?, row.get(2)?, row.get(3)?),
                By::Server => (row.get(1)?, String::new(), String::new()),
                By::All => Name::default(),
            };
            let buckets = sums.entry(name).or_default();
            let bucket = buckets.entry(start - start.rem_euclid(bucket)).or_default();
            bucket.merge(&rollup::read(row, 4)?);
        }
        let mut series: Vec<Series> = sums
            .into_iter()
            .map(|((server, method, tool), buckets)| {
                let mut total = Sum::default();
                for sum in buckets.values() {
                    total.merge(sum);
                }
                Series {
                    server,
                    method,
                    tool,
                    total: bucket_of(since, &total),
                    buckets: buckets
                        .iter()
                        .map(|(start, sum)| bucket_of(*start, sum))
                        .collect(),
                }
            })
            .collect();
        // Equal series stay in the order of their names.
        match range.order {
            None => {}
            Some(Order::Calls) => series.sort_by_key(|entry| Reverse(entry.total.calls)),
            Some(Order::Errors) => series.sort_by_key(|entry| Reverse(entry.total.errors)),
            Some(Order::P95) => series.sort_by_key(|entry| Reverse(entry.total.p95)),
        }
        series.truncate(range.limit.unwrap_or(usize::MAX));
        Ok(series)
    }
}
