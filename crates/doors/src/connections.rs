//! Admits connections to a listener. Clients have a total limit and a limit for each address. A
//! reserve of connections lets the operator send requests when clients have reached a limit.

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

/// The limits of a listener's connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Limit for all clients (`http.maxConnections`).
    pub all: usize,
    /// Limit for one address (`http.maxConnectionsPerAddress`).
    pub of_address: usize,
    /// Connections reserved for the operator, beyond the limit. Each may make one request outside
    /// of MCP.
    pub reserve: usize,
}

impl ConnectionLimits {
    /// Lowers the limits for a process that may open `files` files. Client connections may use half
    /// of these.
    #[must_use]
    pub fn within(self, files: usize) -> Self {
        let total = self.all.min((files / 2).max(1));
        Self {
            all: total,
            of_address: self.of_address.min(total),
            ..self
        }
    }
}

/// The connections of one listener.
#[derive(Debug)]
pub struct Connections {
    limits: ConnectionLimits,
    occupancy: Mutex<Occupancy>,
}

#[derive(Debug, Default)]
struct Occupancy {
    clients: usize,
    by_address: HashMap<IpAddr, usize>,
    /// Connections with a reserved place, oldest first.
    reserve: VecDeque<Arc<Reserved>>,
}

/// A connection with a reserved place.
#[derive(Debug, Default)]
struct Reserved {
    /// True once it has sent a request.
    has_request: AtomicBool,
    /// Cancelled when a newer connection takes the place.
    evicted: CancellationToken,
}

/// The place of one connection. Dropping it frees the place.
#[derive(Debug)]
pub struct ConnectionGuard {
    connections: Arc<Connections>,
    address: IpAddr,
    /// Limit for its address.
    address_limit: usize,
    /// True if the place belongs to a client. A reserved connection may become one.
    is_client: AtomicBool,
    place: Mutex<Place>,
    evicted: CancellationToken,
}

/// The kind of place that a connection has.
#[derive(Debug)]
enum Place {
    Client { _descriptor: Descriptors },
    Reserved(Arc<Reserved>),
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            occupancy: Mutex::default(),
        })
    }

    fn occupancy(&self) -> MutexGuard<'_, Occupancy> {
        // Locked for a few operations, never across an await.
        self.occupancy.lock()
    }

    /// Gives a new connection a client's place if one is free, else a reserved place. If the
    /// reserve is full, it evicts the oldest connection that has sent no request, or else the
    /// oldest one.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> ConnectionGuard {
        self.enter_within(address, self.limits.of_address)
    }

    /// Like [`Connections::enter`], for a trusted proxy. It has connections of many visitors, so only the limit
    /// for all clients applies.
    pub fn enter_proxy(self: &Arc<Self>, address: IpAddr) -> ConnectionGuard {
        self.enter_within(address, usize::MAX)
    }

    fn enter_within(self: &Arc<Self>, address: IpAddr, address_limit: usize) -> ConnectionGuard {
        let address = network(address);
        let mut occupancy = self.occupancy();
        let place = match occupancy.admit(self.limits.all, address, address_limit) {
            Some(descriptor) => Place::Client {
                _descriptor: descriptor,
            },
            None => Place::Reserved(occupancy.reserve(self.limits.reserve)),
        };
        drop(occupancy);
        let (is_client, eviction) = match &place {
            Place::Client { .. } => (true, CancellationToken::new()),
            Place::Reserved(reserved) => (false, reserved.evicted.clone()),
        };
        ConnectionGuard {
            connections: Arc::clone(self),
            address,
            address_limit,
            is_client: AtomicBool::new(is_client),
            place: Mutex::new(place),
            evicted: eviction,
        }
    }
}

impl Occupancy {
    /// Occupies a client's place, if one is free.
    fn admit(
        &mut self,
        limit: usize,
        address: IpAddr,
        address_limit: usize,
    ) -> Option<Descriptors> {
        let address_count = self.by_address.get(&address).copied().unwrap_or_default();
        if self.clients >= limit || address_count >= address_limit {
            return None;
        }
        let descriptor = descriptors::take(1).ok()?;
        self.clients += 1;
        self.by_address.insert(address, address_count + 1);
        Some(descriptor)
    }

    fn reserve(&mut self, limit: usize) -> Arc<Reserved> {
        if self.reserve.len() >= limit {
            let silent_index = self
                .reserve
                .iter()
                .position(|seat| !seat.has_request.load(Ordering::Relaxed));
            if let Some(evicted_seat) = self.reserve.remove(silent_index.unwrap_or_default()) {
                evicted_seat.evicted.cancel();
            }
        }
        let seat = Arc::new(Reserved::default());
        self.reserve.push_back(Arc::clone(&seat));
        seat
    }

    fn release(&mut self, reserved: &Arc<Reserved>) {
        self.reserve.retain(|seat| !Arc::ptr_eq(seat, reserved));
    }
}

impl ConnectionGuard {
    fn place(&self) -> MutexGuard<'_, Place> {
        // Locked for a few operations, never across an await.
        self.place.lock()
    }

    /// Records a request. Returns true if the connection has a reserved place.
    pub fn note_request(&self) -> bool {
        if self.is_client() {
            return false;
        }
        match &*self.place() {
            Place::Client { .. } => false,
            Place::Reserved(reserved) => {
                reserved.has_request.store(true, Ordering::Relaxed);
                true
            }
        }
    }

    /// True if the connection has a client's place.
    pub fn is_client(&self) -> bool {
        self.is_client.load(Ordering::Relaxed)
    }

    /// Moves a reserved connection to a client's place if one is free. Returns true if the
    /// connection then has a client's place.
    pub fn admit(&self) -> bool {
        let mut place = self.place();
        let Place::Reserved(seat) = &*place else {
            return true;
        };
        let mut occupancy = self.connections.occupancy();
        let Some(descriptor) = occupancy.admit(
            self.connections.limits.all,
            self.address,
            self.address_limit,
        ) else {
            return false;
        };
        occupancy.release(seat);
        drop(occupancy);
        *place = Place::Client {
            _descriptor: descriptor,
        };
        self.is_client.store(true, Ordering::Relaxed);
        true
    }

    /// Waits until the connection is evicted.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let place = self.place.get_mut();
        let mut occupancy = self.connections.occupancy();
        if let Place::Reserved(seat) = place {
            occupancy.release(seat);
            return;
        }
        occupancy.clients -= 1;
        if let Some(address_count) = occupancy.by_address.get_mut(&self.address) {
            *address_count -= 1;
            if *address_count == 0 {
                occupancy.by_address.remove(&self.address);
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

    fn connections(total: usize, address_limit: usize) -> Arc<Connections> {
        Connections::new(ConnectionLimits {
            all: total,
            of_address: address_limit,
            reserve: RESERVE,
        })
    }

    #[test]
    fn an_address_has_a_share_and_gives_it_back() {
        let connections = connections(3, 2);
        let enter = |number| connections.enter(address(number));
        let (first, second_seat, third_seat) = (enter(1), enter(1), enter(1));
        assert!(!first.note_request() && !second_seat.note_request() && third_seat.note_request());
        let other_seat = enter(2);
        assert!(!other_seat.note_request());
        // Address 2 is below its limit, but the total limit is reached.
        assert!(enter(2).note_request());
        assert!(!third_seat.admit());
        drop(first);
        assert!(third_seat.admit() && !third_seat.note_request());
        drop((second_seat, third_seat, other_seat));
        let occupancy = connections.occupancy();
        assert_eq!((occupancy.clients, occupancy.by_address.len()), (0, 0));
        assert!(occupancy.reserve.is_empty());
    }

    #[test]
    fn a_trusted_proxy_has_as_many_as_all_clients() {
        let connections = connections(3, 1);
        let proxied: Vec<_> = (0..3)
            .map(|_| connections.enter_proxy(address(1)))
            .collect();
        assert!(proxied.iter().all(ConnectionGuard::is_client));
        assert!(!connections.enter_proxy(address(1)).is_client());
        drop(proxied);
        assert_eq!(connections.occupancy().by_address.len(), 0);
    }

    #[test]
    fn the_reserve_is_bounded_and_a_request_in_progress_stays_longest() {
        let connections = connections(1, 1);
        let _client = connections.enter(address(1));
        let operator = connections.enter(address(1));
        assert!(operator.note_request());
        let silent: Vec<_> = (0..3 * RESERVE)
            .map(|_| connections.enter(address(1)))
            .collect();
        assert_eq!(connections.occupancy().reserve.len(), RESERVE);
        assert!(!operator.evicted.is_cancelled());
        let evicted_count = silent
            .iter()
            .filter(|guard| guard.evicted.is_cancelled())
            .count();
        assert_eq!(evicted_count, 2 * RESERVE + 1);
        assert!(
            silent[evicted_count..]
                .iter()
                .all(|guard| !guard.evicted.is_cancelled())
        );
    }

    #[test]
    fn files_bound_the_places() {
        let limits = ConnectionLimits {
            all: 4096,
            of_address: 3072,
            reserve: RESERVE,
        };
        let small_limits = limits.within(1024);
        assert_eq!((small_limits.all, small_limits.of_address), (512, 512));
        let large_limits = limits.within(65_536);
        assert_eq!((large_limits.all, large_limits.of_address), (4096, 3072));
    }
}
