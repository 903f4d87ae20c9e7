//! Routes the messages of a server on a connection that carries more than one call: answers, pings, other
//! requests, and notifications.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use mainstay_core::{
    era::Era,
    ids::ServerName,
    message::{self, MessageKind, Method, lenient::shown_id, meta::SUBSCRIPTION_ID},
};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    Frame, Listener, Notice, ServerQuestion, UnreadableMessage,
    exchanges::{
        pending::{Addressee, PendingRequests},
        question::AskedQuestions,
        reply_sink::ReplySink,
    },
    logs::{MESSAGE_COST, ServerLog, TokenBucket},
};

/// Routes the messages of a server on a connection that carries more than one call.
#[derive(Debug)]
pub struct MessageRouter {
    replies: ReplySink,
    questions: AskedQuestions,
    listener: Arc<dyn Listener>,
    /// Set once the era is known. Until then the connection counts as legacy.
    era: Arc<OnceLock<Era>>,
    log: Arc<ServerLog>,
    limits: Mutex<Limits>,
}

/// Rate limits for messages that are not answers to calls.
#[derive(Debug)]
struct Limits {
    reading: TokenBucket,
    log_messages: TokenBucket,
    /// True while log messages are dropped. The clients have received a warning.
    dropping: bool,
}

impl MessageRouter {
    pub fn new(replies: ReplySink, listener: Arc<dyn Listener>, log: Arc<ServerLog>) -> Self {
        Self {
            replies,
            questions: AskedQuestions::default(),
            listener,
            era: Arc::default(),
            log,
            limits: Mutex::new(Limits {
                reading: TokenBucket::for_reading(),
                log_messages: TokenBucket::for_log_messages(),
                dropping: false,
            }),
        }
    }

    pub fn server(&self) -> &ServerName {
        self.replies.server()
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        // Held for a few operations, never across an await.
        self.limits.lock()
    }

    /// Counts bytes that belong to no call. Returns the time to wait before the next read.
    pub fn count(&self, bytes: usize) -> Duration {
        self.limits().reading.spend(bytes)
    }

    /// Returns the log message to pass on, or `None` if it exceeds the rate limit. A warning to the clients
    /// replaces the first message over the limit.
    pub fn within_rate(&self, frame: Frame) -> Option<Frame> {
        let mut limits = self.limits();
        if limits.log_messages.is_full() {
            limits.dropping = false;
        }
        if limits.log_messages.take() {
            return Some(frame);
        }
        let is_first = !std::mem::replace(&mut limits.dropping, true);
        drop(limits);
        self.log.dropped_notifications(1);
        if !is_first {
            return None;
        }
        let reason = format!(
            "server {} sends too many log messages: some are dropped",
            self.server()
        );
        tracing::warn!(server = %self.server(), "it sends too many log messages: some are dropped");
        self.log.note(&reason);
        let params = format!(
            r#"{{"level":"warning","logger":"mainstay","data":{}}}"#,
            message::quote(&reason)
        );
        let text = message::request(None, Method::LogMessage.name(), Some(&params));
        Frame::read(text.into()).ok()
    }

    /// Counts a mistake of the server. Returns the number of mistakes if a report is due.
    pub fn fault(&self) -> Option<u64> {
        self.log.fault()
    }

    /// The cell that holds the connection's era. The caller sets it.
    pub fn era(&self) -> Arc<OnceLock<Era>> {
        Arc::clone(&self.era)
    }

    fn is_modern(&self) -> bool {
        self.era.get() == Some(&Era::Modern)
    }

    /// Routes any message: answers and questions go to their calls, other notifications to the listener.
    /// Returns the time to wait before the next read, which is zero after an answer to a call.
    pub fn route(&self, frame: Frame, pending: &PendingRequests) -> Duration {
        let length = frame.text().len();
        if self.deliver(frame, pending) {
            Duration::ZERO
        } else {
            self.count(length + MESSAGE_COST)
        }
    }

    /// Hands a message to its receiver. Returns `true` if it was the answer to a call.
    fn deliver(&self, frame: Frame, pending: &PendingRequests) -> bool {
        match frame.envelope().kind {
            MessageKind::Response { .. } => {
                let id = frame.id().unwrap_or_default().to_owned();
                match pending.answer(&id, frame) {
                    Addressee::Call => return true,
                    Addressee::AbandonedCall => {
                        tracing::debug!(server = %self.server(), id, "an answer came too late");
                    }
                    Addressee::Nobody => self.unknown_id(Some(&id)),
                }
            }
            MessageKind::Notification {
                method: Method::Progress,
            } => {
                let token = frame.param("progressToken").unwrap_or_default().to_owned();
                if !pending.notify(&token, frame) {
                    tracing::debug!(server = %self.server(), token, "progress of no call in flight");
                }
            }
            // If exactly one call is in flight, the message belongs to that call and stays in order with its
            // result.
            MessageKind::Notification {
                method: Method::LogMessage,
            } => {
                if let Some(frame) = self.within_rate(frame)
                    && let Some(frame) = pending.to_only_call(frame)
                {
                    self.pass_on(Method::LogMessage, frame);
                }
            }
            MessageKind::Notification { method } => {
                match subscription(&frame).filter(|_| self.is_modern()) {
                    Some(id) => {
                        if !pending.notify(&id, frame) {
                            tracing::debug!(server = %self.server(), id, "a notification of no subscription");
                        }
                    }
                    None => self.pass_on(method, frame),
                }
            }
            MessageKind::Request { .. } if pending.break_off_echo(&frame) => {}
            MessageKind::Request { .. } if self.is_modern() => {
                let method = frame.method_name();
                let failed = pending.fail_only_call();
                if let Some(times) = self.fault() {
                    tracing::warn!(server = %self.server(), method, failed, times, "the server made a request, which 2026-07-28 forbids");
                }
            }
            MessageKind::Request { .. } => {
                if let Some(question) = self.question(frame)
                    && let Err(question) = pending.ask(question)
                {
                    self.ask(question);
                }
            }
        }
        false
    }

    fn pass_on(&self, method: Method, frame: Frame) {
        match method {
            Method::Cancelled => self.questions.take_back(frame),
            method => self.listener.take_notice(Notice { method, frame }),
        }
    }

    /// Creates a question from a server's request. Returns `None` for a `ping`, which is answered at once.
    pub fn question(&self, frame: Frame) -> Option<ServerQuestion> {
        ServerQuestion::read(frame, &self.replies, &self.questions)
    }

    /// Reports a response that answers no request of Mainstay.
    pub fn unknown_id(&self, id: Option<&str>) {
        let id = shown_id(id.unwrap_or_default());
        self.log.foreign_answer(&id);
        if let Some(times) = self.fault() {
            tracing::warn!(server = %self.server(), %id, times, "received a JSON-RPC response with an unknown id");
            self.log
                .note(&format!("a response has the id {id}, which no request has"));
        }
    }

    /// Reports an unreadable message on the stream of a call.
    pub fn unreadable(&self, error: &UnreadableMessage) {
        if let Some(times) = self.fault() {
            tracing::warn!(server = %self.server(), %error, times, "an event that is no JSON-RPC message was skipped");
        }
    }

    /// Skips an unreadable message of `bytes` bytes that belongs to no call. Returns the time to wait before
    /// the next read.
    pub fn skip(&self, bytes: usize, error: &UnreadableMessage) -> Duration {
        tracing::debug!(server = %self.server(), %error, "an event that is no JSON-RPC message was skipped");
        self.count(bytes + MESSAGE_COST)
    }

    /// Passes on a notification that came on the stream of a call but is not about that call.
    pub fn notice(&self, method: Method, frame: Frame) {
        self.pass_on(method, frame);
    }

    /// Passes on a question that belongs to no call.
    pub fn ask(&self, question: ServerQuestion) {
        self.listener.ask(question);
    }
}

/// The id of the `subscriptions/listen` request that a notification belongs to.
fn subscription(frame: &Frame) -> Option<String> {
    let id = match frame.method()? {
        // A server may also end a subscription by `notifications/cancelled`.
        Method::Cancelled => frame.param("requestId")?,
        _ => message::member(frame.param("_meta")?, SUBSCRIPTION_ID)?,
    };
    Some(id.to_owned())
}
