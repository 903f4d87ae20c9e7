//! Clients that close their side of a connection with their request, and wait for the answer (RFC 9112, section 9.6).
//! Whether such a client has closed the connection as a whole shows only when it is sent something: then its system
//! resets the connection.

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

use tokio::{
    net::TcpStream,
    time::{Sleep, sleep},
};

/// An interim answer, which clients pass over (RFC 9110, section 15.2).
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The first pause before a look whether the connection was reset. Each one after it is ten times as long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How far the answer to the last request of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerStage {
    /// It is written, or has become a stream that ends with its client: one that sends no more has gone.
    Sent,
    /// It is being made.
    Awaited,
    /// It is being made for a client of HTTP/1.0, which knows no interim answers.
    AwaitedOverHttp10,
    /// It is made, and not yet written.
    Made,
    /// It has become a stream that an [`AwaitedClient`] gets to its end.
    Streams,
}

/// The answer to the last request of a connection.
#[derive(Debug, Default)]
pub struct Answering {
    /// An [`AnswerStage`]; `Sent` before the first request.
    stage: AtomicU8,
    /// Whether the stream is to send a comment.
    wants_comment: AtomicBool,
}

impl Answering {
    pub fn set(&self, stage: AnswerStage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    pub fn is(&self, stage: AnswerStage) -> bool {
        self.stage.load(Ordering::Relaxed) == stage as u8
    }
}

/// The client of a stream, which is waited for when it sends no more. Dropped with the stream.
#[derive(Debug)]
pub struct AwaitedClient(Arc<Answering>);

impl AwaitedClient {
    pub fn of(answering: &Arc<Answering>) -> Self {
        answering.set(AnswerStage::Streams);
        Self(Arc::clone(answering))
    }

    /// Whether the stream is to send a comment now, so that it shows whether the client has gone.
    pub fn take_wish(&self) -> bool {
        self.0.wants_comment.swap(false, Ordering::Relaxed)
    }
}

impl Drop for AwaitedClient {
    fn drop(&mut self) {
        self.0.set(AnswerStage::Made);
    }
}

/// A client that has ended its side of the connection, and waits for an answer or has gone.
#[derive(Debug)]
pub struct HalfClosed {
    pause: Duration,
    next_look: Pin<Box<Sleep>>,
}

impl HalfClosed {
    /// Has the client sent something that it passes over. `is_silent` if nothing waits to be written.
    pub fn begin(stream: &TcpStream, answering: &Answering, is_silent: bool) -> io::Result<Self> {
        if is_silent && answering.is(AnswerStage::Awaited) {
            stream.try_write(PROBE)?;
        }
        if answering.is(AnswerStage::Streams) {
            answering.wants_comment.store(true, Ordering::Relaxed);
        }
        Ok(Self {
            pause: FIRST_PAUSE,
            next_look: Box::pin(sleep(FIRST_PAUSE)),
        })
    }

    /// Ready when the connection was reset.
    pub fn poll_reset(
        &mut self,
        stream: &TcpStream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(error) = stream.take_error()? {
                return Poll::Ready(Err(error));
            }
            ready!(self.next_look.as_mut().poll(context));
            self.pause = (self.pause * 10).min(LONGEST_PAUSE);
            self.next_look = Box::pin(sleep(self.pause));
        }
    }
}
