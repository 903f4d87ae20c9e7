//! What the benchmark's programs share: the echo backend's answers, the calls the load
//! generator makes and how it checks them, and the CPU accounting.
//!
//! `bench/run` ties the programs together; `bench/README.md` says what is measured and how.

pub mod calls;
pub mod cpu;
pub mod echo;
pub mod http;
pub mod report;
pub mod stdio;

/// The revision spoken on every connection.
pub const PROTOCOL_VERSION: &str = "2025-11-25";

/// How long one answer may take, handshake included, before the run is called hung.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
