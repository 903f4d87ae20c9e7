//! Which records are asked for, from the query of a URL.

use std::{str::FromStr, time::SystemTime};

use mainstay_core::record::{Door, RecordId, State, Status, TraceId};
use mainstay_journal::Filter;
use mainstay_platform::utc;

use super::refusal::Refusal;

/// Values of one name at most. Each is a part of the question to the journal.
const MAX_VALUES: usize = 100;

/// Characters of a text that calls are searched for.
pub const MAX_TEXT: usize = 1000;

/// What is asked for, of what `GET /api/call-records` and its export know.
#[derive(Debug, Default)]
pub struct Wanted {
    pub filter: Filter,
    pub limit: Option<usize>,
    /// Of the export.
    pub format: Option<String>,
}

impl Wanted {
    /// Unknown names mean nothing. Of a name with one value the last one counts.
    pub fn read(query: Vec<(String, String)>) -> Result<Self, Refusal> {
        let mut wanted = Self::default();
        let filter = &mut wanted.filter;
        for (name, value) in query {
            match name.as_str() {
                "limit" => wanted.limit = Some(parsed(&name, &value)?),
                "format" => wanted.format = Some(value),
                "server" => add(&name, &mut filter.servers, words(&value))?,
                // Names of tools, which may be URIs, and of clients may have commas.
                "tool" => add(&name, &mut filter.tools, [value])?,
                "client" => add(&name, &mut filter.clients, [value])?,
                "status" => {
                    let known = known(&name, &value, Status::parse)?;
                    add(&name, &mut filter.statuses, known)?;
                }
                "state" => {
                    let known = known(&name, &value, State::parse)?;
                    add(&name, &mut filter.states, known)?;
                }
                "door" => {
                    let door = Door::parse(&value).ok_or_else(|| unknown(&name, &value))?;
                    filter.door = Some(door);
                }
                "session" => filter.session = Some(value),
                "trace_id" => {
                    let trace = TraceId::parse(&value).ok_or_else(|| {
                        let expected = "expected 32 hexadecimal digits that are not all 0";
                        Refusal::Malformed(format!("{name}: {expected}"))
                    })?;
                    filter.trace = Some(trace);
                }
                "since" => filter.since = time("since", Some(&value))?,
                "until" => filter.until = time("until", Some(&value))?,
                "text" => {
                    if value.chars().count() > MAX_TEXT {
                        return Err(Refusal::Malformed(format!(
                            "{name}: at most {MAX_TEXT} characters"
                        )));
                    }
                    filter.text = Some(value);
                }
                "before" => {
                    let id: RecordId = value
                        .parse()
                        .map_err(|_| Refusal::Malformed(format!("{value:?} is no record's id")))?;
                    filter.before = Some(id);
                }
                "count" => filter.uncounted = !parsed::<bool>(&name, &value)?,
                _ => {}
            }
        }
        Ok(wanted)
    }
}

/// A time in RFC 3339, or in seconds since 1970.
pub fn time(name: &str, said: Option<&str>) -> Result<Option<SystemTime>, Refusal> {
    said.map(|text| {
        utc::parse(text).ok_or_else(|| {
            let expected = "expected a time such as 2026-11-25T14:03:00Z, or seconds since 1970";
            Refusal::Malformed(format!("{name}: {expected}"))
        })
    })
    .transpose()
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(name: &str, value: &str) -> Result<T, Refusal> {
    value
        .parse()
        .map_err(|error| Refusal::Malformed(format!("{name}: {error}")))
}

/// The words between commas.
fn words(value: &str) -> impl Iterator<Item = String> {
    let words = value.split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

fn known<T>(name: &str, value: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Refusal> {
    words(value)
        .map(|word| parse(&word).ok_or_else(|| unknown(name, &word)))
        .collect()
}

fn unknown(name: &str, word: &str) -> Refusal {
    Refusal::Malformed(format!("there is no {name} {word:?}"))
}

fn add<T>(
    name: &str,
    values: &mut Vec<T>,
    more: impl IntoIterator<Item = T>,
) -> Result<(), Refusal> {
    values.extend(more);
    if values.len() > MAX_VALUES {
        return Err(Refusal::Malformed(format!(
            "{name}: at most {MAX_VALUES} values"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &[(&str, &str)]) -> Result<Wanted, Refusal> {
        let pairs = query.iter();
        Wanted::read(
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn values_come_with_commas_or_one_by_one() {
        let wanted = read(&[
            ("status", "ok, error"),
            ("status", "timeout"),
            ("state", "sent,answered"),
            ("server", "fs,db,"),
            ("tool", "file:///a,b"),
            ("client", "one"),
            ("client", "two"),
            ("trace_id", "4BF92F3577B34DA6A3CE929D0E0E4736"),
            ("count", "false"),
            ("limit", "7"),
            ("anything", "else"),
        ])
        .expect("understood");
        let filter = wanted.filter;
        assert_eq!(
            filter.statuses,
            [Status::Ok, Status::Error, Status::Timeout]
        );
        assert_eq!(filter.states, [State::Sent, State::Answered]);
        assert_eq!(filter.servers, ["fs", "db"]);
        assert_eq!(filter.tools, ["file:///a,b"]);
        assert_eq!(filter.clients, ["one", "two"]);
        let trace = filter.trace.map(|trace| trace.to_string());
        assert_eq!(trace.as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        assert!(filter.uncounted);
        assert_eq!(wanted.limit, Some(7));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let many = ["x"; MAX_VALUES + 1].join(",");
        for (name, value) in [
            ("status", "ok,fine"),
            ("state", "gone"),
            ("door", "window"),
            ("trace_id", "4bf92f35"),
            ("trace_id", "00000000000000000000000000000000"),
            ("limit", "many"),
            ("count", "yes"),
            ("before", "x"),
            ("since", "yesterday"),
            ("server", &many),
            ("text", &"ä".repeat(MAX_TEXT + 1)),
        ] {
            let refused = read(&[(name, value)]).expect_err(name);
            let told = refused.to_string();
            assert!(told.contains(name) || told.contains(value), "{told}");
        }
    }
}
