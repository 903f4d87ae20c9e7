//! HTTP+SSE, the transport of revision 2024-11-05.

pub mod sse;
pub mod sse_link;
