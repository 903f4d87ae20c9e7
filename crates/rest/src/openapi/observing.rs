//! Operations about the daemon, its clients, and what was.

use mainstay_api as api;

use super::super::{
    code::{Code, OF_RECORDS, SERVER_NOT_FOUND},
    operation::Operation,
    schema::{TIME, digits, number, text, time},
};

pub fn operations() -> Vec<Operation> {
    let get = |path, what| Operation::new("get", path, what);
    let period = |operation: Operation| {
        operation
            .query("since", TIME, &time())
            .query("until", TIME, &time())
            .query("limit", "How many of each server at most", &number())
            .answers::<api::History>()
            .fails(&OF_RECORDS)
    };
    vec![
        get(api::ABOUT, "The daemon itself, and its journal").answers::<api::About>(),
        get(api::SESSIONS, "The sessions of clients, the newest first")
            .query("server", "Only those of `/servers/NAME/mcp`", &text())
            .query("before", "`next` of the page before", &digits())
            .query("limit", "How many at most", &number())
            .answers::<api::Sessions>(),
        get(
            api::STATELESS_CLIENTS,
            "The clients without a session that came in the last hour, the newest first",
        )
        .answers::<api::StatelessClients>(),
        Operation::new("delete", api::SESSION, "End a session of a client")
            .answers::<api::EndedSession>()
            .fails(&[Code::UnknownSession]),
        period(get(
            api::HISTORY,
            "When the status of each server changed, and why",
        )),
        period(get(
            api::SERVER_HISTORY,
            "When the status of a server changed, and why",
        ))
        .fails(&[SERVER_NOT_FOUND]),
    ]
}
