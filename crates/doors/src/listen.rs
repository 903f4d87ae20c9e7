//! The listening sockets: one address, or both loopback addresses of `localhost`.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use mainstay_platform::loopback;
use tokio::net::{TcpListener, TcpStream};

/// Size of the accept queue. All clients reconnect at the same time after a restart.
const BACKLOG: u32 = 1024;

/// Maximum number of unsent bytes of a connection in the kernel.
#[cfg(target_os = "linux")]
const MAX_UNSENT: u32 = 256 * 1024;

/// Number of tries to find a port that is free in both address families.
const MAX_FREE_PORTS: usize = 8;

/// The listening sockets of one door.
#[derive(Debug)]
pub struct Listeners {
    first: TcpListener,
    /// The socket of the other address family, on the same port.
    second: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(first: TcpListener) -> Self {
        Self {
            first,
            second: None,
        }
    }
}

/// Binds a listener to one address.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    loopback::bound(address)?.listen(BACKLOG)
}

impl Listeners {
    /// Binds `port` on both loopback addresses. If the machine lacks IPv4, it uses IPv6 alone. If
    /// another program has the port on IPv6, it uses IPv4 alone.
    ///
    /// # Errors
    ///
    /// The port cannot be bound in the first family that the machine has.
    pub fn localhost(port: u16) -> io::Result<Self> {
        let mut bound = Self::try_localhost(port)?;
        if port == 0 {
            for _ in 1..MAX_FREE_PORTS {
                if !bound.has_taken_neighbour() {
                    break;
                }
                bound = Self::try_localhost(port)?;
            }
        }
        Ok(bound)
    }

    fn try_localhost(port: u16) -> io::Result<Self> {
        let [v4, v6] = loopback::both(port);
        let first = match bind(v4) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                // The error of the first family usually explains more.
                return bind(v6).map(Self::from).map_err(|_| error);
            }
            first => first?,
        };
        let mut address = v6;
        address.set_port(first.local_addr()?.port());
        let second_listener = bind(address).ok();
        Ok(Self {
            first,
            second: second_listener,
        })
    }

    fn has_taken_neighbour(&self) -> bool {
        let address = self.addresses().next();
        self.second.is_none() && address.and_then(loopback::taken_beside).is_some()
    }

    /// The address of the first socket, which clients try first.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.first.local_addr()
    }

    /// The addresses of all sockets.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        [Some(&self.first), self.second.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|listener| listener.local_addr().ok())
    }

    /// Accepts the next connection. Cancel-safe.
    pub async fn accept(&self) -> io::Result<(TcpStream, IpAddr)> {
        let accept_result = match &self.second {
            None => self.first.accept().await,
            Some(second) => tokio::select! {
                accept_result = self.first.accept() => accept_result,
                accept_result = second.accept() => accept_result,
            },
        };
        let (stream, address) = accept_result?;
        stream.set_nodelay(true)?;
        bound_send_queue(&stream);
        Ok((stream, address.ip()))
    }
}

/// Limits the unsent bytes of a connection in the kernel. Linux only.
fn bound_send_queue(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT) {
        tracing::debug!(%error, "the send queue of a connection is not bounded");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_families_of_localhost_are_served() {
        let listeners = Listeners::localhost(0).expect("a free port");
        let addresses: Vec<_> = listeners.addresses().collect();
        assert_eq!(addresses[0], listeners.local_addr().expect("bound"));
        let has_v6 = bind(loopback::both(0)[1]).is_ok();
        assert_eq!(addresses.len(), if has_v6 { 2 } else { 1 });
        for address in addresses {
            let connect_future = TcpStream::connect(address);
            let (client, accept_result) = tokio::join!(connect_future, listeners.accept());
            client.expect("connected");
            assert_eq!(accept_result.expect("accepted").1, address.ip());
        }
    }

    #[tokio::test]
    async fn an_occupied_second_family_is_skipped() {
        let Ok(other_listener) = bind(loopback::both(0)[1]) else {
            return;
        };
        let occupied_address = other_listener.local_addr().expect("bound");
        let listeners =
            Listeners::localhost(occupied_address.port()).expect("the other family is free");
        let addresses: Vec<_> = listeners.addresses().collect();
        assert_eq!(addresses, [loopback::both(occupied_address.port())[0]]);
        assert_eq!(loopback::taken_beside(addresses[0]), Some(occupied_address));
        drop(other_listener);
        assert_eq!(loopback::taken_beside(addresses[0]), None);
        // Most clients try IPv4 first, so its port must be free.
        let error = Listeners::localhost(occupied_address.port()).expect_err("it is taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
