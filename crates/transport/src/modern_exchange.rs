//! One POST of 2026-07-28 and its answer: a JSON body, or a stream of events that all belong to this
//! request. Dropping it closes the stream, which cancels the request.

use std::{pin::Pin, sync::Arc};

use bytes::{Bytes, BytesMut};
use mainstay_core::{
    era::{
        Revision, code,
        headers::{self, InvalidHeader},
    },
    lifecycle::Loss,
    message::{self, Kind, Method},
};

use super::{
    Budget, Frame, Interruption, InterruptionKind, Reading, Said, Unreadable,
    detect::{self, Evidence},
    events::{Events, StreamBroken},
    http_client,
    http1::{CollectError, Error, Responding, Response},
    json_values::JsonValues,
    message_router::NextRead,
    modern_http::{ModernLink, invalid},
    streamable_http::POST_HEADERS,
    tool_headers::ToolHeaders,
};
use crate::logs::MESSAGE;

/// Why a message cannot be posted.
#[derive(Debug, thiserror::Error)]
pub enum Unpostable {
    #[error(transparent)]
    Tool(#[from] InvalidHeader),
    #[error("it is no message: {0}")]
    Message(#[from] Unreadable),
}

/// A message and the headers that repeat it.
pub struct Posted {
    pub method: Method,
    frame: Frame,
    headers: Vec<(String, String)>,
}

impl Posted {
    /// `text` is a request or notification of ours.
    pub fn of(text: String, tools: &ToolHeaders) -> Result<Self, Unpostable> {
        let frame = Frame::read(text.into())?;
        let mut posted = Self {
            method: frame.method().unwrap_or(Method::Other),
            frame,
            headers: Vec::new(),
        };
        posted.refresh(tools)?;
        Ok(posted)
    }

    /// Makes the headers anew.
    pub fn refresh(&mut self, tools: &ToolHeaders) -> Result<(), InvalidHeader> {
        let frame = &self.frame;
        let named = |member| message::named(frame.text(), frame.envelope(), member);
        let standard = headers::standard(&frame.method_name(), named, Revision::LATEST.as_str());
        let mut headers: Vec<_> = standard
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        if let Some(tool) = self.tool() {
            let arguments = || frame.param("arguments").unwrap_or("{}");
            headers.extend(tools.of(&tool, arguments)?);
        }
        self.headers = headers;
        Ok(())
    }

    /// The tool that is called.
    fn tool(&self) -> Option<String> {
        (self.method == Method::ToolsCall).then(|| self.frame.text_param("name"))?
    }

    pub fn headers(&self) -> Vec<(&str, &str)> {
        let own = self.headers.iter();
        POST_HEADERS
            .into_iter()
            .chain(own.map(|(name, value)| (name.as_str(), value.as_str())))
            .collect()
    }

    pub fn body(&self) -> &str {
        self.frame.text()
    }
}

/// A request that was posted.
pub struct ModernExchange {
    link: Arc<ModernLink>,
    id: u64,
    /// Whether only Mainstay itself asks.
    is_own: bool,
    method: Method,
    /// A call that may be made once more, if its headers prove to be wrong.
    call: Option<Posted>,
    state: State,
    /// A long message that has come, with the status if it is a whole body.
    reading: Option<(Option<u16>, Reading)>,
    /// What an answer of many tools says of headers has been learned.
    has_learned: bool,
    status: Option<u16>,
    stream: bool,
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
    /// A subscription whose messages come as JSON objects, one after the other.
    Values(Box<JsonValues>),
    /// The tools are read again before the call is repeated.
    Refreshing(Pin<Box<dyn Future<Output = ()> + Send>>, Posted),
    Done,
}

impl std::fmt::Debug for ModernExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModernExchange")
            .field("id", &self.id)
            .field("method", &self.method)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl ModernExchange {
    pub fn new(
        link: Arc<ModernLink>,
        id: u64,
        is_own: bool,
        posted: Posted,
        response: Responding,
    ) -> Self {
        Self {
            link,
            id,
            is_own,
            method: posted.method,
            call: (posted.method == Method::ToolsCall).then_some(posted),
            state: State::Head(response),
            reading: None,
            has_learned: false,
            status: None,
            stream: false,
            next_read: NextRead::default(),
            budget: None,
        }
    }

    /// Reads no more of the answer than this.
    pub fn count(&mut self, budget: Budget) {
        self.budget = Some(budget);
    }

    /// An exchange whose response head has been read already.
    pub fn answered(
        link: Arc<ModernLink>,
        id: u64,
        method: Method,
        response: Response,
        budget: Budget,
    ) -> Self {
        let mut exchange = Self {
            link,
            id,
            is_own: true,
            method,
            call: None,
            state: State::Done,
            reading: None,
            has_learned: false,
            status: None,
            stream: false,
            next_read: NextRead::default(),
            budget: Some(budget),
        };
        exchange.head(response);
        exchange
    }

    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// The status of the answer, once there is one.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// The next message about this request. Cancel-safe: what was read stays in `self`.
    pub async fn next(&mut self) -> Result<Said, Interruption> {
        loop {
            let said = match &mut self.reading {
                Some((status, reading)) => {
                    let (status, read) = (*status, reading.done().await);
                    let bytes = self.reading.take().map(|(_, it)| it.bytes);
                    let bytes = bytes.unwrap_or_default();
                    match status {
                        Some(status) => Some(self.body(status, &bytes, read)),
                        None => self.message(bytes.len(), read),
                    }
                }
                None => self.piece().await,
            };
            match said {
                None => {}
                Some(Ok(frame)) if frame.method().is_some() => return Ok(Said::Message(frame)),
                Some(Ok(answer)) => match self.settle(answer) {
                    None => {}
                    Some(answer) => return Ok(Said::Message(answer)),
                },
                Some(Err(interruption)) => {
                    self.state = State::Done;
                    return Err(interruption);
                }
            }
        }
    }

    /// Goes on with what is under way; `None` if nothing has come of it yet. Cancel-safe.
    async fn piece(&mut self) -> Option<Result<Frame, Interruption>> {
        let said = match &mut self.state {
            State::Head(response) => match response.await {
                Ok(response) => {
                    self.head(response);
                    return None;
                }
                Err(error) => Err(self.not_answered(&http_client::interruption(&error))),
            },
            State::Body { response, read } => {
                let limit = self.link.max_message_bytes;
                let (status, whole) = (response.head.status, response.collect(read, limit).await);
                let whole = whole.map_err(|error| match error {
                    CollectError::TooLarge => Interruption::sent(InterruptionKind::TooLarge(limit)),
                    CollectError::Broken(error) => http_client::interruption(&error),
                });
                match whole {
                    Ok(whole) if self.reads_long(Some(status), &whole) => return None,
                    Ok(whole) => self.body(status, &whole, Frame::of_server(whole.clone())),
                    Err(interruption) => Err(interruption),
                }
            }
            State::Events(events) => {
                self.next_read.wait().await;
                match events.next().await {
                    None => Err(Interruption::sent(InterruptionKind::Unanswered)),
                    Some(Err(StreamBroken::TooLarge { limit, .. })) => {
                        Err(Interruption::sent(InterruptionKind::TooLarge(limit)))
                    }
                    Some(Err(StreamBroken::Broken(error @ Error::OverBudget(_)))) => {
                        Err(http_client::interruption(&error))
                    }
                    Some(Err(StreamBroken::Broken(error))) => {
                        tracing::debug!(server = %self.link.server, %error, "an event stream broke off");
                        Err(Interruption::sent(InterruptionKind::Lost))
                    }
                    Some(Ok(event)) => return event.data.and_then(|data| self.event(data)),
                }
            }
            State::Values(values) => {
                self.next_read.wait().await;
                match values.next().await {
                    None => Err(Interruption::sent(InterruptionKind::Unanswered)),
                    Some(Err(StreamBroken::TooLarge { limit, .. })) => {
                        Err(Interruption::sent(InterruptionKind::TooLarge(limit)))
                    }
                    Some(Err(StreamBroken::Broken(error))) => {
                        tracing::debug!(server = %self.link.server, %error, "a stream of JSON values broke off");
                        Err(Interruption::sent(InterruptionKind::Lost))
                    }
                    Some(Ok(value)) => return self.event(value),
                }
            }
            State::Refreshing(refreshing, _) => {
                refreshing.await;
                return self.repeat().err().map(Err);
            }
            State::Done => Err(Interruption::sent(InterruptionKind::Unanswered)),
        };
        Some(said)
    }

    /// Whether a message is long, and is being read elsewhere therefore. What a list of tools says of headers
    /// is learned there, too.
    fn reads_long(&mut self, status: Option<u16>, bytes: &Bytes) -> bool {
        let (link, id) = (Arc::clone(&self.link), self.id);
        let is_list = self.method == Method::ToolsList;
        let read = move |bytes| {
            let frame = Frame::of_server(bytes)?;
            Ok(if is_list && frame.answers(id) {
                link.tools.learn(&link.server, frame)
            } else {
                frame
            })
        };
        self.reading = Reading::of_long(bytes, read).map(|reading| (status, reading));
        self.has_learned = is_list && self.reading.is_some();
        self.reading.is_some()
    }

    fn head(&mut self, mut response: Response) {
        response.count(self.budget.clone());
        self.status = Some(response.head.status);
        let (is_events, limit) = (response.head.is_event_stream, self.link.max_message_bytes);
        // A subscription lasts: its body has no end to wait for, whatever its type is.
        self.stream = response.head.is_success() && (is_events || self.method == Method::Listen);
        self.state = match (self.stream, is_events) {
            (true, true) => State::Events(Box::new(Events::new(response, limit))),
            (true, false) => State::Values(Box::new(JsonValues::new(response, limit))),
            (false, _) => State::Body {
                response,
                read: BytesMut::new(),
            },
        };
    }

    fn not_answered(&self, interruption: &Interruption) -> Interruption {
        if let InterruptionKind::Unreachable(reason) = &interruption.kind {
            self.link.lose(Loss::Disconnected(reason.clone()));
        }
        interruption.clone()
    }

    /// An answer in one piece: the response itself, or an HTTP error.
    fn body(
        &self,
        status: u16,
        body: &Bytes,
        read: Result<Frame, Unreadable>,
    ) -> Result<Frame, Interruption> {
        let answer = http_client::answer(status, body, read, self.id);
        self.link.vitals.weigh(&answer);
        if answer.is_err() && !http_client::is_success(status) {
            self.not_modern();
        }
        answer
    }

    /// A server that does not answer this question of ours in modern words is modern no more, and is to
    /// be asked anew. What clients ask is theirs, and any other status a sign of life.
    fn not_modern(&self) {
        let refused = matches!(self.status, Some(200 | 400 | 404 | 405 | 406 | 415));
        if self.is_own && self.method == Method::Discover && refused {
            let reason = "the server does not know server/discover any more";
            self.link.lose(Loss::Disconnected(reason.to_owned()));
        }
    }

    /// One event of the stream; only what belongs to this request is given on.
    fn event(&mut self, data: Bytes) -> Option<Result<Frame, Interruption>> {
        if data.is_empty() {
            return None;
        }
        if self.reads_long(None, &data) {
            return None;
        }
        self.message(data.len(), Frame::of_server(data))
    }

    /// A message of the stream, of so many bytes.
    fn message(
        &mut self,
        length: usize,
        read: Result<Frame, Unreadable>,
    ) -> Option<Result<Frame, Interruption>> {
        let frame = match read {
            Ok(frame) => frame,
            Err(error) => {
                if let Some(times) = self.link.router.fault() {
                    tracing::warn!(server = %self.link.server, %error, times, "an event that is no JSON-RPC message was skipped");
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
            return Some(Ok(frame));
        }
        self.spend(length);
        match kind {
            Kind::Response { .. } => {
                if let Some(times) = self.link.router.fault() {
                    tracing::warn!(server = %self.link.server, times, "received a JSON-RPC response with an unknown id");
                }
                None
            }
            // A change has its own stream. On another one it belongs to no request.
            Kind::Notification {
                method:
                    method @ (Method::ToolsChanged
                    | Method::PromptsChanged
                    | Method::ResourcesChanged
                    | Method::ResourceUpdated),
            } if self.method != Method::Listen => {
                self.link.router.notice(method, frame);
                None
            }
            Kind::Notification {
                method: Method::LogMessage,
            } => self.link.router.within_rate(frame).map(Ok),
            Kind::Notification { .. } => Some(Ok(frame)),
            Kind::Request { .. } => {
                let method = frame.method_name();
                if let Some(times) = self.link.router.fault() {
                    tracing::warn!(server = %self.link.server, method, times, "the server made a request on a stream of 2026-07-28");
                }
                Some(Err(Interruption::sent(InterruptionKind::Asked)))
            }
        }
    }

    /// Counts what does not answer the request.
    fn spend(&mut self, bytes: usize) {
        self.next_read
            .after(self.link.router.count(bytes + MESSAGE));
    }

    /// What follows from the response: it is the answer, unless the call is to be repeated.
    fn settle(&mut self, answer: Frame) -> Option<Frame> {
        self.state = State::Done;
        match self.method {
            Method::ToolsList if !self.has_learned => {
                return Some(self.link.tools.learn(&self.link.server, answer));
            }
            Method::Discover if matches!(detect::evidence(&answer), Evidence::None) => {
                self.not_modern();
            }
            // Nothing has run.
            Method::ToolsCall if answer.error_code() == Some(code::HEADER_MISMATCH) => {
                let call = self.call.take();
                if let Some((call, tool)) =
                    call.and_then(|call| call.tool().map(|tool| (call, tool)))
                {
                    let refreshing = Arc::clone(&self.link).refresh(tool);
                    self.state = State::Refreshing(Box::pin(refreshing), call);
                    return None;
                }
            }
            _ => {}
        }
        Some(answer)
    }

    fn repeat(&mut self) -> Result<(), Interruption> {
        if let State::Refreshing(_, mut call) = std::mem::replace(&mut self.state, State::Done) {
            let response = self
                .link
                .repeat(&mut call)
                .map_err(|error| invalid(&error))?;
            self.state = State::Head(response);
        }
        Ok(())
    }
}
