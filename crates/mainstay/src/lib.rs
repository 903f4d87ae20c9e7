//! Mainstay: keeps MCP servers up, and reachable behind one endpoint. See ARCHITECTURE.md.

pub mod alerts;
pub mod api;
pub mod calls;
pub mod cli;
pub mod clock;
pub mod daemon;
pub mod demo;
pub mod event_stream;
pub mod events;
pub mod front;
pub mod guardian;
pub mod journal;
pub mod lineage;
pub mod logs;
#[cfg(target_os = "linux")]
pub mod processes;
pub mod registry;
pub mod reload;
pub mod setting;
pub mod state;
pub mod supervisor;
pub mod surroundings;
pub mod switches;
pub mod tokens;
pub mod transport;
pub mod utc;
