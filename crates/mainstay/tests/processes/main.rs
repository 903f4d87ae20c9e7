//! However Mainstay ends, none of its processes remains (C12, T8, W1). Loops of Mainstays are
//! refused. In other gateways processes remain: supergateway#108, metamcp#162 (50 to 2,018
//! processes), docker#318, MCPJungle#271.

// Other systems have no guardian, and no /proc.
#![cfg(target_os = "linux")]

mod chains;
mod client;
mod daemon;
mod server;
mod world;
