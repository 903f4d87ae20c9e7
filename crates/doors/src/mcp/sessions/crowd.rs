//! The open client sessions. Limits their number, in total and for each peer. A peer at its limit
//! loses only its own sessions.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use foldhash::{HashMap, HashMapExt as _};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::Instant;

use super::session::ClientSession;
use mainstay_doorway::peer::LimitedPeer;

/// Number of entries beyond twice its sessions at which a queue is rebuilt. The rebuild drops the
/// entries of ended sessions.
const MAX_STALE: usize = 64;

/// Maximum numbers of open sessions: in total, and of one peer.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    pub all: usize,
    pub of_one: usize,
}

/// The open sessions and their limits.
#[derive(Debug)]
pub struct Crowd {
    limits: SessionLimits,
    state: RwLock<CrowdState>,
}

#[derive(Debug)]
struct CrowdState {
    sessions: HashMap<Box<str>, Member>,
    peers: HashMap<LimitedPeer, Queue>,
    next: u64,
}

#[derive(Debug)]
struct Member {
    session: Arc<ClientSession>,
    peer: LimitedPeer,
    number: u64,
}

/// The sessions of one peer.
#[derive(Debug, Default)]
struct Queue {
    members: HashMap<u64, Arc<ClientSession>>,
    /// Sessions by their last use when they were queued. An entry is corrected when its turn comes,
    /// so that a call need not update the queue.
    waiting: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Queue {
    fn enter(&mut self, number: u64, session: Arc<ClientSession>) {
        if self.waiting.len() >= 2 * self.members.len() + MAX_STALE {
            self.waiting = self
                .members
                .iter()
                .map(|(number, session)| Reverse((session.last_used(), *number)))
                .collect();
        }
        self.waiting.push(Reverse((session.last_used(), number)));
        self.members.insert(number, session);
    }

    /// The session that has been idle longest; `None` if all have an open call or stream.
    fn longest_idle(&mut self) -> Option<Arc<ClientSession>> {
        let mut busy_entries = Vec::new();
        let mut longest_idle = None;
        while let Some(Reverse((queued_use, number))) = self.waiting.pop() {
            let Some(session) = self.members.get(&number) else {
                continue;
            };
            let last_use = session.last_used();
            if session.idle().is_none() {
                busy_entries.push(Reverse((last_use, number)));
                continue;
            }
            self.waiting.push(Reverse((last_use, number)));
            if last_use == queued_use {
                longest_idle = Some(Arc::clone(session));
                break;
            }
        }
        self.waiting.extend(busy_entries);
        longest_idle
    }
}

/// The result of [`Crowd::admit`].
#[derive(Debug)]
pub enum Admission {
    /// The session was admitted. The session inside was evicted for it and must be ended.
    In(Option<Arc<ClientSession>>),
    /// A session with this id is already open.
    Existing(Arc<ClientSession>),
    /// No session can be evicted, because all have an open call or stream.
    Full,
}

impl Crowd {
    pub fn new(limits: SessionLimits) -> Self {
        Self {
            limits,
            state: RwLock::new(CrowdState {
                sessions: HashMap::new(),
                peers: HashMap::new(),
                next: 0,
            }),
        }
    }

    // Locked for map operations, never across an await.
    fn read(&self) -> RwLockReadGuard<'_, CrowdState> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, CrowdState> {
        self.state.write()
    }

    pub fn get(&self, id: &str) -> Option<Arc<ClientSession>> {
        let state = self.read();
        state
            .sessions
            .get(id)
            .map(|member| Arc::clone(&member.session))
    }

    pub fn len(&self) -> usize {
        self.read().sessions.len()
    }

    pub fn all(&self) -> Vec<Arc<ClientSession>> {
        let state = self.read();
        let members = state.sessions.values();
        members.map(|member| Arc::clone(&member.session)).collect()
    }

    /// All sessions, each with its number. Numbers rise in the order of opening.
    pub fn numbered(&self) -> Vec<(u64, Arc<ClientSession>)> {
        let state = self.read();
        let members = state.sessions.values();
        members
            .map(|member| (member.number, Arc::clone(&member.session)))
            .collect()
    }

    /// Admits a session. If its peer is at the limit, the peer's longest idle session is evicted.
    /// If the total is at the limit, the peer with the most sessions loses its longest idle one.
    pub fn admit(&self, session: &Arc<ClientSession>, peer: LimitedPeer) -> Admission {
        let mut state = self.write();
        if let Some(existing_entry) = state.sessions.get(&session.id) {
            return Admission::Existing(Arc::clone(&existing_entry.session));
        }
        let peer_queue = state.peers.get_mut(&peer);
        let evicted_session = if peer_queue
            .as_ref()
            .is_some_and(|queue| queue.members.len() >= self.limits.of_one)
        {
            match peer_queue.and_then(Queue::longest_idle) {
                Some(evicted_session) => Some(evicted_session),
                None => return Admission::Full,
            }
        } else if state.sessions.len() >= self.limits.all {
            match state.longest_idle_of_most() {
                Some(evicted_session) => Some(evicted_session),
                None => return Admission::Full,
            }
        } else {
            None
        };
        if let Some(evicted_session) = &evicted_session {
            state.remove(&evicted_session.id);
        }
        state.insert(Arc::clone(session), peer);
        Admission::In(evicted_session)
    }

    pub fn remove(&self, id: &str) -> Option<Arc<ClientSession>> {
        self.write().remove(id)
    }
}

impl CrowdState {
    fn insert(&mut self, session: Arc<ClientSession>, peer: LimitedPeer) {
        let number = self.next;
        self.next += 1;
        let queue = self.peers.entry(peer.clone()).or_default();
        queue.enter(number, Arc::clone(&session));
        let id = session.id.clone();
        let member = Member {
            session,
            peer,
            number,
        };
        self.sessions.insert(id, member);
    }

    fn remove(&mut self, id: &str) -> Option<Arc<ClientSession>> {
        let member = self.sessions.remove(id)?;
        if let Some(queue) = self.peers.get_mut(&member.peer) {
            queue.members.remove(&member.number);
            if queue.members.is_empty() {
                self.peers.remove(&member.peer);
            }
        }
        Some(member.session)
    }

    /// The longest idle session of the peer with the most sessions. If all its sessions are in use,
    /// continues with the peer that has the next lower number.
    fn longest_idle_of_most(&mut self) -> Option<Arc<ClientSession>> {
        let mut bound = usize::MAX;
        loop {
            let counts = self.peers.values().map(|queue| queue.members.len());
            bound = counts.filter(|count| *count < bound).max()?;
            let equals = self.peers.values_mut();
            let fullest_queue = equals
                .filter(|queue| queue.members.len() == bound)
                .filter_map(Queue::longest_idle)
                .min_by_key(|session| session.last_used());
            if fullest_queue.is_some() {
                return fullest_queue;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mainstay_core::{era::Caller, principal::Principal, record::Door};
    use tokio::time::advance;

    use super::*;
    use crate::mcp::sessions::{
        client_sinks::ClientSinks,
        session::{Backend, EndpointScope},
    };

    fn session(id: &str) -> Arc<ClientSession> {
        let (caller, principal) = (Caller::default(), Principal::Anonymous);
        let (scope, backend) = (
            EndpointScope::Profile(Arc::default()),
            Backend::Aggregate(Arc::default()),
        );
        let client_sinks = ClientSinks::default();
        let door = Door::McpHttp;
        let id = id.into();
        ClientSession::new(id, caller, door, principal, scope, backend, client_sinks).into()
    }

    fn peer(number: u8) -> LimitedPeer {
        LimitedPeer::for_principal(&Principal::Anonymous, [192, 0, 2, number].into())
    }

    fn crowd(total: usize, peer_limit: usize) -> Crowd {
        Crowd::new(SessionLimits {
            all: total,
            of_one: peer_limit,
        })
    }

    /// Admits a session after one second. Returns the id of the evicted session.
    async fn enter(crowd: &Crowd, id: &str, peer: LimitedPeer) -> Option<String> {
        advance(Duration::from_secs(1)).await;
        match crowd.admit(&session(id), peer) {
            Admission::In(evicted_session) => {
                evicted_session.map(|evicted_session| evicted_session.id.to_string())
            }
            other => panic!("{id}: {other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_makes_room_for_itself_the_longest_idle_first() {
        let crowd = crowd(10, 3);
        for id in ["a", "b", "c"] {
            assert_eq!(enter(&crowd, id, peer(1)).await, None);
        }
        enter(&crowd, "other", peer(2)).await;
        let open_session = |id| crowd.get(id).expect("it is in");
        advance(Duration::from_secs(1)).await;
        // "a" is used again, so it is no longer idle longest.
        drop(open_session("a").busy());
        let call = open_session("b").busy();
        assert_eq!(enter(&crowd, "d", peer(1)).await.as_deref(), Some("c"));
        assert_eq!(enter(&crowd, "e", peer(1)).await.as_deref(), Some("a"));
        let (d, e) = (open_session("d").busy(), open_session("e").busy());
        assert!(matches!(
            crowd.admit(&session("f"), peer(1)),
            Admission::Full
        ));
        drop((call, d));
        assert_eq!(enter(&crowd, "f", peer(1)).await.as_deref(), Some("b"));
        drop(e);
        assert!(crowd.get("other").is_some());
        assert_eq!(crowd.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn the_peer_with_most_sessions_makes_room() {
        let crowd = crowd(4, 3);
        for (id, number) in [("x", 2), ("a", 1), ("b", 1), ("c", 1)] {
            enter(&crowd, id, peer(number)).await;
        }
        assert_eq!(enter(&crowd, "y", peer(3)).await.as_deref(), Some("a"));
        let busy: Vec<_> = ["b", "c"]
            .map(|id| crowd.get(id).expect("it is in").busy())
            .into();
        // Peers with equally many sessions: the longest idle session among them is evicted.
        for (id, number, expected_id) in
            [("z", 4, "x"), ("v", 5, "y"), ("w", 6, "z"), ("u", 7, "v")]
        {
            assert_eq!(
                enter(&crowd, id, peer(number)).await.as_deref(),
                Some(expected_id)
            );
        }
        drop(busy);
    }

    #[tokio::test(start_paused = true)]
    async fn closed_sessions_leave_no_entries() {
        let crowd = crowd(10, 10);
        for number in 0..10_000 {
            let id = number.to_string();
            enter(&crowd, &id, peer(1)).await;
            crowd.remove(&id);
            enter(&crowd, "stays", peer(1)).await;
            let queue = crowd.read().peers[&peer(1)].waiting.len();
            assert!(queue <= 3 + MAX_STALE, "{queue}");
            crowd.remove("stays");
        }
        assert!(crowd.read().peers.is_empty());
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let peer_at = |address: &str| {
            LimitedPeer::for_principal(&Principal::Anonymous, address.parse().expect("one"))
        };
        assert_eq!(peer_at("2001:db8::1"), peer_at("2001:db8::2:3"));
        assert_ne!(peer_at("2001:db8::1"), peer_at("2001:db8:0:1::1"));
        assert_eq!(peer_at("::ffff:192.0.2.1"), peer_at("192.0.2.1"));
        assert_ne!(peer_at("192.0.2.1"), peer_at("192.0.2.2"));
        let operator =
            |address: [u8; 4]| LimitedPeer::for_principal(&Principal::Operator, address.into());
        assert_eq!(operator([192, 0, 2, 1]), operator([192, 0, 2, 2]));
    }
}
