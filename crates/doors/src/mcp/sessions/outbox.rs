//! Queues of messages that belong to no call.

use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

/// Maximum number of queued messages. Further messages are dropped and counted.
const MAX_WAITING: usize = 256;

/// Maximum size of queued messages, in bytes. One large log message fits.
const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;

/// A bounded queue of messages. If several streams read it, each message goes to one of them
/// (specification, transports).
#[derive(Debug, Default)]
pub struct Outbox(Mutex<OutboxState>);

#[derive(Debug, Default)]
struct OutboxState {
    waiting: VecDeque<String>,
    bytes: usize,
    readers: Vec<Waker>,
    closed: bool,
    dropped: u64,
}

impl Outbox {
    fn update<T>(&self, change: impl FnOnce(&mut OutboxState) -> T) -> T {
        // Locked for a few instructions, never across an await.
        let mut state = self.0.lock();
        let value = change(&mut state);
        let readers = std::mem::take(&mut state.readers);
        drop(state);
        for reader in readers {
            reader.wake();
        }
        value
    }

    /// Queues a message, unless an equal one is already queued.
    pub fn push(&self, message: String) {
        self.update(|state| {
            if state.closed || state.waiting.contains(&message) {
                return;
            }
            if state.waiting.len() >= MAX_WAITING || state.bytes >= MAX_WAITING_BYTES {
                state.dropped += 1;
                if state.dropped.is_power_of_two() {
                    tracing::warn!(
                        dropped = state.dropped,
                        "messages to a client that does not read were dropped"
                    );
                }
                return;
            }
            state.bytes += message.len();
            state.waiting.push_back(message);
        });
    }

    /// Ends the readers once they have read all messages.
    pub fn close(&self) {
        self.update(|state| state.closed = true);
    }

    pub fn poll_next(&self, context: &Context<'_>) -> Poll<Option<String>> {
        let mut state = self.0.lock();
        if let Some(message) = state.waiting.pop_front() {
            state.bytes -= message.len();
            return Poll::Ready(Some(message));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        if !state
            .readers
            .iter()
            .any(|reader| reader.will_wake(context.waker()))
        {
            state.readers.push(context.waker().clone());
        }
        Poll::Pending
    }

    pub async fn next(&self) -> Option<String> {
        poll_fn(|context| self.poll_next(context)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_read_in_order_once_and_the_end_is_told() {
        let outbox = Outbox::default();
        for message in ["a", "b", "a"] {
            outbox.push(message.to_owned());
        }
        outbox.close();
        outbox.push("late".to_owned());
        assert_eq!(outbox.next().await.as_deref(), Some("a"));
        assert_eq!(outbox.next().await.as_deref(), Some("b"));
        assert_eq!(outbox.next().await, None);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_costs_a_bounded_queue() {
        let outbox = Outbox::default();
        for number in 0..MAX_WAITING * 2 {
            outbox.push(number.to_string());
        }
        outbox.close();
        let mut count = 0;
        while outbox.next().await.is_some() {
            count += 1;
        }
        assert_eq!(count, MAX_WAITING);
    }
}
