//! Routes for the daemon, its clients, and the history of its servers.

use mainstay_api as api;

use crate::{
    about,
    code::{Code::UnknownSession, RECORD_ERRORS, SERVER_NOT_FOUND},
    history,
    operation::{Operation, delete, get},
    schema::{TIME, digits, number, text, time},
    sessions,
};

pub fn operations() -> Vec<Operation> {
    let period = |operation: Operation| {
        operation
            .query("since", TIME, &time())
            .query("until", TIME, &time())
            .query("limit", "How many of each server at most", &number())
            .answers::<api::History>()
            .fails(&RECORD_ERRORS)
    };
    vec![
        get(api::ABOUT, about::about)
            .summary("The daemon itself, and its journal")
            .answers::<api::About>(),
        get(api::SESSIONS, sessions::list)
            .summary("The sessions of clients, the newest first")
            .query("server", "Only those of `/servers/NAME/mcp`", &text())
            .query("before", "`next` of the page before", &digits())
            .query("limit", "How many at most", &number())
            .answers::<api::Sessions>(),
        get(api::STATELESS_CLIENTS, sessions::stateless)
            .summary("The clients without a session that came in the last hour, the newest first")
            .answers::<api::StatelessClients>(),
        delete(api::SESSION, sessions::end)
            .summary("End a session of a client")
            .answers::<api::EndedSession>()
            .fails(&[UnknownSession]),
        period(
            get(api::HISTORY, history::all_servers)
                .summary("When the status of each server changed, and why"),
        ),
        period(
            get(api::SERVER_HISTORY, history::one_server)
                .summary("When the status of a server changed, and why"),
        )
        .fails(&[SERVER_NOT_FOUND]),
    ]
}
