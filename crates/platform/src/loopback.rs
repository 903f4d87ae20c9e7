//! The two addresses of `localhost`. Programs use either of them.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::net::TcpSocket;

/// Both loopback addresses with this port, IPv4 first.
pub fn both(port: u16) -> [SocketAddr; 2] {
    [
        (Ipv4Addr::LOCALHOST, port).into(),
        (Ipv6Addr::LOCALHOST, port).into(),
    ]
}

/// The address at which a client on this machine reaches a listener at `address`.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The address of `localhost` that our address does not cover. `None` if our address is not on loopback, or
/// if it covers both.
fn other_address(ours: SocketAddr) -> Option<SocketAddr> {
    let [v4, v6] = both(ours.port());
    match ours {
        SocketAddr::V4(ours) if ours.ip().is_loopback() || ours.ip().is_unspecified() => Some(v6),
        // `[::]` includes IPv4, unless that was disabled.
        SocketAddr::V6(ours) if ours.ip().is_loopback() => Some(v4),
        SocketAddr::V4(_) | SocketAddr::V6(_) => None,
    }
}

/// The other address of `localhost` with this port, if another program listens there. The check sends
/// nothing.
pub fn taken_beside(ours: SocketAddr) -> Option<SocketAddr> {
    let other_address = other_address(ours)?;
    let is_taken =
        matches!(bound(other_address), Err(error) if error.kind() == io::ErrorKind::AddrInUse);
    is_taken.then_some(other_address)
}

/// Creates a socket that is bound to this address and does not listen yet. Must be called in a runtime.
pub fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // This allows binding while connections of an earlier run are closing. On Windows the option would let
    // two programs share a port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// The warning about a program that listens on the other address.
pub fn taken_words(other: SocketAddr) -> String {
    let port = other.port();
    format!(
        "another program listens on {other}, and clients that are told http://localhost:{port} may reach that one"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_reached_by_loopback() {
        for (bound, url) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("192.0.2.1:1", "192.0.2.1:1"),
        ] {
            assert_eq!(reachable(bound.parse().expect(bound)).to_string(), url);
        }
    }

    #[test]
    fn localhost_leads_to_two_addresses() {
        for (ours, expected) in [
            ("127.0.0.1:7420", Some("[::1]:7420")),
            ("0.0.0.0:7420", Some("[::1]:7420")),
            ("[::1]:7420", Some("127.0.0.1:7420")),
            ("[::]:7420", None),
            ("192.0.2.1:7420", None),
            ("[2001:db8::1]:7420", None),
        ] {
            let other_address =
                other_address(ours.parse().expect(ours)).map(|address| address.to_string());
            assert_eq!(other_address.as_deref(), expected, "{ours}");
        }
    }
}
