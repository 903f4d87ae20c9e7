//! Reads the HTTP answer to a posted request: a JSON body, or a stream of messages.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mainstay_core::message::{self, Malformed};
use mainstay_platform::event_stream::ServerSentEvent;
use tokio::{
    task::coop::consume_budget,
    time::{Instant, sleep_until},
};

use crate::{
    Budget, Frame, Interruption, InterruptionKind, Reading, UnreadableMessage,
    http::{
        credentials::Sending,
        events::{EventReader, StreamBroken},
        http_client,
        http1::{CollectError, Error, Head, Response},
        json_values::JsonValues,
    },
};

/// The wait before an ended stream is resumed, unless the server names another time.
const RETRY: Duration = Duration::from_secs(1);

/// The lower bound of a wait that the server names.
const MIN_RETRY: Duration = Duration::from_millis(100);

/// The format of a successful body that is not an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonBody {
    /// One message, which is read once it is complete.
    Whole,
    /// A stream of JSON objects. The body of a subscription does not end, so Mainstay cannot wait for its
    /// end.
    Stream,
}

/// The answer to one POST.
pub struct AnswerReader {
    state: ReaderState,
    json: JsonBody,
    /// The maximum number of bytes of one message.
    limit: usize,
    budget: Option<Budget>,
    status: Option<u16>,
    /// The head of an answer that redirects the request.
    redirect: Option<Head>,
    is_stream: bool,
    /// A long message that a blocking thread is parsing. The status is set if the message is a whole body.
    long: Option<(Option<u16>, Reading)>,
    position: StreamPosition,
    next_read: NextRead,
}

enum ReaderState {
    Head(Sending),
    Body {
        response: Response,
        read: BytesMut,
    },
    Events(Box<EventReader>),
    Values(Box<JsonValues>),
    /// No more data will come.
    Done,
}

/// The position in an event stream, and the wait before the stream may be resumed.
pub struct StreamPosition {
    /// The id of the last event that had one.
    pub last_event: Option<String>,
    pub retry: Duration,
}

impl Default for StreamPosition {
    fn default() -> Self {
        Self {
            last_event: None,
            retry: RETRY,
        }
    }
}

impl StreamPosition {
    fn update(&mut self, event: &mut ServerSentEvent) {
        if let Some(id) = event.id.take() {
            self.last_event = Some(id).filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = Duration::from_millis(retry).max(MIN_RETRY);
        }
    }
}

/// A part of an answer.
pub enum Piece {
    /// The body of an answer that is not a stream. It is the last piece.
    Body {
        status: u16,
        body: Bytes,
        read: Result<Frame, UnreadableMessage>,
    },
    /// One message of a stream, with its length.
    Message {
        bytes: usize,
        read: Result<Frame, UnreadableMessage>,
    },
    /// The server has ended the stream.
    Ended,
    /// The connection broke off in the stream.
    Broken(Error),
    /// There will be no answer. The interruption is the reason.
    Failed(Interruption),
}

impl AnswerReader {
    /// Creates a reader for the answer to a request in flight.
    pub fn new(response: Sending, json: JsonBody, limit: usize) -> Self {
        let state = ReaderState::Head(response);
        Self {
            state,
            ..Self::idle(json, limit, None)
        }
    }

    /// Creates a reader for an answer whose head has arrived.
    pub fn answered(response: Response, json: JsonBody, limit: usize, budget: Budget) -> Self {
        let mut reader = Self::idle(json, limit, Some(budget));
        reader.read(response);
        reader
    }

    fn idle(json: JsonBody, limit: usize, budget: Option<Budget>) -> Self {
        Self {
            state: ReaderState::Done,
            json,
            limit,
            budget,
            status: None,
            redirect: None,
            is_stream: false,
            long: None,
            position: StreamPosition::default(),
            next_read: NextRead::default(),
        }
    }

    /// Reads no more of the answer than `budget` allows.
    pub fn set_budget(&mut self, budget: Budget) {
        self.budget = Some(budget);
    }

    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// The status of the answer, once there is one.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// The head of the answer, if it is a redirect.
    pub fn redirect(&self) -> Option<&Head> {
        self.redirect.as_ref()
    }

    pub fn position(&self) -> &StreamPosition {
        &self.position
    }

    /// Continues with the answer to a repeated request.
    pub fn restart(&mut self, response: Sending) {
        self.state = ReaderState::Head(response);
    }

    /// Continues with the body of this response.
    pub fn read(&mut self, mut response: Response) {
        response.set_budget(self.budget.clone());
        self.status = Some(response.head.status);
        if http_client::is_redirect(response.head.status) {
            self.redirect = Some(response.head.clone());
        }
        let is_events = response.head.is_event_stream;
        let is_stream = is_events || self.json == JsonBody::Stream;
        self.is_stream = response.head.is_success() && is_stream;
        self.state = match (self.is_stream, is_events) {
            (true, true) => ReaderState::Events(Box::new(EventReader::new(response, self.limit))),
            (true, false) => ReaderState::Values(Box::new(JsonValues::new(response, self.limit))),
            (false, _) => ReaderState::Body {
                response,
                read: BytesMut::new(),
            },
        };
    }

    /// Stops reading because the stream has delivered the response. The connection will be reused.
    pub fn finish(&mut self) {
        if let ReaderState::Events(events) = std::mem::replace(&mut self.state, ReaderState::Done) {
            events.finish();
        }
    }

    /// Stops reading. Closes the connection unless the answer is complete.
    pub fn close(&mut self) {
        self.state = ReaderState::Done;
    }

    /// Sets a pause before the next read of the stream.
    pub fn pause(&mut self, pause: Duration) {
        self.next_read.delay(pause);
    }

    /// Returns the next piece. `parse` parses a message, on a blocking thread if the message is long.
    /// Cancel-safe: data that has arrived stays in `self`.
    pub async fn next(
        &mut self,
        parse: impl FnOnce(Bytes) -> Result<Frame, UnreadableMessage> + Send + 'static,
    ) -> Piece {
        if self.long.is_some() {
            return self.long_message().await;
        }
        let piece = loop {
            match &mut self.state {
                ReaderState::Head(response) => match response.await {
                    Ok(response) => self.read(response),
                    Err(error) => break Piece::Failed(http_client::interruption(&error)),
                },
                ReaderState::Body { response, read } => {
                    let status = response.head.status;
                    let body = response.collect(read, self.limit).await;
                    let read = std::mem::take(read).freeze();
                    self.state = ReaderState::Done;
                    return match body {
                        Ok(body) => self.body(status, body, parse).await,
                        Err(CollectError::TooLarge) => Piece::Failed(too_large(self.limit)),
                        // A complete message counts even if the body ends early.
                        Err(CollectError::Broken(_)) if Frame::of_server(read.clone()).is_ok() => {
                            self.body(status, read, parse).await
                        }
                        Err(CollectError::Broken(error)) => {
                            Piece::Failed(http_client::interruption(&error))
                        }
                    };
                }
                ReaderState::Events(events) => {
                    self.next_read.wait().await;
                    match events.next().await {
                        None => break Piece::Ended,
                        Some(Err(broken)) => break Piece::from(broken),
                        Some(Ok(mut event)) => {
                            self.position.update(&mut event);
                            // An empty event primes the stream for resumption (2025-11-25).
                            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                                return self.message(data, parse).await;
                            }
                        }
                    }
                }
                ReaderState::Values(values) => {
                    self.next_read.wait().await;
                    match values.next().await {
                        None => break Piece::Ended,
                        Some(Err(broken)) => break Piece::from(broken),
                        Some(Ok(value)) => return self.message(value, parse).await,
                    }
                }
                ReaderState::Done => {
                    break Piece::Failed(Interruption::sent(InterruptionKind::Unanswered));
                }
            }
        };
        self.state = ReaderState::Done;
        piece
    }

    async fn body(
        &mut self,
        status: u16,
        body: Bytes,
        parse: impl FnOnce(Bytes) -> Result<Frame, UnreadableMessage> + Send + 'static,
    ) -> Piece {
        if Reading::is_long(&body) {
            self.long = Some((Some(status), Reading::start(body, parse)));
            return self.long_message().await;
        }
        let read = parse(body.clone());
        Piece::Body { status, body, read }
    }

    async fn message(
        &mut self,
        data: Bytes,
        parse: impl FnOnce(Bytes) -> Result<Frame, UnreadableMessage> + Send + 'static,
    ) -> Piece {
        let bytes = data.len();
        if message::is_batch(&data) {
            let reason = "a batch";
            let read = Err(Malformed::Envelope { reason, id: None }.into());
            return Piece::Message { bytes, read };
        }
        if Reading::is_long(&data) {
            self.long = Some((None, Reading::start(data, parse)));
            return self.long_message().await;
        }
        let read = parse(data);
        Piece::Message { bytes, read }
    }

    /// Waits for the blocking thread that parses the long message. Cancel-safe.
    async fn long_message(&mut self) -> Piece {
        let Some((status, reading)) = &mut self.long else {
            return Piece::Failed(Interruption::sent(InterruptionKind::Unanswered));
        };
        let (status, read, body) = (*status, reading.done().await, reading.bytes.clone());
        self.long = None;
        match status {
            Some(status) => Piece::Body { status, body, read },
            None => Piece::Message {
                bytes: body.len(),
                read,
            },
        }
    }
}

impl From<StreamBroken> for Piece {
    fn from(broken: StreamBroken) -> Self {
        match broken {
            StreamBroken::TooLarge { limit, .. } => Self::Failed(too_large(limit)),
            StreamBroken::Broken(error @ Error::OverBudget(_)) => {
                Self::Failed(http_client::interruption(&error))
            }
            StreamBroken::Broken(error) => Self::Broken(error),
        }
    }
}

fn too_large(limit: usize) -> Interruption {
    Interruption::sent(InterruptionKind::TooLarge(limit))
}

/// The earliest time of the next read of a stream. `None` without a pause.
#[derive(Debug, Default)]
struct NextRead(Option<Instant>);

impl NextRead {
    fn delay(&mut self, pause: Duration) {
        if !pause.is_zero() {
            self.0 = Some(Instant::now() + pause);
        }
    }

    /// Waits until that time. Cancel-safe.
    async fn wait(&mut self) {
        match self.0 {
            Some(time) => sleep_until(time).await,
            // Let other tasks run from time to time.
            None => consume_budget().await,
        }
        self.0 = None;
    }
}
