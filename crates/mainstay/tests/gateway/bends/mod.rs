//! Clients and servers that bend the protocol, as real ones do (`docs/dev/peers.md`).

mod browsers;
mod cursors;
mod initialize_again;
mod progress;
