//! Writes lines to a byte stream: callers queue them, and one task writes all queued lines at once.

use std::{
    io, mem,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

/// The maximum number of queued bytes while the peer does not read. Beyond it, messages wait for room.
const MAX_QUEUED: usize = 8 * 1024 * 1024;

/// The capacity, in bytes, that an idle writer keeps for the next message. A writer has two buffers of this
/// size.
const KEPT_ROOM: usize = 1024;

/// A queue of lines. One task writes all queued lines at once.
#[derive(Debug, Default)]
pub struct LineWriter {
    queue: Mutex<Queue>,
    /// Number of queued bytes that have been written or may be written at this moment. It is raised before
    /// each write, because the peer may read a message before the write returns.
    possibly_written: AtomicU64,
    not_empty: Notify,
    room: Notify,
    /// Locked by the sender that waits for room. Only that sender may hold a message meanwhile.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Number of bytes that were ever queued.
    queued: u64,
    closed: bool,
}

/// The writer is closed, and no byte of this message was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct WriterClosed;

/// The position of a message in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl LineWriter {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Held for a copy of bytes, never across an await.
        self.queue.lock()
    }

    /// Queues one message, after waiting for room. Cancel-safe: a message is queued completely or not at all.
    pub async fn send(&self, message: &str) -> Result<Mark, WriterClosed> {
        self.send_with(|| Ok(message)).await
    }

    /// Sends the message that `message` returns. Calls `message` once there is room: if a peer does not read,
    /// the many senders that wait must not each hold a message in memory. Returns an error of `message`.
    pub async fn send_with<T: AsRef<str>>(
        &self,
        message: impl FnOnce() -> Result<T, WriterClosed>,
    ) -> Result<Mark, WriterClosed> {
        let _turn = self.turn.lock().await;
        loop {
            let room = self.room.notified();
            if self.has_room()? {
                break;
            }
            room.await;
        }
        let message = message()?;
        let message = message.as_ref();
        debug_assert!(!message.contains('\n'), "messages are framed by line");
        loop {
            let room = self.room.notified();
            if let Some(mark) = self.try_send(message)? {
                return Ok(mark);
            }
            room.await;
        }
    }

    fn has_room(&self) -> Result<bool, WriterClosed> {
        let queue = self.queue();
        if queue.closed {
            return Err(WriterClosed);
        }
        Ok(queue.bytes.len() < MAX_QUEUED)
    }

    /// Queues one message. Returns `None` if the queue is full.
    pub fn try_send(&self, message: &str) -> Result<Option<Mark>, WriterClosed> {
        let (mark, was_empty) = {
            let mut queue = self.queue();
            if queue.closed {
                return Err(WriterClosed);
            }
            if queue.bytes.len() >= MAX_QUEUED {
                return Ok(None);
            }
            let mark = Mark(queue.queued);
            let was_empty = queue.bytes.is_empty();
            queue.bytes.extend_from_slice(message.as_bytes());
            queue.bytes.push(b'\n');
            queue.queued += message.len() as u64 + 1;
            (mark, was_empty)
        };
        if was_empty {
            self.not_empty.notify_one();
        }
        Ok(Some(mark))
    }

    /// True if the first byte of the message at `mark` may have been written (invariant 6: "sent"). After
    /// [`LineWriter::abandon`] the result does not change any more.
    pub fn has_begun(&self, mark: Mark) -> bool {
        self.possibly_written.load(Ordering::Acquire) > mark.0
    }

    /// Refuses further messages, and drops the messages of which no byte has been written.
    pub fn abandon(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.bytes.clear();
        drop(queue);
        self.wake();
    }

    /// Refuses further messages. The queued messages are still written.
    pub fn close(&self) {
        self.queue().closed = true;
        self.wake();
    }

    fn wake(&self) {
        self.not_empty.notify_one();
        self.room.notify_waiters();
    }

    /// Writes until [`LineWriter::close`]. Then writes the queued messages and shuts the output down.
    pub async fn run(&self, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
        let result = self.write_all(&mut output).await;
        self.close();
        result?;
        output.shutdown().await
    }

    async fn write_all(&self, output: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut batch = Vec::new();
        let mut written = 0;
        loop {
            let closed = {
                let mut queue = self.queue();
                mem::swap(&mut queue.bytes, &mut batch);
                let possibly_written = written + batch.len() as u64;
                self.possibly_written
                    .store(possibly_written, Ordering::Release);
                queue.closed
            };
            if batch.is_empty() {
                if closed {
                    return Ok(());
                }
                self.not_empty.notified().await;
                // Tasks that are ready now can add to the batch: one write for many messages.
                tokio::task::yield_now().await;
                continue;
            }
            self.room.notify_waiters();
            let mut left = batch.as_slice();
            while !left.is_empty() {
                let count = match output.write(left).await {
                    Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                    count => count,
                };
                // The rest of the batch will never be written.
                let count = count
                    .inspect_err(|_| self.possibly_written.store(written, Ordering::Release))?;
                written += count as u64;
                left = &left[count..];
            }
            output.flush().await?;
            batch.clear();
            // There may be thousands of writers. Each keeps capacity for a small message only.
            batch.shrink_to(KEPT_ROOM);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// A writer releases the memory of a large message.
    #[tokio::test]
    async fn a_writer_that_waits_keeps_little_room() {
        let writer = LineWriter::default();
        let mut running = std::pin::pin!(writer.run(tokio::io::sink()));
        let mut room = 0;
        for _ in 0..3 {
            writer.send(&"x".repeat(50_000)).await.expect("open");
            while !writer.queue().bytes.is_empty() {
                assert!(futures_util::poll!(&mut running).is_pending());
            }
            // The writer has two buffers, which it uses alternately.
            room = room.max(writer.queue().bytes.capacity());
        }
        assert!(room <= KEPT_ROOM, "{room}");
    }

    #[tokio::test]
    async fn what_queues_is_written_in_order_and_begun_when_written() {
        let writer = LineWriter::default();
        let first = writer.send("one").await.expect("open");
        let second = writer.send("two").await.expect("open");
        assert!(!writer.has_begun(first));
        writer.close();
        let mut output = Vec::new();
        writer
            .run(&mut output)
            .await
            .expect("memory can be written");
        assert_eq!(output, b"one\ntwo\n");
        assert!(writer.has_begun(first) && writer.has_begun(second));
        assert_eq!(writer.send("three").await, Err(WriterClosed));
    }

    /// Invariant 6: after `abandon`, a message of which no byte was written is never written.
    #[tokio::test]
    async fn what_is_abandoned_is_never_written() {
        let writer = LineWriter::default();
        let first = writer.send("one").await.expect("open");
        writer.abandon();
        assert_eq!(writer.send("two").await, Err(WriterClosed));
        let mut output = Vec::new();
        writer
            .run(&mut output)
            .await
            .expect("memory can be written");
        assert!(output.is_empty() && !writer.has_begun(first));
    }

    /// A message counts as begun once a part of it is written, because the peer may read the message and close
    /// the connection before the write returns.
    #[tokio::test]
    async fn a_message_has_begun_before_its_write_ends() {
        let writer = Arc::new(LineWriter::default());
        let (near, mut far) = tokio::io::duplex(2);
        let running = tokio::spawn({
            let writer = Arc::clone(&writer);
            async move { writer.run(near).await }
        });
        let mark = writer.send("a long line").await.expect("open");
        let mut read = [0; 1];
        far.read_exact(&mut read).await.expect("a byte");
        assert!(writer.has_begun(mark));
        // After the peer has closed the connection, the rest of the message is not written. The written part
        // still counts.
        drop(far);
        running.await.expect("no panic").expect_err("a broken pipe");
        assert!(writer.has_begun(mark));
    }

    #[tokio::test]
    async fn a_full_queue_makes_senders_wait() {
        let writer = LineWriter::default();
        let big = "x".repeat(MAX_QUEUED);
        writer.send(&big).await.expect("open");
        assert_eq!(writer.try_send("next"), Ok(None));
        let (_, sent) = tokio::join!(writer.run(tokio::io::sink()), async {
            let sent = writer.send("next").await;
            writer.close();
            sent
        });
        sent.expect("sent once there was room");
    }

    /// A caller that waits for room does not hold a message.
    #[tokio::test]
    async fn a_message_is_made_when_there_is_room_for_it() {
        let writer = LineWriter::default();
        writer.send(&"x".repeat(MAX_QUEUED)).await.expect("open");
        let rendered = AtomicU64::new(0);
        let message = || {
            rendered.fetch_add(1, Ordering::Relaxed);
            Ok("next")
        };
        let waiting = async {
            let waiting = (0..100).map(|_| writer.send_with(message));
            let sent = futures_util::future::join_all(waiting).await;
            writer.close();
            sent
        };
        let mut waiting = std::pin::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(rendered.load(Ordering::Relaxed), 0);
        let (_, sent) = tokio::join!(writer.run(tokio::io::sink()), waiting);
        assert_eq!(sent.iter().filter(|result| result.is_ok()).count(), 100);
        assert_eq!(rendered.load(Ordering::Relaxed), 100);
    }
}
