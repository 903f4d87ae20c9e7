//! Counts the bytes that a connection writes, and detects a client that does not read.

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

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    client_stream::ClientStream,
    half_closed::{AnswerStage, Answering, HalfClosed},
    unread::Share,
};

/// The traffic of one connection.
#[derive(Debug, Default)]
pub struct Traffic {
    written: AtomicU64,
    /// True if the last write was blocked, because the client does not read.
    blocked: AtomicBool,
    /// True if the connection is to be reset when it is dropped.
    reset: AtomicBool,
    pub answering: Arc<Answering>,
}

impl Traffic {
    /// Lets the connection end with a reset. Data that the client has not read is discarded.
    pub fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    /// Counts a write. Only the connection's task calls this, so a load and a store suffice.
    fn count(&self, written_bytes: usize) {
        let total = self.written.load(Ordering::Relaxed) + written_bytes as u64;
        self.written.store(total, Ordering::Relaxed);
        self.blocked.store(written_bytes == 0, Ordering::Relaxed);
    }

    /// Notes whether written data waits for the client, within TLS.
    fn note_waiting(&self, is_waiting: bool) {
        self.blocked.store(is_waiting, Ordering::Relaxed);
    }

    /// Number of written bytes.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// True if the client does not read, so that nothing can be written.
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }
}

/// Maximum size of one write in bytes, so that other tasks can run. A write over loopback does work
/// of the reader, too: several milliseconds for 10 MB.
pub const PIECE: usize = 256 * 1024;

/// The buffers that are offered for writing. Each occupies memory until its last byte is written.
#[derive(Default)]
struct Buffers {
    /// For each buffer its length, and the number of unwritten bytes up to its end.
    waiting: VecDeque<(usize, usize)>,
    /// Total length of all buffers, in bytes.
    held: usize,
    /// Number of unwritten bytes.
    left: usize,
}

impl Buffers {
    /// Records that `written_bytes` of `offered_bytes` were written. Returns the number of bytes
    /// that the buffers occupy.
    fn count(&mut self, offered_bytes: usize, written_bytes: usize) -> usize {
        if self.held == 0 && offered_bytes == written_bytes {
            return 0;
        }
        let new_bytes = offered_bytes.saturating_sub(self.left);
        if new_bytes > 0 {
            self.left += new_bytes;
            self.held += new_bytes;
            self.waiting.push_back((new_bytes, self.left));
        }
        self.left = self.left.saturating_sub(written_bytes);
        for (_, remaining_bytes) in &mut self.waiting {
            *remaining_bytes = remaining_bytes.saturating_sub(written_bytes);
        }
        while let Some((length, 0)) = self.waiting.front() {
            self.held -= length;
            self.waiting.pop_front();
        }
        self.held
    }
}

/// A TCP connection that counts its traffic.
pub struct Counted {
    stream: ClientStream,
    traffic: Arc<Traffic>,
    unread: Share,
    buffers: Buffers,
    /// Set after a piece, so that other tasks run before the next one.
    pause: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    half_closed: Option<HalfClosed>,
}

impl Counted {
    pub fn new(stream: ClientStream, traffic: Arc<Traffic>, unread_share: Share) -> Self {
        Self {
            stream,
            traffic,
            unread: unread_share,
            buffers: Buffers::default(),
            pause: None,
            half_closed: None,
        }
    }

    /// Polls the end of a half-closed connection. Pending while the client waits for an answer.
    /// Ready when the answer is sent or the connection is reset.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.traffic.answering.is(AnswerStage::Sent) {
            return Poll::Ready(Ok(()));
        }
        let half_closed = match &mut self.half_closed {
            Some(half_closed) => half_closed,
            None => {
                let is_silent = self.buffers.held == 0 && !self.traffic.is_blocked();
                let answer_stage = &self.traffic.answering;
                let new_half_closed =
                    HalfClosed::begin(&mut self.stream, context, answer_stage, is_silent)?;
                self.half_closed.insert(new_half_closed)
            }
        };
        half_closed.poll_reset(self.stream.socket(), context)
    }

    /// Writes up to one piece.
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
        let write_result = if offered <= PIECE {
            stream.poll_write_vectored(context, slices)
        } else {
            stream.poll_write_vectored(context, &first_piece(slices))
        };
        if offered > PIECE && write_result.is_ready() {
            self.pause = Some(Box::pin(tokio::task::yield_now()));
        }
        let count = match &write_result {
            Poll::Ready(Ok(count)) => *count,
            Poll::Pending => 0,
            Poll::Ready(Err(_)) => return write_result,
        };
        self.traffic.count(count);
        self.unread
            .wait(self.buffers.count(offered, count), count > 0);
        write_result
    }
}

/// The slices up to [`PIECE`] bytes.
fn first_piece<'s>(slices: &'s [IoSlice<'_>]) -> Vec<IoSlice<'s>> {
    let mut room = PIECE;
    let mut first_piece = Vec::new();
    for slice in slices {
        let length = slice.len().min(room);
        first_piece.push(IoSlice::new(&slice[..length]));
        room -= length;
    }
    first_piece
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.traffic.reset.load(Ordering::Relaxed) {
            // Without linger, the system would keep unread data after the close.
            self.stream.socket().set_zero_linger().ok();
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled_before = buffer.filled().len();
        if self.half_closed.is_none() {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
            if buffer.filled().len() > filled_before || buffer.remaining() == 0 {
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
        let flush = Pin::new(&mut self.stream).poll_flush(context)?;
        self.traffic.note_waiting(flush.is_pending());
        ready!(flush);
        // All data is written.
        let answer_stage = &self.traffic.answering;
        if answer_stage.is(AnswerStage::Made) {
            answer_stage.set(AnswerStage::Sent);
        }
        if self.half_closed.is_some() && answer_stage.is(AnswerStage::Sent) {
            context.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shutdown = Pin::new(&mut self.stream).poll_shutdown(context);
        self.traffic.note_waiting(shutdown.is_pending());
        shutdown
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::unread::UnreadAnswers;

    #[tokio::test]
    async fn other_tasks_have_their_turn_between_the_pieces_of_a_long_body() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(address).await.expect("a connection");
        let (peer, _) = listener.accept().await.expect("a connection");
        stream.writable().await.expect("room");
        let traffic = Arc::new(Traffic::default());
        let share = Share::new(UnreadAnswers::new(usize::MAX));
        let mut counted_stream =
            Counted::new(ClientStream::Plain(stream), Arc::clone(&traffic), share);
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        let body = vec![b'x'; 4 * PIECE];
        let write_result =
            counted_stream.write(&mut context, &[IoSlice::new(b"head"), IoSlice::new(&body)]);
        let Poll::Ready(Ok(bytes)) = write_result else {
            panic!("{write_result:?}");
        };
        assert!((1..=PIECE).contains(&bytes), "{bytes}");
        let slices = [IoSlice::new(&body)];
        assert!(counted_stream.write(&mut context, &slices).is_pending());
        assert!(!traffic.is_blocked());
        drop(peer);
    }

    /// A buffer counts in full until its last byte is written.
    #[test]
    fn a_buffer_counts_as_a_whole_until_it_is_written() {
        let mut buffers = Buffers::default();
        for (offered_bytes, written_bytes, held_bytes) in [
            (10, 10, 0),
            (100, 60, 100),
            // A second buffer, after the rest of the first one.
            (40 + 50, 39, 150),
            (1 + 50, 0, 150),
            (1 + 50, 1, 50),
            (50, 49, 50),
            (1, 1, 0),
            (7, 7, 0),
        ] {
            assert_eq!(
                buffers.count(offered_bytes, written_bytes),
                held_bytes,
                "{offered_bytes} {written_bytes}"
            );
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
        let lengths: Vec<usize> = first_piece(&slices)
            .iter()
            .map(|slice| slice.len())
            .collect();
        assert_eq!(lengths, [4, PIECE - 4, 0]);
    }
}
