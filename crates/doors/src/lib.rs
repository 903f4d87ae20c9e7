//! The doors, where clients, people and programs come in.

pub mod authenticator;
pub mod bodies;
pub mod connections;
pub mod guard;
pub mod http;
pub mod json_views;
pub mod mcp;
pub mod peer;
pub mod rest;
pub mod tokens;
mod traffic;
pub mod unread;
mod woken_only;

use ::http::HeaderValue;

/// Seconds after which a client that is turned away now may come again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");
