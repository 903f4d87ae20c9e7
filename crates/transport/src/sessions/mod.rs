//! Sessions with servers: the handshake, the open session, and whether its server is alive.

pub mod attempt_limiter;
pub mod handshake;
pub mod initialize;
pub mod listener;
pub mod listening;
pub mod liveness;
pub mod session;
