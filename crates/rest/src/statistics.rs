//! `GET /api/statistics`: calls, errors and latencies of servers and tools over time.

use std::time::{Duration, SystemTime};

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_doorway::json_views::records::{failure, journal};
use mainstay_journal::{Bucket, By, Order, Range, Series};
use mainstay_platform::utc;
use serde::Deserialize;

use super::{RestDoor, address::Query, filter::time, refusal::Refusal};

/// The length of the period if the request has no `since`.
const LAST_DAY: Duration = Duration::from_hours(24);

/// Maximum number of buckets in a series. A screen cannot show more.
const MAX_BUCKETS: u128 = 1000;

/// The length of a bucket if the request has no `bucketMs`, and the minimum.
const HOUR: Duration = Duration::from_hours(1);
const MINUTE: Duration = Duration::from_mins(1);

/// The maximum length of a bucket. It covers everything that is stored.
const LONGEST_BUCKET: Duration = Duration::from_hours(24 * 366 * 100);

/// The parameters `?server=&tool=&since=&until=&bucketMs=&by=&sort=&limit=`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatisticsQuery {
    server: Option<String>,
    tool: Option<String>,
    since: Option<String>,
    until: Option<String>,
    bucket_ms: Option<u64>,
    by: Option<String>,
    sort: Option<String>,
    limit: Option<usize>,
}

/// The values of the parameters `by` and `sort`.
pub const BY: [&str; 3] = ["tool", "server", "all"];
pub const SORT: [&str; 3] = ["calls", "errors", "p95"];

/// Answers `GET /api/statistics`.
pub async fn statistics(
    State(door): State<RestDoor>,
    Query(query): Query<StatisticsQuery>,
) -> Result<Json<api::Statistics>, Refusal> {
    let now = SystemTime::now();
    let until = time("until", query.until.as_deref())?.unwrap_or(now);
    let since = time("since", query.since.as_deref())?;
    let since = since.unwrap_or_else(|| until.checked_sub(LAST_DAY).unwrap_or(until));
    let by = match query.by.as_deref() {
        None | Some("tool") => By::Tool,
        Some("server") => By::Server,
        Some("all") => By::All,
        Some(word) => return Err(unknown("by", word, &BY)),
    };
    let order = match query.sort.as_deref() {
        None => None,
        Some("calls") => Some(Order::Calls),
        Some("errors") => Some(Order::Errors),
        Some("p95") => Some(Order::P95),
        Some(word) => return Err(unknown("sort", word, &SORT)),
    };
    let journal = journal(&door.gateway.calls)?;
    // Buckets need to cover only calls that are still stored.
    let stored_since = now.checked_sub(journal.settings().retention + LAST_DAY);
    let first = stored_since.map_or(since, |stored_since| since.max(stored_since));
    let span = until.min(now).duration_since(first).unwrap_or_default();
    let range = Range {
        server: query.server,
        tool: query.tool,
        since,
        until,
        bucket: bucket(query.bucket_ms.map(Duration::from_millis), span),
        by,
        order,
        limit: query.limit,
    };
    let series = journal.statistics(range).await.map_err(failure)?;
    Ok(Json(api::Statistics {
        tools: series.into_iter().map(tool_statistics).collect(),
    }))
}

/// The length of a bucket: the requested one, or an hour. It becomes longer if the period would
/// have more than [`MAX_BUCKETS`].
fn bucket(requested: Option<Duration>, span: Duration) -> Duration {
    let fewest = span.as_millis().div_ceil(MAX_BUCKETS);
    let shortest = Duration::from_millis(u64::try_from(fewest).unwrap_or(u64::MAX));
    // A bucket has at least a minute.
    let shortest = MINUTE.max(shortest).min(LONGEST_BUCKET);
    requested.unwrap_or(HOUR).clamp(shortest, LONGEST_BUCKET)
}

fn unknown(name: &str, word: &str, words: &[&str]) -> Refusal {
    Refusal::Malformed(format!(
        "{name}: there is no {word:?}; there are {}",
        words.join(", ")
    ))
}

fn tool_statistics(series: Series) -> api::ToolStatistics {
    api::ToolStatistics {
        server: series.server,
        method: series.method,
        tool: series.tool,
        total: calls(series.total),
        buckets: series.buckets.into_iter().map(calls).collect(),
    }
}

fn calls(bucket: Bucket) -> api::CallStatistics {
    let millis = |span: Duration| span.as_secs_f64() * 1000.0;
    api::CallStatistics {
        start: utc::rfc3339(bucket.start),
        calls: bucket.calls,
        errors: bucket.errors,
        p50_ms: millis(bucket.p50),
        p95_ms: millis(bucket.p95),
        p99_ms: millis(bucket.p99),
        argument_bytes: bucket.argument_bytes,
        result_bytes: bucket.result_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_not_too_many_buckets() {
        let day = Duration::from_hours(24);
        for (requested, span, bucket_is) in [
            (None, day, HOUR),
            (None, 30 * day, HOUR),
            (None, 100 * day, Duration::from_millis(8_640_000)),
            (Some(MINUTE), 16 * HOUR, MINUTE),
            (Some(Duration::ZERO), HOUR, MINUTE),
            (Some(MINUTE), 100 * day, Duration::from_millis(8_640_000)),
            (Some(Duration::MAX), 30 * day, LONGEST_BUCKET),
        ] {
            assert_eq!(
                bucket(requested, span),
                bucket_is,
                "{requested:?} in {span:?}"
            );
        }
    }
}
