//! Response bodies of the HTTP doors: whole, or a stream of server-sent events.

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
        reply::{ClosedReply as _, Reply},
        sessions::{
            replay::{Kind, StreamCursor, StreamId},
            session::{Busy, ClientSession},
        },
    },
};

/// Comments are sent this often, so that no intermediary takes a silent stream for a dead one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A call whose reply ends a stream; it goes on when the stream is dropped.
pub type PendingReply = Pin<Box<dyn Future<Output = Closed<Reply>> + Send>>;

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
    /// Whether the call goes on when the client has gone, which is no cancellation in a session.
    outlasts_its_client: bool,
    client: Option<AwaitedClient>,
}

enum Source {
    /// What the server says about one call; the reply comes last.
    Call {
        messages: CallStream,
        reply: Option<PendingReply>,
        last: Option<String>,
    },
    /// Messages to a client outside of its calls.
    Session {
        session: Arc<ClientSession>,
        _busy: Busy,
    },
    /// Either, for a client that can resume it.
    Resumable(Connection),
    /// All messages to a client of HTTP+SSE.
    Client {
        endpoint: Option<Bytes>,
        messages: mpsc::Receiver<String>,
        /// Ends the session when the stream is dropped.
        _open: Box<dyn Send + Sync>,
    },
}

/// A connection that reads one of its session's streams.
struct Connection {
    session: Arc<ClientSession>,
    place: StreamCursor,
    _busy: Busy,
}

impl Connection {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Poll::Ready(event) = self.session.replay.poll(&mut self.place, context) {
                return Poll::Ready(event);
            }
            if self.place.kind == Kind::Call {
                return Poll::Pending;
            }
            match ready!(self.session.outbox.poll_next(context)) {
                Some(message) => self.session.replay.say(self.place.stream, &message),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.replay.leave(&self.place);
    }
}

impl Events {
    /// The stream of a call: messages first, the reply last.
    pub fn of_call(messages: CallStream, reply: PendingReply) -> Self {
        Self::new(Source::Call {
            messages,
            reply: Some(reply),
            last: None,
        })
    }

    /// The events of a call in a session. If its client can resume the stream, a task writes them, and
    /// goes on whatever becomes of the connection.
    pub fn of_call_in(
        calls: &Calls,
        session: Arc<ClientSession>,
        messages: CallStream,
        reply: PendingReply,
    ) -> Self {
        if !session.revision.resumes_streams() {
            return Self {
                outlasts_its_client: true,
                ..Self::of_call(messages, reply)
            };
        }
        let place = session.replay.open(Kind::Call);
        let mut telling = Box::pin(tell(Arc::clone(&session), place.stream, messages, reply));
        // If a call is over, all of it is written at once.
        if telling.as_mut().now_or_never().is_none() {
            calls.in_background(telling);
        }
        Self {
            outlasts_its_client: true,
            ..Self::at(session, place)
        }
    }

    pub fn outlasts_its_client(&self) -> bool {
        self.outlasts_its_client
    }

    /// Waits for the client to the end of the stream, also when it sends no more.
    pub fn await_client(&mut self, client: AwaitedClient) {
        self.client = Some(client);
    }

    /// Messages to a client outside of its calls.
    pub fn of_session(session: Arc<ClientSession>) -> Self {
        if session.revision.resumes_streams() {
            let place = session.replay.open(Kind::Session);
            return Self::at(session, place);
        }
        let busy = session.busy();
        Self::new(Source::Session {
            session,
            _busy: busy,
        })
    }

    /// A stream of the session, from this place on.
    pub fn at(session: Arc<ClientSession>, place: StreamCursor) -> Self {
        let busy = session.busy();
        Self::new(Source::Resumable(Connection {
            session,
            place,
            _busy: busy,
        }))
    }

    /// All of a client's stream, until its senders have gone; `endpoint` is where it posts.
    pub fn of_client(
        endpoint: &str,
        messages: mpsc::Receiver<String>,
        open: Box<dyn Send + Sync>,
    ) -> Self {
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
        let is_asked = self.client.as_ref().is_some_and(AwaitedClient::take_wish);
        if is_asked || self.keep_alive.poll_tick(context).is_ready() {
            return Poll::Ready(Some(Bytes::from_static(b":\n\n")));
        }
        Poll::Pending
    }
}

impl Source {
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
                    && let Poll::Ready(done) = call.as_mut().poll(context)
                {
                    *reply = None;
                    *last = Some(done.into_text());
                }
                // A result never overtakes its progress: all of that is in the channel by now.
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

/// Writes the messages of a call to a stream of the session, the reply last.
async fn tell(
    session: Arc<ClientSession>,
    stream: StreamId,
    mut messages: CallStream,
    call: PendingReply,
) {
    let replay = &session.replay;
    let (mut call, mut last) = (Some(call), None);
    poll_fn(|context| {
        if replay.take_return(stream, context) {
            messages.tell_return();
        }
        if let Some(pending) = &mut call
            && let Poll::Ready(done) = pending.as_mut().poll(context)
        {
            (call, last) = (None, Some(done.into_text()));
        }
        loop {
            ready!(replay.poll_room(stream, context));
            if let Poll::Ready(Some(message)) = messages.poll_next(context) {
                replay.say(stream, &message);
                continue;
            }
            if let Some(retry) = messages.take_parting() {
                replay.part(stream, retry);
            }
            // A result never overtakes its progress: all of that has been written by now.
            let Some(last) = last.take() else {
                return Poll::Pending;
            };
            replay.say(stream, &last);
            replay.finish(stream);
            return Poll::Ready(());
        }
    })
    .await;
}

/// One message as an event; messages are one line, so one `data` field holds them.
fn event(message: &str) -> Bytes {
    let mut event = String::with_capacity(message.len() + 24);
    event.push_str("event: message\ndata: ");
    event.push_str(message);
    event.push_str("\n\n");
    event.into()
}
