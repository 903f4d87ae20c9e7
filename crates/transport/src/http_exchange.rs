//! One POST of Streamable HTTP, and the messages of its answer.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use mainstay_core::{
    lifecycle::Loss,
    message::{Kind, Method},
};
use tokio::time::{Instant, Sleep, sleep};

use super::{
    Budget, Frame, Interruption, InterruptionKind, ServerMessage, Unreadable,
    answer_reader::{AnswerReader, JsonBody, Piece},
    http_client,
    http_link::HttpLink,
    http1::{Error, Responding, Response},
    leftovers::Leftovers,
};
use crate::logs::MESSAGE_COST;

/// The error with which SDKs say, under HTTP 404, that they do not know a session.
const SESSION_NOT_FOUND: i64 = -32001;

/// A request that was posted.
pub struct HttpExchange {
    link: Arc<HttpLink>,
    id: u64,
    /// Whether a client makes the request, which the server may ask.
    is_call: bool,
    state: State,
    reader: AnswerReader,
    leftovers: Leftovers,
}

enum State {
    Reading,
    /// The stream has ended without the response, and is asked for again when this is over.
    Parted(Pin<Box<Sleep>>),
    Resuming(Responding),
}

impl std::fmt::Debug for HttpExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpExchange")
            .field("id", &self.id)
            .field("stream", &self.is_stream())
            .finish_non_exhaustive()
    }
}

impl HttpExchange {
    pub fn new(link: Arc<HttpLink>, id: u64, is_call: bool, response: Responding) -> Self {
        let reader = AnswerReader::new(response, JsonBody::Whole, link.max_message_bytes);
        Self {
            link,
            id,
            is_call,
            state: State::Reading,
            reader,
            leftovers: Leftovers::default(),
        }
    }

    /// An exchange whose response head has been read already.
    pub fn answered(link: Arc<HttpLink>, id: u64, response: Response, budget: Budget) -> Self {
        let limit = link.max_message_bytes;
        Self {
            link,
            id,
            is_call: false,
            state: State::Reading,
            reader: AnswerReader::answered(response, JsonBody::Whole, limit, budget),
            leftovers: Leftovers::default(),
        }
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    /// Reads no more of the answer than this.
    pub fn count(&mut self, budget: Budget) {
        self.reader.count(budget);
    }

    pub fn is_stream(&self) -> bool {
        self.reader.is_stream()
    }

    /// The next message about this request. Cancel-safe: what was read stays in `self`.
    pub async fn next(&mut self) -> Result<ServerMessage, Interruption> {
        loop {
            match &mut self.state {
                State::Reading => match self.reader.next(Frame::of_server).await {
                    Piece::Body { status, body, read } => {
                        return self.body(status, &body, read).map(ServerMessage::Message);
                    }
                    Piece::Message { bytes, read } => {
                        if let Some(said) = self.message(bytes, read) {
                            return Ok(said);
                        }
                    }
                    Piece::Ended if !self.leftovers.has_response() && self.part() => {
                        let retry = self.reader.position().retry;
                        return Ok(ServerMessage::Parted { retry });
                    }
                    Piece::Ended => return self.leftovers.settle().map(ServerMessage::Message),
                    Piece::Broken(error) => {
                        tracing::debug!(server = %self.link.router.server(), %error, "an event stream broke off");
                        if !self.part() {
                            return Err(Interruption::sent(InterruptionKind::Lost));
                        }
                    }
                    Piece::Failed(interruption) => {
                        if let InterruptionKind::Unreachable(reason) = &interruption.kind {
                            self.link.lose(Loss::Disconnected(reason.clone()));
                        }
                        return Err(interruption);
                    }
                },
                State::Parted(pause) => {
                    pause.await;
                    let last_event = self.reader.position().last_event.as_deref();
                    let response = self.link.resume(last_event.unwrap_or_default());
                    self.state = State::Resuming(response);
                }
                State::Resuming(response) => {
                    let response = response.await;
                    self.resumed(response)?;
                }
            }
        }
    }

    /// The stream has ended without the response: it is resumed where it can be (specification,
    /// transports, "Resumability and Redelivery"), at the time that the server named, until the call's
    /// deadline.
    fn part(&mut self) -> bool {
        let position = self.reader.position();
        let resumes = position.last_event.is_some() && self.link.resumes();
        if resumes {
            self.state = State::Parted(Box::pin(sleep(position.retry)));
        }
        resumes
    }

    /// Asks for the rest of a stream that has ended, whatever pause the server named.
    pub fn resume_now(&mut self) {
        if let State::Parted(pause) = &mut self.state {
            pause.as_mut().reset(Instant::now());
        }
    }

    /// The answer to asking for the rest of the stream.
    fn resumed(&mut self, response: Result<Response, Error>) -> Result<(), Interruption> {
        self.state = State::Reading;
        match response {
            Ok(response) if response.head.is_success() && response.head.is_event_stream => {
                self.reader.read(response);
                Ok(())
            }
            Ok(response) if response.head.status == 404 && self.link.has_session() => {
                self.link.lose(Loss::SessionExpired);
                Err(Interruption::sent(InterruptionKind::Lost))
            }
            // The server does not have the rest.
            Ok(response) if response.head.status < 500 => {
                Err(Interruption::sent(InterruptionKind::Unanswered))
            }
            Err(Error::Connect(error)) => {
                self.link.lose(Loss::Disconnected(error.to_string()));
                Err(Interruption::sent(InterruptionKind::Lost))
            }
            Ok(_) | Err(_) => {
                self.part();
                Ok(())
            }
        }
    }

    /// An answer in one piece: the response itself, or an HTTP error.
    fn body(
        &self,
        status: u16,
        body: &Bytes,
        read: Result<Frame, Unreadable>,
    ) -> Result<Frame, Interruption> {
        let answer = http_client::answer(status, body, read, self.id);
        if status == 404 && self.link.has_session() && !self.is_of_session(&answer) {
            self.link.lose(Loss::SessionExpired);
            return Err(Interruption::not_sent(InterruptionKind::SessionExpired));
        }
        self.link.liveness.weigh(&answer);
        answer
    }

    /// Whether the server has answered this request: then it still has the session.
    fn is_of_session(&self, answer: &Result<Frame, Interruption>) -> bool {
        answer.as_ref().is_ok_and(|frame| {
            frame.names(self.id) && frame.error_code() != Some(SESSION_NOT_FOUND)
        })
    }

    /// A message of the stream, of so many bytes.
    fn message(&mut self, bytes: usize, read: Result<Frame, Unreadable>) -> Option<ServerMessage> {
        let frame = match read {
            Ok(frame) => frame,
            Err(error) => {
                self.link.router.unreadable(&error);
                self.leftovers.unreadable(&error);
                self.spend(bytes);
                return None;
            }
        };
        self.link.liveness.hear();
        let kind = frame.envelope().kind;
        if matches!(kind, Kind::Response { .. }) && frame.answers(self.id) {
            self.reader.finish();
            return Some(ServerMessage::Message(frame));
        }
        self.spend(bytes);
        match kind {
            Kind::Response { .. } => {
                self.link.router.unknown_id(frame.id());
                self.leftovers.foreign(frame);
                None
            }
            Kind::Notification {
                method: Method::Progress,
            } => Some(ServerMessage::Message(frame)),
            Kind::Notification {
                method: Method::LogMessage,
            } => self
                .link
                .router
                .within_rate(frame)
                .map(ServerMessage::Message),
            Kind::Notification { method } => {
                self.link.router.notice(method, frame);
                None
            }
            Kind::Request { .. } => {
                let question = self.link.router.question(frame)?;
                if self.is_call {
                    return Some(ServerMessage::Question(question));
                }
                self.link.router.ask(question);
                None
            }
        }
    }

    /// Counts what does not answer the request.
    fn spend(&mut self, bytes: usize) {
        self.reader
            .pause(self.link.router.count(bytes + MESSAGE_COST));
    }
}
