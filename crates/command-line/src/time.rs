//! Formats times for people, in the machine's time zone. JSON keeps UTC.

use chrono::{DateTime, FixedOffset, Local};

/// A time of RFC 3339 in local time, to the millisecond; the day only if it is not today.
///
/// Anything else is returned as it is.
pub fn local(time: &str) -> String {
    let Ok(time) = DateTime::parse_from_rfc3339(time) else {
        return time.to_owned();
    };
    let time = time.with_timezone(&Local);
    let is_today = time.date_naive() == Local::now().date_naive();
    let format = if is_today {
        "%H:%M:%S%.3f"
    } else {
        "%Y-%m-%d %H:%M:%S%.3f"
    };
    time.format(format).to_string()
}

/// A time of RFC 3339 in local time, with its day, to the second.
///
/// Anything else is returned as it is.
pub fn local_with_day(time: &str) -> String {
    DateTime::parse_from_rfc3339(time)
        .map_or_else(|_| time.to_owned(), |time| with_day(time.into()))
}

/// `2026-11-21 08:30:12`, the form of [`local_with_day`].
pub fn with_day(time: DateTime<Local>) -> String {
    time.format("%Y-%m-%d %H:%M:%S").to_string()
}

/// `2026-11-21 08:30:12.345 +01:00`
pub fn with_offset(time: DateTime<FixedOffset>) -> impl std::fmt::Display {
    time.format("%Y-%m-%d %H:%M:%S%.3f %:z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_local_and_has_its_day_unless_that_is_today() {
        let now = Local::now();
        let local_text = |time: DateTime<Local>| local(&time.to_utc().to_rfc3339());
        assert_eq!(local_text(now), now.format("%H:%M:%S%.3f").to_string());
        let before = now - chrono::Duration::days(2);
        let expected = before.format("%Y-%m-%d %H:%M:%S%.3f").to_string();
        assert_eq!(local_text(before), expected);
        assert_eq!(local_with_day(&now.to_utc().to_rfc3339()), with_day(now));
        assert_eq!(local("soon"), "soon");
    }
}
