//! Counts what a connection sends, and tells when its peer does not read.

use std::{
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

use super::unread::Share;

/// What is counted of a connection.
#[derive(Debug, Default)]
pub struct Traffic {
    written: AtomicU64,
    /// Whether the last write found no room.
    blocked: AtomicBool,
    /// Whether the connection is to be reset.
    reset: AtomicBool,
}

impl Traffic {
    /// Has the connection reset when it is dropped: what was written and not read is not kept.
    pub fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    fn count(&self, offered: usize, written: &Poll<io::Result<usize>>, unread: &mut Share) {
        match written {
            Poll::Ready(Ok(bytes)) => {
                // One task writes.
                let written = self.written.load(Ordering::Relaxed) + *bytes as u64;
                self.written.store(written, Ordering::Relaxed);
                self.blocked.store(false, Ordering::Relaxed);
                unread.wait(offered.saturating_sub(*bytes), true);
            }
            Poll::Pending => {
                self.blocked.store(true, Ordering::Relaxed);
                unread.wait(offered, false);
            }
            Poll::Ready(Err(_)) => {}
        }
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
const PIECE: usize = 256 * 1024;

/// A connection whose traffic is counted.
pub struct Counted {
    stream: TcpStream,
    traffic: Arc<Traffic>,
    unread: Share,
    /// Other tasks have their turn before the next piece.
    pause: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Counted {
    pub fn new(stream: TcpStream, traffic: Arc<Traffic>, unread: Share) -> Self {
        Self {
            stream,
            traffic,
            unread,
            pause: None,
        }
    }

    /// Writes what has room, a piece at most. What waits behind the piece counts as unread.
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
        self.traffic.count(offered, &written, &mut self.unread);
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
        Pin::new(&mut self.stream).poll_read(context, buffer)
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
