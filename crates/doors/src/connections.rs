//! Admits connections: a bound for all clients, a share for each address, and a reserve that clients
//! cannot use, so that the operator is served however many clients are connected.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mainstay_doorway::peer::network;
use mainstay_platform::descriptors::{self, Descriptors};
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

/// How many connections clients may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of all clients (`http.maxConnections`).
    pub all: usize,
    /// From one address (`http.maxConnectionsPerAddress`).
    pub of_address: usize,
    /// Beside those of clients. Each may make one request of what is not MCP.
    pub reserve: usize,
}

impl Limits {
    /// These limits for a process that may open so many files: half of them are for connections of
    /// clients, because servers need files, too.
    #[must_use]
    pub fn within(self, files: usize) -> Self {
        let all = self.all.min((files / 2).max(1));
        Self {
            all,
            of_address: self.of_address.min(all),
            ..self
        }
    }
}

/// The places of one listener.
#[derive(Debug)]
pub struct Connections {
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    clients: usize,
    by_address: HashMap<IpAddr, usize>,
    /// Connections of the reserve, oldest first.
    reserve: VecDeque<Arc<Reserved>>,
}

/// A connection of the reserve.
#[derive(Debug, Default)]
struct Reserved {
    /// Whether its request has come.
    asked: AtomicBool,
    /// Makes it leave.
    evicted: CancellationToken,
}

/// The place of one connection; dropping it makes room.
#[derive(Debug)]
pub struct ConnectionGuard {
    connections: Arc<Connections>,
    address: IpAddr,
    /// Whether it is one of a client. A connection of the reserve may become one.
    is_client: AtomicBool,
    held: Mutex<Held>,
    evicted: CancellationToken,
}

/// What a connection takes up.
#[derive(Debug)]
enum Held {
    Client { _descriptor: Descriptors },
    Reserved(Arc<Reserved>),
}

impl Connections {
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            taken: Mutex::default(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Held for a few operations, never across an await.
        self.taken.lock()
    }

    /// Gives a new connection a place: a client's, or else one of the reserve. A full reserve loses its
    /// oldest connection that has not asked for anything, or else its oldest.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> ConnectionGuard {
        let address = network(address);
        let mut taken = self.taken();
        let held = match taken.admit(&self.limits, address) {
            Some(descriptor) => Held::Client {
                _descriptor: descriptor,
            },
            None => Held::Reserved(taken.reserve(self.limits.reserve)),
        };
        drop(taken);
        let (is_client, evicted) = match &held {
            Held::Client { .. } => (true, CancellationToken::new()),
            Held::Reserved(reserved) => (false, reserved.evicted.clone()),
        };
        ConnectionGuard {
            connections: Arc::clone(self),
            address,
            is_client: AtomicBool::new(is_client),
            held: Mutex::new(held),
            evicted,
        }
    }
}

impl Taken {
    /// Takes a client's place, if there is one.
    fn admit(&mut self, limits: &Limits, address: IpAddr) -> Option<Descriptors> {
        let of_address = self.by_address.get(&address).copied().unwrap_or_default();
        if self.clients >= limits.all || of_address >= limits.of_address {
            return None;
        }
        let descriptor = descriptors::take(1).ok()?;
        self.clients += 1;
        self.by_address.insert(address, of_address + 1);
        Some(descriptor)
    }

    fn reserve(&mut self, most: usize) -> Arc<Reserved> {
        if self.reserve.len() >= most {
            let silent = self
                .reserve
                .iter()
                .position(|it| !it.asked.load(Ordering::Relaxed));
            if let Some(left) = self.reserve.remove(silent.unwrap_or_default()) {
                left.evicted.cancel();
            }
        }
        let reserved = Arc::new(Reserved::default());
        self.reserve.push_back(Arc::clone(&reserved));
        reserved
    }

    fn release(&mut self, reserved: &Arc<Reserved>) {
        self.reserve.retain(|it| !Arc::ptr_eq(it, reserved));
    }
}

impl ConnectionGuard {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Held for a few operations, never across an await.
        self.held.lock()
    }

    /// A request has come. Returns whether the connection is one of the reserve.
    pub fn asked(&self) -> bool {
        if self.is_client() {
            return false;
        }
        match &*self.held() {
            Held::Client { .. } => false,
            Held::Reserved(reserved) => {
                reserved.asked.store(true, Ordering::Relaxed);
                true
            }
        }
    }

    /// Whether it has a client's place.
    pub fn is_client(&self) -> bool {
        self.is_client.load(Ordering::Relaxed)
    }

    /// Makes a connection of the reserve a client's, if there is a place by now.
    pub fn admit(&self) -> bool {
        let mut held = self.held();
        let Held::Reserved(reserved) = &*held else {
            return true;
        };
        let mut taken = self.connections.taken();
        let Some(descriptor) = taken.admit(&self.connections.limits, self.address) else {
            return false;
        };
        taken.release(reserved);
        drop(taken);
        *held = Held::Client {
            _descriptor: descriptor,
        };
        self.is_client.store(true, Ordering::Relaxed);
        true
    }

    /// Ends when the place is needed for another connection.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let held = self.held.get_mut();
        let mut taken = self.connections.taken();
        if let Held::Reserved(reserved) = held {
            taken.release(reserved);
            return;
        }
        taken.clients -= 1;
        if let Some(of_address) = taken.by_address.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVE: usize = 16;

    fn address(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    fn connections(all: usize, of_address: usize) -> Arc<Connections> {
        Connections::new(Limits {
            all,
            of_address,
            reserve: RESERVE,
        })
    }

    #[test]
    fn an_address_has_a_share_and_gives_it_back() {
        let connections = connections(3, 2);
        let enter = |number| connections.enter(address(number));
        let (first, second, third) = (enter(1), enter(1), enter(1));
        assert!(!first.asked() && !second.asked() && third.asked());
        let other = enter(2);
        assert!(!other.asked());
        // Another address has room, but all places are taken.
        assert!(enter(2).asked());
        assert!(!third.admit());
        drop(first);
        assert!(third.admit() && !third.asked());
        drop((second, third, other));
        let taken = connections.taken();
        assert_eq!((taken.clients, taken.by_address.len()), (0, 0));
        assert!(taken.reserve.is_empty());
    }

    #[test]
    fn the_reserve_is_bounded_and_a_request_in_progress_stays_longest() {
        let connections = connections(1, 1);
        let _client = connections.enter(address(1));
        let operator = connections.enter(address(1));
        assert!(operator.asked());
        let silent: Vec<_> = (0..3 * RESERVE)
            .map(|_| connections.enter(address(1)))
            .collect();
        assert_eq!(connections.taken().reserve.len(), RESERVE);
        assert!(!operator.evicted.is_cancelled());
        let left = silent.iter().filter(|it| it.evicted.is_cancelled()).count();
        assert_eq!(left, 2 * RESERVE + 1);
        assert!(silent[left..].iter().all(|it| !it.evicted.is_cancelled()));
    }

    #[test]
    fn files_bound_the_places() {
        let limits = Limits {
            all: 4096,
            of_address: 3072,
            reserve: RESERVE,
        };
        let few = limits.within(1024);
        assert_eq!((few.all, few.of_address), (512, 512));
        let many = limits.within(65_536);
        assert_eq!((many.all, many.of_address), (4096, 3072));
    }
}
