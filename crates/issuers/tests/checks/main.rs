//! Tokens against an issuer at a real socket, with a clock that the tests set.

mod attacks;
mod introspection;
mod key_fetches;
mod properties;
mod standing;

mod clock;
mod issuer_server;
mod signer;
mod world;
