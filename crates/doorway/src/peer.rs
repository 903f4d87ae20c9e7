//! The senders of requests, and the peers that share limits.

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
    /// The peer whose limits the visitor shares.
    pub fn peer(&self) -> LimitedPeer {
        match self.address {
            Some(address) => LimitedPeer::for_principal(&self.principal, address),
            None => LimitedPeer::Pipe,
        }
    }
}

/// Clients that share limits: those with the same token, or without a token those at the same address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LimitedPeer {
    Bearer(Principal),
    Address(IpAddr),
    /// The client on stdio.
    Pipe,
}

impl LimitedPeer {
    /// A network that is assigned as a whole counts as one address; see [`network`].
    pub fn for_principal(principal: &Principal, address: IpAddr) -> Self {
        match principal {
            Principal::Client(_) | Principal::Operator => Self::Bearer(principal.clone()),
            Principal::Anonymous => Self::Address(network(address)),
        }
    }
}

/// The network that is usually assigned as a whole: one IPv4 address, or the 64-bit prefix of an IPv6 address.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(network).into()
        }
    }
}
