//! MCP over HTTP, HTTP+SSE and stdio: reads messages from bytes, and writes answers as bytes.

pub mod answer;
mod batch;
mod conversation;
mod headers;
pub mod http;
mod mcp;
mod report;
pub mod sse;
pub mod sse_body;
mod stateless_http;
pub mod stdio;
mod streams;

pub use self::mcp::{Limits, Mcp};
