//! Routes under `/api/mcp-clients`, `/api/mcp-tools` and `/api/mcp-resources`, which other programs
//! use: servers by name, their tools and resources.

use mainstay_api as api;
use mainstay_core::failure::FailureKind;
use serde_json::json;

use super::{ENTRY_ERRORS, PERSIST, SERVER};
use crate::{
    calls,
    code::{
        CALL_ERRORS, CLIENT_ROUTE_ERRORS, CONNECT_FAILED,
        Code::{Failed, InvalidToolName, MissingParameter},
        FILE_ERRORS, SERVER_DOWN, SERVER_NOT_FOUND,
    },
    entries, lists,
    operation::{Operation, delete, get, post},
    schema::{boolean, entry, text},
    servers,
};

pub fn operations() -> Vec<Operation> {
    vec![
        get(api::CLIENTS, servers::clients)
            .summary("How the servers are, by name")
            .answers::<api::Clients>()
            .needs_configuration(),
        post(api::CONNECT_CLIENT, entries::connect_client)
            .summary("Add a server, if it can be connected")
            .accepts_with(&entry(&["name"]))
            .answers::<api::ClientOperated>()
            .fails(&ENTRY_ERRORS)
            .fails(&[CONNECT_FAILED]),
        delete(api::CLIENT, entries::delete_client)
            .summary("Remove a server")
            .query("persist", PERSIST, &boolean())
            .answers::<api::ClientLeft>()
            .needs_configuration()
            .fails(&[SERVER_NOT_FOUND])
            .fails(&FILE_ERRORS),
        post(api::RECONNECT_CLIENT, servers::reconnect_client)
            .summary("Connect a server that is not")
            .may_accept::<api::Reconnect>()
            .answers::<api::ClientOperated>()
            .needs_configuration()
            .fails(&[SERVER_NOT_FOUND, CONNECT_FAILED, SERVER_DOWN]),
        post(api::DISCONNECT_CLIENT, servers::disconnect_client)
            .summary("Stop a server")
            .answers::<api::ClientLeft>()
            .needs_configuration()
            .fails(&[SERVER_NOT_FOUND, CONNECT_FAILED]),
        get(api::TOOLS, lists::tools)
            .summary("The tools of all servers, or of one")
            .query("server", SERVER, &text())
            .answers::<api::Tools>()
            .needs_configuration()
            .fails(&[SERVER_NOT_FOUND]),
        post(api::CALL, calls::call_tool)
            .summary("Call a tool")
            .accepts::<api::Call>()
            .answers::<api::Answer>()
            .follows()
            .fails(&CLIENT_ROUTE_ERRORS)
            .fails(&CALL_ERRORS)
            .fails(&[MissingParameter, InvalidToolName])
            .fails(&[Failed(FailureKind::ToolNotFound)]),
        get(api::RESOURCES, lists::resources)
            .summary("The resources of all servers, or of one")
            .query("server", SERVER, &text())
            .answers::<api::Resources>()
            .needs_configuration()
            .fails(&[SERVER_NOT_FOUND]),
        post(api::READ, calls::read)
            .summary("Read the first content of a resource")
            .accepts::<api::Read>()
            .needing(&json!({"required": ["server"], "properties": {"server": text()}}))
            .answers::<api::Content>()
            .follows()
            .fails(&CLIENT_ROUTE_ERRORS)
            .fails(&CALL_ERRORS)
            .fails(&[MissingParameter, Failed(FailureKind::ResourceNotFound)]),
    ]
}
