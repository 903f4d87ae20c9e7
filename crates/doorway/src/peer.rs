//! The senders of requests, and which of them share limits.

use std::net::{IpAddr, Ipv6Addr};

use mainstay_core::principal::Principal;

/// The sender of a request.
#[derive(Clone, Debug)]
pub struct Visitor {
    pub principal: Principal,
    /// `None` is the client on stdio.
    pub address: Option<IpAddr>,
}

impl Visitor {
    /// The peers that share its limits.
    pub fn peer(&self) -> Peer {
        match self.address {
            Some(address) => Peer::of(&self.principal, address),
            None => Peer::Pipe,
        }
    }
}

/// Which clients share a limit: those with the same token or, without a token, at the same address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    Bearer(Principal),
    Address(IpAddr),
    /// The client on stdio.
    Pipe,
}

impl Peer {
    /// A network that is given out as a whole counts as one address.
    pub fn of(principal: &Principal, address: IpAddr) -> Self {
        match principal {
            Principal::Client(_) | Principal::Operator => Self::Bearer(principal.clone()),
            Principal::Anonymous => Self::Address(network(address)),
        }
    }
}

/// Addresses that are given out as a whole count as one: of IPv6, 64 bits.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(network).into()
        }
    }
}
