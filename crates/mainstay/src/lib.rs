//! Mainstay: keeps MCP servers up, and reachable behind one endpoint. See ARCHITECTURE.md.

pub mod cli;
pub mod daemon;
pub mod demo;
pub mod logins;
