//! One POST of Streamable HTTP, and the messages of its answer.

use std::{pin::Pin, sync::Arc, time::Duration};

use mainstay_core::{
    lifecycle::Loss,
    message::{MessageKind, Method},
};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::{
    Budget, CallState, Frame, Interruption, InterruptionKind, ServerMessage, UnreadableMessage,
    http::{
        answer_reader::{AnswerReader, JsonBody, Piece},
        credentials::Sending,
        http_client,
        http1::{Error, Response},
        leftovers::Leftovers,
    },
    logs::MESSAGE_COST,
    streamable::{
        http_link::HttpLink,
        session_doubt::{self, Refused, SessionDoubt, SessionProof},
    },
};

/// The HTTP status of an answer on an event stream.
const STREAMED: u16 = 200;

/// The first and the last minimum pause before a stream is resumed that ended without a message. The minimum
/// doubles with each such stream. The server can only name a longer pause.
const FIRST_RESUMPTION_PAUSE: Duration = Duration::from_millis(100);
const LAST_RESUMPTION_PAUSE: Duration = Duration::from_secs(1);

/// Time limit for the response after a response with a foreign id on the same stream.
const FOREIGN_GRACE: Duration = Duration::from_secs(2);

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A request of a client. The server may ask that client questions.
    Call,
    /// A request of Mainstay's own.
    Own,
    /// Mainstay's `ping`.
    Ping,
    /// The proof of a session that is in doubt.
    Proof,
}

impl Purpose {
    /// The purpose of a request of Mainstay's own.
    pub fn of_own(method: Method) -> Self {
        match method {
            Method::Ping => Self::Ping,
            _ => Self::Own,
        }
    }
}

/// A request that was posted.
pub struct HttpExchange {
    link: Arc<HttpLink>,
    id: u64,
    purpose: Purpose,
    state: HttpExchangeState,
    reader: AnswerReader,
    /// Consecutive streams that have ended without a message.
    empty_streams: u32,
    /// True once the stream has brought a message about the request: the server is at work on it.
    is_started: bool,
    leftovers: Leftovers,
}

enum HttpExchangeState {
    Reading,
    /// The session is in doubt. The exchange waits for proof of the session.
    Proving(Box<Proving>),
    /// The stream has ended without the response. It is resumed after this pause.
    Paused(Pin<Box<Sleep>>),
    Resuming(Sending),
}

/// An answer that is held back until the proof of its session has arrived.
struct Proving {
    /// Resolves to `true` if the session is lost.
    proof: Pin<Box<dyn Future<Output = bool> + Send>>,
    answer: Result<Frame, Interruption>,
    /// The interruption of the request if the session is lost.
    expired: Interruption,
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
    pub fn new(link: Arc<HttpLink>, id: u64, purpose: Purpose, response: Sending) -> Self {
        let reader = AnswerReader::new(response, JsonBody::Whole, link.max_message_bytes);
        Self {
            link,
            id,
            purpose,
            state: HttpExchangeState::Reading,
            reader,
            empty_streams: 0,
            is_started: false,
            leftovers: Leftovers::default(),
        }
    }

    /// Creates an exchange from a response whose head has been read already.
    pub fn answered(link: Arc<HttpLink>, id: u64, response: Response, budget: Budget) -> Self {
        let limit = link.max_message_bytes;
        Self {
            link,
            id,
            purpose: Purpose::Own,
            state: HttpExchangeState::Reading,
            reader: AnswerReader::answered(response, JsonBody::Whole, limit, budget),
            empty_streams: 0,
            is_started: false,
            leftovers: Leftovers::default(),
        }
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    /// Reads no more of the answer than `budget` allows.
    pub fn set_budget(&mut self, budget: Budget) {
        self.reader.set_budget(budget);
    }

    pub fn is_stream(&self) -> bool {
        self.reader.is_stream()
    }

    /// The next message about this request. Cancel-safe: data that was read stays in `self`.
    pub async fn next(&mut self) -> Result<ServerMessage, Interruption> {
        loop {
            match &mut self.state {
                HttpExchangeState::Reading => match self.read().await {
                    Piece::Body { status, body, read } => {
                        let answer = http_client::answer(status, &body, read, self.id);
                        if let Some(answer) = self.conclude(status, answer) {
                            return answer.map(ServerMessage::Message);
                        }
                    }
                    Piece::Message { bytes, read } => {
                        self.empty_streams = 0;
                        if let Some(message) = self.message(bytes, read) {
                            return message;
                        }
                    }
                    Piece::Ended
                        if !self.leftovers.has_response() && self.schedule_resumption() =>
                    {
                        let retry = self.reader.position().retry;
                        return Ok(ServerMessage::Parted { retry });
                    }
                    Piece::Ended => {
                        let answer = self.leftovers.settle();
                        if let Some(answer) = self.conclude(STREAMED, answer) {
                            return answer.map(ServerMessage::Message);
                        }
                    }
                    Piece::Broken(error) => {
                        tracing::debug!(server = %self.link.router.server(), %error, "an event stream broke off");
                        if self.leftovers.has_response() {
                            let answer = self.leftovers.settle();
                            if let Some(answer) = self.conclude(STREAMED, answer) {
                                return answer.map(ServerMessage::Message);
                            }
                        } else if !self.schedule_resumption() {
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
                HttpExchangeState::Proving(proving) => {
                    let is_lost = proving.proof.as_mut().await;
                    if let HttpExchangeState::Proving(proving) =
                        std::mem::replace(&mut self.state, HttpExchangeState::Reading)
                    {
                        return self.release(*proving, is_lost).map(ServerMessage::Message);
                    }
                }
                HttpExchangeState::Paused(pause) => {
                    pause.await;
                    let last_event = self.reader.position().last_event.as_deref();
                    let response = self.link.resume(last_event.unwrap_or_default());
                    self.state = HttpExchangeState::Resuming(response);
                }
                HttpExchangeState::Resuming(response) => {
                    let response = response.await;
                    self.handle_resumption(response)?;
                }
            }
        }
    }

    /// Reads the next piece of the answer. After a response with a foreign id, the stream counts as ended if
    /// no other response follows in time. Cancel-safe.
    async fn read(&mut self) -> Piece {
        let reading = self.reader.next(Frame::of_server);
        if !self.leftovers.has_response() {
            return reading.await;
        }
        timeout(FOREIGN_GRACE, reading)
            .await
            .unwrap_or(Piece::Ended)
    }

    /// Handles the end of a stream before the response. Returns `true` if the stream will be resumed
    /// (specification, transports, "Resumability and Redelivery"). The exchange resumes it after the pause
    /// that the server named, until the call's deadline. After consecutive streams without a message, the
    /// pauses grow.
    fn schedule_resumption(&mut self) -> bool {
        let position = self.reader.position();
        let can_resume = position.last_event.is_some() && self.link.can_resume();
        if can_resume {
            let doubled = 2u32.saturating_pow(self.empty_streams);
            let shortest = FIRST_RESUMPTION_PAUSE.saturating_mul(doubled);
            let pause = position.retry.max(shortest.min(LAST_RESUMPTION_PAUSE));
            self.empty_streams = self.empty_streams.saturating_add(1);
            self.state = HttpExchangeState::Paused(Box::pin(sleep(pause)));
        }
        can_resume
    }

    /// Resumes a stream that has ended, without waiting for the server's retry delay.
    pub fn resume_now(&mut self) {
        if let HttpExchangeState::Paused(pause) = &mut self.state {
            pause.as_mut().reset(Instant::now());
        }
    }

    /// Handles the answer to a resumption.
    fn handle_resumption(&mut self, response: Result<Response, Error>) -> Result<(), Interruption> {
        self.state = HttpExchangeState::Reading;
        match response {
            Ok(response) if response.head.is_success() && response.head.is_event_stream => {
                self.reader.read(response);
                Ok(())
            }
            Ok(response) if self.link.stream_target.redirect(&response.head) => {
                self.schedule_resumption();
                Ok(())
            }
            // The server does not have the rest of the stream, or does not know the session.
            Ok(response) if response.head.status < 500 => {
                let unanswered = Interruption::sent(InterruptionKind::Unanswered);
                match Refused::of_status(response.head.status) {
                    Some(refused) if self.link.has_session() => {
                        let state = CallState::Sent;
                        let kind = InterruptionKind::SessionExpired(refused.to_string());
                        self.prove(refused, Err(unanswered), Interruption { state, kind });
                        Ok(())
                    }
                    _ => Err(unanswered),
                }
            }
            Err(Error::Connect(error)) => {
                self.link.lose(Loss::Disconnected(error.to_string()));
                Err(Interruption::sent(InterruptionKind::Lost))
            }
            Ok(_) | Err(_) => {
                self.schedule_resumption();
                Ok(())
            }
        }
    }

    /// Reads the answer to a proof. Returns the remaining doubt about the session, or `None` if the session
    /// lives.
    pub async fn proof(&mut self) -> Option<SessionDoubt> {
        loop {
            let answer = match self.next().await {
                // Dropping a question refuses it.
                Ok(ServerMessage::Question(_) | ServerMessage::Parted { .. }) => continue,
                Ok(ServerMessage::Message(frame)) if frame.method().is_some() => continue,
                Ok(ServerMessage::Message(frame)) => Ok(frame),
                Err(interruption) => Err(interruption),
            };
            let status = match self.reader.status() {
                Some(status) if !self.is_stream() => status,
                _ => STREAMED,
            };
            return session_doubt::doubt(status, &answer, self.id, Purpose::Proof);
        }
    }

    /// Handles the answer to the request. Returns `None` if the answer puts the session in doubt: then the
    /// exchange waits for proof first.
    fn conclude(
        &mut self,
        status: u16,
        answer: Result<Frame, Interruption>,
    ) -> Option<Result<Frame, Interruption>> {
        if let Some(head) = self.reader.redirect() {
            return Some(Err(self.link.target.redirected(head)));
        }
        match self.session_doubt(status, &answer) {
            None => {
                self.link.liveness.note_answer(&answer);
                Some(answer)
            }
            Some(SessionDoubt::Ended) => {
                self.link.lose(Loss::SessionExpired);
                let kind = InterruptionKind::SessionExpired(format!("HTTP {status}"));
                let state = if self.is_started {
                    CallState::Sent
                } else {
                    CallState::NotSent
                };
                Some(Err(Interruption { state, kind }))
            }
            Some(SessionDoubt::Refused(mut refused)) => {
                if self.is_started {
                    refused.state = CallState::Sent;
                }
                let expired = Interruption {
                    state: refused.state,
                    kind: InterruptionKind::SessionExpired(refused.to_string()),
                };
                self.prove(refused, answer, expired);
                None
            }
        }
    }

    /// Holds the answer back and requests proof that the server still knows the session.
    fn prove(
        &mut self,
        refused: Refused,
        answer: Result<Frame, Interruption>,
        expired: Interruption,
    ) {
        let proof = (self.purpose == Purpose::Own).then_some(SessionProof::PING);
        let proof = Box::pin(Arc::clone(&self.link).loses_session(refused, proof));
        self.state = HttpExchangeState::Proving(Box::new(Proving {
            proof,
            answer,
            expired,
        }));
    }

    fn session_doubt(
        &self,
        status: u16,
        answer: &Result<Frame, Interruption>,
    ) -> Option<SessionDoubt> {
        let is_plain = answer.as_ref().is_ok_and(|frame| frame.error().is_none());
        if is_plain || self.purpose == Purpose::Proof {
            return None;
        }
        let doubt = session_doubt::doubt(status, answer, self.id, self.purpose)?;
        // A server without session ids may still keep sessions. Then the text of its error mentions the
        // session.
        let is_doubtful = self.link.has_session() || doubt.is_about_session();
        is_doubtful.then_some(doubt)
    }

    /// Returns the held answer, or the interruption if the session is lost.
    fn release(&self, proving: Proving, is_lost: bool) -> Result<Frame, Interruption> {
        if is_lost {
            return Err(proving.expired);
        }
        self.link.liveness.note_answer(&proving.answer);
        proving.answer
    }

    /// Handles a message of the stream. `bytes` is its length.
    fn message(
        &mut self,
        bytes: usize,
        read: Result<Frame, UnreadableMessage>,
    ) -> Option<Result<ServerMessage, Interruption>> {
        let frame = match read {
            Ok(frame) => frame,
            Err(error) => {
                self.link.router.unreadable(&error);
                self.leftovers.unreadable(&error);
                self.spend(bytes);
                return None;
            }
        };
        let kind = frame.envelope().kind;
        if matches!(kind, MessageKind::Response { .. }) && frame.answers(self.id) {
            self.reader.finish();
            let answer = self.conclude(STREAMED, Ok(frame))?;
            return Some(answer.map(ServerMessage::Message));
        }
        self.link.liveness.note_message();
        self.is_started = true;
        self.spend(bytes);
        match kind {
            MessageKind::Response { .. } => {
                self.link.router.unknown_id(frame.id());
                self.leftovers.foreign(frame);
                None
            }
            MessageKind::Notification {
                method: Method::Progress,
            } => Some(Ok(ServerMessage::Message(frame))),
            MessageKind::Notification {
                method: Method::LogMessage,
            } => {
                let frame = self.link.router.within_rate(frame)?;
                Some(Ok(ServerMessage::Message(frame)))
            }
            MessageKind::Notification { method } => {
                self.link.router.notice(method, frame);
                None
            }
            MessageKind::Request { .. } => {
                let question = self.link.router.question(frame)?;
                if self.purpose == Purpose::Call {
                    return Some(Ok(ServerMessage::Question(question)));
                }
                self.link.router.ask(question);
                None
            }
        }
    }

    /// Counts a message that does not answer the request.
    fn spend(&mut self, bytes: usize) {
        self.reader
            .pause(self.link.router.count(bytes + MESSAGE_COST));
    }
}
