//! Bounds the number of open sessions, in all and for each client. A client that opens thousands loses
//! only its own.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use foldhash::{HashMap, HashMapExt as _};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::Instant;

use super::session::ClientSession;
use mainstay_doorway::peer::Peer;

/// Stale entries that a queue may have before it is made anew, beside one for each session.
const MAX_STALE: usize = 64;

/// How many sessions may be open.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub all: usize,
    pub of_one: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Crowd {
    limits: Limits,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    sessions: HashMap<Box<str>, Member>,
    peers: HashMap<Peer, Queue>,
    next: u64,
}

#[derive(Debug)]
struct Member {
    session: Arc<ClientSession>,
    peer: Peer,
    number: u64,
}

/// The sessions of one peer.
#[derive(Debug, Default)]
struct Queue {
    members: HashMap<u64, Arc<ClientSession>>,
    /// When each session was last used, as far as was known when it was entered. A session that was
    /// used since is entered again when its turn comes, so that a call costs nothing here.
    waiting: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Queue {
    fn enter(&mut self, number: u64, session: Arc<ClientSession>) {
        if self.waiting.len() >= 2 * self.members.len() + MAX_STALE {
            let members = self.members.iter();
            self.waiting = members
                .map(|(number, session)| Reverse((session.last_used(), *number)))
                .collect();
        }
        self.waiting.push(Reverse((session.last_used(), number)));
        self.members.insert(number, session);
    }

    /// The session that has been idle for longest; `None` where each has a call or a stream open.
    fn longest_idle(&mut self) -> Option<Arc<ClientSession>> {
        let mut busy = Vec::new();
        let mut found = None;
        while let Some(Reverse((known, number))) = self.waiting.pop() {
            let Some(session) = self.members.get(&number) else {
                continue;
            };
            let used = session.last_used();
            if session.idle().is_none() {
                busy.push(Reverse((used, number)));
                continue;
            }
            self.waiting.push(Reverse((used, number)));
            if used == known {
                found = Some(Arc::clone(session));
                break;
            }
        }
        self.waiting.extend(busy);
        found
    }
}

/// What became of a session that wanted to enter.
#[derive(Debug)]
pub enum Admitted {
    /// It is in, in the place of one that must now be ended.
    In(Option<Arc<ClientSession>>),
    /// There is one of this id.
    Known(Arc<ClientSession>),
    /// All places are taken by sessions that are in use.
    Full,
}

impl Crowd {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: RwLock::new(State {
                sessions: HashMap::new(),
                peers: HashMap::new(),
                next: 0,
            }),
        }
    }

    // Both are held for operations on maps, never across an await.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
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

    /// All sessions, with numbers in the order in which they came.
    pub fn numbered(&self) -> Vec<(u64, Arc<ClientSession>)> {
        let state = self.read();
        let members = state.sessions.values();
        members
            .map(|member| (member.number, Arc::clone(&member.session)))
            .collect()
    }

    /// Gives a session a place. If its peer has none left, the peer's longest idle session makes room;
    /// if no peer has, that of the peer with the most sessions.
    pub fn admit(&self, session: &Arc<ClientSession>, peer: Peer) -> Admitted {
        let mut state = self.write();
        if let Some(known) = state.sessions.get(&session.id) {
            return Admitted::Known(Arc::clone(&known.session));
        }
        let of_peer = state.peers.get_mut(&peer);
        let left = if of_peer
            .as_ref()
            .is_some_and(|queue| queue.members.len() >= self.limits.of_one)
        {
            match of_peer.and_then(Queue::longest_idle) {
                Some(left) => Some(left),
                None => return Admitted::Full,
            }
        } else if state.sessions.len() >= self.limits.all {
            match state.longest_idle_of_most() {
                Some(left) => Some(left),
                None => return Admitted::Full,
            }
        } else {
            None
        };
        if let Some(left) = &left {
            state.remove(&left.id);
        }
        state.insert(Arc::clone(session), peer);
        Admitted::In(left)
    }

    pub fn remove(&self, id: &str) -> Option<Arc<ClientSession>> {
        self.write().remove(id)
    }
}

impl State {
    fn insert(&mut self, session: Arc<ClientSession>, peer: Peer) {
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

    /// The longest idle session of the peer that has most; of equals, that of the one idle for longest.
    fn longest_idle_of_most(&mut self) -> Option<Arc<ClientSession>> {
        let mut bound = usize::MAX;
        loop {
            let counts = self.peers.values().map(|queue| queue.members.len());
            bound = counts.filter(|count| *count < bound).max()?;
            let equals = self.peers.values_mut();
            let found = equals
                .filter(|queue| queue.members.len() == bound)
                .filter_map(Queue::longest_idle)
                .min_by_key(|session| session.last_used());
            if found.is_some() {
                return found;
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
        session::{Backend, Scope},
    };

    fn session(id: &str) -> Arc<ClientSession> {
        let (caller, principal) = (Caller::default(), Principal::Anonymous);
        let (scope, backend) = (
            Scope::Profile(Arc::default()),
            Backend::Aggregate(Arc::default()),
        );
        let client_sinks = ClientSinks::default();
        let door = Door::McpHttp;
        let id = id.into();
        ClientSession::new(id, caller, door, principal, scope, backend, client_sinks).into()
    }

    fn peer(number: u8) -> Peer {
        Peer::of(&Principal::Anonymous, [192, 0, 2, number].into())
    }

    fn crowd(all: usize, of_one: usize) -> Crowd {
        Crowd::new(Limits { all, of_one })
    }

    /// Admits a session a second later, and returns the id of the one that made room.
    async fn enter(crowd: &Crowd, id: &str, peer: Peer) -> Option<String> {
        advance(Duration::from_secs(1)).await;
        match crowd.admit(&session(id), peer) {
            Admitted::In(left) => left.map(|left| left.id.to_string()),
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
        let of = |id| crowd.get(id).expect("it is in");
        advance(Duration::from_secs(1)).await;
        // A call that is over.
        drop(of("a").busy());
        let call = of("b").busy();
        assert_eq!(enter(&crowd, "d", peer(1)).await.as_deref(), Some("c"));
        assert_eq!(enter(&crowd, "e", peer(1)).await.as_deref(), Some("a"));
        let (d, e) = (of("d").busy(), of("e").busy());
        assert!(matches!(
            crowd.admit(&session("f"), peer(1)),
            Admitted::Full
        ));
        drop((call, d));
        assert_eq!(enter(&crowd, "f", peer(1)).await.as_deref(), Some("b"));
        drop(e);
        assert!(crowd.get("other").is_some());
        assert_eq!(crowd.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_places_are_taken_whoever_has_most_makes_room() {
        let crowd = crowd(4, 3);
        for (id, number) in [("x", 2), ("a", 1), ("b", 1), ("c", 1)] {
            enter(&crowd, id, peer(number)).await;
        }
        assert_eq!(enter(&crowd, "y", peer(3)).await.as_deref(), Some("a"));
        let of_first: Vec<_> = ["b", "c"]
            .map(|id| crowd.get(id).expect("it is in").busy())
            .into();
        // Of those with as many, the one that has been idle for longest.
        for (id, number, left) in [("z", 4, "x"), ("v", 5, "y"), ("w", 6, "z"), ("u", 7, "v")] {
            assert_eq!(enter(&crowd, id, peer(number)).await.as_deref(), Some(left));
        }
        drop(of_first);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_and_goes_leaves_nothing() {
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
        let of = |address: &str| Peer::of(&Principal::Anonymous, address.parse().expect("one"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        let operator = |address: [u8; 4]| Peer::of(&Principal::Operator, address.into());
        assert_eq!(operator([192, 0, 2, 1]), operator([192, 0, 2, 2]));
    }
}
