//! Points in time in UTC, written and parsed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

/// The last second that RFC 3339 can write, since 1970.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// `2025-11-25T12:34:56.789Z` (RFC 3339); before 1970 it is 1970.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / DAY, since.as_secs() % DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// A point in time as people and programs write it: RFC 3339, or seconds since 1970. Before 1970 it
/// is 1970.
pub fn parse(text: &str) -> Option<SystemTime> {
    let since = match chrono::DateTime::parse_from_rfc3339(text) {
        Ok(time) => SystemTime::from(time)
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            // Another time zone's last hours are in the year 10000 here.
            .min(LAST_SECOND),
        Err(_) => Duration::try_from_secs_f64(text.parse().ok()?).ok()?,
    };
    (since <= LAST_SECOND).then(|| UNIX_EPOCH + since)
}

/// The date so many days after 1970-01-01. Years are counted from March, so that the leap day comes
/// last, and in eras of 400 years, after which the calendar repeats itself.
fn date(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    // From 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / (ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day - (153 * from_march + 2) / 5 + 1)
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
