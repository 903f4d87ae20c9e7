//! Client sessions, and the upstream sessions that clients without a session share.

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
