//! Nothing of ours outlives us, whichever process dies first and however (C12, T8, W1), and a Mainstay
//! that would launch itself is refused.
//!
//! In other gateways children and grandchildren survive: issues supergateway#108, metamcp#162 (from 50 to
//! 2,018 processes), docker#318, MCPJungle#271.

// Elsewhere there is no guardian, and no /proc to look into.
#![cfg(target_os = "linux")]

mod chains;
mod client;
mod daemon;
mod server;
mod world;
