//! Peers that bend the protocol, as real ones do.

mod ids;
mod pages;
mod spelling;
mod stderr;
mod text;
