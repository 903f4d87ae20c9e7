//! Mainstay: keeps MCP servers up, and reachable behind one endpoint. See ARCHITECTURE.md.

pub mod calls;
pub mod daemon;
pub mod front;
pub mod registry;
pub mod supervisor;
pub mod transport;
