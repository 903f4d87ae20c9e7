//! Points in time as the database holds them: microseconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub const MINUTE: i64 = 60_000_000;
pub const HOUR: i64 = 60 * MINUTE;

pub fn micros(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => span(since),
        Err(before) => -span(before.duration()),
    }
}

/// A time outside the range is clamped.
pub fn time(micros: i64) -> SystemTime {
    let span = Duration::from_micros(micros.unsigned_abs());
    let time = if micros < 0 {
        UNIX_EPOCH.checked_sub(span)
    } else {
        UNIX_EPOCH.checked_add(span)
    };
    time.unwrap_or(UNIX_EPOCH)
}

pub fn span(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

pub fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}
