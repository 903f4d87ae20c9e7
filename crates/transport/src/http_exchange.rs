//! One POST of Streamable HTTP and its answer: a JSON body or a stream of events.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use mainstay_core::{
    lifecycle::Loss,
    message::{self, Kind, Method},
};
use mainstay_platform::event_stream::Event;

use tokio::time::{Instant, Sleep, sleep};

use super::{
    Budget, Frame, Interruption, InterruptionKind, Question, Reading, Said, Unreadable,
    events::{Events, StreamBroken},
    http_client,
    http1::{CollectError, Error, Responding, Response},
    message_router::NextRead,
    session::Link,
    streamable_http::HttpLink,
};
use crate::logs::MESSAGE;

/// Before a stream that has ended is asked for again, unless the server names another time.
const RETRY: Duration = Duration::from_secs(1);

/// A server that wants its clients back at once has them back after this.
const MIN_RETRY: Duration = Duration::from_millis(100);

/// The error with which SDKs say, under HTTP 404, that they do not know a session.
const SESSION_NOT_FOUND: i64 = -32001;

/// A request that was posted.
pub struct HttpExchange {
    link: Arc<HttpLink>,
    id: u64,
    /// Whether a client makes the request, which the server may ask.
    is_call: bool,
    state: State,
    /// A long message that has come, with the status if it is a whole body.
    reading: Option<(Option<u16>, Reading)>,
    stream: bool,
    place: Place,
    next_read: NextRead,
    budget: Option<Budget>,
}

enum State {
    Head(Responding),
    Body {
        response: Response,
        read: BytesMut,
    },
    Events(Box<Events>),
    /// The stream has ended without the response, and is asked for again when this is over.
    Parted(Pin<Box<Sleep>>),
    Resuming(Responding),
    Done,
}

/// How far the stream was read.
struct Place {
    last_event: Option<String>,
    retry: Duration,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            last_event: None,
            retry: RETRY,
        }
    }
}

impl Place {
    fn pass(&mut self, event: &Event) {
        if let Some(id) = &event.id {
            self.last_event = Some(id.clone()).filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = Duration::from_millis(retry).max(MIN_RETRY);
        }
    }
}

impl std::fmt::Debug for HttpExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpExchange")
            .field("id", &self.id)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl HttpExchange {
    pub fn new(link: Arc<HttpLink>, id: u64, is_call: bool, response: Responding) -> Self {
        Self {
            link,
            id,
            is_call,
            state: State::Head(response),
            reading: None,
            stream: false,
            place: Place::default(),
            next_read: NextRead::default(),
            budget: None,
        }
    }

    /// Reads no more of the answer than this.
    pub fn count(&mut self, budget: Budget) {
        self.budget = Some(budget);
    }

    /// An exchange whose response head has been read already.
    pub fn answered(link: Arc<HttpLink>, id: u64, response: Response, budget: Budget) -> Self {
        let mut exchange = Self {
            link,
            id,
            is_call: false,
            state: State::Done,
            reading: None,
            stream: false,
            place: Place::default(),
            next_read: NextRead::default(),
            budget: Some(budget),
        };
        exchange.head(response);
        exchange
    }

    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// The next message about this request. Cancel-safe: what was read stays in `self`.
    pub async fn next(&mut self) -> Result<Said, Interruption> {
        loop {
            if let Some((status, reading)) = &mut self.reading {
                let (status, read) = (*status, reading.done().await);
                let bytes = self.reading.take().map(|(_, it)| it.bytes);
                let bytes = bytes.unwrap_or_default();
                if let Some(status) = status {
                    return self.body(status, &bytes, read).map(Said::Message);
                }
                if let Some(said) = self.message(bytes.len(), read) {
                    return Ok(said);
                }
                continue;
            }
            match &mut self.state {
                State::Head(response) => match response.await {
                    Ok(response) => self.head(response),
                    Err(error) => {
                        self.state = State::Done;
                        let interruption = http_client::interruption(&error);
                        if let InterruptionKind::Unreachable(reason) = &interruption.kind {
                            self.link.lose(Loss::Disconnected(reason.clone()));
                        }
                        return Err(interruption);
                    }
                },
                State::Body { response, read } => {
                    let (status, limit) = (response.head.status, self.link.max_message_bytes);
                    let whole = response.collect(read, limit).await;
                    self.state = State::Done;
                    let whole = whole.map_err(|error| match error {
                        CollectError::TooLarge => {
                            Interruption::sent(InterruptionKind::TooLarge(limit))
                        }
                        CollectError::Broken(error) => http_client::interruption(&error),
                    });
                    let whole = whole?;
                    if let Some(reading) = Reading::of_long(&whole, Frame::of_server) {
                        self.reading = Some((Some(status), reading));
                        continue;
                    }
                    let read = Frame::of_server(whole.clone());
                    return self.body(status, &whole, read).map(Said::Message);
                }
                State::Events(events) => {
                    self.next_read.wait().await;
                    match events.next().await {
                        None if self.part() => {
                            return Ok(Said::Parted {
                                retry: self.place.retry,
                            });
                        }
                        None => {
                            self.state = State::Done;
                            return Err(Interruption::sent(InterruptionKind::Unanswered));
                        }
                        Some(Err(StreamBroken::TooLarge { limit, .. })) => {
                            self.state = State::Done;
                            return Err(Interruption::sent(InterruptionKind::TooLarge(limit)));
                        }
                        Some(Err(StreamBroken::Broken(error @ Error::OverBudget(_)))) => {
                            self.state = State::Done;
                            return Err(http_client::interruption(&error));
                        }
                        Some(Err(StreamBroken::Broken(error))) => {
                            tracing::debug!(server = %self.link.router.server(), %error, "an event stream broke off");
                            if !self.part() {
                                self.state = State::Done;
                                return Err(Interruption::sent(InterruptionKind::Lost));
                            }
                        }
                        Some(Ok(event)) => {
                            self.place.pass(&event);
                            if let Some(said) = event.data.and_then(|data| self.event(data)) {
                                return Ok(said);
                            }
                        }
                    }
                }
                State::Parted(pause) => {
                    pause.await;
                    let last_event = self.place.last_event.as_deref().unwrap_or_default();
                    self.state = State::Resuming(self.link.resume(last_event));
                }
                State::Resuming(response) => {
                    let response = response.await;
                    self.resumed(response)?;
                }
                State::Done => return Err(Interruption::sent(InterruptionKind::Unanswered)),
            }
        }
    }

    /// The stream has ended without the response: it is resumed where it can be (specification,
    /// transports, "Resumability and Redelivery"), at the time that the server named, until the call's
    /// deadline.
    fn part(&mut self) -> bool {
        let resumes = self.place.last_event.is_some() && self.link.resumes();
        if resumes {
            self.state = State::Parted(Box::pin(sleep(self.place.retry)));
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
        self.state = State::Done;
        match response {
            Ok(response) if response.head.is_success() && response.head.is_event_stream => {
                self.head(response);
                Ok(())
            }
            Ok(response) if response.head.status == 404 && self.link.has_session() => {
                self.link.lose(Loss::SessionExpired);
                Err(Interruption::sent(InterruptionKind::Lost))
            }
            // It will not be said any more.
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

    fn head(&mut self, mut response: Response) {
        response.count(self.budget.clone());
        self.stream = response.head.is_success() && response.head.is_event_stream;
        self.state = if self.stream {
            State::Events(Box::new(Events::new(response, self.link.max_message_bytes)))
        } else {
            State::Body {
                response,
                read: BytesMut::new(),
            }
        };
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
        self.link.vitals.weigh(&answer);
        answer
    }

    /// Whether the server has answered this very request: then it still has the session.
    fn is_of_session(&self, answer: &Result<Frame, Interruption>) -> bool {
        answer.as_ref().is_ok_and(|frame| {
            frame.names(self.id) && frame.error_code() != Some(SESSION_NOT_FOUND)
        })
    }

    /// One event of the stream; only what belongs to this call is given on.
    fn event(&mut self, data: Bytes) -> Option<Said> {
        // An empty event primes the stream for resumption (2025-11-25).
        if data.is_empty() {
            return None;
        }
        let length = data.len();
        if message::is_batch(&data) {
            if let Some(times) = self.link.router.fault() {
                tracing::warn!(server = %self.link.router.server(), times, "a batch in an event stream was skipped");
            }
            self.spend(length);
            return None;
        }
        if let Some(reading) = Reading::of_long(&data, Frame::of_server) {
            self.reading = Some((None, reading));
            return None;
        }
        self.message(length, Frame::of_server(data))
    }

    /// A message of the stream, of so many bytes.
    fn message(&mut self, length: usize, read: Result<Frame, Unreadable>) -> Option<Said> {
        let frame = match read {
            Ok(frame) => frame,
            Err(error) => {
                if let Some(times) = self.link.router.fault() {
                    tracing::warn!(server = %self.link.router.server(), %error, times, "an event that is no JSON-RPC message was skipped");
                }
                self.spend(length);
                return None;
            }
        };
        self.link.vitals.hear();
        let kind = frame.envelope().kind;
        if matches!(kind, Kind::Response { .. }) && frame.answers(self.id) {
            if let State::Events(events) = std::mem::replace(&mut self.state, State::Done) {
                events.finish();
            }
            return Some(Said::Message(frame));
        }
        self.spend(length);
        match kind {
            Kind::Response { .. } => {
                if let Some(times) = self.link.router.fault() {
                    tracing::warn!(server = %self.link.router.server(), times, "received a JSON-RPC response with an unknown id");
                }
                None
            }
            Kind::Notification {
                method: Method::Progress,
            } => Some(Said::Message(frame)),
            Kind::Notification {
                method: Method::LogMessage,
            } => self.link.router.within_rate(frame).map(Said::Message),
            Kind::Notification { method } => {
                self.link.router.notice(method, frame);
                None
            }
            Kind::Request { .. } => {
                let link = Link::Http(Arc::clone(&self.link));
                let question = Question::read(frame, &link)?;
                if self.is_call {
                    return Some(Said::Question(question));
                }
                self.link.router.ask(question);
                None
            }
        }
    }

    /// Counts what does not answer the request.
    fn spend(&mut self, bytes: usize) {
        self.next_read
            .after(self.link.router.count(bytes + MESSAGE));
    }
}
