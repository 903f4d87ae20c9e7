//! Tests of the REST door without a socket, and of browser sessions over a socket.

mod browser;
mod config;
mod config_history;
mod logs;
mod page;
mod pasted;
mod routes;
mod servers;
mod session;
mod trial;
mod world;

/// The control token of the daemons.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
