//! The doors: the listener, and MCP over HTTP, SSE and stdio.

pub mod connections;
pub mod http;
pub mod mcp;
mod traffic;
pub mod unread;
mod woken_only;
