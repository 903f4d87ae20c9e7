//! What the MCP doors and the REST door share: who may come in, what a request may take, and the gateway's
//! facts as JSON.

pub mod authenticator;
pub mod bodies;
pub mod browser;
pub mod guard;
pub mod json_views;
pub mod peer;
pub mod trace;

use http::HeaderValue;

/// Seconds after which a client that is turned away now may come again.
pub const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");
