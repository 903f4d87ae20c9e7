//! The senders of requests, and the peers whose limits they share.

use std::net::{IpAddr, Ipv6Addr};

use mainstay_core::principal::Principal;

/// The sender of a request.
#[derive(Clone, Debug)]
pub struct Visitor {
    pub principal: Principal,
    /// `None` for the client on stdio.
    pub address: Option<IpAddr>,
}

impl Visitor {
    /// The peer whose limits apply to this sender.
    pub fn peer(&self) -> LimitedPeer {
        match self.address {
            Some(address) => LimitedPeer::for_principal(&self.principal, address),
            None => LimitedPeer::Pipe,
        }
    }
}

/// Marks a request that came over TLS, to Mainstay or to a trusted proxy.
#[derive(Clone, Copy, Debug)]
pub struct OverTls;

/// Clients that share limits: those with the same token, or those at the same address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LimitedPeer {
    Bearer(Principal),
    Address(IpAddr),
    /// The client on stdio.
    Pipe,
}

impl LimitedPeer {
    /// The peer of a request. Addresses of one [`network`] are the same peer.
    pub fn for_principal(principal: &Principal, address: IpAddr) -> Self {
        match principal {
            Principal::Client(_) | Principal::Operator => Self::Bearer(principal.clone()),
            Principal::Anonymous => Self::Address(network(address)),
        }
    }
}

/// The network that a provider assigns to one customer: an IPv4 address, or an IPv6 /64 prefix.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(network).into()
        }
    }
}
