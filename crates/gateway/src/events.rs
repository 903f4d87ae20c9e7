//! The latest events of a daemon.
//!
//! The events are in a ring, and a subscription is a position in the ring. A slow subscriber costs
//! no memory and delays no other subscriber. If its position has left the ring, it gets a gap.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mainstay_core::{
    event::{EventId, EventKind, ServerEvent},
    ids::ServerName,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::Instant};

/// Number of retained events: some for the daemon, and some for each server. A start makes three
/// events, so the events of a server cover more than one start. With thousands of servers the ring
/// takes some megabytes.
const BASE_EVENTS: usize = 2000;
const EVENTS_OF_SERVER: usize = 8;
const MAX_EVENTS: usize = 40_000;

/// Time for which events are retained.
const MAX_AGE: Duration = Duration::from_mins(30);

/// The events of a daemon. Clones share them.
#[derive(Clone, Debug)]
pub struct EventRing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Held to add or look up one event, never across an await.
    ring: Mutex<Ring>,
    /// Notified of each new event. The value is false after [`EventRing::close`].
    news: watch::Sender<bool>,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<(Instant, Arc<ServerEvent>)>,
    /// The id of the newest event.
    last: EventId,
    /// The id of the last event that was dropped. All later events are in the ring.
    floor: EventId,
    /// The current capacity. If `target_capacity` is lower, the capacity follows when enough events
    /// have become old.
    capacity: usize,
    target_capacity: usize,
}

/// An event, or a gap.
#[derive(Clone, Debug, PartialEq)]
pub enum EventOrGap {
    Event(Arc<ServerEvent>),
    /// The subscriber has missed events up to this id. It should read the current state, and then
    /// continue with the events after this id.
    Gap(EventId),
}

impl Default for EventRing {
    fn default() -> Self {
        let last = EventId::default().next(unix_millis());
        let ring = Ring {
            events: VecDeque::new(),
            last,
            floor: last,
            capacity: BASE_EVENTS,
            target_capacity: BASE_EVENTS,
        };
        Self(Arc::new(Shared {
            ring: Mutex::new(ring),
            news: watch::Sender::new(true),
        }))
    }
}

impl EventRing {
    /// Publishes an event. Does nothing after [`Self::close`].
    pub fn publish(&self, server: Option<&ServerName>, kind: EventKind) {
        self.0.news.send_if_modified(|open| {
            if *open {
                self.ring()
                    .push(server.cloned(), kind, unix_millis(), Instant::now());
            }
            *open
        });
    }

    /// Adapts the capacity to this number of servers.
    pub fn fit_to_servers(&self, servers: usize) {
        let needed = servers
            .saturating_mul(EVENTS_OF_SERVER)
            .saturating_add(BASE_EVENTS);
        let mut ring = self.ring();
        ring.target_capacity = needed.min(MAX_EVENTS);
        ring.capacity = ring.capacity.max(ring.target_capacity);
    }

    /// Subscribes to the events after `after`. With `None`, subscribes to the events from now on.
    pub fn subscribe(&self, after: Option<EventId>) -> Subscription {
        let after = after.unwrap_or_else(|| self.ring().last);
        self.at(after)
    }

    /// Subscribes to all events in the ring and to later events.
    pub fn remembered(&self) -> Subscription {
        let floor = {
            let mut ring = self.ring();
            ring.prune(Instant::now());
            ring.floor
        };
        self.at(floor)
    }

    fn at(&self, after: EventId) -> Subscription {
        Subscription {
            shared: Arc::clone(&self.0),
            news: self.0.news.subscribe(),
            after,
        }
    }

    /// Ends every subscription. Later events would be consequences of the shutdown, so they are not
    /// published.
    pub fn close(&self) {
        self.0.news.send_replace(false);
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring()
    }
}

impl Shared {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock()
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

impl Ring {
    fn push(
        &mut self,
        server: Option<ServerName>,
        kind: EventKind,
        unix_millis: u64,
        now: Instant,
    ) {
        self.prune(now);
        if self.events.len() == self.capacity {
            self.drop_oldest();
        }
        self.last = self.last.next(unix_millis);
        let id = self.last;
        let event = Arc::new(ServerEvent { id, server, kind });
        self.events.push_back((now, event));
    }

    fn prune(&mut self, now: Instant) {
        let old = |(at, _): &(Instant, _)| now.duration_since(*at) > MAX_AGE;
        while self.events.front().is_some_and(old) {
            self.drop_oldest();
        }
        if self.events.len() < self.target_capacity {
            self.capacity = self.target_capacity;
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, event)) = self.events.pop_front() {
            self.floor = event.id;
        }
    }

    /// The next event or gap for a subscriber at position `after`.
    fn next(&self, after: EventId) -> Option<EventOrGap> {
        // An id after the newest event is from an earlier run whose clock was ahead.
        if after < self.floor || after > self.last {
            return Some(EventOrGap::Gap(self.floor));
        }
        let index = self.events.partition_point(|(_, event)| event.id <= after);
        let (_, event) = self.events.get(index)?;
        Some(EventOrGap::Event(Arc::clone(event)))
    }
}

/// A subscriber's position in the ring.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    news: watch::Receiver<bool>,
    after: EventId,
}

impl Subscription {
    /// The id of the last event that was read.
    pub fn position(&self) -> EventId {
        self.after
    }

    /// Waits for the next event or gap. `None` after [`EventRing::close`]. Cancel-safe.
    pub async fn next(&mut self) -> Option<EventOrGap> {
        loop {
            // Mark the news as seen before the check, so that an event that is published after the
            // check ends the wait.
            let open = *self.news.borrow_and_update();
            if let Some(next) = self.now() {
                return Some(next);
            }
            if !open {
                return None;
            }
            // The sender lives as long as this subscription.
            self.news.changed().await.ok()?;
        }
    }

    /// Waits until an event is published after the last check. False after [`EventRing::close`].
    /// Cancel-safe.
    pub async fn readable(&mut self) -> bool {
        *self.news.borrow() && self.news.changed().await.is_ok() && *self.news.borrow()
    }

    /// The next event or gap, without waiting.
    pub fn now(&mut self) -> Option<EventOrGap> {
        let next = self.shared.ring().next(self.after)?;
        self.after = match &next {
            EventOrGap::Event(event) => event.id,
            EventOrGap::Gap(floor) => *floor,
        };
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    fn added(events: &EventRing) {
        events.publish(None, EventKind::ServerAdded {});
    }

    fn read_all(subscription: &mut Subscription) -> usize {
        let mut count = 0;
        while let Some(next) = subscription.now() {
            assert!(matches!(next, EventOrGap::Event(_)), "{next:?}");
            count += 1;
        }
        count
    }

    #[tokio::test]
    async fn a_subscriber_hears_what_comes_after_its_place() {
        let events = EventRing::default();
        added(&events);
        let mut late = events.subscribe(None);
        added(&events);
        assert_eq!(read_all(&mut late), 1);
        let Some(EventOrGap::Event(first)) = events.remembered().now() else {
            panic!("it is remembered");
        };
        let first = first.id;
        assert_eq!(read_all(&mut events.subscribe(Some(first))), 1);
        assert!(late.now().is_none());
    }

    #[tokio::test]
    async fn a_waiting_subscriber_is_woken_and_in_the_end_let_go() {
        let events = EventRing::default();
        let mut subscription = events.subscribe(None);
        let listener = tokio::spawn(async move {
            let first = subscription.next().await;
            (first, subscription.next().await)
        });
        tokio::task::yield_now().await;
        added(&events);
        tokio::task::yield_now().await;
        events.close();
        added(&events);
        let limit = Duration::from_secs(10);
        let (first, end) = timeout(limit, listener)
            .await
            .expect("in time")
            .expect("no panic");
        assert!(matches!(first, Some(EventOrGap::Event(_))));
        assert_eq!(end, None, "I11: nothing happens after the end");
    }

    /// A slow subscriber gets a gap, and then all retained events.
    #[tokio::test]
    async fn who_falls_out_of_the_ring_is_told_so_and_goes_on() {
        let events = EventRing::default();
        let mut slow = events.subscribe(None);
        for _ in 0..=BASE_EVENTS {
            added(&events);
        }
        assert_eq!(read_all(&mut events.remembered()), BASE_EVENTS);
        assert!(matches!(slow.now(), Some(EventOrGap::Gap(_))));
        assert_eq!(read_all(&mut slow), BASE_EVENTS);
    }

    /// With fewer servers the ring shrinks when its events have become old. No number of servers
    /// exceeds [`MAX_EVENTS`].
    #[tokio::test(start_paused = true)]
    async fn the_ring_has_the_size_that_the_servers_need() {
        let events = EventRing::default();
        let mut first = events.subscribe(None);
        events.fit_to_servers(1000);
        let most = BASE_EVENTS + 1000 * EVENTS_OF_SERVER;
        (0..most).for_each(|_| added(&events));
        assert_eq!(read_all(&mut first), most);
        events.fit_to_servers(10);
        assert_eq!(read_all(&mut events.remembered()), most);
        advance(MAX_AGE + Duration::from_millis(1)).await;
        (0..most).for_each(|_| added(&events));
        let few = BASE_EVENTS + 10 * EVENTS_OF_SERVER;
        assert_eq!(read_all(&mut events.remembered()), few);
        events.fit_to_servers(usize::MAX);
        (0..=MAX_EVENTS).for_each(|_| added(&events));
        assert_eq!(read_all(&mut events.remembered()), MAX_EVENTS);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_old_is_forgotten() {
        let events = EventRing::default();
        let mut subscription = events.subscribe(None);
        added(&events);
        advance(MAX_AGE).await;
        assert_eq!(read_all(&mut events.remembered()), 1);
        advance(Duration::from_millis(1)).await;
        assert_eq!(read_all(&mut events.remembered()), 0);
        assert!(matches!(subscription.now(), Some(EventOrGap::Gap(_))));
        assert!(subscription.now().is_none());
    }

    /// Tests the ids of other runs: of an earlier run, and of a run whose clock was ahead.
    #[tokio::test]
    async fn a_place_of_another_life_is_a_gap() {
        let events = EventRing::default();
        let ahead = EventId::default().next(unix_millis() + 60_000);
        for place in [EventId::default(), ahead] {
            let mut subscription = events.subscribe(Some(place));
            assert!(
                matches!(subscription.now(), Some(EventOrGap::Gap(_))),
                "{place}"
            );
            let before = read_all(&mut subscription);
            added(&events);
            assert_eq!(read_all(&mut subscription), 1, "after {before}");
        }
    }
}
