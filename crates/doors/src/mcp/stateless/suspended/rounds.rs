//! A suspended call, as far as it gets without its client.

use std::{pin::Pin, sync::Arc};

use futures_util::FutureExt as _;
use mainstay_core::{
    era::{
        code,
        questions::{self, Answers, InputRequired, needs_person},
    },
    message,
    principal::Principal,
};
use mainstay_gateway::calls::{CallStream, Cancel, Closed};
use mainstay_transport::{Frame, Question};
use tokio::sync::mpsc;

use crate::mcp::{
    reply::Reply,
    sessions::{pool::Seat, session::Scope},
    stateless::suspended::state::CallDigest,
};

/// Questions of one call that may wait; a server that asks for more is refused.
const MAX_QUESTIONS: usize = 16;

/// A call under way, and what its server asks.
pub struct InputRounds {
    reply: Pin<Box<dyn Future<Output = Closed<Reply>> + Send>>,
    messages: CallStream,
    questions: mpsc::Receiver<Question>,
    cancel: Cancel,
    open: Vec<Open>,
    /// How many have been asked, which gives each its key.
    asked: usize,
    pub scope: Scope,
    principal: Principal,
    pub frame: Frame,
    /// Where the call sits upstream.
    pub seat: Arc<Seat>,
}

struct Open {
    key: String,
    question: Question,
    /// As modern clients read it.
    text: questions::InputRequest,
}

/// How far a call got.
pub enum RoundOutcome {
    Over(Closed<Reply>),
    /// There are open questions.
    Asked,
}

/// What goes into an interview.
pub struct Parts {
    pub messages: CallStream,
    pub questions: mpsc::Receiver<Question>,
    pub cancel: Cancel,
    pub scope: Scope,
    pub principal: Principal,
    pub frame: Frame,
    pub seat: Arc<Seat>,
}

/// Where a call's questions go.
pub fn questions() -> (mpsc::Sender<Question>, mpsc::Receiver<Question>) {
    mpsc::channel(MAX_QUESTIONS)
}

impl InputRounds {
    pub fn new(reply: impl Future<Output = Closed<Reply>> + Send + 'static, parts: Parts) -> Self {
        Self {
            reply: Box::pin(reply),
            messages: parts.messages,
            questions: parts.questions,
            cancel: parts.cancel,
            open: Vec::new(),
            asked: 0,
            scope: parts.scope,
            principal: parts.principal,
            frame: parts.frame,
            seat: parts.seat,
        }
    }

    pub fn digest(&self) -> CallDigest {
        CallDigest::of(&self.scope, &self.principal, &self.frame)
    }

    pub fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether a client answers all open questions by itself.
    pub fn needs_no_person(&self) -> bool {
        self.is_waiting() && !self.open.iter().any(|it| needs_person(it.text.method))
    }

    /// Goes on until the call is over or asks; what the server says meanwhile is handed to `relay`.
    /// Cancel-safe; after [`RoundOutcome::Over`] there is no other turn.
    pub async fn turn(&mut self, mut relay: impl FnMut(String)) -> RoundOutcome {
        loop {
            tokio::select! {
                biased;
                Some(message) = self.messages.next() => relay(message),
                Some(question) = self.questions.recv() => {
                    self.enter(question);
                    // Those that were asked together are put together.
                    while let Ok(question) = self.questions.try_recv() {
                        self.enter(question);
                    }
                    if self.is_waiting() {
                        return RoundOutcome::Asked;
                    }
                }
                reply = &mut self.reply => {
                    while let Some(Some(message)) = self.messages.next().now_or_never() {
                        relay(message);
                    }
                    return RoundOutcome::Over(reply);
                }
            }
        }
    }

    /// One that a modern client could not read is refused: it is dropped.
    fn enter(&mut self, question: Question) {
        if let Some(text) = questions::InputRequest::from_request(question.frame().text()) {
            self.asked += 1;
            let key = format!("question-{}", self.asked);
            self.open.push(Open {
                key,
                question,
                text,
            });
        }
    }

    /// The result that puts the open questions.
    pub fn required(&self, state: &str) -> String {
        let requests = self.open.iter();
        let required = InputRequired {
            requests: requests
                .map(|open| (open.key.clone(), open.text.clone()))
                .collect(),
            state: Some(message::quote(state).into()),
        };
        required.result()
    }

    /// Takes a client's answers to the server. A question without an answer stays open. An answer
    /// without a question is dropped.
    pub fn take(&mut self, answers: &Answers) {
        let open = std::mem::take(&mut self.open);
        for open in open {
            match answers.get(&open.key) {
                Some(answer) if answer.starts_with('{') => {
                    open.question.result(&message::one_line(answer));
                }
                _ => self.open.push(open),
            }
        }
    }

    /// Refuses the open questions for this reason: there is no client to ask.
    pub fn refuse(&mut self, reason: &str) {
        for open in self.open.drain(..) {
            open.question.refuse(code::INTERNAL_ERROR, reason);
        }
    }

    /// Ends the call: the server is told, and has its questions back.
    pub async fn give_up(mut self, reason: String) -> Closed<Reply> {
        self.questions.close();
        self.refuse(&reason);
        // It may have ended this moment.
        self.cancel.send(reason).ok();
        self.reply.await
    }
}
