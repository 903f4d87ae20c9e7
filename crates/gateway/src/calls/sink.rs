//! Carries the messages that a server sends before a call's result from the call to its client.
//!
//! The channel is made for this purpose: most calls never say anything, so an empty one costs a single
//! allocation.

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
use mainstay_transport::{Frame, Question};
use parking_lot::{Mutex, MutexGuard};

use super::client::Client;

/// Progress and log messages that may wait for a client that reads slowly; more are dropped.
const MAX_UNREAD: usize = 256;

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    unread: VecDeque<String>,
    sinks: usize,
    dropped: u64,
    /// The client is to come back for the rest after this time.
    parting: Option<Duration>,
    /// The client has come back for the rest since the server closed its connection.
    has_returned: bool,
    /// The call, where it waits for that.
    call: Option<Waker>,
    reader: Option<Waker>,
    /// Whether the reader waits for the end, too. One that does not is not woken by it.
    awaits_end: bool,
}

impl State {
    fn wait(&mut self, context: &Context<'_>, awaits_end: bool) {
        self.awaits_end = awaits_end;
        let waker = context.waker();
        if !self.reader.as_ref().is_some_and(|it| it.will_wake(waker)) {
            self.reader = Some(waker.clone());
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Held for a few instructions, never across an await.
        self.0.lock()
    }
}

/// Takes progress and log messages of a call, as JSON text with the client's own token.
#[derive(Debug)]
pub struct CallSink {
    shared: Arc<Shared>,
    pub client: Arc<Client>,
    /// Log messages below this level are left out; `None` lets all pass.
    log_level: Option<LogLevel>,
}

/// The reading end of an [`CallSink`].
#[derive(Debug)]
pub struct CallStream(Arc<Shared>);

impl CallSink {
    pub fn new(client: Arc<Client>, log_level: Option<LogLevel>) -> (Self, CallStream) {
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

    /// Whether the client wants a log message of this level. A legacy client without a wish sees all
    /// (specification, logging: then the server decides), a modern one none.
    pub(super) fn wants(&self, level: Option<LogLevel>) -> bool {
        match (self.log_level, level) {
            (Some(wanted), Some(level)) => level >= wanted,
            (Some(_), None) => true,
            (None, _) => self.client.caller.logs_by_default(),
        }
    }

    /// The client, with the level that it wants now.
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

    /// Asks the client; a question that it cannot be asked is given back.
    pub(super) fn ask(&self, server: &ServerName, question: Question) -> Result<(), Question> {
        // A request is not dropped for a slow reader; how many there can be is bounded elsewhere.
        if let Some(request) = self.client.ask(server, question)? {
            self.push(request);
        }
        Ok(())
    }

    /// The server has closed the connection on which it answers. With `retry`, the client's connection
    /// may be closed, too, and the client is to come back after that time.
    pub(super) fn part(&self, retry: Option<Duration>) {
        self.update(|state| {
            // A return before now has nothing to do with this.
            state.has_returned = false;
            state.parting = retry.or(state.parting);
        });
    }

    /// Resolves when the client has come back for the rest. Cancel-safe.
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
        let message = self.client.shown(message);
        self.update(|state| state.unread.push_back(message));
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
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

    /// The next message; `None` when the call is over and everything has been read.
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

    /// The server has parted since this was last asked, for so long.
    pub fn take_parting(&self) -> Option<Duration> {
        self.0.state().parting.take()
    }

    /// Tells the call that its client has come back for the rest.
    pub fn tell_return(&self) {
        let call = {
            let mut state = self.0.state();
            state.has_returned = true;
            state.call.take()
        };
        if let Some(call) = call {
            call.wake();
        }
    }

    /// Resolves when the server has said something about the call, or parted.
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

    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<String> {
        poll_fn(|context| self.poll_next(context)).await
    }
}

/// The level of a log message, where it is one of the specification's.
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
        let (sink, mut messages) = CallSink::new(Client::nobody(), None);
        let other = sink.clone();
        sink.put("a".to_owned());
        drop(sink);
        assert_eq!(messages.next().await.as_deref(), Some("a"));
        let (ended, ()) = tokio::join!(messages.next(), async { drop(other) });
        assert_eq!(ended, None);
    }

    #[test]
    fn a_slow_reader_costs_a_bounded_queue() {
        let (sink, mut messages) = CallSink::new(Client::nobody(), None);
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

    /// Only a return after the server has closed its connection is a cue.
    #[tokio::test]
    async fn a_client_returns_from_the_last_parting_only() {
        let (sink, messages) = CallSink::new(Client::nobody(), None);
        messages.tell_return();
        sink.part(None);
        let mut returned = std::pin::pin!(sink.client_returned());
        assert!(returned.as_mut().now_or_never().is_none());
        tokio::join!(returned, async { messages.tell_return() });
        assert!(sink.client_returned().now_or_never().is_none());
    }

    #[test]
    fn a_log_level_leaves_out_what_is_below_it() {
        let (sink, _messages) = CallSink::new(Client::nobody(), Some(LogLevel::Warning));
        assert!(!sink.wants(Some(LogLevel::Info)));
        assert!(sink.wants(Some(LogLevel::Error)) && sink.wants(None));
    }
}
