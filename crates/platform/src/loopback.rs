//! The two addresses of `localhost`: programs that are told that name take the one or the other.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::net::TcpSocket;

/// A port at loopback, IPv4 first.
pub fn both(port: u16) -> [SocketAddr; 2] {
    [
        (Ipv4Addr::LOCALHOST, port).into(),
        (Ipv6Addr::LOCALHOST, port).into(),
    ]
}

/// Where `localhost` leads beside this address of ours; `None` where it does not lead to us at all, or where
/// we have both.
fn beside(ours: SocketAddr) -> Option<SocketAddr> {
    let [v4, v6] = both(ours.port());
    match ours {
        SocketAddr::V4(ours) if ours.ip().is_loopback() || ours.ip().is_unspecified() => Some(v6),
        // `[::]` takes IPv4 along where nobody has changed that.
        SocketAddr::V6(ours) if ours.ip().is_loopback() => Some(v4),
        SocketAddr::V4(_) | SocketAddr::V6(_) => None,
    }
}

/// The other address of `localhost` and this port, if another program listens there. Nothing is sent.
pub fn taken_beside(ours: SocketAddr) -> Option<SocketAddr> {
    let beside = beside(ours)?;
    let is_taken = matches!(bound(beside), Err(error) if error.kind() == io::ErrorKind::AddrInUse);
    is_taken.then_some(beside)
}

/// A socket at this address, which does not listen yet. The caller is in a runtime.
pub fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // A port can be taken again while connections of an earlier run are closing. On Windows the option
    // would let two programs have one port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Describes a program at the other address.
pub fn taken_words(taken: SocketAddr) -> String {
    let port = taken.port();
    format!(
        "another program listens on {taken}, and clients that are told http://localhost:{port} may reach that one"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let beside = beside(ours.parse().expect(ours)).map(|it| it.to_string());
            assert_eq!(beside.as_deref(), expected, "{ours}");
        }
    }
}
