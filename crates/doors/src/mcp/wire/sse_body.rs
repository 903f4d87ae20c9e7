//! Response bodies of the HTTP doors: a whole text, or a stream of server-sent events.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body::{Body, Frame, SizeHint};
use mainstay_gateway::calls::{CallStream, Calls, Closed};
use tokio::{
    sync::mpsc,
    time::{Instant, Interval, MissedTickBehavior},
};

use crate::{
    half_closed::AwaitedClient,
    mcp::{
        reply::{ClosedReply as _, RpcReply},
        sessions::{
            replay::{StreamCursor, StreamId, StreamKind},
            session::{Busy, ClientSession},
        },
    },
};

/// Interval of keep-alive comments. It is shorter than the idle timeouts of proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The reply at the end of a stream. Dropping it does not cancel a call of a session.
pub type PendingReply = Pin<Box<dyn Future<Output = Closed<RpcReply>> + Send>>;

pub enum ResponseBody {
    Whole(Option<Bytes>),
    Events(Box<EventStreamBody>),
    Other(axum::body::Body),
}

impl ResponseBody {
    pub fn empty() -> Self {
        Self::Whole(None)
    }
}

impl From<String> for ResponseBody {
    fn from(text: String) -> Self {
        Self::Whole(Some(text.into()))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Poll::Ready(body.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Events(events) => events
                .poll(context)
                .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Self::Other(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_none(),
            Self::Events(_) => false,
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
            Self::Events(_) => SizeHint::default(),
            Self::Other(body) => body.size_hint(),
        }
    }
}

/// A stream of events, with keep-alive comments.
pub struct EventStreamBody {
    source: EventSource,
    keep_alive: Interval,
    /// True if the call continues when the client disconnects, as calls of a session do.
    outlasts_its_client: bool,
    client: Option<AwaitedClient>,
}

enum EventSource {
    /// The messages of one call, then its reply.
    Call {
        messages: CallStream,
        reply: Option<PendingReply>,
        last: Option<String>,
    },
    /// Messages of a session that belong to no call.
    Session {
        session: Arc<ClientSession>,
        _busy: Busy,
    },
    /// A stream of a session that the client can resume: a call, or messages that belong to no
    /// call.
    Resumable(Connection),
    /// All messages to a client on HTTP+SSE.
    Client {
        endpoint: Option<Bytes>,
        messages: mpsc::Receiver<String>,
        /// Ends the session when the stream is dropped.
        _open: Box<dyn Send + Sync>,
    },
}

/// A connection that reads a resumable stream of its session.
struct Connection {
    session: Arc<ClientSession>,
    cursor: StreamCursor,
    _busy: Busy,
}

impl Connection {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Poll::Ready(event) = self.session.replay.poll(&mut self.cursor, context) {
                return Poll::Ready(event);
            }
            if self.cursor.kind == StreamKind::Call {
                return Poll::Pending;
            }
            match ready!(self.session.outbox.poll_next(context)) {
                Some(message) => self.session.replay.push(self.cursor.stream, &message),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.replay.leave(&self.cursor);
    }
}

impl EventStreamBody {
    /// A stream with the messages of a call, then its reply.
    pub fn for_call(messages: CallStream, reply: PendingReply) -> Self {
        Self::new(EventSource::Call {
            messages,
            reply: Some(reply),
            last: None,
        })
    }

    /// A stream for a call in a session. If clients can resume streams, a task writes the call's
    /// events to the session, and continues when the connection ends.
    pub fn for_session_call(
        calls: &Calls,
        session: Arc<ClientSession>,
        messages: CallStream,
        reply: PendingReply,
    ) -> Self {
        if !session.revision.resumes_streams() {
            return Self {
                outlasts_its_client: true,
                ..Self::for_call(messages, reply)
            };
        }
        let cursor = session.replay.open(StreamKind::Call);
        let mut write_future = Box::pin(write_call(
            Arc::clone(&session),
            cursor.stream,
            messages,
            reply,
        ));
        // Poll once: if the call has ended, all events are now written and no task is needed.
        if write_future.as_mut().now_or_never().is_none() {
            calls.in_background(write_future);
        }
        Self {
            outlasts_its_client: true,
            ..Self::at_cursor(session, cursor)
        }
    }

    pub fn outlasts_its_client(&self) -> bool {
        self.outlasts_its_client
    }

    /// Keeps the stream going when the client half-closes its connection.
    pub fn await_client(&mut self, client: AwaitedClient) {
        self.client = Some(client);
    }

    /// A stream for messages of a session that belong to no call.
    pub fn for_session(session: Arc<ClientSession>) -> Self {
        if session.revision.resumes_streams() {
            let cursor = session.replay.open(StreamKind::Session);
            return Self::at_cursor(session, cursor);
        }
        let busy_guard = session.busy();
        Self::new(EventSource::Session {
            session,
            _busy: busy_guard,
        })
    }

    /// A resumable stream of a session, from the cursor on.
    pub fn at_cursor(session: Arc<ClientSession>, cursor: StreamCursor) -> Self {
        let busy_guard = session.busy();
        Self::new(EventSource::Resumable(Connection {
            session,
            cursor,
            _busy: busy_guard,
        }))
    }

    /// The stream of a client on HTTP+SSE. It ends when the senders of `messages` are dropped.
    /// `endpoint` is the URL for the client's messages.
    pub fn for_sse_client(
        endpoint: &str,
        messages: mpsc::Receiver<String>,
        stream_guard: Box<dyn Send + Sync>,
    ) -> Self {
        let endpoint = format!("event: endpoint\ndata: {endpoint}\n\n");
        Self::new(EventSource::Client {
            endpoint: Some(endpoint.into()),
            messages,
            _open: stream_guard,
        })
    }

    fn new(source: EventSource) -> Self {
        let mut keep_alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            source,
            keep_alive,
            outlasts_its_client: false,
            client: None,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Poll::Ready(event) = self.source.poll(context) {
            return Poll::Ready(event);
        }
        let needs_comment = self
            .client
            .as_ref()
            .is_some_and(AwaitedClient::take_comment_request);
        if needs_comment || self.keep_alive.poll_tick(context).is_ready() {
            return Poll::Ready(Some(Bytes::from_static(b":\n\n")));
        }
        Poll::Pending
    }
}

impl EventSource {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let message = match self {
            Self::Resumable(connection) => return connection.poll(context),
            Self::Client {
                endpoint, messages, ..
            } => match endpoint.take() {
                Some(endpoint) => return Poll::Ready(Some(endpoint)),
                None => ready!(messages.poll_recv(context)),
            },
            Self::Session { session, .. } => ready!(session.outbox.poll_next(context)),
            Self::Call {
                messages,
                reply,
                last,
            } => {
                if let Some(call) = reply
                    && let Poll::Ready(call_end) = call.as_mut().poll(context)
                {
                    *reply = None;
                    *last = Some(call_end.into_text());
                }
                // A call puts its progress into the channel before it ends. Send the result last.
                match messages.poll_next(context) {
                    Poll::Ready(Some(message)) => Some(message),
                    Poll::Ready(None) => last.take(),
                    Poll::Pending if reply.is_none() => last.take(),
                    Poll::Pending => return Poll::Pending,
                }
            }
        };
        Poll::Ready(message.map(|message| event(&message)))
    }
}

/// Writes the messages of a call, then its reply, to a resumable stream.
async fn write_call(
    session: Arc<ClientSession>,
    stream: StreamId,
    mut messages: CallStream,
    call: PendingReply,
) {
    let replay = &session.replay;
    let (mut call, mut last_reply) = (Some(call), None);
    poll_fn(|context| {
        if replay.take_return(stream, context) {
            messages.notify_return();
        }
        if let Some(pending_call) = &mut call
            && let Poll::Ready(call_end) = pending_call.as_mut().poll(context)
        {
            (call, last_reply) = (None, Some(call_end.into_text()));
        }
        loop {
            ready!(replay.poll_room(stream, context));
            if let Poll::Ready(Some(message)) = messages.poll_next(context) {
                replay.push(stream, &message);
                continue;
            }
            if let Some(retry) = messages.take_parting() {
                replay.disconnect(stream, retry);
            }
            // All progress is written. Write the result last.
            let Some(last_reply) = last_reply.take() else {
                return Poll::Pending;
            };
            replay.push(stream, &last_reply);
            replay.finish(stream);
            return Poll::Ready(());
        }
    })
    .await;
}

/// Encodes a message as an event. A message is one line, so one `data` field is enough.
fn event(message: &str) -> Bytes {
    let mut event = String::with_capacity(message.len() + 24);
    event.push_str("event: message\ndata: ");
    event.push_str(message);
    event.push_str("\n\n");
    event.into()
}
