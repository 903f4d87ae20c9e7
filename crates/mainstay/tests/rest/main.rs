//! The REST door, asked without a socket.

mod logs;
mod routes;

/// The control token of these daemons.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
