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

/// A server's question. It is answered at most once. Dropping a question refuses it, so that the server does
/// not wait for an answer that cannot come.
#[derive(Debug)]
pub struct ServerQuestion(Box<AskedQuestion>);

#[derive(Debug)]
struct AskedQuestion {
    server: ServerName,
    frame: Frame,
    /// `None` once the question is answered.
    answer_path: Option<AnswerPath>,
    life: Arc<QuestionLife>,
    /// The calls that may have caused the question, if several calls share the connection.
    calls: Vec<Arc<OpenQuestions>>,
    /// True while `calls` wait for people.
    keeps_waiting: bool,
    /// The reason that no client can answer. `None` if the client does not support the method.
    obstacle: Option<Box<str>>,
    /// Shows the question to people. Dropped with the question.
    note: Option<Box<dyn QuestionNote>>,
}

/// The state that shows if an answer can still reach the server.
#[derive(Debug, Default)]
struct QuestionLife {
    /// The server's own id, as JSON text.
    id: Box<str>,
    /// Cancelled when the connection ends, and when the server withdraws the question.
    over: CancellationToken,
    /// The server's `notifications/cancelled`, if the server has withdrawn the question.
    withdrawal: OnceLock<Frame>,
}

/// The open questions of a server on one connection.
#[derive(Debug, Default)]
pub(super) struct AskedQuestions(Mutex<Vec<Weak<QuestionLife>>>);

impl AskedQuestions {
    fn enter(&self, life: &Arc<QuestionLife>) {
        // Held while the few open questions are scanned, never across an await.
        let mut questions = self.0.lock();
        questions.retain(|life| life.strong_count() > 0);
        questions.push(Arc::downgrade(life));
    }

    /// Handles the server's withdrawal of a question (2025-11-25, "Cancellation").
    pub(super) fn take_back(&self, cancelled: Frame) {
        let Some(id) = cancelled.param("requestId") else {
            return;
        };
        // The lock is released at the end of this statement.
        let questions: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        if let Some(life) = questions.iter().find(|life| *life.id == *id) {
            // Keep the first withdrawal.
            life.withdrawal.set(cancelled).ok();
            life.over.cancel();
        }
    }
}

/// Shows an open question to people until it is dropped.
pub trait QuestionNote: Debug + Send + Sync {}

#[derive(Debug)]
enum AnswerPath {
    Server(ReplySink),
    Call(oneshot::Sender<Frame>),
}

impl AnswerPath {
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

impl ServerQuestion {
    /// Creates a question from a request in a server's `input_required` result (2026-07-28). Also returns the
    /// receiver of the answer.
    pub fn of_round(server: ServerName, request: Frame) -> (Self, oneshot::Receiver<Frame>) {
        let (call, answer) = oneshot::channel();
        let question = Self(Box::new(AskedQuestion {
            server,
            frame: request,
            answer_path: Some(AnswerPath::Call(call)),
            life: Arc::default(),
            calls: Vec::new(),
            keeps_waiting: false,
            obstacle: None,
            note: None,
        }));
        (question, answer)
    }

    /// Creates a question from a server's request. Returns `None` for a `ping`, which is answered at once.
    pub(super) fn read(frame: Frame, replies: &ReplySink, open: &AskedQuestions) -> Option<Self> {
        let (id, method) = (frame.id()?, frame.method()?);
        if method == Method::Ping {
            replies.reply(message::response(id, "{}"));
            return None;
        }
        let life = Arc::new(QuestionLife {
            id: id.into(),
            over: replies.over().child_token(),
            withdrawal: OnceLock::new(),
        });
        open.enter(&life);
        Some(Self(Box::new(AskedQuestion {
            server: replies.server().clone(),
            frame,
            answer_path: Some(AnswerPath::Server(replies.clone())),
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

    /// Sets the calls that were in flight on the connection when the question came. Any of them may have
    /// caused it.
    pub(super) fn set_calls(&mut self, calls: impl Iterator<Item = Arc<OpenQuestions>>) {
        self.0.calls = calls.collect();
    }

    /// Pauses the time limits of the calls that may have caused the question, while the question is open.
    /// These are the calls that were in flight on its connection, or `call` if each call has its own
    /// connection.
    pub fn keep_waiting(&mut self, call: Option<&Arc<OpenQuestions>>) {
        if self.0.keeps_waiting {
            return;
        }
        self.0.keeps_waiting = true;
        if self.0.calls.is_empty() {
            self.0.calls.extend(call.cloned());
        }
        self.0.calls.iter().for_each(|call| call.add());
    }

    /// Undoes [`Self::keep_waiting`] because nobody can answer: the time limits continue as if the question
    /// had not come.
    pub fn resume_waiting_calls(&mut self) {
        if std::mem::take(&mut self.0.keeps_waiting) {
            for call in &self.0.calls {
                call.open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Sets the reason that the refusal gives if nobody answers the question.
    pub fn set_obstacle(&mut self, reason: impl Into<Box<str>>) {
        self.0.obstacle = Some(reason.into());
    }

    /// The reason that no client can answer, if one was set.
    pub fn obstacle(&self) -> Option<&str> {
        self.0.obstacle.as_deref()
    }

    /// Replaces the note that shows the question to people.
    pub fn set_note(&mut self, note: Option<Box<dyn QuestionNote>>) {
        self.0.note = note;
    }

    /// True if an answer can no longer reach the server: the connection has ended, or the server has
    /// withdrawn the question.
    pub fn is_over(&self) -> bool {
        self.0.life.over.is_cancelled()
    }

    /// The server's `notifications/cancelled`, if it has withdrawn the question.
    pub fn withdrawal(&self) -> Option<&Frame> {
        self.0.life.withdrawal.get()
    }

    /// Runs `end` when the question is over, unless the returned handle is dropped first. `None` for a
    /// question of a round, which belongs to no connection.
    pub fn when_over(&self, end: impl FnOnce() + Send + 'static) -> Option<AbortOnDropHandle<()>> {
        if !matches!(self.0.answer_path, Some(AnswerPath::Server(_))) {
            return None;
        }
        let over = self.0.life.over.clone();
        let waiting = async move {
            over.cancelled().await;
            end();
        };
        Some(AbortOnDropHandle::new(tokio::spawn(waiting)))
    }

    /// Ends a question that is over. The question is refused, unless the server has withdrawn it: then the
    /// server expects no answer.
    pub fn end(mut self) {
        if self.withdrawal().is_some() {
            self.0.answer_path = None;
        } else {
            self.refuse(code::INTERNAL_ERROR, DISCONNECTED);
        }
    }

    /// The notification (JSON text) that tells a client that the question is over. `id` is the id of the
    /// question for that client.
    pub fn cancellation(&self, id: &str) -> String {
        match self.withdrawal() {
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

    /// Answers with a result (JSON text).
    pub fn result(mut self, result: &str) {
        let text = message::response(self.id(), result);
        self.send(text);
    }

    pub fn refuse(mut self, code: i64, reason: &str) {
        let text = message::error_response(Some(self.id()), code, reason, None);
        self.send(text);
    }

    /// Refuses a question that no client supports.
    pub fn unsupported(self) {
        let reason = unsupported(&self.0.frame.method_name());
        self.refuse(code::METHOD_NOT_FOUND, &reason);
    }

    /// The server's own id, as JSON text.
    pub fn id(&self) -> &str {
        self.0.frame.id().unwrap_or("null")
    }

    fn send(&mut self, text: String) {
        if let Some(answer_path) = self.0.answer_path.take() {
            answer_path.send(text);
        }
    }
}

/// The reason of a refusal after the server has disconnected.
const DISCONNECTED: &str = "Server disconnected";

fn unsupported(method: &str) -> String {
    format!("{method} is not supported by this client")
}

impl Drop for ServerQuestion {
    fn drop(&mut self) {
        if self.0.answer_path.is_some() {
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
            self.0.calls.iter().for_each(|call| call.remove());
        }
    }
}

/// The open questions that one call may have caused. The call waits for people while one of them is open.
#[derive(Debug, Default)]
pub struct OpenQuestions {
    open: AtomicU32,
    /// Time at which the first of the open questions came.
    since: Mutex<Option<Instant>>,
    last_answer: Mutex<Option<Instant>>,
}

impl OpenQuestions {
    /// The time of the last answer, if there was one. The outer `None` means that a question is open.
    pub fn last_answer(&self) -> Option<Option<Instant>> {
        if self.open.load(Ordering::Relaxed) > 0 {
            return None;
        }
        // Held for a copy, never across an await.
        Some(*self.last_answer.lock())
    }

    /// Time that the call has waited for people since the first open question. `None` while no question is
    /// open.
    pub fn waiting(&self) -> Option<Duration> {
        if self.open.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // Held for a copy, never across an await.
        self.since.lock().map(|since| since.elapsed())
    }

    fn add(&self) {
        if self.open.fetch_add(1, Ordering::Relaxed) == 0 {
            *self.since.lock() = Some(Instant::now());
        }
    }

    fn remove(&self) {
        *self.last_answer.lock() = Some(Instant::now());
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A message of a server about a call.
#[derive(Debug)]
pub enum ServerMessage {
    /// Progress, a log message, or the response. The response comes last.
    Message(Frame),
    /// A question. The call goes on once it is answered.
    Question(ServerQuestion),
    /// The server closed the stream before the response. After `retry`, the exchange resumes the stream by
    /// itself (SEP-1699).
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
        let (mut question, _answer) = ServerQuestion::of_round(server, request);
        question.keep_waiting(Some(&call));
        assert_eq!(call.last_answer(), None);
        question.resume_waiting_calls();
        assert_eq!(call.last_answer(), Some(None));
        question.result("{}");
        assert_eq!(call.last_answer(), Some(None));
    }
}
