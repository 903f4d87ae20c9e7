//! One POST of 2026-07-28, and the messages of its answer, which all belong to this request. Dropping the
//! exchange closes the stream, which cancels the request.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use mainstay_core::{
    catalog,
    era::{Era, code},
    lifecycle::Loss,
    message::{self, MessageKind, Method},
};
use tokio::time::timeout;

use crate::{
    Budget, Frame, Interruption, InterruptionKind, MAX_LIST_BYTES, ServerMessage,
    UnreadableMessage,
    detect::{self, Evidence},
    http::{
        answer_reader::{AnswerReader, JsonBody, Piece},
        credentials::Sending,
        http_client,
        http1::Response,
        leftovers::Leftovers,
    },
    logs::MESSAGE_COST,
    modern::{
        modern_link::ModernLink,
        modern_post::{ModernPost, Unpostable},
    },
};

/// The maximum number of pages of `tools/list` that are read again after one refused call.
const MAX_PAGES: usize = 100;

/// The time limit for reading these pages.
const REFRESH_LIMIT: Duration = Duration::from_secs(30);

/// A request that was posted.
pub struct ModernExchange {
    link: Arc<ModernLink>,
    id: u64,
    /// True for a request of Mainstay's own.
    is_own: bool,
    method: Method,
    /// The call, to be sent again if its headers are wrong.
    call: Option<ModernPost>,
    state: ModernExchangeState,
    reader: AnswerReader,
    leftovers: Leftovers,
}

enum ModernExchangeState {
    Reading,
    /// The list of tools is being read again. Then the call is repeated.
    Refreshing(Pin<Box<dyn Future<Output = ()> + Send>>, ModernPost),
}

impl std::fmt::Debug for ModernExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModernExchange")
            .field("id", &self.id)
            .field("method", &self.method)
            .field("stream", &self.is_stream())
            .finish_non_exhaustive()
    }
}

impl ModernExchange {
    /// Posts a request. `render` gets the id of the request and returns its text.
    pub fn start(
        link: &Arc<ModernLink>,
        is_own: bool,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Self, Unpostable> {
        let (id, post) = link.request(render)?;
        let response = link.post(&post);
        Ok(Self::new(link, id, is_own, post, response))
    }

    /// Posts a request of Mainstay's own on a new connection.
    pub fn start_afresh(
        link: &Arc<ModernLink>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Self, Unpostable> {
        let (id, post) = link.request(render)?;
        let response = link.post_afresh(&post);
        Ok(Self::new(link, id, true, post, response))
    }

    fn new(
        link: &Arc<ModernLink>,
        id: u64,
        is_own: bool,
        post: ModernPost,
        response: Sending,
    ) -> Self {
        let method = post.method;
        let reader = AnswerReader::new(response, json_body(method), link.max_message_bytes);
        Self {
            link: Arc::clone(link),
            id,
            is_own,
            method,
            call: (method == Method::ToolsCall).then_some(post),
            state: ModernExchangeState::Reading,
            reader,
            leftovers: Leftovers::default(),
        }
    }

    /// Creates an exchange from a response whose head has been read already.
    pub fn answered(
        link: Arc<ModernLink>,
        id: u64,
        method: Method,
        response: Response,
        budget: Budget,
    ) -> Self {
        let limit = link.max_message_bytes;
        Self {
            link,
            id,
            is_own: true,
            method,
            call: None,
            state: ModernExchangeState::Reading,
            reader: AnswerReader::answered(response, json_body(method), limit, budget),
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

    /// The status of the answer, once there is one.
    pub fn status(&self) -> Option<u16> {
        self.reader.status()
    }

    /// The next message about this request. Cancel-safe: data that was read stays in `self`.
    pub async fn next(&mut self) -> Result<ServerMessage, Interruption> {
        loop {
            if let ModernExchangeState::Refreshing(refreshing, _) = &mut self.state {
                refreshing.await;
                self.repeat()?;
            }
            let read = read_and_update(Arc::clone(&self.link), self.method);
            let message = match self.reader.next(read).await {
                Piece::Body { status, body, read } => Some(self.body(status, &body, read)),
                Piece::Message { bytes, read } => self.message(bytes, read),
                Piece::Ended => Some(self.leftovers.settle()),
                Piece::Broken(error) => {
                    tracing::debug!(server = %self.link.server, %error, "a stream of messages broke off");
                    Some(Err(Interruption::sent(InterruptionKind::Lost)))
                }
                Piece::Failed(interruption) => {
                    if let InterruptionKind::Unreachable(reason) = &interruption.kind {
                        self.link.lose(Loss::Disconnected(reason.clone()));
                    }
                    Some(Err(interruption))
                }
            };
            match message {
                None => {}
                Some(Ok(frame)) if frame.method().is_some() => {
                    return Ok(ServerMessage::Message(frame));
                }
                Some(Ok(answer)) => match self.settle(answer) {
                    None => {}
                    Some(answer) => return Ok(ServerMessage::Message(answer)),
                },
                Some(Err(interruption)) => {
                    self.reader.close();
                    return Err(interruption);
                }
            }
        }
    }

    /// The response. Other messages about the request are dropped.
    async fn answer(&mut self) -> Result<Frame, Interruption> {
        loop {
            if let ServerMessage::Message(frame) = self.next().await?
                && frame.method().is_none()
            {
                return Ok(frame);
            }
        }
    }

    /// Handles an answer with a whole body: the response itself, or an HTTP error.
    fn body(
        &self,
        status: u16,
        body: &Bytes,
        read: Result<Frame, UnreadableMessage>,
    ) -> Result<Frame, Interruption> {
        if let Some(head) = self.reader.redirect() {
            return Err(self.link.target.redirected(head));
        }
        let answer = http_client::answer(status, body, read, self.id);
        self.link.liveness.note_answer(&answer);
        if answer.is_err() && !http_client::is_success(status) {
            self.lose_if_not_modern();
        }
        answer
    }

    /// Handles an answer that is not modern. If it answers Mainstay's own `server/discover`, the server is no
    /// longer modern, and its era must be detected again. An answer to a client's request shows nothing, and
    /// any other status is a sign of life.
    fn lose_if_not_modern(&self) {
        let refused = matches!(
            self.reader.status(),
            Some(200 | 400 | 404 | 405 | 406 | 415)
        );
        if self.is_own && self.method == Method::Discover && refused {
            let reason = "the server does not know server/discover any more";
            self.link.lose(Loss::Disconnected(reason.to_owned()));
        }
    }

    /// Handles a message of the stream. `bytes` is its length.
    fn message(
        &mut self,
        bytes: usize,
        read: Result<Frame, UnreadableMessage>,
    ) -> Option<Result<Frame, Interruption>> {
        let frame = match read {
            Ok(frame) => frame,
            Err(error) => {
                self.link.router.unreadable(&error);
                self.leftovers.unreadable(&error);
                self.spend(bytes);
                return None;
            }
        };
        self.link.liveness.note_message();
        let kind = frame.envelope().kind;
        if matches!(kind, MessageKind::Response { .. }) && frame.answers(self.id) {
            self.reader.finish();
            return Some(Ok(frame));
        }
        self.spend(bytes);
        match kind {
            MessageKind::Response { .. } => {
                self.link.router.unknown_id(frame.id());
                self.leftovers.foreign(frame);
                None
            }
            // Notifications of changes belong on the stream of `subscriptions/listen`. On this stream they
            // belong to no request.
            MessageKind::Notification {
                method:
                    method @ (Method::ToolsChanged
                    | Method::PromptsChanged
                    | Method::ResourcesChanged
                    | Method::ResourceUpdated),
            } if self.method != Method::Listen => {
                self.link.router.notice(method, frame);
                None
            }
            MessageKind::Notification {
                method: Method::LogMessage,
            } => self.link.router.within_rate(frame).map(Ok),
            MessageKind::Notification { .. } => Some(Ok(frame)),
            MessageKind::Request { .. } => {
                let method = frame.method_name();
                if let Some(times) = self.link.router.fault() {
                    tracing::warn!(server = %self.link.server, method, times, "the server made a request on a stream of 2026-07-28");
                }
                Some(Err(Interruption::sent(InterruptionKind::ForbiddenRequest)))
            }
        }
    }

    /// Counts a message that does not answer the request.
    fn spend(&mut self, bytes: usize) {
        self.reader
            .pause(self.link.router.count(bytes + MESSAGE_COST));
    }

    /// Returns the response. `None` if the call will be repeated.
    fn settle(&mut self, answer: Frame) -> Option<Frame> {
        match self.method {
            Method::Discover if matches!(detect::evidence(&answer), Evidence::None) => {
                self.lose_if_not_modern();
            }
            // The server has refused the headers and has not run the tool.
            Method::ToolsCall if answer.error_code() == Some(code::HEADER_MISMATCH) => {
                let call = self.call.take();
                if let Some((call, tool)) =
                    call.and_then(|call| call.tool().map(|tool| (call, tool)))
                {
                    let refreshing = refresh(Arc::clone(&self.link), tool);
                    self.state = ModernExchangeState::Refreshing(Box::pin(refreshing), call);
                    return None;
                }
            }
            _ => {}
        }
        Some(answer)
    }

    /// Posts the call once more, with headers for the current definition of the tool.
    fn repeat(&mut self) -> Result<(), Interruption> {
        if let ModernExchangeState::Refreshing(_, mut call) =
            std::mem::replace(&mut self.state, ModernExchangeState::Reading)
        {
            call.refresh(&self.link.tools).map_err(Unpostable::from)?;
            self.reader.restart(self.link.post(&call));
        }
        Ok(())
    }
}

/// The format of a JSON body. The answer to a subscription may be a stream of JSON objects.
fn json_body(method: Method) -> JsonBody {
    if method == Method::Listen {
        JsonBody::Stream
    } else {
        JsonBody::Whole
    }
}

/// Returns a function that parses a message. For a list of tools, it also stores the headers of the tools. A
/// long list is handled on a blocking thread.
fn read_and_update(
    link: Arc<ModernLink>,
    method: Method,
) -> impl FnOnce(Bytes) -> Result<Frame, UnreadableMessage> + Send + 'static {
    move |bytes| {
        let frame = Frame::of_server(bytes)?;
        Ok(if method == Method::ToolsList && frame.is_response() {
            link.tools.update(&link.server, frame)
        } else {
            frame
        })
    }
}

/// Reads the list of tools again, until `tool` has been found.
async fn refresh(link: Arc<ModernLink>, tool: String) {
    let budget = Budget::new(MAX_LIST_BYTES);
    let reading = async {
        let mut params = None::<String>;
        for _ in 0..MAX_PAGES {
            let mut exchange = ModernExchange::start(&link, true, |id| {
                detect::own_request(Era::Modern, id, Method::ToolsList, params.as_deref())
            })?;
            exchange.set_budget(budget.clone());
            let page = exchange.answer().await?;
            let result = page.result().unwrap_or("{}");
            let tools = message::member(result, "tools").and_then(message::items);
            let found = tools.into_iter().flatten().any(|listed| {
                message::text_member(listed, "name").is_some_and(|name| name == tool)
            });
            let Some(cursor) = catalog::next_cursor(result).filter(|_| !found) else {
                break;
            };
            params = Some(format!(r#"{{"cursor":{cursor}}}"#));
        }
        Ok::<_, Interruption>(())
    };
    match timeout(REFRESH_LIMIT, reading).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(server = %link.server, %error, "tools were not read again")
        }
        Err(_) => tracing::debug!(server = %link.server, "tools were not read again in time"),
    }
}
