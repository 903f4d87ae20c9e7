//! Response bodies of the HTTP doors: whole, or a stream of server-sent events.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::{
    sync::mpsc,
    time::{Instant, Interval, MissedTickBehavior},
};

use crate::calls::Messages;

use super::{
    reply::Reply,
    session::{Busy, ClientSession},
    sse::Open,
};

/// Comments are sent this often, so that no intermediary takes a silent stream for a dead one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A call whose reply ends a stream; it goes on when the stream is dropped.
pub type PendingReply = Pin<Box<dyn Future<Output = Reply> + Send>>;

pub enum ResponseBody {
    Whole(Option<Bytes>),
    Events(Box<Events>),
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

/// A stream of events with keep-alive comments.
pub struct Events {
    source: Source,
    keep_alive: Interval,
}

enum Source {
    /// What the server says about one call; the reply comes last.
    Call {
        /// Received already: it is why the answer became a stream.
        first: Option<String>,
        messages: Messages,
        reply: Option<PendingReply>,
        last: Option<String>,
    },
    /// What is said to a client outside of its calls.
    Session {
        session: Arc<ClientSession>,
        _busy: Busy,
    },
    /// Everything that is said to a client of HTTP+SSE.
    Client {
        endpoint: Option<Bytes>,
        messages: mpsc::Receiver<String>,
        _open: Open,
    },
}

impl Events {
    /// The stream of a call: messages first, the reply last.
    pub fn of_call(first: Option<String>, messages: Messages, reply: PendingReply) -> Self {
        Self::new(Source::Call {
            first,
            messages,
            reply: Some(reply),
            last: None,
        })
    }

    /// The stream of a call that is over.
    pub fn of_reply(messages: Messages, reply: Reply) -> Self {
        Self::new(Source::Call {
            first: None,
            messages,
            reply: None,
            last: Some(reply.text),
        })
    }

    pub fn of_session(session: Arc<ClientSession>) -> Self {
        let busy = session.busy();
        Self::new(Source::Session {
            session,
            _busy: busy,
        })
    }

    /// All of a client's stream, until its senders have gone; `endpoint` is where it posts.
    pub fn of_client(endpoint: &str, messages: mpsc::Receiver<String>, open: Open) -> Self {
        let endpoint = format!("event: endpoint\ndata: {endpoint}\n\n");
        Self::new(Source::Client {
            endpoint: Some(endpoint.into()),
            messages,
            _open: open,
        })
    }

    fn new(source: Source) -> Self {
        let mut keep_alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { source, keep_alive }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Source::Client { endpoint, .. } = &mut self.source
            && let Some(endpoint) = endpoint.take()
        {
            return Poll::Ready(Some(endpoint));
        }
        if let Poll::Ready(message) = self.source.poll(context) {
            return Poll::Ready(message.map(|message| event(&message)));
        }
        if self.keep_alive.poll_tick(context).is_ready() {
            return Poll::Ready(Some(Bytes::from_static(b":\n\n")));
        }
        Poll::Pending
    }
}

impl Source {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        match self {
            Self::Session { session, .. } => session.outbox.poll_next(context),
            Self::Client { messages, .. } => messages.poll_recv(context),
            Self::Call {
                first,
                messages,
                reply,
                last,
            } => {
                if let Some(message) = first.take() {
                    return Poll::Ready(Some(message));
                }
                if let Some(call) = reply
                    && let Poll::Ready(done) = call.as_mut().poll(context)
                {
                    *reply = None;
                    *last = Some(done.text);
                }
                // A result never overtakes its progress: all of that is in the channel by now.
                match messages.poll_next(context) {
                    Poll::Ready(Some(message)) => Poll::Ready(Some(message)),
                    Poll::Ready(None) => Poll::Ready(last.take()),
                    Poll::Pending if reply.is_none() => Poll::Ready(last.take()),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}

/// One message as an event; messages are one line, so one `data` field holds them.
fn event(message: &str) -> Bytes {
    let mut event = String::with_capacity(message.len() + 24);
    event.push_str("event: message\ndata: ");
    event.push_str(message);
    event.push_str("\n\n");
    event.into()
}
