//! Code that the MCP doors and REST share: authentication, request limits, and the gateway's data
//! in the format of REST.

pub mod authenticator;
pub mod bodies;
pub mod browser;
pub mod forwarded;
pub mod guard;
pub mod json_views;
pub mod peer;
pub mod token_limits;
pub mod trace;

use http::HeaderValue;

/// The value of `Retry-After` in refusals, in seconds.
pub const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");
