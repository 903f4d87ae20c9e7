//! The latest events of a daemon.
//!
//! A ring keeps them, and a subscription is a position in the ring. A slow subscriber therefore costs
//! nothing and delays no one: if it falls out of the ring, it learns that it missed some.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mainstay_core::{
    event::{Event, EventId, EventKind},
    ids::ServerName,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::Instant};

/// How many events are kept: some beside those of servers, and the starts of all servers more than once (a
/// start makes three events). For thousands of servers the ring has some megabytes.
const BASE_EVENTS: usize = 2000;
const EVENTS_OF_SERVER: usize = 8;
const MAX_EVENTS: usize = 40_000;

/// How long events are kept.
const MAX_AGE: Duration = Duration::from_mins(30);

/// The events of a daemon; clones share them.
#[derive(Clone, Debug)]
pub struct Events(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Locked to add or to look up one event, never longer.
    ring: Mutex<Ring>,
    /// Told of each new event; false when there will be no more.
    news: watch::Sender<bool>,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<(Instant, Arc<Event>)>,
    /// The last id given.
    last: EventId,
    /// Everything after this is in the ring.
    floor: EventId,
    /// How many events are kept, and how many are when those above that number are old: a ring that shrinks
    /// forgets nothing before its time.
    most: usize,
    wanted: usize,
}

/// An event, or a gap.
#[derive(Clone, Debug, PartialEq)]
pub enum EventOrGap {
    Event(Arc<Event>),
    /// The subscriber has missed events up to this one. It should look at the present state, and goes on
    /// from here.
    Gap(EventId),
}

impl Default for Events {
    fn default() -> Self {
        let last = EventId::default().next(unix_millis());
        let ring = Ring {
            events: VecDeque::new(),
            last,
            floor: last,
            most: BASE_EVENTS,
            wanted: BASE_EVENTS,
        };
        Self(Arc::new(Shared {
            ring: Mutex::new(ring),
            news: watch::Sender::new(true),
        }))
    }
}

impl Events {
    /// Says what happened. After [`Events::close`] nothing happens any more.
    pub fn publish(&self, server: Option<&ServerName>, kind: EventKind) {
        self.0.news.send_if_modified(|open| {
            if *open {
                self.ring()
                    .push(server.cloned(), kind, unix_millis(), Instant::now());
            }
            *open
        });
    }

    /// Keeps as many events as so many servers need.
    pub fn keep_for(&self, servers: usize) {
        let most = servers
            .saturating_mul(EVENTS_OF_SERVER)
            .saturating_add(BASE_EVENTS);
        let mut ring = self.ring();
        ring.wanted = most.min(MAX_EVENTS);
        ring.most = ring.most.max(ring.wanted);
    }

    /// Everything that comes after `after`, or after now.
    pub fn subscribe(&self, after: Option<EventId>) -> Subscription {
        let after = after.unwrap_or_else(|| self.ring().last);
        self.at(after)
    }

    /// What the ring holds, and everything that comes.
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

    /// Ends every subscription. What ends from now on ends because Mainstay does, and is no event.
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
        if self.events.len() == self.most {
            self.drop_oldest();
        }
        self.last = self.last.next(unix_millis);
        let id = self.last;
        let event = Arc::new(Event { id, server, kind });
        self.events.push_back((now, event));
    }

    fn prune(&mut self, now: Instant) {
        let old = |(at, _): &(Instant, _)| now.duration_since(*at) > MAX_AGE;
        while self.events.front().is_some_and(old) {
            self.drop_oldest();
        }
        if self.events.len() < self.wanted {
            self.most = self.wanted;
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, event)) = self.events.pop_front() {
            self.floor = event.id;
        }
    }

    /// What comes next for a subscriber that has heard everything up to `after`.
    fn next(&self, after: EventId) -> Option<EventOrGap> {
        // An id that was never given is of another life, whose clock went ahead.
        if after < self.floor || after > self.last {
            return Some(EventOrGap::Gap(self.floor));
        }
        let index = self.events.partition_point(|(_, event)| event.id <= after);
        let (_, event) = self.events.get(index)?;
        Some(EventOrGap::Event(Arc::clone(event)))
    }
}

/// One listener's place among the events.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    news: watch::Receiver<bool>,
    after: EventId,
}

impl Subscription {
    /// Everything up to this was heard.
    pub fn position(&self) -> EventId {
        self.after
    }

    /// The next event; `None` when there will be no more. Cancel-safe.
    pub async fn next(&mut self) -> Option<EventOrGap> {
        loop {
            // Before looking, so that what is published after the look wakes.
            let open = *self.news.borrow_and_update();
            if let Some(heard) = self.now() {
                return Some(heard);
            }
            if !open {
                return None;
            }
            // The sender lives as long as we do.
            self.news.changed().await.ok()?;
        }
    }

    /// Resolves when something has happened since this was last looked at; `false` when nothing will any
    /// more. Cancel-safe.
    pub async fn readable(&mut self) -> bool {
        *self.news.borrow() && self.news.changed().await.is_ok() && *self.news.borrow()
    }

    /// The next event, if it has happened already.
    pub fn now(&mut self) -> Option<EventOrGap> {
        let heard = self.shared.ring().next(self.after)?;
        self.after = match &heard {
            EventOrGap::Event(event) => event.id,
            EventOrGap::Gap(floor) => *floor,
        };
        Some(heard)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    fn added(events: &Events) {
        events.publish(None, EventKind::ServerAdded {});
    }

    fn heard(subscription: &mut Subscription) -> usize {
        let mut count = 0;
        while let Some(heard) = subscription.now() {
            assert!(matches!(heard, EventOrGap::Event(_)), "{heard:?}");
            count += 1;
        }
        count
    }

    #[tokio::test]
    async fn a_subscriber_hears_what_comes_after_its_place() {
        let events = Events::default();
        added(&events);
        let mut late = events.subscribe(None);
        added(&events);
        assert_eq!(heard(&mut late), 1);
        let Some(EventOrGap::Event(first)) = events.remembered().now() else {
            panic!("it is remembered");
        };
        let first = first.id;
        assert_eq!(heard(&mut events.subscribe(Some(first))), 1);
        assert!(late.now().is_none());
    }

    #[tokio::test]
    async fn a_waiting_subscriber_is_woken_and_in_the_end_let_go() {
        let events = Events::default();
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

    /// Ids are in order, and a slow subscriber is bounded.
    #[tokio::test]
    async fn who_falls_out_of_the_ring_is_told_so_and_goes_on() {
        let events = Events::default();
        let mut slow = events.subscribe(None);
        for _ in 0..=BASE_EVENTS {
            added(&events);
        }
        assert_eq!(heard(&mut events.remembered()), BASE_EVENTS);
        assert!(matches!(slow.now(), Some(EventOrGap::Gap(_))));
        assert_eq!(heard(&mut slow), BASE_EVENTS);
    }

    /// Fewer servers need fewer events, once those that are too many are old, and any number of servers no more
    /// than the bound.
    #[tokio::test(start_paused = true)]
    async fn the_ring_has_the_size_that_the_servers_need() {
        let events = Events::default();
        let mut first = events.subscribe(None);
        events.keep_for(1000);
        let most = BASE_EVENTS + 1000 * EVENTS_OF_SERVER;
        (0..most).for_each(|_| added(&events));
        assert_eq!(heard(&mut first), most);
        events.keep_for(10);
        assert_eq!(heard(&mut events.remembered()), most);
        advance(MAX_AGE + Duration::from_millis(1)).await;
        (0..most).for_each(|_| added(&events));
        let few = BASE_EVENTS + 10 * EVENTS_OF_SERVER;
        assert_eq!(heard(&mut events.remembered()), few);
        events.keep_for(usize::MAX);
        (0..=MAX_EVENTS).for_each(|_| added(&events));
        assert_eq!(heard(&mut events.remembered()), MAX_EVENTS);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_old_is_forgotten() {
        let events = Events::default();
        let mut subscription = events.subscribe(None);
        added(&events);
        advance(MAX_AGE).await;
        assert_eq!(heard(&mut events.remembered()), 1);
        advance(Duration::from_millis(1)).await;
        assert_eq!(heard(&mut events.remembered()), 0);
        assert!(matches!(subscription.now(), Some(EventOrGap::Gap(_))));
        assert!(subscription.now().is_none());
    }

    /// Ids of another run of the daemon: before this one and, by its clock, after.
    #[tokio::test]
    async fn a_place_of_another_life_is_a_gap() {
        let events = Events::default();
        let ahead = EventId::default().next(unix_millis() + 60_000);
        for place in [EventId::default(), ahead] {
            let mut subscription = events.subscribe(Some(place));
            assert!(
                matches!(subscription.now(), Some(EventOrGap::Gap(_))),
                "{place}"
            );
            let before = heard(&mut subscription);
            added(&events);
            assert_eq!(heard(&mut subscription), 1, "after {before}");
        }
    }
}
