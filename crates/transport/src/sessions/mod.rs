//! Sessions with servers: the handshake, the open session, and the signs of life of its server.

pub mod attempt_limiter;
pub mod handshake;
pub mod initialize;
pub mod listener;
pub mod listening;
pub mod liveness;
pub mod session;
