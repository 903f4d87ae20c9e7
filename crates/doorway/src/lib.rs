//! The parts that the MCP doors and the REST door share: authentication, limits of requests, and the
//! gateway's data as JSON.

pub mod authenticator;
pub mod bodies;
pub mod browser;
pub mod guard;
pub mod json_views;
pub mod peer;
pub mod trace;

use http::HeaderValue;

/// Value of `Retry-After`, in seconds, for a client that is turned away.
pub const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");
