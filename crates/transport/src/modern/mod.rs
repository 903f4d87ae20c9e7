//! Streamable HTTP of revision 2026-07-28, which has no sessions.

pub mod modern_exchange;
pub mod modern_http;
pub mod modern_link;
pub mod modern_post;
pub mod tool_headers;
