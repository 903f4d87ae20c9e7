//! What servers say without being asked: pings, other requests, and notices about themselves.

use std::{
    fmt::Debug,
    sync::{Arc, OnceLock},
};

use mainstay_core::{
    era::Era,
    ids::ServerName,
    message::{self, Kind, Method, meta::SUBSCRIPTION_ID},
};

use super::{
    Frame, Question,
    pending::{Addressee, Pending},
    session::Link,
};

/// A notification of a server that belongs to no call.
#[derive(Clone, Debug)]
pub struct Notice {
    pub method: Method,
    pub frame: Frame,
}

/// Hears what one connection brings outside of calls. Must not wait: it is called by the connection's
/// reader.
pub trait Listener: Debug + Send + Sync {
    fn hear(&self, notice: Notice);

    /// A question that belongs to no call. Dropping it refuses it.
    fn ask(&self, question: Question);
}

/// Sorts a server's messages on a connection that carries more than one call.
#[derive(Debug)]
pub struct Unasked {
    server: ServerName,
    listener: Arc<dyn Listener>,
    /// Once it is known; until then the connection counts as legacy.
    era: Arc<OnceLock<Era>>,
}

impl Unasked {
    pub fn new(server: ServerName, listener: Arc<dyn Listener>) -> Self {
        Self {
            server,
            listener,
            era: Arc::default(),
        }
    }

    /// Where the connection's era is to be set.
    pub fn era(&self) -> Arc<OnceLock<Era>> {
        Arc::clone(&self.era)
    }

    fn is_modern(&self) -> bool {
        self.era.get() == Some(&Era::Modern)
    }

    /// Takes any message: answers and questions reach their calls, notices their readers. What must be
    /// said back goes by `link`.
    pub fn sort(&self, frame: Frame, pending: &Pending, link: &Link) {
        match frame.envelope().kind {
            Kind::Response { id, .. } => {
                let id = frame.get(id).to_owned();
                match pending.answer(&id, frame) {
                    Addressee::Call => {}
                    // K7
                    Addressee::GaveUp => {
                        tracing::debug!(server = %self.server, id, "an answer came too late");
                    }
                    // E16
                    Addressee::Nobody => {
                        tracing::warn!(server = %self.server, id, "received a JSON-RPC response with an unknown id");
                    }
                }
            }
            Kind::Notification {
                method: Method::Progress,
            } => {
                let token = frame.param("progressToken").unwrap_or_default().to_owned();
                if !pending.about(&token, frame) {
                    tracing::debug!(server = %self.server, token, "progress of no call in flight");
                }
            }
            // Attributed where there is no doubt, so that it stays in order with the result.
            Kind::Notification {
                method: Method::LogMessage,
            } => {
                if let Some(frame) = pending.to_only_call(frame) {
                    self.notice(Method::LogMessage, frame);
                }
            }
            Kind::Notification { method } => {
                match subscription(&frame).filter(|_| self.is_modern()) {
                    Some(id) => {
                        if !pending.about(&id, frame) {
                            tracing::debug!(server = %self.server, id, "a notification of no subscription");
                        }
                    }
                    None => self.notice(method, frame),
                }
            }
            Kind::Request { .. } if self.is_modern() => {
                let method = frame.method_name();
                let failed = pending.violated();
                tracing::warn!(server = %self.server, method, failed, "the server made a request, which 2026-07-28 forbids");
            }
            Kind::Request { .. } => {
                if let Some(question) = Question::read(frame, link)
                    && let Err(question) = pending.ask(question)
                {
                    self.ask(question);
                }
            }
        }
    }

    pub fn notice(&self, method: Method, frame: Frame) {
        self.listener.hear(Notice { method, frame });
    }

    /// A question that belongs to no call.
    pub fn ask(&self, question: Question) {
        self.listener.ask(question);
    }
}

/// The `subscriptions/listen` that a notification belongs to.
fn subscription(frame: &Frame) -> Option<String> {
    let id = match frame.method()? {
        // A server may end a subscription in this way, too.
        Method::Cancelled => frame.param("requestId")?,
        _ => message::member(frame.param("_meta")?, SUBSCRIPTION_ID)?,
    };
    Some(id.to_owned())
}
