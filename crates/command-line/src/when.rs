//! Points in time as people type them after `--since` and `--until`: every form that a command prints, and
//! some shorter ones. They are in the machine's time zone, unless they name another.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, Days, FixedOffset, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};

use super::{CommandError, time};

const DAY: Duration = Duration::from_hours(24);

/// A point in time. The flag tells whether only a time of day was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedTime {
    at: SystemTime,
    is_time_of_day: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTime {
    #[error(
        "expected a time such as 14:03, \"yesterday 23:50\", 2026-11-28, \"2026-11-28 14:03\", 2h (ago) or 2026-11-28T14:03:00Z"
    )]
    Unknown,
    #[error(
        "{0} has no unit; write {0}s, {0}m, {0}h or {0}d (ago), or a time such as 14:03, \"yesterday 23:50\" or 2026-11-28"
    )]
    BareNumber(String),
}

/// Parses a point in time.
pub fn when(text: &str) -> Result<TypedTime, BadTime> {
    read(text, &Local::now())
}

impl TypedTime {
    pub fn at(self) -> SystemTime {
        self.at
    }
}

/// The end of the period that begins at `since`. A time of day alone means the first such time after the
/// beginning.
pub fn end(
    since: Option<TypedTime>,
    until: Option<TypedTime>,
) -> Result<Option<TypedTime>, CommandError> {
    let (Some(since), Some(until)) = (since, until) else {
        return Ok(until);
    };
    if until.at >= since.at {
        return Ok(Some(until));
    }
    let next = until.at + DAY;
    if until.is_time_of_day && next >= since.at {
        return Ok(Some(TypedTime { at: next, ..until }));
    }
    let day_and_time = |when: TypedTime| time::with_day(when.at.into());
    Err(CommandError::Usage {
        message: format!(
            "--until {} is before --since {}",
            day_and_time(until),
            day_and_time(since)
        ),
        hint: Some("give the earlier time to --since".to_owned()),
    })
}

fn read<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Result<TypedTime, BadTime> {
    let text = text.trim();
    if let Some(ago) = span(text.strip_prefix('-').unwrap_or(text)) {
        let now = SystemTime::from(now.to_utc());
        let at = now.checked_sub(ago).ok_or(BadTime::Unknown)?;
        return Ok(exactly(at));
    }
    if text.parse::<f64>().is_ok() && text.bytes().all(|byte| !byte.is_ascii_alphabetic()) {
        return Err(BadTime::BareNumber(text.trim_start_matches('-').to_owned()));
    }
    if let Some(time) = time_of_day(text) {
        let today = now.date_naive();
        let at = local(today.and_time(time), now);
        // A time of day in the future means the day before.
        let at = match at {
            Some(at) if at > SystemTime::from(now.to_utc()) => {
                let before = today.checked_sub_days(Days::new(1));
                before.and_then(|day| local(day.and_time(time), now))
            }
            at => at,
        };
        return at.ok_or(BadTime::Unknown).map(|at| TypedTime {
            at,
            is_time_of_day: true,
        });
    }
    on_a_day(text, now).map(exactly).ok_or(BadTime::Unknown)
}

fn exactly(at: SystemTime) -> TypedTime {
    TypedTime {
        at,
        is_time_of_day: false,
    }
}

/// `90s`, `10m`, `2h`, `7d`
fn span(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| is_number)?;
    number.checked_mul(seconds).map(Duration::from_secs)
}

/// `14:03`, `14:03:20`, `14:03:20.345`
fn time_of_day(text: &str) -> Option<NaiveTime> {
    let formats = ["%H:%M", "%H:%M:%S%.f"].into_iter();
    let mut times = formats.filter_map(|format| NaiveTime::parse_from_str(text, format).ok());
    times.next()
}

/// A day with or without a time of day: `yesterday`, `yesterday 23:50`, `2026-11-28`, `2026-11-28 14:03`,
/// `2026-11-28T14:03:05Z`, `2026-11-28 14:03:05.123 +01:00`.
fn on_a_day<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<SystemTime> {
    // The T of RFC 3339 follows a digit.
    let is_digit = |at: &usize| text[..*at].ends_with(|c: char| c.is_ascii_digit());
    let end = text
        .find(' ')
        .or_else(|| text.find(['T', 't']).filter(is_digit));
    let end = end.unwrap_or(text.len());
    let (day, rest) = text.split_at(end);
    let day = match day {
        "today" => now.date_naive(),
        "yesterday" => now.date_naive().checked_sub_days(Days::new(1))?,
        _ => NaiveDate::parse_from_str(day, "%Y-%m-%d").ok()?,
    };
    if rest.is_empty() {
        return local(day.and_time(NaiveTime::MIN), now);
    }
    let (time, offset) = parted(rest.get(1..)?);
    let time = day.and_time(time_of_day(time)?);
    match offset {
        None => local(time, now),
        Some(offset) => {
            let offset = match offset {
                "Z" | "z" => FixedOffset::east_opt(0)?,
                offset => offset.parse().ok()?,
            };
            time.and_local_timezone(offset)
                .single()
                .map(SystemTime::from)
        }
    }
}

/// Splits a text into a time of day and its distance from UTC.
fn parted(text: &str) -> (&str, Option<&str>) {
    match text.find(['Z', 'z', '+', '-'].as_slice()) {
        Some(at) => (text[..at].trim_end(), Some(&text[at..])),
        None => (text, None),
    }
}

/// Converts a local time. Of a time that clocks repeat, takes the earlier one. For a time that they skip,
/// takes the time an hour later.
fn local<Z: TimeZone>(time: NaiveDateTime, now: &DateTime<Z>) -> Option<SystemTime> {
    let zone = now.timezone();
    let at = |time: &NaiveDateTime| zone.from_local_datetime(time).earliest();
    let found = at(&time).or_else(|| at(&(time + chrono::Duration::hours(1))));
    found.map(|found| found.to_utc().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> FixedOffset {
        FixedOffset::east_opt(3600).expect("an offset")
    }

    fn at(text: &str) -> SystemTime {
        let time = DateTime::parse_from_rfc3339(text);
        time.expect("a time of RFC 3339").into()
    }

    /// The result of parsing at this time of the 28th.
    fn read_at(now: &str, text: &str) -> Result<SystemTime, BadTime> {
        let now = DateTime::<FixedOffset>::parse_from_rfc3339(&format!("2026-11-28T{now}+01:00"));
        let now = now.expect("a time").with_timezone(&zone());
        read(text, &now).map(|when| when.at)
    }

    #[test]
    fn what_is_printed_can_be_typed() {
        for (text, expected) in [
            ("14:03", "2026-11-28T14:03:00+01:00"),
            ("14:03:20", "2026-11-28T14:03:20+01:00"),
            ("14:03:20.345", "2026-11-28T14:03:20.345+01:00"),
            ("10m", "2026-11-28T14:50:00+01:00"),
            ("-2h", "2026-11-28T13:00:00+01:00"),
            ("2h", "2026-11-28T13:00:00+01:00"),
            ("1d", "2026-11-27T15:00:00+01:00"),
            ("today", "2026-11-28T00:00:00+01:00"),
            ("today 09:00", "2026-11-28T09:00:00+01:00"),
            ("yesterday", "2026-11-27T00:00:00+01:00"),
            ("yesterday 23:50", "2026-11-27T23:50:00+01:00"),
            ("2026-11-21", "2026-11-21T00:00:00+01:00"),
            ("2026-11-21 14:03", "2026-11-21T14:03:00+01:00"),
            ("2026-11-21T14:03:05", "2026-11-21T14:03:05+01:00"),
            ("2026-11-21 14:03:05.250", "2026-11-21T14:03:05.250+01:00"),
            ("2026-11-21T14:03:05Z", "2026-11-21T14:03:05Z"),
            ("2026-11-21T14:03Z", "2026-11-21T14:03:00Z"),
            ("2026-11-21T14:03:05-05:00", "2026-11-21T14:03:05-05:00"),
            (
                "2026-11-21 08:30:12.345 +02:00",
                "2026-11-21T08:30:12.345+02:00",
            ),
        ] {
            assert_eq!(read_at("15:00:00", text), Ok(at(expected)), "{text}");
        }
    }

    #[test]
    fn a_time_of_day_that_is_to_come_is_of_the_day_before() {
        let last_night = at("2026-11-27T23:50:00+01:00");
        assert_eq!(read_at("00:30:00", "23:50"), Ok(last_night));
        let now = at("2026-11-28T14:03:00+01:00");
        assert_eq!(read_at("14:03:00", "14:03"), Ok(now));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "m",
            "soon",
            "25:00",
            "2026-13-01",
            "2026-11-28 25:00",
            "--1m",
            "+2h",
            "2026-11-28 14:03 soon",
            "tomorrow",
            "inf",
            "99999999999999999999d",
        ] {
            assert_eq!(read_at("15:00:00", text), Err(BadTime::Unknown), "{text}");
        }
        for (text, number) in [
            ("5", "5"),
            ("99", "99"),
            ("-5", "5"),
            ("1764338580", "1764338580"),
        ] {
            let refused = Err(BadTime::BareNumber(number.to_owned()));
            assert_eq!(read_at("15:00:00", text), refused, "{text}");
        }
    }

    #[test]
    fn an_end_that_is_a_time_of_day_comes_after_the_beginning() {
        let time = |text, is_time_of_day| TypedTime {
            at: at(text),
            is_time_of_day,
        };
        let since = time("2026-11-28T14:00:00Z", true);
        let until = time("2026-11-27T15:00:00Z", true);
        let found = end(Some(since), Some(until)).expect("a period");
        let expected = at("2026-11-28T15:00:00Z");
        assert_eq!(found.map(TypedTime::at), Some(expected));
        let dated = time("2026-11-27T15:00:00Z", false);
        let refused = end(Some(since), Some(dated)).expect_err("the end comes first");
        assert!(
            refused.to_string().contains("is before --since"),
            "{refused}"
        );
    }
}
