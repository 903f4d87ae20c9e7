//! Call records as a table: its columns, and lines of JSON and CSV. `mainstay records export` and
//! `GET /api/call-records/export` use it.

use std::time::UNIX_EPOCH;

use mainstay_core::message;
use mainstay_platform::utc;

use super::{CallRecord, Raw};

/// Call records as a file. `?format=jsonl|csv` accompanies the filters of
/// [`CALL_RECORDS`](super::CALL_RECORDS).
pub const EXPORT_CALL_RECORDS: &str = "/api/call-records/export";

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Integer,
    Real,
    /// JSON. A table stores it as text.
    Json,
}

/// The value of a column in one record.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Text(String),
    Integer(i64),
    Real(f64),
}

#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    pub form: Form,
    pub of: fn(&CallRecord) -> Value,
}

const fn column(name: &'static str, form: Form, of: fn(&CallRecord) -> Value) -> Column {
    Column { name, form, of }
}

/// The columns in their order. docs/cli.md lists them.
pub const COLUMNS: [Column; 31] = [
    column("id", Form::Text, |call| text(&call.id)),
    column("started_at", Form::Text, |call| text(&call.started_at)),
    column("started_at_ms", Form::Integer, |call| {
        millis(Some(&call.started_at))
    }),
    column("completed_at", Form::Text, |call| {
        some(call.completed_at.as_ref())
    }),
    column("completed_at_ms", Form::Integer, |call| {
        millis(call.completed_at.as_ref())
    }),
    column("duration_ms", Form::Real, |call| real(call.duration_ms)),
    column("queue_ms", Form::Real, |call| Value::Real(call.queue_ms)),
    column("upstream_ms", Form::Real, |call| {
        Value::Real(call.upstream_ms)
    }),
    column("server", Form::Text, |call| some(call.server.as_ref())),
    column("method", Form::Text, |call| text(&call.method)),
    column("tool", Form::Text, |call| text(&call.tool)),
    column("name", Form::Text, |call| text(&call.name)),
    column("status", Form::Text, |call| text(&call.status)),
    column("state", Form::Text, |call| text(&call.state)),
    column("attempt", Form::Integer, |call| {
        Value::Integer(call.attempt.into())
    }),
    column("error_kind", Form::Text, |call| {
        some(call.error.as_ref().map(|error| &error.kind))
    }),
    column("error_message", Form::Text, |call| {
        some(call.error.as_ref().map(|error| &error.message))
    }),
    column("arguments", Form::Json, |call| {
        json(call.arguments.as_ref())
    }),
    column("arguments_bytes", Form::Integer, |call| {
        integer(call.arguments_bytes)
    }),
    column("arguments_cid", Form::Text, |call| {
        some(call.arguments_cid.as_ref())
    }),
    column("result_bytes", Form::Integer, |call| {
        integer(call.result_bytes)
    }),
    column("result_cid", Form::Text, |call| {
        some(call.result_cid.as_ref())
    }),
    column("source", Form::Text, |call| text(&call.source)),
    column("door", Form::Text, |call| text(&call.door)),
    column("profile", Form::Text, |call| some(call.profile.as_ref())),
    column("client_name", Form::Text, |call| {
        some(call.client.as_ref().map(|client| &client.name))
    }),
    column("client_version", Form::Text, |call| {
        some(call.client.as_ref().map(|client| &client.version))
    }),
    column("principal", Form::Text, |call| {
        some(call.principal.as_ref())
    }),
    column("session", Form::Text, |call| some(call.session.as_ref())),
    column("trace_id", Form::Text, |call| some(call.trace_id.as_ref())),
    column("instance", Form::Text, |call| some(instance(&call.id))),
];

/// The instance in `INSTANCE/ID`.
fn instance(id: &str) -> Option<&str> {
    id.rsplit_once('/').map(|(instance, _)| instance)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn some(text: Option<impl AsRef<str>>) -> Value {
    text.map_or(Value::Null, |text| self::text(text.as_ref()))
}

fn integer(number: Option<u64>) -> Value {
    let number = number.and_then(|number| i64::try_from(number).ok());
    number.map_or(Value::Null, Value::Integer)
}

fn real(number: Option<f64>) -> Value {
    number.map_or(Value::Null, Value::Real)
}

fn json(raw: Option<&Raw>) -> Value {
    some(raw.map(|raw| message::one_line(raw.get())))
}

/// Milliseconds since 1970.
fn millis(time: Option<&String>) -> Value {
    let since = time.and_then(|time| utc::parse(time)?.duration_since(UNIX_EPOCH).ok());
    let millis = since.and_then(|since| i64::try_from(since.as_millis()).ok());
    millis.map_or(Value::Null, Value::Integer)
}

/// A line of JSON, in which each column is a member.
pub fn json_line(call: &CallRecord) -> String {
    let members = COLUMNS.iter().map(|column| {
        let value = match (column.of)(call) {
            Value::Null => "null".to_owned(),
            Value::Text(text) if column.form == Form::Json => text,
            Value::Text(text) => message::quote(&text),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
        };
        format!("{}:{value}", message::quote(column.name))
    });
    format!("{{{}}}\n", members.collect::<Vec<_>>().join(","))
}

/// The names of the columns, as a line of CSV.
pub fn csv_head() -> String {
    csv_line(COLUMNS.iter().map(|column| text(column.name)))
}

/// A record as a line of CSV.
pub fn csv_record(call: &CallRecord) -> String {
    csv_line(COLUMNS.iter().map(|column| (column.of)(call)))
}

/// One line of CSV (RFC 4180). A null is empty; an empty text is `""`.
fn csv_line(values: impl Iterator<Item = Value>) -> String {
    let fields = values.map(|value| match value {
        Value::Null => String::new(),
        Value::Text(text) if text.is_empty() || text.contains([',', '"', '\r', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::Text(text) => text,
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
    });
    fields.collect::<Vec<_>>().join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_csv_are_those_of_rfc_4180() {
        let line = |values: Vec<Value>| csv_line(values.into_iter());
        assert_eq!(
            line(vec![
                text("a"),
                Value::Null,
                text(""),
                Value::Integer(-7),
                Value::Real(0.25)
            ]),
            "a,,\"\",-7,0.25\r\n"
        );
        assert_eq!(
            line(vec![
                text("a,b"),
                text("say \"x\""),
                text("two\r\nlines"),
                text(" blank ")
            ]),
            "\"a,b\",\"say \"\"x\"\"\",\"two\r\nlines\", blank \r\n"
        );
    }

    #[test]
    fn times_are_milliseconds_too() {
        let time = "2026-11-25T14:03:00.250Z".to_owned();
        assert_eq!(millis(Some(&time)), Value::Integer(1_795_615_380_250));
        assert_eq!(millis(None), Value::Null);
    }
}
