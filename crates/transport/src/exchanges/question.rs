//! A request that a server makes of its client: sampling, elicitation, roots (specification, client
//! features).

use std::{
    fmt::Debug,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use mainstay_core::{
    era::code,
    ids::ServerName,
    message::{self, Method},
};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{Frame, exchanges::reply_sink::ReplySink};

/// A server's question. It is answered once. Dropping it refuses it, so that no server waits for an
/// answer that cannot come.
#[derive(Debug)]
pub struct Question(Box<AskedQuestion>);

#[derive(Debug)]
struct AskedQuestion {
    server: ServerName,
    frame: Frame,
    /// Until it is answered.
    way_back: Option<WayBack>,
    life: Arc<QuestionLife>,
    /// The calls that may have caused it, where several share the connection.
    calls: Vec<Arc<OpenQuestions>>,
    /// Whether these calls wait for people as long as the question is open.
    keeps_waiting: bool,
    /// Why nobody can be asked, if it is another reason than what the client supports.
    obstacle: Option<Box<str>>,
    /// Dropped with the question.
    note: Option<Box<dyn Note>>,
}

/// Whether an answer would still reach the server.
#[derive(Debug, Default)]
struct QuestionLife {
    /// The server's own id, as JSON text.
    id: Box<str>,
    /// Cancelled with the connection, and when the server takes the question back.
    over: CancellationToken,
    /// The server's `notifications/cancelled`.
    taken_back: OnceLock<Frame>,
}

/// The questions that a server has asked on one connection, as long as they are open.
#[derive(Debug, Default)]
pub(super) struct AskedQuestions(Mutex<Vec<Weak<QuestionLife>>>);

impl AskedQuestions {
    fn enter(&self, life: &Arc<QuestionLife>) {
        // Held for a walk over the few that are open, never across an await.
        let mut asked = self.0.lock();
        asked.retain(|life| life.strong_count() > 0);
        asked.push(Arc::downgrade(life));
    }

    /// The server takes a question back (2025-11-25, "Cancellation").
    pub(super) fn take_back(&self, cancelled: Frame) {
        let Some(id) = cancelled.param("requestId") else {
            return;
        };
        // The lock ends with the statement.
        let asked: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        if let Some(life) = asked.iter().find(|life| *life.id == *id) {
            // Once is enough.
            life.taken_back.set(cancelled).ok();
            life.over.cancel();
        }
    }
}

/// What shows an open question to people, for as long as it lives.
pub trait Note: Debug + Send + Sync {}

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
    /// A question that a server asks by its answer to a call (2026-07-28), as a request. Returns the
    /// receiver of its answer, too.
    pub fn of_round(server: ServerName, request: Frame) -> (Self, oneshot::Receiver<Frame>) {
        let (call, answer) = oneshot::channel();
        let question = Self(Box::new(AskedQuestion {
            server,
            frame: request,
            way_back: Some(WayBack::Call(call)),
            life: Arc::default(),
            calls: Vec::new(),
            keeps_waiting: false,
            obstacle: None,
            note: None,
        }));
        (question, answer)
    }

    /// A request of the server. `None` for a `ping`, which is answered at once.
    pub(super) fn read(frame: Frame, replies: &ReplySink, asked: &AskedQuestions) -> Option<Self> {
        let (id, method) = (frame.id()?, frame.method()?);
        if method == Method::Ping {
            replies.reply(message::response(id, "{}"));
            return None;
        }
        let life = Arc::new(QuestionLife {
            id: id.into(),
            over: replies.over().child_token(),
            taken_back: OnceLock::new(),
        });
        asked.enter(&life);
        Some(Self(Box::new(AskedQuestion {
            server: replies.server().clone(),
            frame,
            way_back: Some(WayBack::Server(replies.clone())),
            life,
            calls: Vec::new(),
            keeps_waiting: false,
            obstacle: None,
            note: None,
        })))
    }

    /// The server's request.
    pub fn frame(&self) -> &Frame {
        &self.0.frame
    }

    pub fn method(&self) -> Method {
        self.0.frame.method().unwrap_or(Method::Other)
    }

    /// Names the calls that were in flight on the connection when the question came. Any of them may
    /// have caused it.
    pub(super) fn of_calls(&mut self, calls: impl Iterator<Item = Arc<OpenQuestions>>) {
        self.0.calls = calls.collect();
    }

    /// The calls that may have caused the question wait for people as long as the question is open:
    /// those that were in flight on its connection, or `call` where a connection has one call.
    pub fn keep_waiting(&mut self, call: Option<&Arc<OpenQuestions>>) {
        if self.0.keeps_waiting {
            return;
        }
        self.0.keeps_waiting = true;
        if self.0.calls.is_empty() {
            self.0.calls.extend(call.cloned());
        }
        self.0.calls.iter().for_each(|call| call.asked());
    }

    /// No person is asked after all: the calls' time goes on as if the question had not come.
    pub fn keep_waiting_no_more(&mut self) {
        if std::mem::take(&mut self.0.keeps_waiting) {
            for call in &self.0.calls {
                call.open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The reason for the refusal, should nobody answer the question.
    pub fn hindered(&mut self, reason: impl Into<Box<str>>) {
        self.0.obstacle = Some(reason.into());
    }

    /// Why nobody can be asked, where it is known.
    pub fn obstacle(&self) -> Option<&str> {
        self.0.obstacle.as_deref()
    }

    /// Shows the question to people, in place of what showed it before.
    pub fn noted(&mut self, note: Option<Box<dyn Note>>) {
        self.0.note = note;
    }

    /// Whether an answer would reach nobody: the connection has ended, or the server has taken the question back.
    pub fn is_over(&self) -> bool {
        self.0.life.over.is_cancelled()
    }

    /// The server's `notifications/cancelled`, if it has taken the question back.
    pub fn taken_back(&self) -> Option<&Frame> {
        self.0.life.taken_back.get()
    }

    /// Runs `end` when an answer would reach nobody any more, unless the handle is dropped before. `None` for the
    /// question of a round, which belongs to no connection.
    pub fn when_over(&self, end: impl FnOnce() + Send + 'static) -> Option<AbortOnDropHandle<()>> {
        if !matches!(self.0.way_back, Some(WayBack::Server(_))) {
            return None;
        }
        let over = self.0.life.over.clone();
        let waiting = async move {
            over.cancelled().await;
            end();
        };
        Some(AbortOnDropHandle::new(tokio::spawn(waiting)))
    }

    /// Ends a question whose answer would reach nobody. It is refused, unless its server has taken it back: then the
    /// server does not want an answer.
    pub fn end(mut self) {
        if self.taken_back().is_some() {
            self.0.way_back = None;
        } else {
            self.refuse(code::INTERNAL_ERROR, DISCONNECTED);
        }
    }

    /// What tells a client that knows the question by this id that it is over (JSON text).
    pub fn cancellation(&self, id: &str) -> String {
        match self.taken_back() {
            Some(cancelled) => cancelled.with_param("requestId", id),
            None => {
                let params = format!(r#"{{"requestId":{id},"reason":"{DISCONNECTED}"}}"#);
                message::request(None, Method::Cancelled.name(), Some(&params))
            }
        }
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

    /// Refuses a question that no client has declared to support.
    pub fn unsupported(self) {
        let reason = unsupported(&self.0.frame.method_name());
        self.refuse(code::METHOD_NOT_FOUND, &reason);
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

/// The reason for the refusal of what a server asked that has gone.
const DISCONNECTED: &str = "Server disconnected";

fn unsupported(method: &str) -> String {
    format!("{method} is not supported by this client")
}

impl Drop for Question {
    fn drop(&mut self) {
        if self.0.way_back.is_some() {
            let name = self.0.frame.method_name();
            let (code, reason) = match self.0.obstacle.take() {
                Some(obstacle) => (code::INTERNAL_ERROR, obstacle),
                None => (code::METHOD_NOT_FOUND, unsupported(&name).into()),
            };
            tracing::debug!(server = %self.0.server, method = name, reason, "a request of a server was refused");
            let text = message::error_response(Some(self.id()), code, &reason, None);
            self.send(text);
        }
        if self.0.keeps_waiting {
            self.0.calls.iter().for_each(|call| call.answered());
        }
    }
}

/// The open questions that one call may have caused. The call waits for people as long as one of them is
/// open.
#[derive(Debug, Default)]
pub struct OpenQuestions {
    open: AtomicU32,
    /// When a question came while none was open.
    since: Mutex<Option<Instant>>,
    answered: Mutex<Option<Instant>>,
}

impl OpenQuestions {
    /// `None` while a question is open; else when the last was answered, if there was any.
    pub fn last_answer(&self) -> Option<Option<Instant>> {
        if self.open.load(Ordering::Relaxed) > 0 {
            return None;
        }
        // Held for a copy, never across an await.
        Some(*self.answered.lock())
    }

    /// How long the call has waited for people; `None` while it does not.
    pub fn waiting(&self) -> Option<Duration> {
        if self.open.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // Held for a copy, never across an await.
        self.since.lock().map(|since| since.elapsed())
    }

    fn asked(&self) {
        if self.open.fetch_add(1, Ordering::Relaxed) == 0 {
            *self.since.lock() = Some(Instant::now());
        }
    }

    fn answered(&self) {
        *self.answered.lock() = Some(Instant::now());
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a server says about a call.
#[derive(Debug)]
pub enum ServerMessage {
    /// Progress, a log message, or the response. The response comes last.
    Message(Frame),
    /// The call goes on when it is answered.
    Question(Question),
    /// The server has closed the stream without an answer. The rest is asked for after this time
    /// (SEP-1699). The caller need not do anything.
    Parted { retry: Duration },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_that_no_person_is_asked_stops_no_time() {
        let call = Arc::new(OpenQuestions::default());
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
        let request = Frame::read(request.into()).expect("a request");
        let server = ServerName::new("x").expect("a name");
        let (mut question, _answer) = Question::of_round(server, request);
        question.keep_waiting(Some(&call));
        assert_eq!(call.last_answer(), None);
        question.keep_waiting_no_more();
        assert_eq!(call.last_answer(), Some(None));
        question.result("{}");
        assert_eq!(call.last_answer(), Some(None));
    }
}
