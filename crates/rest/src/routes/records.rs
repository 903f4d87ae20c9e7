//! Routes for the journal: call records, stored objects, and statistics.

use mainstay_api as api;
use mainstay_core::{
    failure::FailureKind,
    record::{Door, State, Status},
};
use serde_json::{Value, json};

use super::SERVER;
use crate::{
    code::{
        Code::{Failed, MissingParameter},
        RECORD_ERRORS,
    },
    export::{self, FORMATS},
    filter::MAX_TEXT,
    operation::{Operation, get},
    records,
    schema::{TIME, boolean, digits, number, one_of, text, time},
    statistics::{self, BY, SORT},
};

pub fn operations() -> Vec<Operation> {
    vec![
        filtered(
            get(api::CALL_RECORDS, records::records).summary("Records of calls, the newest first"),
        )
        .query("limit", "How many at most", &number())
        .query("count", "Whether all that fit are counted", &boolean())
        .answers::<api::CallRecords>()
        .needs_configuration()
        .fails(&RECORD_ERRORS),
        filtered(
            get(api::EXPORT_CALL_RECORDS, export::export)
                .summary("Records of calls as a file, the newest first"),
        )
        .query_needed(
            "format",
            "jsonl: a JSON object on each line; csv: a table",
            &one_of(FORMATS.into_iter()),
        )
        .query("limit", "How many at most; all without it", &number())
        .answers_as("application/x-ndjson")
        .answers_as("text/csv")
        .needs_configuration()
        .fails(&RECORD_ERRORS)
        .fails(&[MissingParameter]),
        get(api::CALL_RECORD, records::record)
            .summary("A record, with its arguments and its result")
            .answers::<api::WholeCallRecord>()
            .needs_configuration()
            .fails(&RECORD_ERRORS)
            .fails(&[Failed(FailureKind::RecordNotFound)]),
        get(api::OBJECT, records::object)
            .summary("An object by its content identifier")
            .query("offset", "The first byte", &number())
            .query("length", "How many bytes", &number())
            .answers_with(&json!({}))
            .answers_bytes(
                "Mainstay-Object-Size",
                "Of a part: how many bytes the whole has",
                &number(),
            )
            .needs_configuration()
            .fails(&RECORD_ERRORS)
            .fails(&[Failed(FailureKind::CidNotFound)]),
        get(api::STATISTICS, statistics::statistics)
            .summary("Calls, errors and latencies over time, of each tool or merged")
            .query("server", SERVER, &text())
            .query("tool", "A tool's own name", &text())
            .query("since", TIME, &time())
            .query("until", TIME, &time())
            .query(
                "bucketMs",
                "The length of a bucket; longer where there would be more than 1000",
                &number(),
            )
            .query("by", "What makes a series", &one_of(BY.into_iter()))
            .query("sort", "The greatest first", &one_of(SORT.into_iter()))
            .query("limit", "How many series at most", &number())
            .answers::<api::Statistics>()
            .needs_configuration()
            .fails(&RECORD_ERRORS),
    ]
}

/// The schema of a list of these words, with commas and optional blanks between them.
fn some_of(words: impl Iterator<Item = &'static str>) -> Value {
    let words = words.collect::<Vec<_>>().join("|");
    json!({"type": "string", "pattern": format!(r"^\s*({words})?\s*(,\s*({words})?\s*)*$")})
}

/// Adds the query parameters that select records.
fn filtered(operation: Operation) -> Operation {
    operation
        .query(
            "server",
            "Only these servers', with commas, or repeated",
            &text(),
        )
        .query(
            "tool",
            "A tool's own name, or server/tool; may be repeated",
            &text(),
        )
        .query(
            "status",
            "How the call ended",
            &some_of(Status::ALL.iter().map(|word| word.as_str())),
        )
        .query(
            "state",
            "How far the call got",
            &some_of(State::ALL.iter().map(|word| word.as_str())),
        )
        .query(
            "door",
            "Where it came in",
            &one_of(Door::ALL.iter().map(|word| word.as_str())),
        )
        .query(
            "client",
            "A client's name, as it declared itself; may be repeated",
            &text(),
        )
        .query("session", "A session, as records name it", &text())
        .query(
            "trace_id",
            "A trace (W3C Trace Context). It is searched for as `text` is, so that `since` makes it cheap",
            &json!({"type": "string", "pattern": "^(?!0{32}$)[0-9a-fA-F]{32}$"}),
        )
        .query("since", TIME, &time())
        .query("until", TIME, &time())
        .query(
            "text",
            "A part of server/tool, of the error's kind or message, or of the arguments as they are kept (up to 64 KiB), in either case. The search reads calls, the newest first, for 2 s at most; then the answer has `searched_back_to`",
            &json!({"type": "string", "maxLength": MAX_TEXT}),
        )
        .query("before", "`next` of the page before", &digits())
}
