//! Streamable HTTP of the revisions 2025-03-26 to 2025-11-25.

pub mod get_stream;
pub mod http_exchange;
pub mod http_link;
pub mod session_doubt;
pub mod streamable_http;
