//! A channel for the messages that a server sends before a call's result: from the call to its
//! client.
//!
//! A tokio channel would cost more. Most calls have no such message, and this channel takes a single
//! allocation while it is empty.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use mainstay_core::{
    era::{Caller, LogLevel},
    ids::ServerName,
};
use mainstay_transport::{Frame, ServerQuestion};
use parking_lot::{Mutex, MutexGuard};

use super::client::CallClient;

/// Maximum number of progress and log messages that wait for a slow client. Further messages are
/// dropped.
const MAX_UNREAD: usize = 256;

#[derive(Debug, Default)]
struct Shared(Mutex<SinkState>);

#[derive(Debug, Default)]
struct SinkState {
    unread: VecDeque<String>,
    sinks: usize,
    dropped: u64,
    /// Set if the client's connection may be closed. The client must reconnect after this time.
    parting: Option<Duration>,
    /// True if the client has reconnected after the server closed its connection.
    has_returned: bool,
    /// Wakes the call that waits for the client's return.
    call: Option<Waker>,
    reader: Option<Waker>,
    /// True if the reader waits for the end of the messages, too. The end wakes no other reader.
    awaits_end: bool,
}

impl SinkState {
    fn wait(&mut self, context: &Context<'_>, awaits_end: bool) {
        self.awaits_end = awaits_end;
        let waker = context.waker();
        if !self
            .reader
            .as_ref()
            .is_some_and(|reader| reader.will_wake(waker))
        {
            self.reader = Some(waker.clone());
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, SinkState> {
        // Held for a few instructions, never across an await.
        self.0.lock()
    }
}

/// Takes the messages of a call for its client, as JSON texts. Progress has the client's own token.
#[derive(Debug)]
pub struct CallSink {
    shared: Arc<Shared>,
    pub client: Arc<CallClient>,
    /// Log messages below this level are dropped. `None`: see [`Self::accepts_level`].
    log_level: Option<LogLevel>,
}

/// The reading end of a [`CallSink`].
#[derive(Debug)]
pub struct CallStream(Arc<Shared>);

impl CallSink {
    pub fn new(client: Arc<CallClient>, log_level: Option<LogLevel>) -> (Self, CallStream) {
        let shared = Arc::new(Shared::default());
        shared.state().sinks = 1;
        let messages = CallStream(Arc::clone(&shared));
        let sink = Self {
            shared,
            client,
            log_level,
        };
        (sink, messages)
    }

    /// True if the client accepts a log message of this level. If the client has requested no level, a
    /// legacy client gets all messages (specification, "Logging": the server decides), and a modern
    /// client gets none.
    pub(super) fn accepts_level(&self, level: Option<LogLevel>) -> bool {
        match (self.log_level, level) {
            (Some(minimum), Some(level)) => level >= minimum,
            (Some(_), None) => true,
            (None, _) => self.client.caller.logs_by_default(),
        }
    }

    /// The client, with its current log level.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            log_level: self.log_level,
            ..self.client.caller.clone()
        }
    }

    pub fn put(&self, message: String) {
        if self.has_room() {
            self.push(message);
        }
    }

    fn has_room(&self) -> bool {
        let mut state = self.shared.state();
        if state.unread.len() < MAX_UNREAD {
            return true;
        }
        state.dropped += 1;
        let dropped = state.dropped;
        drop(state);
        if dropped.is_power_of_two() {
            tracing::warn!(
                dropped,
                "progress or log messages were dropped: their client reads too slowly"
            );
        }
        false
    }

    /// Asks the client a question. The error returns a question that the client cannot be asked.
    pub(super) fn ask(
        &self,
        server: &ServerName,
        question: ServerQuestion,
    ) -> Result<(), ServerQuestion> {
        // Queue the request even if the reader is slow. The number of open questions is limited
        // by the client's questions.
        if let Some(request) = self.client.ask(server, question)? {
            self.push(request);
        }
        Ok(())
    }

    /// Handles a server that has closed the connection of its response. With `retry`, the client's
    /// connection may be closed as well, and the client must reconnect after that time.
    pub(super) fn part(&self, retry: Option<Duration>) {
        self.update(|state| {
            // Ignore a return before this moment.
            state.has_returned = false;
            state.parting = retry.or(state.parting);
        });
    }

    /// Resolves when the client has reconnected. Cancel-safe.
    pub(super) async fn client_returned(&self) {
        poll_fn(|context| {
            let mut state = self.shared.state();
            if std::mem::take(&mut state.has_returned) {
                return Poll::Ready(());
            }
            state.call = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn push(&self, message: String) {
        let message = self.client.with_sealed_names(message);
        self.update(|state| state.unread.push_back(message));
    }

    fn update(&self, change: impl FnOnce(&mut SinkState)) {
        let reader = {
            let mut state = self.shared.state();
            change(&mut state);
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Clone for CallSink {
    fn clone(&self) -> Self {
        self.shared.state().sinks += 1;
        Self {
            shared: Arc::clone(&self.shared),
            client: Arc::clone(&self.client),
            log_level: self.log_level,
        }
    }
}

impl Drop for CallSink {
    fn drop(&mut self) {
        let reader = {
            let mut state = self.shared.state();
            state.sinks -= 1;
            if state.sinks > 0 || !state.awaits_end {
                return;
            }
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl CallStream {
    pub fn is_empty(&self) -> bool {
        self.0.state().unread.is_empty()
    }

    /// The next message. `None` when the call has ended and all messages have been read.
    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Option<String>> {
        let mut state = self.0.state();
        if let Some(message) = state.unread.pop_front() {
            return Poll::Ready(Some(message));
        }
        if state.sinks == 0 {
            return Poll::Ready(None);
        }
        state.wait(context, true);
        Poll::Pending
    }

    /// The time after which the client must reconnect. `None` if the server has not closed its
    /// connection since the last call of this function.
    pub fn take_parting(&self) -> Option<Duration> {
        self.0.state().parting.take()
    }

    /// Notifies the call that its client has reconnected.
    pub fn notify_return(&self) {
        let call = {
            let mut state = self.0.state();
            state.has_returned = true;
            state.call.take()
        };
        if let Some(call) = call {
            call.wake();
        }
    }

    /// Waits until there is a message to read, or until the server has closed its connection.
    pub async fn readable(&self) {
        poll_fn(|context| {
            let mut state = self.0.state();
            if !state.unread.is_empty() || state.parting.is_some() {
                return Poll::Ready(());
            }
            state.wait(context, false);
            Poll::Pending
        })
        .await;
    }

    /// Waits for the next message. `None` when the call has ended and all messages have been read.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<String> {
        poll_fn(|context| self.poll_next(context)).await
    }
}

/// The level of a log message. `None` if the specification has no such level.
pub fn log_level(frame: &Frame) -> Option<LogLevel> {
    frame
        .text_param("level")
        .and_then(|level| LogLevel::parse(&level))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn messages_end_when_the_last_sink_has_gone() {
        let (sink, mut messages) = CallSink::new(CallClient::nobody(), None);
        let other = sink.clone();
        sink.put("a".to_owned());
        drop(sink);
        assert_eq!(messages.next().await.as_deref(), Some("a"));
        let (ended, ()) = tokio::join!(messages.next(), async { drop(other) });
        assert_eq!(ended, None);
    }

    #[test]
    fn a_slow_reader_costs_a_bounded_queue() {
        let (sink, mut messages) = CallSink::new(CallClient::nobody(), None);
        for number in 0..MAX_UNREAD * 2 {
            sink.put(number.to_string());
        }
        drop(sink);
        let context = Context::from_waker(Waker::noop());
        let mut count = 0;
        while let Poll::Ready(Some(_)) = messages.poll_next(&context) {
            count += 1;
        }
        assert_eq!(count, MAX_UNREAD);
    }

    /// A return of the client counts only after the server has closed its connection.
    #[tokio::test]
    async fn a_client_returns_from_the_last_parting_only() {
        let (sink, messages) = CallSink::new(CallClient::nobody(), None);
        messages.notify_return();
        sink.part(None);
        let mut returned = std::pin::pin!(sink.client_returned());
        assert!(returned.as_mut().now_or_never().is_none());
        tokio::join!(returned, async { messages.notify_return() });
        assert!(sink.client_returned().now_or_never().is_none());
    }

    #[test]
    fn a_log_level_leaves_out_what_is_below_it() {
        let (sink, _messages) = CallSink::new(CallClient::nobody(), Some(LogLevel::Warning));
        assert!(!sink.accepts_level(Some(LogLevel::Info)));
        assert!(sink.accepts_level(Some(LogLevel::Error)) && sink.accepts_level(None));
    }
}
