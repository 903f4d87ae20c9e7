//! Counts what a connection sends, and tells when its peer does not read.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{
    half_closed::{AnswerStage, Answering, HalfClosed},
    unread::Share,
};

/// What is counted of a connection.
#[derive(Debug, Default)]
pub struct Traffic {
    written: AtomicU64,
    /// Whether the last write found no room.
    blocked: AtomicBool,
    /// Whether the connection is to be reset.
    reset: AtomicBool,
    pub answering: Arc<Answering>,
}

impl Traffic {
    /// Has the connection reset when it is dropped: what was written and not read is not kept.
    pub fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    /// One task writes.
    fn count(&self, written: usize) {
        let all = self.written.load(Ordering::Relaxed) + written as u64;
        self.written.store(all, Ordering::Relaxed);
        self.blocked.store(written == 0, Ordering::Relaxed);
    }

    /// Bytes that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether there is more to write than the peer has room for.
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }
}

/// A longer write is made in pieces of this size. Other tasks have their turn between two of them: over loopback
/// the writer does its reader's work, and ten megabytes take several milliseconds.
pub const PIECE: usize = 256 * 1024;

/// The buffers that wait to be written. Each is in memory as a whole until its last byte is written.
#[derive(Default)]
struct Buffers {
    /// How long each is, and how much of it and of those before it waits.
    waiting: VecDeque<(usize, usize)>,
    /// Bytes of all.
    held: usize,
    /// Bytes that wait.
    left: usize,
}

impl Buffers {
    /// Of the bytes that were `offered`, so many were written. Returns how many bytes are held.
    fn count(&mut self, offered: usize, written: usize) -> usize {
        if self.held == 0 && offered == written {
            return 0;
        }
        let new = offered.saturating_sub(self.left);
        if new > 0 {
            self.left += new;
            self.held += new;
            self.waiting.push_back((new, self.left));
        }
        self.left = self.left.saturating_sub(written);
        for (_, until) in &mut self.waiting {
            *until = until.saturating_sub(written);
        }
        while let Some((length, 0)) = self.waiting.front() {
            self.held -= length;
            self.waiting.pop_front();
        }
        self.held
    }
}

/// A connection whose traffic is counted.
pub struct Counted {
    stream: TcpStream,
    traffic: Arc<Traffic>,
    unread: Share,
    buffers: Buffers,
    /// Other tasks have their turn before the next piece.
    pause: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    half_closed: Option<HalfClosed>,
}

impl Counted {
    pub fn new(stream: TcpStream, traffic: Arc<Traffic>, unread: Share) -> Self {
        Self {
            stream,
            traffic,
            unread,
            buffers: Buffers::default(),
            pause: None,
            half_closed: None,
        }
    }

    /// The client sends no more. Pending while it waits for an answer, ready once it has that, or has gone.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.traffic.answering.is(AnswerStage::Sent) {
            return Poll::Ready(Ok(()));
        }
        let half_closed = match &mut self.half_closed {
            Some(half_closed) => half_closed,
            None => {
                let is_silent = self.buffers.held == 0 && !self.traffic.is_blocked();
                let answering = &self.traffic.answering;
                let begun = HalfClosed::begin(&self.stream, answering, is_silent)?;
                self.half_closed.insert(begun)
            }
        };
        half_closed.poll_reset(&self.stream, context)
    }

    /// Writes what has room, a piece at most.
    fn write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        let stream = Pin::new(&mut self.stream);
        let written = if offered <= PIECE {
            stream.poll_write_vectored(context, slices)
        } else {
            stream.poll_write_vectored(context, &beginning(slices))
        };
        if offered > PIECE && written.is_ready() {
            self.pause = Some(Box::pin(tokio::task::yield_now()));
        }
        let count = match &written {
            Poll::Ready(Ok(count)) => *count,
            Poll::Pending => 0,
            Poll::Ready(Err(_)) => return written,
        };
        self.traffic.count(count);
        self.unread
            .wait(self.buffers.count(offered, count), count > 0);
        written
    }
}

/// The first [`PIECE`] bytes.
fn beginning<'s>(slices: &'s [IoSlice<'_>]) -> Vec<IoSlice<'s>> {
    let mut room = PIECE;
    let mut beginning = Vec::new();
    for slice in slices {
        let length = slice.len().min(room);
        beginning.push(IoSlice::new(&slice[..length]));
        room -= length;
    }
    beginning
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.traffic.reset.load(Ordering::Relaxed) {
            // Without it the connection is closed in order, and the system keeps the rest for a while.
            self.stream.set_zero_linger().ok();
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.half_closed.is_none() {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
            if buffer.filled().len() > before || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_end(context)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // All that was made has been written by now.
        let answering = &self.traffic.answering;
        if answering.is(AnswerStage::Made) {
            answering.set(AnswerStage::Sent);
        }
        if self.half_closed.is_some() && answering.is(AnswerStage::Sent) {
            context.waker().wake_by_ref();
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker;
    use tokio::net::TcpListener;

    use super::*;
    use crate::unread::Unread;

    #[tokio::test]
    async fn other_tasks_have_their_turn_between_the_pieces_of_a_long_body() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(address).await.expect("a connection");
        let (peer, _) = listener.accept().await.expect("a connection");
        stream.writable().await.expect("room");
        let traffic = Arc::new(Traffic::default());
        let share = Share::new(Unread::new(usize::MAX));
        let mut counted = Counted::new(stream, Arc::clone(&traffic), share);
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        let body = vec![b'x'; 4 * PIECE];
        let written = counted.write(&mut context, &[IoSlice::new(b"head"), IoSlice::new(&body)]);
        let Poll::Ready(Ok(bytes)) = written else {
            panic!("{written:?}");
        };
        assert!((1..=PIECE).contains(&bytes), "{bytes}");
        let slices = [IoSlice::new(&body)];
        assert!(counted.write(&mut context, &slices).is_pending());
        assert!(!traffic.is_blocked());
        drop(peer);
    }

    /// Of a buffer of which one byte is left, all is in memory.
    #[test]
    fn a_buffer_counts_as_a_whole_until_it_is_written() {
        let mut buffers = Buffers::default();
        for (offered, written, held) in [
            (10, 10, 0),
            (100, 60, 100),
            // Another one behind the rest of the first.
            (40 + 50, 39, 150),
            (1 + 50, 0, 150),
            (1 + 50, 1, 50),
            (50, 49, 50),
            (1, 1, 0),
            (7, 7, 0),
        ] {
            assert_eq!(buffers.count(offered, written), held, "{offered} {written}");
        }
        assert_eq!((buffers.left, buffers.waiting.len()), (0, 0));
    }

    #[test]
    fn a_piece_is_the_beginning_of_what_is_written() {
        let body = vec![b'x'; 2 * PIECE];
        let slices = [
            IoSlice::new(b"head"),
            IoSlice::new(&body),
            IoSlice::new(b"more"),
        ];
        let lengths: Vec<usize> = beginning(&slices).iter().map(|it| it.len()).collect();
        assert_eq!(lengths, [4, PIECE - 4, 0]);
    }
}
