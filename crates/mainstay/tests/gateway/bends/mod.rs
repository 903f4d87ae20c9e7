//! Peers that bend the protocol (docs/dev/peers.md): what can be taken is taken, and what cannot is named.

mod handshakes;
mod sessions;
mod streams;
