//! Peers that bend the protocol (docs/dev/peers.md): what can be taken is taken, and what cannot is named.

mod handshakes;
mod ids;
mod pages;
mod sessions;
mod spelling;
mod stderr;
mod streams;
mod text;
