//! Clients and servers that bend the protocol, as real ones do (`docs/dev/peers.md`).

mod initialize_again;
