//! Points in time in UTC: formatting and parsing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

/// The last second that RFC 3339 can express, counted from 1970.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// Formats a time: `2025-11-25T12:34:56.789Z` (RFC 3339). Times before 1970 become 1970.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = DateTime::<Utc>::from(UNIX_EPOCH + since.min(LAST_SECOND));
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Parses a time that people and programs write: RFC 3339, or seconds since 1970. Times before 1970 become
/// 1970.
pub fn parse(text: &str) -> Option<SystemTime> {
    let since = match DateTime::parse_from_rfc3339(text) {
        Ok(time) => SystemTime::from(time)
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            // The last hours of 9999 in another time zone are in the year 10000 UTC.
            .min(LAST_SECOND),
        Err(_) => Duration::try_from_secs_f64(text.parse().ok()?).ok()?,
    };
    (since <= LAST_SECOND).then(|| UNIX_EPOCH + since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_764_074_096_789, "2025-11-25T12:34:56.789Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(
                rfc3339(UNIX_EPOCH + Duration::from_millis(millis)),
                expected
            );
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for text in ["2025-11-25T12:34:56.789Z", "1970-01-01T00:00:00.000Z"] {
            assert_eq!(parse(text).map(rfc3339).as_deref(), Some(text));
        }
        let noon = parse("2025-11-25T13:00:00+01:00").map(rfc3339);
        assert_eq!(noon.as_deref(), Some("2025-11-25T12:00:00.000Z"));
        assert_eq!(parse("1.5"), Some(UNIX_EPOCH + Duration::from_millis(1500)));
        for (beyond, expected) in [
            ("0091-06-09T03:49:41+08:09", "1970-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(parse(beyond).map(rfc3339).as_deref(), Some(expected));
        }
        for text in ["", "today", "-1", "NaN", "1e300", "1e15", "14:03"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
