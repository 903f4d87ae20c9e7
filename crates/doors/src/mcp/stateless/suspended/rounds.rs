//! A call that runs until its server asks the client.

use std::{pin::Pin, sync::Arc};

use futures_util::FutureExt as _;
use mainstay_core::{
    era::{
        code,
        questions::{self, InputRequired, QuestionAnswers, needs_person},
    },
    message,
    principal::Principal,
};
use mainstay_gateway::calls::{CallStream, Cancel, Closed};
use mainstay_transport::{Frame, ServerQuestion};
use tokio::sync::mpsc;

use crate::mcp::{
    reply::RpcReply,
    sessions::{pool::Seat, session::EndpointScope},
    stateless::suspended::state::CallDigest,
};

/// Maximum number of open questions of one call. Further questions are refused.
const MAX_QUESTIONS: usize = 16;

/// A running call, and the open questions of its server.
pub struct InputRounds {
    reply: Pin<Box<dyn Future<Output = Closed<RpcReply>> + Send>>,
    messages: CallStream,
    questions: mpsc::Receiver<ServerQuestion>,
    cancel: Cancel,
    open: Vec<OpenQuestion>,
    /// Number of questions so far. Each question's key has its number.
    question_count: usize,
    pub scope: EndpointScope,
    principal: Principal,
    pub frame: Frame,
    /// The call's lease on a pooled session.
    pub seat: Arc<Seat>,
}

struct OpenQuestion {
    key: String,
    question: ServerQuestion,
    /// The question in the form that modern clients get.
    text: questions::InputRequest,
}

/// The end of one round of a call.
pub enum RoundOutcome {
    Over(Closed<RpcReply>),
    /// The server waits for answers to the open questions.
    InputRequired,
}

/// The parts of a call that may be suspended.
pub struct Parts {
    pub messages: CallStream,
    pub questions: mpsc::Receiver<ServerQuestion>,
    pub cancel: Cancel,
    pub scope: EndpointScope,
    pub principal: Principal,
    pub frame: Frame,
    pub seat: Arc<Seat>,
}

/// Creates the channel for the questions of a call.
pub fn questions() -> (mpsc::Sender<ServerQuestion>, mpsc::Receiver<ServerQuestion>) {
    mpsc::channel(MAX_QUESTIONS)
}

impl InputRounds {
    pub fn new(
        reply: impl Future<Output = Closed<RpcReply>> + Send + 'static,
        parts: Parts,
    ) -> Self {
        Self {
            reply: Box::pin(reply),
            messages: parts.messages,
            questions: parts.questions,
            cancel: parts.cancel,
            open: Vec::new(),
            question_count: 0,
            scope: parts.scope,
            principal: parts.principal,
            frame: parts.frame,
            seat: parts.seat,
        }
    }

    pub fn digest(&self) -> CallDigest {
        CallDigest::new(&self.scope, &self.principal, &self.frame)
    }

    pub fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// True if the server waits only for questions that a client answers without a person.
    pub fn needs_no_person(&self) -> bool {
        self.is_waiting()
            && !self
                .open
                .iter()
                .any(|question| needs_person(question.text.method))
    }

    /// Runs the call until it ends or its server asks the client. Messages of the server go to
    /// `relay`. Cancel-safe. Must not be called again after [`RoundOutcome::Over`].
    pub async fn turn(&mut self, mut relay: impl FnMut(String)) -> RoundOutcome {
        loop {
            tokio::select! {
                biased;
                Some(message) = self.messages.next() => relay(message),
                Some(question) = self.questions.recv() => {
                    self.enter(question);
                    // Take further questions that are already there into the same round.
                    while let Ok(question) = self.questions.try_recv() {
                        self.enter(question);
                    }
                    if self.is_waiting() {
                        return RoundOutcome::InputRequired;
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

    /// Adds a question. An unreadable question is dropped, which refuses it.
    fn enter(&mut self, question: ServerQuestion) {
        if let Some(text) = questions::InputRequest::from_request(question.frame().text()) {
            self.question_count += 1;
            let key = format!("question-{}", self.question_count);
            self.open.push(OpenQuestion {
                key,
                question,
                text,
            });
        }
    }

    /// The `input_required` result with the open questions.
    pub fn required(&self, state: &str) -> String {
        let required_result = InputRequired {
            requests: self
                .open
                .iter()
                .map(|question| (question.key.clone(), question.text.clone()))
                .collect(),
            state: Some(message::quote(state).into()),
        };
        required_result.result()
    }

    /// Passes the client's answers to the server. A question without a valid answer stays open.
    /// Answers to unknown questions are ignored.
    pub fn take(&mut self, answers: &QuestionAnswers) {
        let open_questions = std::mem::take(&mut self.open);
        for open_questions in open_questions {
            match answers.get(&open_questions.key) {
                Some(answer) if answer.starts_with('{') => {
                    open_questions.question.result(&message::one_line(answer));
                }
                _ => self.open.push(open_questions),
            }
        }
    }

    /// Refuses all open questions.
    pub fn refuse(&mut self, reason: &str) {
        for question in self.open.drain(..) {
            question.question.refuse(code::INTERNAL_ERROR, reason);
        }
    }

    /// Cancels the call, refuses its questions, and waits for its reply.
    pub async fn give_up(mut self, reason: String) -> Closed<RpcReply> {
        self.questions.close();
        self.refuse(&reason);
        // An error means that the call has already ended.
        self.cancel.send(reason).ok();
        self.reply.await
    }
}
