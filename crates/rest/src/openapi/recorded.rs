//! The filters of records.

use mainstay_core::record::{Door, State, Status};
use serde_json::{Value, json};

use super::super::{
    filter::MAX_TEXT,
    operation::Operation,
    schema::{TIME, digits, one_of, text, time},
};

/// Words of a closed set, with commas, and blanks beside them.
fn some_of(words: impl Iterator<Item = &'static str>) -> Value {
    let words = words.collect::<Vec<_>>().join("|");
    json!({"type": "string", "pattern": format!(r"^\s*({words})?\s*(,\s*({words})?\s*)*$")})
}

/// An operation on the records that fit.
pub fn records(operation: Operation) -> Operation {
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
            &some_of(Status::ALL.iter().map(|it| it.as_str())),
        )
        .query(
            "state",
            "How far the call got",
            &some_of(State::ALL.iter().map(|it| it.as_str())),
        )
        .query(
            "door",
            "Where it came in",
            &one_of(Door::ALL.iter().map(|it| it.as_str())),
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
