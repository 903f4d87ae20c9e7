//! Routes under `/api/servers`.

use mainstay_api as api;
use mainstay_core::failure::FailureKind;

use super::{ENTRY_ERRORS, PERSIST};
use crate::{
    code::{
        CONFIG_CHANGED, CONNECT_FAILED,
        Code::{Failed, UnknownRoute},
        FILE_ERRORS, SERVER_DOWN, SERVER_NOT_FOUND,
    },
    entries, execute,
    operation::{Operation, delete, get, post, put},
    schema::{boolean, entry, replacing_entry},
    servers,
};

pub fn operations() -> Vec<Operation> {
    vec![
        get(api::SERVERS, servers::servers).summary("How the servers are, in the order of the configuration")
        .answers::<api::Servers>(),
        post(api::SERVERS, entries::add).summary("Add a server")
            .accepts_with(&entry(&["name"]))
            .answers::<api::Operated>()
            .fails(&ENTRY_ERRORS),
        get(api::SERVER, entries::get).summary("How a server is, and its entry")
            .answers::<api::ServerDetails>()
            .fails(&[SERVER_NOT_FOUND]),
        put(api::SERVER, entries::put).summary("Give a server this entry, or add it")
        .accepts_with(&replacing_entry())
        .answers::<api::Operated>()
        .fails(&ENTRY_ERRORS)
        .fails(&[CONFIG_CHANGED]),
        delete(api::SERVER, entries::delete).summary("Remove a server")
            .query("persist", PERSIST, &boolean())
            .answers::<api::Removed>()
            .fails(&[SERVER_NOT_FOUND])
            .fails(&FILE_ERRORS),
        post(api::OPERATE, servers::operate).summary("Start, stop, restart or reconnect a server")
        .answers::<api::Operated>()
        .fails(&[UnknownRoute, SERVER_NOT_FOUND, CONNECT_FAILED, SERVER_DOWN]),
        post(api::ENABLE, entries::enable).summary("Enable a server")
            .may_accept::<api::Keeping>()
            .answers::<api::Operated>()
            .fails(&[SERVER_NOT_FOUND, SERVER_DOWN])
            .fails(&FILE_ERRORS),
        post(api::DISABLE, entries::disable).summary("Disable a server")
            .may_accept::<api::Keeping>()
            .answers::<api::Operated>()
            .fails(&[SERVER_NOT_FOUND, CONNECT_FAILED])
            .fails(&FILE_ERRORS),
        post(api::APPROVE, entries::approve).summary("Let a server be started that was added from inside a client, if it is what was shown")
        .accepts::<api::Approval>()
        .answers::<api::Operated>()
        .fails(&[
            SERVER_NOT_FOUND,
            Failed(FailureKind::NotPending),
            Failed(FailureKind::NotAsShown),
        ])
        .fails(&FILE_ERRORS),
        post(api::EXECUTE, execute::execute).summary("Call a tool; what goes wrong is said in the answer")
        .may_accept::<api::Execute>()
        .answers::<api::Executed>()
        .follows(),
    ]
}
