//! Resource subscriptions of clients that share a server's session.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mainstay_core::{catalog::ItemTarget, ids::ServerName};
use mainstay_transport::UpstreamSession;
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::OwnedMutexGuard, time::timeout};

/// Maximum number of resources that one session or stream may subscribe to, and maximum length of a
/// URI in bytes.
const MAX_SUBSCRIPTIONS: usize = 1000;
const MAX_URI: usize = 8 * 1024;

/// The reason that Mainstay refuses a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    #[error(
        "a client may be subscribed to {MAX_SUBSCRIPTIONS} resources: unsubscribe from one first"
    )]
    Resources,
    #[error("the URI of a subscription may have {MAX_URI} bytes")]
    Uri,
}

/// Time limit for requests to a server for which no client waits.
const BACKGROUND_LIMIT: Duration = Duration::from_secs(10);

/// A resource of a server, by its original URI.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SubscribedResource {
    pub server: ServerName,
    pub uri: Box<str>,
}

impl From<ItemTarget> for SubscribedResource {
    fn from(target: ItemTarget) -> Self {
        Self {
            server: target.server,
            uri: (*target.original).into(),
        }
    }
}

/// The subscribers of a resource: session id or stream name, and the URI that each used.
type Subscribers = HashMap<Box<str>, Box<str>>;

#[derive(Debug, Default)]
struct Book {
    resources: HashMap<SubscribedResource, Subscribers>,
    /// Number of subscriptions of each session or stream.
    counts: HashMap<Box<str>, usize>,
}

impl Book {
    fn uncount(&mut self, session: &str) {
        if let Some(count) = self.counts.get_mut(session) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(session);
            }
        }
    }
}

#[derive(Debug, Default)]
pub struct Subscriptions {
    book: Mutex<Book>,
    /// A lock for each resource with a request in progress. A server that does not answer delays
    /// only requests about the same resource.
    turns: Mutex<HashMap<SubscribedResource, Arc<tokio::sync::Mutex<()>>>>,
}

/// The right to send requests about one resource. Without it, an unsubscription could overtake a
/// subscription.
pub type Turn = OwnedMutexGuard<()>;

impl Subscriptions {
    fn book(&self) -> MutexGuard<'_, Book> {
        // Locked for map operations, never across an await.
        self.book.lock()
    }

    /// Checks the limits of a session or stream that subscribes to `uri`.
    pub fn check(&self, session: &str, uri: &str) -> Result<(), TooMuch> {
        let count = self.book().counts.get(session).copied();
        if uri.len() > MAX_URI {
            Err(TooMuch::Uri)
        } else if count.unwrap_or_default() >= MAX_SUBSCRIPTIONS {
            Err(TooMuch::Resources)
        } else {
            Ok(())
        }
    }

    /// Waits for earlier requests about this resource.
    pub async fn turn(&self, resource: &SubscribedResource) -> Turn {
        let turn = {
            // Locked for map operations, never across an await.
            let mut turns = self.turns.lock();
            // Holders and waiters have a reference to their lock. Drop all other locks.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(resource.clone()).or_default())
        };
        turn.lock_owned().await
    }

    /// Adds a subscriber. For the first one, `subscribe` asks the server. Returns false if that
    /// fails or a limit is reached.
    pub async fn join(
        &self,
        resource: SubscribedResource,
        session: &str,
        uri: &str,
        subscribe: impl AsyncFnOnce() -> bool,
    ) -> bool {
        if self.check(session, uri).is_err() {
            return false;
        }
        let _turn = self.turn(&resource).await;
        let is_joined = self.has_any(&resource) || subscribe().await;
        if is_joined {
            self.add(resource, session, uri);
        }
        is_joined
    }

    /// Subscribes again in a new upstream session, if the resource still has subscribers.
    pub async fn renew(&self, resource: &SubscribedResource, upstream: &UpstreamSession) {
        let _turn = self.turn(resource).await;
        if self.has_any(resource) {
            let subscribe_result =
                timeout(BACKGROUND_LIMIT, subscribe(upstream, &resource.uri)).await;
            if subscribe_result.is_err() {
                tracing::debug!(?resource, "a subscription was not renewed in time");
            }
        }
    }

    /// Unsubscribes at the server, unless the resource has got a new subscriber.
    pub async fn release(&self, resource: &SubscribedResource, upstream: &UpstreamSession) {
        let _turn = self.turn(resource).await;
        if self.has_any(resource) {
            return;
        }
        let unsubscribe_result =
            timeout(BACKGROUND_LIMIT, upstream.unsubscribe(&resource.uri)).await;
        if !matches!(unsubscribe_result, Ok(Ok(()))) {
            tracing::debug!(?resource, released = ?unsubscribe_result, "a subscription was not taken back");
        }
    }

    pub fn add(&self, resource: SubscribedResource, session: &str, uri: &str) {
        let mut book = self.book();
        let subscribers = book.resources.entry(resource).or_default();
        if subscribers.insert(session.into(), uri.into()).is_none() {
            *book.counts.entry(session.into()).or_default() += 1;
        }
    }

    /// True if the resource has any subscriber.
    pub fn has_any(&self, resource: &SubscribedResource) -> bool {
        self.book().resources.contains_key(resource)
    }

    /// Removes a subscriber. Returns true if the resource has no other one.
    pub fn remove(&self, resource: &SubscribedResource, session: &str) -> bool {
        let mut book = self.book();
        let Some(subscribers) = book.resources.get_mut(resource) else {
            return false;
        };
        let was_subscribed = subscribers.remove(session).is_some();
        let is_last = subscribers.is_empty();
        if is_last {
            book.resources.remove(resource);
        }
        if was_subscribed {
            book.uncount(session);
        }
        is_last
    }

    /// Removes a session or stream. Returns the resources that have no other subscriber.
    pub fn remove_session(&self, session: &str) -> Vec<SubscribedResource> {
        let mut orphaned_resources = Vec::new();
        let mut book = self.book();
        // Most sessions have no subscription, so avoid the search.
        if book.counts.remove(session).is_none() {
            return orphaned_resources;
        }
        book.resources.retain(|resource, subscribers| {
            let is_orphan = subscribers.remove(session).is_some() && subscribers.is_empty();
            if is_orphan {
                orphaned_resources.push(resource.clone());
            }
            !is_orphan
        });
        orphaned_resources
    }

    /// The resources of one server that have subscribers.
    pub fn of_server(&self, server: &ServerName) -> Vec<SubscribedResource> {
        self.book()
            .resources
            .keys()
            .filter(|resource| resource.server == *server)
            .cloned()
            .collect()
    }

    /// The subscribers that get a notification about `uri`, with the URIs that they used. The
    /// notification may concern a part of a subscribed resource. The subscribed URI is then a
    /// prefix of `uri` (specification, resources, "Subscriptions").
    pub fn listeners(&self, server: &ServerName, uri: &str) -> Vec<(Box<str>, Box<str>)> {
        let book = self.book();
        let map = &book.resources;
        let exact_resource = SubscribedResource {
            server: server.clone(),
            uri: uri.into(),
        };
        if let Some(subscribers) = map.get(&exact_resource) {
            return subscribers
                .iter()
                .map(|(session, client_uri)| (session.clone(), client_uri.clone()))
                .collect();
        }
        map.iter()
            .filter(|(resource, _)| resource.server == *server && uri.starts_with(&*resource.uri))
            .flat_map(|(_, subscribers)| subscribers.keys())
            .map(|session| (session.clone(), uri.into()))
            .collect()
    }
}

/// Subscribes to a resource at a server. Returns true if the server accepts.
pub async fn subscribe(upstream: &UpstreamSession, uri: &str) -> bool {
    let subscribe_result = upstream.subscribe(uri).await;
    if let Err(error) = &subscribe_result {
        tracing::debug!(uri, %error, "a resource was not subscribed to");
    }
    subscribe_result.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(uri: &str) -> SubscribedResource {
        SubscribedResource {
            server: ServerName::new("s").expect("a legal name"),
            uri: uri.into(),
        }
    }

    #[test]
    fn the_last_unsubscription_ends_a_subscription() {
        let subscriptions = Subscriptions::default();
        subscriptions.add(resource("x://1"), "one", "x://1");
        subscriptions.add(resource("x://1"), "two", "x://1");
        subscriptions.add(resource("x://2"), "one", "x://2");
        assert!(!subscriptions.remove(&resource("x://1"), "three"));
        assert!(!subscriptions.remove(&resource("x://3"), "one"));
        assert_eq!(subscriptions.remove_session("one"), [resource("x://2")]);
        assert!(subscriptions.has_any(&resource("x://1")));
        assert!(subscriptions.remove(&resource("x://1"), "two"));
        assert_eq!(subscriptions.of_server(&resource("x://1").server), []);
    }

    #[test]
    fn subscriptions_of_a_session_are_limited() {
        let subscriptions = Subscriptions::default();
        for number in 0..MAX_SUBSCRIPTIONS {
            let uri = format!("x://{number}");
            assert_eq!(subscriptions.check("one", &uri), Ok(()));
            // A repeated subscription counts once.
            subscriptions.add(resource(&uri), "one", &uri);
            subscriptions.add(resource(&uri), "one", &uri);
        }
        assert_eq!(subscriptions.check("one", "x"), Err(TooMuch::Resources));
        assert_eq!(subscriptions.check("two", "x"), Ok(()));
        let long_uri = "x".repeat(MAX_URI + 1);
        assert_eq!(subscriptions.check("two", &long_uri), Err(TooMuch::Uri));
        subscriptions.remove(&resource("x://0"), "one");
        subscriptions.remove(&resource("x://0"), "one");
        assert_eq!(subscriptions.check("one", "x"), Ok(()));
        assert_eq!(subscriptions.book().counts["one"], MAX_SUBSCRIPTIONS - 1);
        subscriptions.remove_session("one");
        assert!(subscriptions.book().counts.is_empty());
    }

    /// Invariant 7: a turn delays only requests about the same resource of the same server.
    #[tokio::test]
    async fn turns_are_of_one_resource_and_leave_nothing() {
        let subscriptions = Subscriptions::default();
        let first = subscriptions.turn(&resource("x://1")).await;
        let mut second_turn = Box::pin(async { subscriptions.turn(&resource("x://1")).await });
        assert!(futures_util::poll!(&mut second_turn).is_pending());
        for number in 2..100 {
            let other_turn = resource(&format!("x://{number}"));
            let mut other_turn = Box::pin(async { subscriptions.turn(&other_turn).await });
            assert!(futures_util::poll!(&mut other_turn).is_ready(), "{number}");
        }
        drop(first);
        drop(second_turn.await);
        drop(subscriptions.turn(&resource("x://0")).await);
        assert_eq!(subscriptions.turns.lock().len(), 1);
    }

    #[test]
    fn a_change_reaches_each_listener_under_the_uri_it_used() {
        let subscriptions = Subscriptions::default();
        subscriptions.add(resource("x://a"), "one", "mainstay+s:x://a");
        let server = resource("").server;
        assert_eq!(
            subscriptions.listeners(&server, "x://a"),
            [("one".into(), "mainstay+s:x://a".into())]
        );
        assert_eq!(
            subscriptions.listeners(&server, "x://a/part"),
            [("one".into(), "x://a/part".into())]
        );
        assert_eq!(subscriptions.listeners(&server, "x://b"), []);
    }
}
