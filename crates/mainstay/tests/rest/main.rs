//! The REST door, asked without a socket, and the web page with its session, asked over one.

mod browser;
mod logs;
mod page;
mod routes;
mod session;

/// The control token of these daemons.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
