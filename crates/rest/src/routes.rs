//! The table of the REST API: a file for each subject, a row for each route. A row is an
//! [`Operation`]: method, path, handler and description. Router and OpenAPI document are generated
//! from these rows, so that every route is described.

mod access;
mod clients;
mod config;
mod daemon;
mod entries;
mod events;
mod health;
mod items;
mod logins;
mod records;
mod servers;
mod switches;

use mainstay_core::failure::FailureKind;

use super::{
    code::{
        Code::{self, Failed, MissingParameter},
        INVALID_CONFIG, SERVER_NOT_FOUND,
    },
    openapi,
    operation::Operation,
};

/// All operations under `/api`, in the order of the document.
pub fn operations() -> Vec<Operation> {
    [
        openapi::operations(),
        clients::operations(),
        items::operations(),
        servers::operations(),
        logins::operations(),
        records::operations(),
        health::operations(),
        config::operations(),
        switches::operations(),
        events::operations(),
        access::operations(),
        daemon::operations(),
        entries::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Errors of operations that add or replace an entry.
const ENTRY_ERRORS: [Code; 5] = [
    MissingParameter,
    INVALID_CONFIG,
    SERVER_NOT_FOUND,
    Failed(FailureKind::DuplicateName),
    Failed(FailureKind::NotSaved),
];

// Descriptions of parameters that several rows share.
const SERVER: &str = "Only this server's";
const PERSIST: &str = "Out of the configuration's file, too";
const PLACE: &str = "The id of an event to go on from";
