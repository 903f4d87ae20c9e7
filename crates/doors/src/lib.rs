//! The doors for clients: the HTTP listener, and MCP over HTTP, SSE and stdio.

mod client_stream;
pub mod connections;
mod cors;
mod half_closed;
pub mod http;
pub mod listen;
pub mod mcp;
pub mod tls;
mod traffic;
pub mod unread;
mod woken_only;
