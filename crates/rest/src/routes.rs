//! The routes of the REST API, in a file for each subject. A route is a row: an [`Operation`] with
//! method, path, handler and description. The router and the OpenAPI document are made from these
//! rows, so every route has a description.

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

/// All operations under `/api`, in the order of the OpenAPI document.
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

// Descriptions of query parameters that several rows use.
const SERVER: &str = "Only this server's";
const PERSIST: &str = "Out of the configuration's file, too";
const PLACE: &str = "The id of an event to go on from";
