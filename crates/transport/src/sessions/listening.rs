//! Keeps the `subscriptions/listen` of a modern session open. It reports list changes of the server, and
//! changes of the resources that clients are subscribed to (specification 2026-07-28, "Subscriptions").

use std::{collections::HashSet, time::Duration};

use mainstay_core::{
    era::{Capabilities, Era},
    ids::ServerName,
    message::{
        self, JsonObjectEditor, MessageKind, Method, array, items, meta::SUBSCRIPTION_ID, quote,
    },
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};

use crate::{
    AttemptLimiter, Exchange, Frame, Interruption, InterruptionKind, Listener, Notice,
    ServerMessage, StreamState, detect::own_request, exchanges::link::UpstreamLink,
};

/// The time limit for the acknowledgement of a subscription. After it, Mainstay subscribes again.
const ACK_LIMIT: Duration = Duration::from_secs(10);

/// If a server ends a subscription in order before this time, it does not offer subscriptions, and Mainstay
/// does not try again.
const SHORT_LIVED: Duration = Duration::from_secs(5);

/// The first and the longest wait before a broken subscription is opened again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// The reason that a server declined a request of Mainstay's own, such as a subscription.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Declined {
    #[error(transparent)]
    Interrupted(#[from] Interruption),
    /// The error of the response, as JSON text.
    #[error("the server answered {0}")]
    Refused(String),
    #[error("the server does not serve subscriptions to this resource")]
    NotServed,
    #[error("the server has not acknowledged the subscription in time")]
    Unacknowledged,
}

/// The desired notifications, and the notifications that the server has agreed to send.
#[derive(Debug)]
pub struct Listening {
    capabilities: Capabilities,
    desired: Mutex<DesiredResources>,
    changed: Notify,
    settled: watch::Sender<Settled>,
    /// The state of the subscription, shown in the server's details. `None` if no notifications are desired.
    state: Mutex<Option<StreamState>>,
}

#[derive(Debug, Default)]
struct DesiredResources {
    /// Number of changes of `uris`.
    generation: u64,
    uris: HashSet<Box<str>>,
}

/// A resource to which a caller is subscribing. Dropping the value unsubscribes from it.
struct PendingResource<'a> {
    listening: &'a Listening,
    uri: &'a str,
}

impl Drop for PendingResource<'_> {
    fn drop(&mut self) {
        self.listening.remove(self.uri);
    }
}

/// The server's answer to one generation of desired resources.
#[derive(Clone, Debug, Default)]
struct Settled {
    generation: u64,
    honoured: HashSet<Box<str>>,
}

/// The reason that [`Listening::follow`] returned.
enum FollowOutcome {
    /// The desired notifications have changed.
    Changed,
    /// The server ended the subscription in order.
    Ended,
    Broken,
}

/// The result of an attempt to open a subscription.
enum OpenOutcome {
    Acknowledged(Exchange, HashSet<Box<str>>),
    /// The server does not offer the subscription.
    Refused,
    Broken,
}

impl Listening {
    pub fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            desired: Mutex::default(),
            changed: Notify::new(),
            settled: watch::Sender::default(),
            state: Mutex::default(),
        }
    }

    /// The state of the subscription. `None` if nothing is desired.
    pub fn state(&self) -> Option<StreamState> {
        self.state.lock().clone()
    }

    fn show(&self, state: StreamState) {
        *self.state.lock() = Some(state);
    }

    fn desired(&self) -> MutexGuard<'_, DesiredResources> {
        // Held for a map operation, never across an await.
        self.desired.lock()
    }

    /// Subscribes to a resource, and waits until the server has agreed or declined.
    pub async fn add(&self, uri: &str) -> Result<(), Declined> {
        let generation = {
            let mut desired = self.desired();
            if desired.uris.insert(uri.into()) {
                desired.generation += 1;
            }
            desired.generation
        };
        // If the caller stops waiting, dropping `resource` unsubscribes.
        let resource = PendingResource {
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
            std::mem::forget(resource);
        }
        outcome
    }

    pub fn remove(&self, uri: &str) {
        let mut desired = self.desired();
        if desired.uris.remove(uri) {
            desired.generation += 1;
            drop(desired);
            self.changed.notify_one();
        }
    }

    /// The current generation and its filter (JSON text). No filter if nothing is desired.
    fn filter(&self) -> (u64, Option<String>) {
        let has = &self.capabilities;
        let mut filter = JsonObjectEditor::default();
        for (member, changes) in [
            ("toolsListChanged", has.tools_changed),
            ("promptsListChanged", has.prompts_changed),
            ("resourcesListChanged", has.resources_changed),
        ] {
            if changes {
                filter.set(member, "true");
            }
        }
        let desired = self.desired();
        let mut uris: Vec<String> = desired.uris.iter().map(|uri| quote(uri)).collect();
        let generation = desired.generation;
        drop(desired);
        uris.sort_unstable();
        let uris = array(&uris);
        if uris != "[]" {
            filter.set("resourceSubscriptions", &uris);
        }
        (generation, (!filter.is_empty()).then(|| filter.to_string()))
    }

    /// Keeps the subscription open while this future is polled.
    pub async fn run(
        &self,
        server: &ServerName,
        link: &UpstreamLink,
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
                    FollowOutcome::Changed
                }
                // Open the new subscription before ending the old one, so that no notification is missed.
                Some(OpenOutcome::Acknowledged(exchange, honoured)) => {
                    listen.end(current.replace(exchange)).await;
                    self.settle(generation, honoured);
                    self.show(StreamState::Open);
                    self.follow(&listen, &mut current).await
                }
                // The server still honours the previous subscription.
                Some(OpenOutcome::Refused) => {
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
                Some(OpenOutcome::Broken) => FollowOutcome::Broken,
            };
            match &outcome {
                FollowOutcome::Changed => {}
                FollowOutcome::Ended => self.show(StreamState::Closed(
                    "the server ended subscriptions/listen".to_owned(),
                )),
                FollowOutcome::Broken => self.show(StreamState::Closed(
                    "subscriptions/listen broke off".to_owned(),
                )),
            }
            match outcome {
                FollowOutcome::Changed => continue,
                FollowOutcome::Ended if since.elapsed() < SHORT_LIVED => {
                    tracing::debug!(%server, "the server ended a subscription at once");
                    self.changed.notified().await;
                    continue;
                }
                FollowOutcome::Ended | FollowOutcome::Broken => {}
            }
            if since.elapsed() >= SHORT_LIVED {
                wait = FIRST_RETRY;
            }
            sleep(wait).await;
            wait = (wait * 2).min(LAST_RETRY);
            // Do not open the broken subscriptions of many servers at the same time.
            attempt_limiter.take().await;
        }
    }

    fn settle(&self, generation: u64, honoured: HashSet<Box<str>>) {
        self.settled.send_replace(Settled {
            generation,
            honoured,
        });
    }

    /// Passes on the notifications of the subscription until it ends or the desired notifications change.
    /// Without a subscription, waits for such a change.
    async fn follow(&self, listen: &Listen<'_>, current: &mut Option<Exchange>) -> FollowOutcome {
        let Some(exchange) = current else {
            self.changed.notified().await;
            return FollowOutcome::Changed;
        };
        let outcome = loop {
            tokio::select! {
                received = listen.receive(exchange) => match received {
                    Received::Message | Received::Acknowledged(_) => {}
                    Received::Ended => break FollowOutcome::Ended,
                    Received::Broken => break FollowOutcome::Broken,
                },
                () = self.changed.notified() => return FollowOutcome::Changed,
            }
        };
        *current = None;
        outcome
    }
}

/// A message of a subscription.
enum Received {
    Acknowledged(HashSet<Box<str>>),
    Message,
    /// The server ended the subscription with a response or with `notifications/cancelled`.
    Ended,
    Broken,
}

struct Listen<'a> {
    server: &'a ServerName,
    link: &'a UpstreamLink,
    listener: &'a dyn Listener,
}

impl Listen<'_> {
    /// Opens a subscription. Meanwhile passes on the notifications of the previous subscription.
    async fn open(&self, filter: &str, before: &mut Option<Exchange>) -> OpenOutcome {
        let params = format!(r#"{{"notifications":{filter}}}"#);
        let render = |id: &str| own_request(Era::Modern, id, Method::Listen, Some(&params));
        let Ok(mut exchange) = self.link.ask(Method::Listen, render).await else {
            return OpenOutcome::Broken;
        };
        let acknowledging = async {
            loop {
                tokio::select! {
                    received = self.receive(&mut exchange) => match received {
                        Received::Message => {}
                        other => return other,
                    },
                    received = async {
                        match before.as_mut() {
                            Some(before) => self.receive(before).await,
                            None => std::future::pending().await,
                        }
                    } => if matches!(received, Received::Ended | Received::Broken) {
                        *before = None;
                    },
                }
            }
        };
        match timeout(ACK_LIMIT, acknowledging).await {
            Ok(Received::Acknowledged(honoured)) => OpenOutcome::Acknowledged(exchange, honoured),
            Ok(Received::Ended) => OpenOutcome::Refused,
            Ok(Received::Message | Received::Broken) => OpenOutcome::Broken,
            Err(_) => {
                self.end(Some(exchange)).await;
                OpenOutcome::Broken
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

    /// Receives the next message. A notification goes to the listener. Cancel-safe.
    async fn receive(&self, exchange: &mut Exchange) -> Received {
        let frame = match exchange.next().await {
            Ok(ServerMessage::Message(frame)) => frame,
            // Dropping a question refuses it. Modern servers must not ask questions.
            Ok(ServerMessage::Question(_) | ServerMessage::Parted { .. }) => {
                return Received::Message;
            }
            // The server does not offer the subscription. After one of the excluded statuses it may offer it
            // later: too many requests, or a conflict with the previous stream.
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
            MessageKind::Notification {
                method: Method::Acknowledged,
            } => Received::Acknowledged(honoured(&frame)),
            MessageKind::Notification {
                method: Method::Cancelled,
            } => Received::Ended,
            MessageKind::Notification { method } => {
                let frame = untagged(&frame);
                self.listener.take_notice(Notice { method, frame });
                Received::Message
            }
            MessageKind::Response { is_error: true, .. } => {
                let error = frame.error();
                tracing::warn!(server = %self.server, error, "the server refuses a subscription");
                Received::Ended
            }
            MessageKind::Response { .. } | MessageKind::Request { .. } => Received::Ended,
        }
    }
}

/// The URIs of the resources in an acknowledgement.
fn honoured(acknowledged: &Frame) -> HashSet<Box<str>> {
    let notifications = acknowledged.param("notifications").unwrap_or("{}");
    let uris = message::member(notifications, "resourceSubscriptions").and_then(items);
    uris.into_iter()
        .flatten()
        .filter_map(|uri| serde_json::from_str::<String>(uri).ok())
        .map(String::into_boxed_str)
        .collect()
}

/// Removes the id of Mainstay's subscription from a notification, because clients do not know the id.
fn untagged(frame: &Frame) -> Frame {
    let untagging = || {
        let mut message = JsonObjectEditor::read(frame.text())?;
        let mut params = message.get("params").and_then(JsonObjectEditor::read)?;
        let mut meta = params.get("_meta").and_then(JsonObjectEditor::read)?;
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
            listening.desired().uris.insert(uri.into());
        }
        let filter =
            r#"{"toolsListChanged":true,"resourceSubscriptions":["x://a","x://b"]}"#.to_owned();
        assert_eq!(listening.filter(), (0, Some(filter)));
        listening.remove("x://a");
        let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["x://b"]}"#.to_owned();
        assert_eq!(listening.filter(), (1, Some(filter)));
    }
}
