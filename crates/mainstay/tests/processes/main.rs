//! No process of Mainstay outlives it after any exit (C12, T8, W1), and loops are refused. In other
//! gateways processes survive: supergateway#108, metamcp#162 (from 50 to 2,018 processes),
//! docker#318, MCPJungle#271.

// Other systems have no guardian, and no /proc.
#![cfg(target_os = "linux")]

mod chains;
mod client;
mod daemon;
mod server;
mod world;
