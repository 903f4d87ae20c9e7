//! The way to a remote server through the network.

/// The proxy and the certificates of requests to one remote server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSettings {}
