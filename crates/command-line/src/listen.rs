//! The address to listen on: one address, or both families of loopback.

use std::{fmt, net::SocketAddr};

use mainstay_platform::loopback;

#[derive(Clone, Debug, thiserror::Error)]
#[error("expected ADDRESS:PORT, such as 127.0.0.1:7420, [::1]:7420 or localhost:7420")]
pub struct BadAddress;

/// The address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    Address(SocketAddr),
    /// This port of both families of loopback, so that clients may use either.
    Localhost(u16),
}

impl ListenAddress {
    /// The addresses, the one for URLs first.
    pub fn addresses(self) -> Vec<SocketAddr> {
        match self {
            Self::Address(address) => vec![address],
            Self::Localhost(port) => loopback::both(port).into(),
        }
    }

    pub fn is_loopback(self) -> bool {
        self.addresses()
            .iter()
            .all(|address| address.ip().is_loopback())
    }

    pub fn port(self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Localhost(port) => port,
        }
    }

    /// Like `self`, with another port.
    #[must_use]
    pub fn at_port(self, port: u16) -> Self {
        match self {
            Self::Address(address) => Self::Address(SocketAddr::new(address.ip(), port)),
            Self::Localhost(_) => Self::Localhost(port),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Localhost(port) => write!(f, "localhost:{port}"),
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

/// Parses an address to listen on: `127.0.0.1:7420`, `localhost:0`.
pub fn address(text: &str) -> Result<ListenAddress, BadAddress> {
    let localhost = text
        .split_once(':')
        .filter(|(host, _)| host.eq_ignore_ascii_case("localhost"));
    let listen = match localhost {
        Some((_, port)) => port.parse().map(ListenAddress::Localhost).ok(),
        None => text.parse().map(ListenAddress::Address).ok(),
    };
    listen.ok_or(BadAddress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_or_localhost() {
        for (text, expected) in [
            ("127.0.0.1:7420", "127.0.0.1:7420"),
            ("localhost:0", "localhost:0"),
            ("LocalHost:80", "localhost:80"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(address(text).expect(text).to_string(), expected);
        }
        let both = address("localhost:80").expect("an address").addresses();
        assert_eq!(both, loopback::both(80));
        for text in [
            "",
            "7420",
            "localhost",
            "localhost:x",
            "example.com:80",
            "127.0.0.1:99999",
        ] {
            address(text).expect_err(text);
        }
    }
}
