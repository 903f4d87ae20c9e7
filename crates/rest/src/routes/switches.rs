//! Routes for requests of servers, and for switches of clients.

use mainstay_api as api;
use mainstay_core::failure::FailureKind;
use serde_json::json;

use crate::{
    code::{
        Code::{Failed, MissingParameter, StateUnwritable},
        SERVER_NOT_FOUND,
    },
    operation::{Operation, delete, get, post, put},
    requests, switches,
};

pub fn operations() -> Vec<Operation> {
    vec![
        get(api::SERVER_REQUESTS, requests::list)
            .summary("What servers ask and no client could be asked")
            .answers::<api::ServerRequests>(),
        post(api::REPLY, requests::answer)
            .summary("Answer a server's request, or refuse it")
            .accepts::<api::Reply>()
            .needing(&json!({"oneOf": [{"required": ["result"]}, {"required": ["error"]}]}))
            .answers::<api::Replied>()
            .fails(&[MissingParameter, Failed(FailureKind::RequestNotFound)]),
        get(api::SWITCHES, switches::list)
            .summary("Servers and tools that are switched off for a client")
            .answers::<api::Switches>(),
        delete(api::SWITCHES, switches::clear_all)
            .summary("Switch everything on for every client")
            .answers::<api::Cleared>()
            .fails(&[StateUnwritable]),
        put(api::SWITCH, switches::set)
            .summary("Switch a server or a tool off for a client, or on again")
            .accepts::<api::SetSwitch>()
            .answers::<api::Switched>()
            .fails(&[
                SERVER_NOT_FOUND,
                Failed(FailureKind::ToolNotFound),
                StateUnwritable,
            ]),
        delete(api::SWITCH, switches::clear)
            .summary("Switch everything on for a client")
            .answers::<api::Cleared>()
            .fails(&[StateUnwritable]),
    ]
}
