//! Peers that bend the protocol (docs/dev/peers.md). Mainstay accepts messages that it can use, and
//! reports the others.

mod browsers;
mod cursors;
mod drawn;
mod handshakes;
mod ids;
mod initialize_again;
mod list_changes;
#[cfg(unix)]
mod packages;
mod pages;
mod progress;
mod secrets;
mod sessions;
mod spelling;
mod stderr;
mod streams;
mod text;
mod unanswered;
