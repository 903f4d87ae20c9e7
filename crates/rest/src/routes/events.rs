//! Routes for events.

use mainstay_api as api;

use super::{PLACE, SERVER};
use crate::{
    code::Code::TooManyStreams,
    events,
    operation::{Operation, get},
    schema::{number, place, text},
};

pub fn operations() -> Vec<Operation> {
    vec![
        get(api::EVENTS, events::stream)
            .summary("What happens, as server-sent events, without an end")
            .query("after", PLACE, &place())
            .streams()
            .fails(&[TooManyStreams])
            .shares(events::Streams::default()),
        get(api::RECENT_EVENTS, events::recent)
            .summary("What happened lately")
            .query("after", PLACE, &place())
            .query("before", "The id of an event: only older ones", &place())
            .query("type", "Only these types, with commas", &text())
            .query("server", SERVER, &text())
            .query("limit", "How many at most; the newest", &number())
            .answers::<api::Events>(),
    ]
}
