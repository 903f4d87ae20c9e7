//! The doors, where clients, people and programs come in.

pub mod connections;
pub mod entrance;
pub mod guard;
pub mod http;
pub mod mcp;
pub mod plain;
mod rare;
pub mod rest;
mod traffic;
pub mod unread;

use ::http::HeaderValue;

/// Seconds after which a client that is turned away now may come again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");
