//! What the benchmark's programs share: the echo backend's answers, the calls the load
//! generator makes and how it checks them, and the CPU accounting.
//!
//! `bench/run` ties the programs together; `bench/README.md` says what is measured and how.

pub mod calls;
pub mod cpu;
pub mod echo;
pub mod gateway;
pub mod http;
pub mod many_tools;
pub mod report;
pub mod stdio;

/// How a connection is opened, or is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Era {
    /// With `initialize`.
    #[default]
    Legacy,
    /// Every request describes its client.
    Modern,
}

impl Era {
    /// The revision that is spoken.
    pub const fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// How long one answer may take, handshake included, before the run is called hung.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
