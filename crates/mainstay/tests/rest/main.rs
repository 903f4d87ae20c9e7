//! The REST door, asked without a socket.

mod config;
mod logs;
mod pasted;
mod routes;
mod trial;
mod world;

/// The control token of these daemons.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
