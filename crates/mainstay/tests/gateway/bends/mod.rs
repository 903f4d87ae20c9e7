//! Peers that bend the protocol as real ones do (docs/dev/peers.md). Each module is about one kind.

mod list_changes;
#[cfg(unix)]
mod packages;
mod secrets;
mod unanswered;
