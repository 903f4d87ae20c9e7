//! Parses the query parameters that select records.

use std::{str::FromStr, time::SystemTime};

use mainstay_core::record::{Door, RecordId, State, Status, TraceId};
use mainstay_journal::RecordFilter;
use mainstay_platform::utc;

use super::refusal::Refusal;

/// Maximum number of values of one parameter. Each value becomes a part of the journal's query.
const MAX_VALUES: usize = 100;

/// Maximum length of a text to search for, in characters.
pub const MAX_TEXT: usize = 1000;

/// The parameters of `GET /api/call-records` and its export.
#[derive(Debug, Default)]
pub struct RecordsQuery {
    pub filter: RecordFilter,
    pub limit: Option<usize>,
    /// The format of the export.
    pub format: Option<String>,
}

impl RecordsQuery {
    /// Parses the parameters. Ignores unknown ones. If a parameter takes one value, the last
    /// counts.
    pub fn read(parameters: Vec<(String, String)>) -> Result<Self, Refusal> {
        let mut query = Self::default();
        let filter = &mut query.filter;
        for (name, value) in parameters {
            match name.as_str() {
                "limit" => query.limit = Some(parsed(&name, &value)?),
                "format" => query.format = Some(value),
                "server" => add(&name, &mut filter.servers, words(&value))?,
                // Names of tools and clients may contain commas, so each parameter has one value.
                "tool" => add(&name, &mut filter.tools, [value])?,
                "client" => add(&name, &mut filter.clients, [value])?,
                "status" => {
                    let statuses = parse_words(&name, &value, Status::parse)?;
                    add(&name, &mut filter.statuses, statuses)?;
                }
                "state" => {
                    let states = parse_words(&name, &value, State::parse)?;
                    add(&name, &mut filter.states, states)?;
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
        Ok(query)
    }
}

/// Parses a time in RFC 3339 format, or in seconds since 1970.
pub fn time(name: &str, value: Option<&str>) -> Result<Option<SystemTime>, Refusal> {
    value
        .map(|text| {
            utc::parse(text).ok_or_else(|| {
                let expected =
                    "expected a time such as 2026-11-25T14:03:00Z, or seconds since 1970";
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

/// Splits a value at commas.
fn words(value: &str) -> impl Iterator<Item = String> {
    let words = value.split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

fn parse_words<T>(
    name: &str,
    value: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Refusal> {
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

    fn read(query: &[(&str, &str)]) -> Result<RecordsQuery, Refusal> {
        let pairs = query.iter();
        RecordsQuery::read(
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn values_come_with_commas_or_one_by_one() {
        let query = read(&[
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
        let filter = query.filter;
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
        assert_eq!(query.limit, Some(7));
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
            let message = refused.to_string();
            assert!(
                message.contains(name) || message.contains(value),
                "{message}"
            );
        }
    }
}
