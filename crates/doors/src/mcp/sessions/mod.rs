//! Sessions of clients, and what clients without a session share at their servers.

pub mod client_sinks;
pub mod crowd;
pub mod ended;
pub mod listen_streams;
pub mod outbox;
pub mod own_sessions;
pub mod pool;
pub mod replay;
pub mod seal;
pub mod session;
pub mod subscriptions;
