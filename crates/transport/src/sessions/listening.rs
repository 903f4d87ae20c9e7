//! The kept `subscriptions/listen` of a modern session: the server's announcements, and the resources
//! that clients are subscribed to (specification 2026-07-28, "Subscriptions").

use std::{collections::HashSet, time::Duration};

use mainstay_core::{
    era::{Capabilities, Era},
    ids::ServerName,
    message::{self, Kind, Method, Object, array, items, meta::SUBSCRIPTION_ID, quote},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};

use crate::{
    AttemptLimiter, Exchange, Frame, Interruption, InterruptionKind, Listener, Notice,
    ServerMessage, StreamState, detect::own_request, exchanges::link::Link,
};

/// How long a server may take to acknowledge a subscription. After that the subscription is tried again.
const ACK_LIMIT: Duration = Duration::from_secs(10);

/// A server that ends a subscription in order, and sooner than this, does not want it. It is not tried
/// again.
const SHORT_LIVED: Duration = Duration::from_secs(5);

/// Before a subscription that broke off is opened again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Why a server declined a request of ours, such as a subscription.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Declined {
    #[error(transparent)]
    Interrupted(#[from] Interruption),
    /// The error, as JSON text.
    #[error("the server answered {0}")]
    Refused(String),
    #[error("the server does not serve subscriptions to this resource")]
    NotServed,
    #[error("the server has not acknowledged the subscription in time")]
    Unacknowledged,
}

/// The wanted notifications, and those that the server has agreed to send.
#[derive(Debug)]
pub struct Listening {
    capabilities: Capabilities,
    wanted: Mutex<WantedResources>,
    changed: Notify,
    settled: watch::Sender<Settled>,
    /// Whether the subscription is open, for people. `None` while nothing is wanted.
    state: Mutex<Option<StreamState>>,
}

#[derive(Debug, Default)]
struct WantedResources {
    /// Counts the changes of `uris`.
    generation: u64,
    uris: HashSet<Box<str>>,
}

/// A resource that a caller wants to subscribe to. Dropping it withdraws the resource.
struct Wish<'a> {
    listening: &'a Listening,
    uri: &'a str,
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.listening.remove(self.uri);
    }
}

/// The server's answer to one generation of wanted resources.
#[derive(Clone, Debug, Default)]
struct Settled {
    generation: u64,
    honoured: HashSet<Box<str>>,
}

/// Why a subscription is not followed any more.
enum Outcome {
    /// Something else is wanted now.
    Changed,
    /// Ended by the server, in order.
    Ended,
    Broken,
}

/// How an attempt to open one ended.
enum Opened {
    Acknowledged(Exchange, HashSet<Box<str>>),
    /// The server does not serve it.
    Refused,
    Broken,
}

impl Listening {
    pub fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            wanted: Mutex::default(),
            changed: Notify::new(),
            settled: watch::Sender::default(),
            state: Mutex::default(),
        }
    }

    /// Whether the subscription is open. `None` while nothing is wanted.
    pub fn state(&self) -> Option<StreamState> {
        self.state.lock().clone()
    }

    fn show(&self, state: StreamState) {
        *self.state.lock() = Some(state);
    }

    fn wanted(&self) -> MutexGuard<'_, WantedResources> {
        // Held for a map operation, never across an await.
        self.wanted.lock()
    }

    /// Subscribes to a resource, and waits until the server has agreed or declined.
    pub async fn add(&self, uri: &str) -> Result<(), Declined> {
        let generation = {
            let mut wanted = self.wanted();
            if wanted.uris.insert(uri.into()) {
                wanted.generation += 1;
            }
            wanted.generation
        };
        // A caller that stops waiting does not want the resource any more.
        let wish = Wish {
            listening: self,
            uri,
        };
        self.changed.notify_one();
        let mut settled = self.settled.subscribe();
        let settling = settled.wait_for(|settled| settled.generation >= generation);
        let outcome = match timeout(ACK_LIMIT, settling).await {
            Ok(Ok(settled)) if settled.honoured.contains(uri) => Ok(()),
            Ok(Ok(_)) => Err(Declined::NotServed),
            Ok(Err(_)) => Err(Interruption::not_sent(InterruptionKind::Lost).into()),
            Err(_) => Err(Declined::Unacknowledged),
        };
        if outcome.is_ok() {
            std::mem::forget(wish);
        }
        outcome
    }

    pub fn remove(&self, uri: &str) {
        let mut wanted = self.wanted();
        if wanted.uris.remove(uri) {
            wanted.generation += 1;
            drop(wanted);
            self.changed.notify_one();
        }
    }

    /// The present generation, and its filter (JSON text) where anything is wanted.
    fn filter(&self) -> (u64, Option<String>) {
        let has = &self.capabilities;
        let mut filter = Object::default();
        for (member, changes) in [
            ("toolsListChanged", has.tools_changed),
            ("promptsListChanged", has.prompts_changed),
            ("resourcesListChanged", has.resources_changed),
        ] {
            if changes {
                filter.set(member, "true");
            }
        }
        let wanted = self.wanted();
        let mut uris: Vec<String> = wanted.uris.iter().map(|uri| quote(uri)).collect();
        let generation = wanted.generation;
        drop(wanted);
        uris.sort_unstable();
        let uris = array(&uris);
        if uris != "[]" {
            filter.set("resourceSubscriptions", &uris);
        }
        (generation, (!filter.is_empty()).then(|| filter.to_string()))
    }

    /// Keeps the subscription open as long as this is polled.
    pub async fn run(
        &self,
        server: &ServerName,
        link: &Link,
        listener: &dyn Listener,
        attempt_limiter: &AttemptLimiter,
    ) {
        let listen = Listen {
            server,
            link,
            listener,
        };
        let mut current = None::<Exchange>;
        let mut wait = FIRST_RETRY;
        loop {
            let (generation, filter) = self.filter();
            let opened = match &filter {
                None => None,
                Some(filter) => Some(listen.open(filter, &mut current).await),
            };
            let since = Instant::now();
            let outcome = match opened {
                None => {
                    *self.state.lock() = None;
                    listen.end(current.take()).await;
                    self.settle(generation, HashSet::new());
                    self.changed.notified().await;
                    Outcome::Changed
                }
                // The new subscription begins before the old one ends, so that nothing is missed.
                Some(Opened::Acknowledged(exchange, honoured)) => {
                    listen.end(current.replace(exchange)).await;
                    self.settle(generation, honoured);
                    self.show(StreamState::Open);
                    self.follow(&listen, &mut current).await
                }
                // The server still honours the subscription before.
                Some(Opened::Refused) => {
                    let honoured = match &current {
                        Some(_) => self.settled.borrow().honoured.clone(),
                        None => {
                            let reason = "the server refuses subscriptions/listen";
                            self.show(StreamState::Closed(reason.to_owned()));
                            HashSet::new()
                        }
                    };
                    self.settle(generation, honoured);
                    self.follow(&listen, &mut current).await
                }
                Some(Opened::Broken) => Outcome::Broken,
            };
            match &outcome {
                Outcome::Changed => {}
                Outcome::Ended => self.show(StreamState::Closed(
                    "the server ended subscriptions/listen".to_owned(),
                )),
                Outcome::Broken => self.show(StreamState::Closed(
                    "subscriptions/listen broke off".to_owned(),
                )),
            }
            match outcome {
                Outcome::Changed => continue,
                Outcome::Ended if since.elapsed() < SHORT_LIVED => {
                    tracing::debug!(%server, "the server ended a subscription at once");
                    self.changed.notified().await;
                    continue;
                }
                Outcome::Ended | Outcome::Broken => {}
            }
            if since.elapsed() >= SHORT_LIVED {
                wait = FIRST_RETRY;
            }
            sleep(wait).await;
            wait = (wait * 2).min(LAST_RETRY);
            // Subscriptions of many servers that broke off together are not opened again together.
            attempt_limiter.take().await;
        }
    }

    fn settle(&self, generation: u64, honoured: HashSet<Box<str>>) {
        self.settled.send_replace(Settled {
            generation,
            honoured,
        });
    }

    /// Passes on the notifications of the subscription, until it ends or something else is wanted. Without
    /// a subscription, waits until something else is wanted.
    async fn follow(&self, listen: &Listen<'_>, current: &mut Option<Exchange>) -> Outcome {
        let Some(exchange) = current else {
            self.changed.notified().await;
            return Outcome::Changed;
        };
        let outcome = loop {
            tokio::select! {
                received = listen.hear(exchange) => match received {
                    Received::Message | Received::Acknowledged(_) => {}
                    Received::Ended => break Outcome::Ended,
                    Received::Broken => break Outcome::Broken,
                },
                () = self.changed.notified() => return Outcome::Changed,
            }
        };
        *current = None;
        outcome
    }
}

/// One message of a subscription.
enum Received {
    Acknowledged(HashSet<Box<str>>),
    Message,
    /// Ended by a response, or by a notification in its place.
    Ended,
    Broken,
}

struct Listen<'a> {
    server: &'a ServerName,
    link: &'a Link,
    listener: &'a dyn Listener,
}

impl Listen<'_> {
    /// Opens a subscription, and passes on the notifications that still come of the one before.
    async fn open(&self, filter: &str, before: &mut Option<Exchange>) -> Opened {
        let params = format!(r#"{{"notifications":{filter}}}"#);
        let render = |id: &str| own_request(Era::Modern, id, Method::Listen, Some(&params));
        let Ok(mut exchange) = self.link.ask(Method::Listen, render).await else {
            return Opened::Broken;
        };
        let acknowledging = async {
            loop {
                tokio::select! {
                    received = self.hear(&mut exchange) => match received {
                        Received::Message => {}
                        other => return other,
                    },
                    received = async {
                        match before.as_mut() {
                            Some(before) => self.hear(before).await,
                            None => std::future::pending().await,
                        }
                    } => if matches!(received, Received::Ended | Received::Broken) {
                        *before = None;
                    },
                }
            }
        };
        match timeout(ACK_LIMIT, acknowledging).await {
            Ok(Received::Acknowledged(honoured)) => Opened::Acknowledged(exchange, honoured),
            Ok(Received::Ended) => Opened::Refused,
            Ok(Received::Message | Received::Broken) => Opened::Broken,
            Err(_) => {
                self.end(Some(exchange)).await;
                Opened::Broken
            }
        }
    }

    async fn end(&self, exchange: Option<Exchange>) {
        if let Some(exchange) = exchange {
            self.link
                .cancel(self.server, exchange, "not wanted any more")
                .await;
        }
    }

    /// Receives the next message, and passes a notification on. Cancel-safe.
    async fn hear(&self, exchange: &mut Exchange) -> Received {
        let frame = match exchange.next().await {
            Ok(ServerMessage::Message(frame)) => frame,
            // Dropping a question refuses it. Modern servers have none.
            Ok(ServerMessage::Question(_) | ServerMessage::Parted { .. }) => {
                return Received::Message;
            }
            // The server may serve it later: too many requests, or a conflict with the stream before.
            Err(Interruption {
                kind: InterruptionKind::Refused { status, .. },
                ..
            }) if status < 500 && !matches!(status, 408 | 409 | 423 | 425 | 429) => {
                return Received::Ended;
            }
            Err(error) => {
                tracing::debug!(server = %self.server, %error, "a subscription broke off");
                return Received::Broken;
            }
        };
        match frame.envelope().kind {
            Kind::Notification {
                method: Method::Acknowledged,
            } => Received::Acknowledged(honoured(&frame)),
            Kind::Notification {
                method: Method::Cancelled,
            } => Received::Ended,
            Kind::Notification { method } => {
                let frame = untagged(&frame);
                self.listener.hear(Notice { method, frame });
                Received::Message
            }
            Kind::Response { is_error: true, .. } => {
                let error = frame.error();
                tracing::warn!(server = %self.server, error, "the server refuses a subscription");
                Received::Ended
            }
            Kind::Response { .. } | Kind::Request { .. } => Received::Ended,
        }
    }
}

/// The resources of an acknowledgement.
fn honoured(acknowledged: &Frame) -> HashSet<Box<str>> {
    let notifications = acknowledged.param("notifications").unwrap_or("{}");
    let uris = message::member(notifications, "resourceSubscriptions").and_then(items);
    uris.into_iter()
        .flatten()
        .filter_map(|uri| serde_json::from_str::<String>(uri).ok())
        .map(String::into_boxed_str)
        .collect()
}

/// The notification without the id of our subscription, which clients do not know.
fn untagged(frame: &Frame) -> Frame {
    let untagging = || {
        let mut message = Object::read(frame.text())?;
        let mut params = message.get("params").and_then(Object::read)?;
        let mut meta = params.get("_meta").and_then(Object::read)?;
        meta.remove(SUBSCRIPTION_ID);
        let meta = (!meta.is_empty()).then(|| meta.to_string());
        match &meta {
            Some(meta) => params.set("_meta", meta),
            None => drop(params.remove("_meta")),
        }
        let params = (!params.is_empty()).then(|| params.to_string());
        match &params {
            Some(params) => message.set("params", params),
            None => drop(message.remove("params")),
        }
        Frame::read(message.to_string().into()).ok()
    };
    untagging().unwrap_or_else(|| frame.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::read(text.to_owned().into()).expect("a message")
    }

    #[test]
    fn what_a_subscription_brings_is_handed_on_without_its_id() {
        for (params, expected) in [
            (
                r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"uri":"x"}"#,
                r#","params":{"uri":"x"}"#,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"}}"#,
                "",
            ),
            (
                r#"{"_meta":{"a":1,"io.modelcontextprotocol/subscriptionId":1}}"#,
                r#","params":{"_meta":{"a":1}}"#,
            ),
        ] {
            let tagged = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{params}}}"#);
            let expected = format!(r#"{{"jsonrpc":"2.0","method":"m"{expected}}}"#);
            assert_eq!(untagged(&frame(&tagged)).text(), expected);
        }
    }

    #[test]
    fn the_filter_has_what_the_server_announces_and_the_union_of_wishes() {
        let listening = Listening::new(Capabilities::default());
        assert_eq!(listening.filter(), (0, None));
        let listening = Listening::new(Capabilities {
            tools_changed: true,
            ..Capabilities::default()
        });
        for uri in ["x://b", "x://a"] {
            listening.wanted().uris.insert(uri.into());
        }
        let filter =
            r#"{"toolsListChanged":true,"resourceSubscriptions":["x://a","x://b"]}"#.to_owned();
        assert_eq!(listening.filter(), (0, Some(filter)));
        listening.remove("x://a");
        let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["x://b"]}"#.to_owned();
        assert_eq!(listening.filter(), (1, Some(filter)));
    }
}
