//! Counts what a connection sends, and tells when its peer does not read.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
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

/// A connection whose traffic is counted.
#[derive(Debug)]
pub struct Counted {
    stream: TcpStream,
    traffic: Arc<Traffic>,
    unread: Share,
}

impl Counted {
    pub fn new(stream: TcpStream, traffic: Arc<Traffic>, unread: Share) -> Self {
        Self {
            stream,
            traffic,
            unread,
        }
    }
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
        let counted = &mut *self;
        let written = Pin::new(&mut counted.stream).poll_write(context, bytes);
        let unread = &mut counted.unread;
        counted.traffic.count(bytes.len(), &written, unread);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let counted = &mut *self;
        let written = Pin::new(&mut counted.stream).poll_write_vectored(context, slices);
        let offered = slices.iter().map(|slice| slice.len()).sum();
        counted
            .traffic
            .count(offered, &written, &mut counted.unread);
        written
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
