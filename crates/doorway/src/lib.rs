//! Parts that the MCP doors and the REST door share: authentication, request limits, and the
//! gateway's data as JSON.

pub mod authenticator;
pub mod bodies;
pub mod browser;
pub mod forwarded;
pub mod guard;
pub mod json_views;
pub mod peer;
pub mod trace;

use http::HeaderValue;

/// `Retry-After` of refusals, in seconds.
pub const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");
