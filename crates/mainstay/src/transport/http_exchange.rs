//! One POST of Streamable HTTP and what the server answers: a JSON body, or a stream of events.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy::ResponseFuture;
use mainstay_core::{
    lifecycle::Loss,
    message::{self, Kind, Method},
};

use super::{
    Frame, Interruption, InterruptionKind, events::{Events, StreamBroken}, http_client, streamable_http::HttpLink,
};

/// A request that was posted.
pub struct HttpExchange {
    link: Arc<HttpLink>,
    id: u64,
    state: State,
    stream: bool,
}

enum State {
    Head(ResponseFuture),
    Body { body: Incoming, status: StatusCode, read: BytesMut },
    Events(Events),
    Done,
}

impl std::fmt::Debug for HttpExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpExchange").field("id", &self.id).field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl HttpExchange {
    pub fn new(link: Arc<HttpLink>, id: u64, response: ResponseFuture) -> Self {
        Self { link, id, state: State::Head(response), stream: false }
    }

    /// An exchange whose response head has been read already.
    pub fn answered(link: Arc<HttpLink>, id: u64, response: Response<Incoming>) -> Self {
        let mut exchange = Self { link, id, state: State::Done, stream: false };
        exchange.head(response);
        exchange
    }

    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// The next message about this request. Cancel-safe: what was read stays in `self`.
    pub async fn next(&mut self) -> Result<Frame, Interruption> {
        let link = Arc::clone(&self.link);
        tokio::select! {
            biased;
            frame = self.step() => frame,
            () = link.stopped() => Err(Interruption::sent(InterruptionKind::Lost)),
        }
    }

    async fn step(&mut self) -> Result<Frame, Interruption> {
        loop {
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
                State::Body { body, status, read } => {
                    let status = *status;
                    let whole = collect(body, read, self.link.max_message_bytes).await;
                    self.state = State::Done;
                    return self.body(status, whole?);
                }
                State::Events(events) => match events.next().await {
                    None => {
                        self.state = State::Done;
                        return Err(Interruption::sent(InterruptionKind::Unanswered));
                    }
                    Some(Err(StreamBroken::TooLarge(limit))) => {
                        self.state = State::Done;
                        return Err(Interruption::sent(InterruptionKind::TooLarge(limit)));
                    }
                    Some(Err(StreamBroken::Broken(error))) => {
                        tracing::debug!(%error, "an event stream broke off");
                        self.state = State::Done;
                        return Err(Interruption::sent(InterruptionKind::Lost));
                    }
                    Some(Ok(event)) => {
                        if let Some(frame) = event.data.and_then(|data| self.event(data)) {
                            return Ok(frame);
                        }
                    }
                },
                State::Done => return Err(Interruption::sent(InterruptionKind::Unanswered)),
            }
        }
    }

    fn head(&mut self, response: Response<Incoming>) {
        let (head, body) = response.into_parts();
        self.stream = head.status.is_success() && media_type(&head.headers) == "text/event-stream";
        self.state = if self.stream {
            State::Events(Events::new(body, self.link.max_message_bytes))
        } else {
            State::Body { body, status: head.status, read: BytesMut::new() }
        };
    }

    /// An answer in one piece: the response itself, or an HTTP error.
    fn body(&self, status: StatusCode, body: Bytes) -> Result<Frame, Interruption> {
        // Before the body is looked at: what a server says with its 404 is not the point.
        if status == StatusCode::NOT_FOUND && self.link.has_session() {
            self.link.lose(Loss::SessionExpired);
            return Err(Interruption::not_sent(InterruptionKind::SessionExpired));
        }
        match Frame::read(body.clone()) {
            Ok(frame) if self.is_answer(&frame) => Ok(frame),
            Ok(_) if status.is_success() => {
                Err(Interruption::sent(InterruptionKind::Unreadable("it answers another request".to_owned())))
            }
            Err(error) if status.is_success() => {
                Err(Interruption::sent(InterruptionKind::Unreadable(error.to_string())))
            }
            // 401 and 429 are given before anything runs; of the others nobody knows (invariant 6).
            _ => {
                let kind = InterruptionKind::Refused {
                    status: status.as_u16(),
                    body: shown(&body),
                };
                Err(match status {
                    StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS => Interruption::not_sent(kind),
                    _ => Interruption::sent(kind),
                })
            }
        }
    }

    /// One event of the stream; only what belongs to this call is given on.
    fn event(&mut self, data: String) -> Option<Frame> {
        // An empty event primes the stream for resumption (2025-11-25).
        if data.is_empty() {
            return None;
        }
        if message::is_batch(&data) {
            tracing::warn!("a batch in an event stream was skipped");
            return None;
        }
        let frame = match Frame::read(data.into()) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(%error, "an event that is no JSON-RPC message was skipped");
                return None;
            }
        };
        match frame.envelope().kind {
            Kind::Response { .. } if self.is_answer(&frame) => {
                self.state = State::Done;
                Some(frame)
            }
            Kind::Response { .. } => {
                tracing::warn!("received a JSON-RPC response with an unknown id");
                None
            }
            Kind::Notification { method: Method::Progress | Method::LogMessage } => Some(frame),
            Kind::Notification { method } => {
                self.link.unasked.notice(method, frame);
                None
            }
            Kind::Request { .. } => {
                if let Some(answer) = self.link.unasked.answer(&frame) {
                    self.link.send_later(answer);
                }
                None
            }
        }
    }

    /// Whether this is the response to our request; an error whose id is `null` can be no one else's.
    fn is_answer(&self, frame: &Frame) -> bool {
        match frame.envelope().kind {
            Kind::Response { id, is_error, .. } => {
                let id = frame.get(id);
                id.parse() == Ok(self.id) || is_error && id == "null"
            }
            Kind::Request { .. } | Kind::Notification { .. } => false,
        }
    }
}

fn shown(body: &[u8]) -> String {
    const SHOWN: usize = 300;
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    text.chars().take(SHOWN).collect()
}

/// The media type of a response, without its parameters.
pub fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// Reads a body to its end; most come in one piece and are not copied.
async fn collect(body: &mut Incoming, read: &mut BytesMut, limit: usize) -> Result<Bytes, Interruption> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Interruption::sent(InterruptionKind::Lost))?;
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > limit {
            return Err(Interruption::sent(InterruptionKind::TooLarge(limit)));
        }
        if read.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        read.extend_from_slice(&data);
    }
    Ok(std::mem::take(read).freeze())
}
