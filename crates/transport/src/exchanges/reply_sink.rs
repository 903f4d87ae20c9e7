//! Sends Mainstay's answers to a server's requests.

use std::sync::{Arc, LazyLock};

use mainstay_core::ids::ServerName;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{LineWriter, exchanges::pending::PendingRequests, logs::Throttle};

/// Queues answers to a server's requests. It never waits, because waiting would delay the reader of the
/// server's messages. Clones share the queue.
#[derive(Clone, Debug)]
pub struct ReplySink {
    server: ServerName,
    queue: ReplyQueue,
    /// See [`Stop::over`](crate::Stop::over).
    over: CancellationToken,
}

/// The path of an answer to its server.
#[derive(Clone, Debug)]
pub enum ReplyQueue {
    /// Standard input of a process.
    Pipe(Arc<LineWriter>, Arc<PendingRequests>),
    /// The queue of the session's task that posts each answer.
    Posts(mpsc::Sender<String>),
    /// No path. Servers of 2026-07-28 must not make requests, so these requests get no answers.
    None,
}

impl ReplySink {
    /// `over` is cancelled when the server expects no more answers.
    pub fn new(server: ServerName, queue: ReplyQueue, over: CancellationToken) -> Self {
        Self {
            server,
            queue,
            over,
        }
    }

    /// Cancelled when the server expects no more answers.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    pub fn server(&self) -> &ServerName {
        &self.server
    }

    /// Queues an answer (JSON text). Drops it if the queue is full.
    pub fn reply(&self, text: String) {
        let is_queued = match &self.queue {
            ReplyQueue::Pipe(writer, pending) => {
                pending.note_answerless();
                matches!(writer.try_send(&text), Ok(Some(_)))
            }
            ReplyQueue::Posts(posts) => posts.try_send(text).is_ok(),
            ReplyQueue::None => false,
        };
        if !is_queued && let Some(times) = replies_dropped() {
            tracing::warn!(server = %self.server, times, "an answer to a server was dropped: it does not read");
        }
    }
}

/// Counts a dropped answer. Returns the number of dropped answers if a report is due.
fn replies_dropped() -> Option<u64> {
    static DROPPED: LazyLock<Mutex<Throttle>> = LazyLock::new(Mutex::default);
    // Held for a few operations, never across an await.
    let mut dropped = DROPPED.lock();
    dropped.again()
}
