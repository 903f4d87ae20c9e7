//! A request that a server makes of its client: sampling, elicitation, roots (specification, client
//! features).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use mainstay_core::{
    era::code,
    message::{self, Method},
};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};

use super::{Frame, reply_sink::ReplySink};

/// A server's question. It is answered once: dropping it refuses it, so that no server waits for an
/// answer that cannot come.
#[derive(Debug)]
pub struct Question(Box<Asked>);

#[derive(Debug)]
struct Asked {
    frame: Frame,
    /// Until it is answered.
    way_back: Option<WayBack>,
    patience: Option<Arc<Patience>>,
}

#[derive(Debug)]
enum WayBack {
    Server(ReplySink),
    Call(oneshot::Sender<Frame>),
}

impl WayBack {
    fn send(self, text: String) {
        match self {
            Self::Server(replies) => replies.reply(text),
            // The call may have ended.
            Self::Call(call) => {
                if let Ok(answer) = Frame::read(text.into()) {
                    drop(call.send(answer));
                }
            }
        }
    }
}

impl Question {
    /// What a server asks by its answer to a call (2026-07-28), as a request; the call awaits the
    /// response.
    pub fn of_round(request: Frame) -> (Self, oneshot::Receiver<Frame>) {
        let (call, answer) = oneshot::channel();
        let question = Self(Box::new(Asked {
            frame: request,
            way_back: Some(WayBack::Call(call)),
            patience: None,
        }));
        (question, answer)
    }

    /// A request of the server. `None` for a `ping`, which is answered at once.
    pub(super) fn read(frame: Frame, replies: &ReplySink) -> Option<Self> {
        let (id, method) = (frame.id()?, frame.method()?);
        if method == Method::Ping {
            replies.reply(message::response(id, "{}"));
            return None;
        }
        Some(Self(Box::new(Asked {
            frame,
            way_back: Some(WayBack::Server(replies.clone())),
            patience: None,
        })))
    }

    /// The server's request.
    pub fn frame(&self) -> &Frame {
        &self.0.frame
    }

    pub fn method(&self) -> Method {
        self.0.frame.method().unwrap_or(Method::Other)
    }

    /// The call that caused it waits as long as this is open.
    pub fn keep_waiting(&mut self, patience: Arc<Patience>) {
        patience.open.fetch_add(1, Ordering::Relaxed);
        self.0.patience = Some(patience);
    }

    /// Sends the client's response under the server's own id.
    pub fn answer(mut self, response: &Frame) {
        let text = response.with_id(self.id());
        self.send(text);
    }

    /// `result` is JSON text.
    pub fn result(mut self, result: &str) {
        let text = message::response(self.id(), result);
        self.send(text);
    }

    pub fn refuse(mut self, code: i64, reason: &str) {
        let text = message::error_response(Some(self.id()), code, reason, None);
        self.send(text);
    }

    /// The server does not want an answer any more.
    pub fn forget(mut self) {
        self.0.way_back = None;
    }

    /// The server's own id, as JSON text.
    pub fn id(&self) -> &str {
        self.0.frame.id().unwrap_or("null")
    }

    fn send(&mut self, text: String) {
        if let Some(way_back) = self.0.way_back.take() {
            way_back.send(text);
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if self.0.way_back.is_some() {
            let name = self.0.frame.method_name();
            tracing::debug!(method = name, "a request of a server was refused");
            let reason = format!("{name} is not supported by this client");
            let text =
                message::error_response(Some(self.id()), code::METHOD_NOT_FOUND, &reason, None);
            self.send(text);
        }
        if let Some(patience) = &self.0.patience {
            patience.answered();
        }
    }
}

/// How long a call waits for people: as long as one of its questions is open.
#[derive(Debug, Default)]
pub struct Patience {
    open: AtomicU32,
    answered: Mutex<Option<Instant>>,
}

impl Patience {
    /// `None` while a question is open; else when the last was answered, if there was any.
    pub fn last_answer(&self) -> Option<Option<Instant>> {
        if self.open.load(Ordering::Relaxed) > 0 {
            return None;
        }
        // Held for a copy, never across an await.
        Some(*self.answered.lock())
    }

    fn answered(&self) {
        *self.answered.lock() = Some(Instant::now());
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a server says about a call.
#[derive(Debug)]
pub enum Said {
    /// Progress, a log message, or the response, which is the last.
    Message(Frame),
    /// The call goes on when it is answered.
    Question(Question),
    /// The server has closed the stream without an answer, and wants to be asked for the rest of it
    /// after this time (SEP-1699): that goes without saying.
    Parted { retry: Duration },
}
