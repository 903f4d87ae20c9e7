//! Access to the machine: files, processes, the environment, the clock.

pub mod blocking;
pub mod clock;
pub mod config_history;
#[cfg(target_os = "linux")]
pub mod core_dumps;
pub mod descriptors;
pub mod dial;
pub mod encoding;
pub mod environment;
pub mod event_stream;
pub mod files;
pub mod guardian;
pub mod hex;
#[cfg(target_os = "linux")]
pub mod huge_pages;
pub mod lineage;
pub mod listener_tls;
#[cfg(target_os = "linux")]
pub mod loopback;
pub mod port_holder;
pub mod processes;
pub mod scratch;
pub mod state;
pub mod utc;
pub mod vault;
