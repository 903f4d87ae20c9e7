//! Half-closed connections. A client may close its sending side after a request and wait for the
//! answer (RFC 9112, section 9.6). A fully closed connection looks the same until Mainstay sends
//! data: the client's system then replies with a reset.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use crate::client_stream::ClientStream;
use tokio::{
    net::TcpStream,
    time::{Sleep, sleep},
};

/// An interim response. Clients ignore it (RFC 9110, section 15.2).
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Delay before the first check for a reset. Each further delay is ten times as long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The stage of the answer to a connection's last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerStage {
    /// The client waits for nothing: the answer is written, or is a stream that ends with its
    /// client. A half-closed connection is closed at once.
    Sent,
    /// The answer is being prepared.
    Awaited,
    /// Like `Awaited`, for a client with HTTP/1.0, which has no interim responses.
    AwaitedOverHttp10,
    /// The answer is ready and not yet written.
    Made,
    /// The answer is a stream that continues on a half-closed connection.
    Streams,
}

/// The answer to the last request of a connection.
#[derive(Debug, Default)]
pub struct Answering {
    /// An [`AnswerStage`]; `Sent` before the first request.
    stage: AtomicU8,
    /// True if the stream should send a comment, to find out whether the client is there.
    comment_requested: AtomicBool,
}

impl Answering {
    pub fn set(&self, stage: AnswerStage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    pub fn is(&self, stage: AnswerStage) -> bool {
        self.stage.load(Ordering::Relaxed) == stage as u8
    }
}

/// Held by a stream that continues on a half-closed connection. Dropped with the stream.
#[derive(Debug)]
pub struct AwaitedClient(Arc<Answering>);

impl AwaitedClient {
    pub fn new(answer_stage: &Arc<Answering>) -> Self {
        answer_stage.set(AnswerStage::Streams);
        Self(Arc::clone(answer_stage))
    }

    /// Returns true if the stream should send a comment, once for each request. A comment provokes
    /// a reset if the client has gone.
    pub fn take_comment_request(&self) -> bool {
        self.0.comment_requested.swap(false, Ordering::Relaxed)
    }
}

impl Drop for AwaitedClient {
    fn drop(&mut self) {
        self.0.set(AnswerStage::Made);
    }
}

/// A half-closed connection. Its client either waits for an answer or has gone.
#[derive(Debug)]
pub struct HalfClosed {
    pause: Duration,
    next_check: Pin<Box<Sleep>>,
}

impl HalfClosed {
    /// Sends bytes that clients ignore, to provoke a reset if the client has gone. `is_silent` is
    /// true if no other data waits to be written.
    pub fn begin(
        stream: &mut ClientStream,
        context: &mut Context<'_>,
        answer_stage: &Answering,
        is_silent: bool,
    ) -> io::Result<Self> {
        if is_silent && answer_stage.is(AnswerStage::Awaited) {
            stream.send_now(context, PROBE)?;
        }
        if answer_stage.is(AnswerStage::Streams) {
            answer_stage
                .comment_requested
                .store(true, Ordering::Relaxed);
        }
        Ok(Self {
            pause: FIRST_PAUSE,
            next_check: Box::pin(sleep(FIRST_PAUSE)),
        })
    }

    /// Resolves with the error when the connection has been reset.
    pub fn poll_reset(
        &mut self,
        stream: &TcpStream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(error) = stream.take_error()? {
                return Poll::Ready(Err(error));
            }
            ready!(self.next_check.as_mut().poll(context));
            self.pause = (self.pause * 10).min(LONGEST_PAUSE);
            self.next_check = Box::pin(sleep(self.pause));
        }
    }
}
