//! No process of Mainstay's outlives it, whichever process dies first and for whatever reason (C12, T8, W1). A
//! Mainstay that would start itself is refused.
//!
//! In other gateways children and grandchildren survive: issues supergateway#108, metamcp#162 (from 50 to 2,018
//! processes), docker#318, MCPJungle#271.

// Other systems have no guardian, and no /proc.
#![cfg(target_os = "linux")]

mod chains;
mod client;
mod daemon;
mod server;
mod world;
