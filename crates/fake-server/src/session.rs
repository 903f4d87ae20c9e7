//! One client's session: its subscriptions, its own stream, and its calls in flight.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

/// The number of the first session.
pub(crate) const FIRST_SERIAL: u64 = 1;

/// An item of a stream to the client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Message {
        text: String,
        /// Nothing follows on the stream of this call.
        last: bool,
    },
    /// The beginning of a message, after which the connection breaks.
    Half(String),
    /// The connection breaks here.
    Cut,
}

pub(crate) type Outlet = mpsc::UnboundedSender<Outgoing>;

#[derive(Default)]
pub(crate) struct FakeSession {
    pub id: String,
    /// True for one modern request over HTTP, which is cancelled when its stream is closed.
    pub ends_with_stream: bool,
    // The lock is held only to look up or change a field, never across an await.
    state: Mutex<SessionState>,
}

#[derive(Default)]
pub(crate) struct SessionState {
    /// The revision, known since `initialize`.
    pub revision: Option<String>,
    /// The raw params of `initialize`.
    pub client: Option<String>,
    /// Index into [`crate::catalog::LEVELS`].
    pub level: usize,
    /// True after -32042 was answered.
    pub sent_to_url: bool,
    /// Number of subscriptions to each URI since it was last unsubscribed.
    pub subscriptions: BTreeMap<String, u64>,
    /// Number of messages received after `initialize`.
    pub messages: u64,
    /// Number of GETs of the stream.
    pub gets: u64,
    /// True if it lists nothing.
    pub spoiled: bool,
    outlet: Option<Outlet>,
    /// Messages that wait for a stream.
    backlog: Vec<String>,
    questions: HashMap<String, oneshot::Sender<String>>,
    running: HashMap<String, AbortHandle>,
    tasks: JoinSet<()>,
}

impl FakeSession {
    pub fn new(id: String) -> Arc<Self> {
        Arc::new(Self {
            id,
            ..Self::default()
        })
    }

    /// Makes a session for one modern request over HTTP.
    pub fn of_request() -> Arc<Self> {
        Arc::new(Self {
            ends_with_stream: true,
            ..Self::default()
        })
    }

    /// Returns true if no session was opened before this one.
    pub fn is_first(&self) -> bool {
        self.id == format!("{:x}-{FIRST_SERIAL}", std::process::id())
    }

    pub fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }

    /// Gives the session a stream. An earlier one ends.
    pub fn attach(&self, outlet: Outlet) {
        let mut state = self.state();
        for text in std::mem::take(&mut state.backlog) {
            // A stream that is gone already loses its messages, as on a real network.
            let _ = outlet.send(Outgoing::Message { text, last: false });
        }
        state.outlet = Some(outlet);
    }

    /// Returns true if the session's stream has a reader.
    pub fn is_attached(&self) -> bool {
        let state = self.state();
        state
            .outlet
            .as_ref()
            .is_some_and(|outlet| !outlet.is_closed())
    }

    /// Sends on the session's own stream, or keeps the message until there is one.
    pub fn publish(&self, text: String) {
        let mut state = self.state();
        match state.outlet.as_ref().filter(|outlet| !outlet.is_closed()) {
            Some(outlet) => {
                // If the stream was closed in between, the message is lost with it.
                let _ = outlet.send(Outgoing::Message { text, last: false });
            }
            None => state.backlog.push(text),
        }
    }

    /// Drops the messages that wait for the session's stream.
    pub fn forget(&self) {
        self.state().backlog.clear();
    }

    /// Breaks the session's stream, if there is one, after the text of `end`.
    pub fn break_stream(&self, end: Outgoing) {
        if let Some(outlet) = &self.state().outlet {
            // If its reader is gone, it is broken already.
            let _ = outlet.send(end);
        }
    }

    /// Registers a request to the client. The receiver gets its answer.
    pub fn expect_answer(&self, id: &str) -> oneshot::Receiver<String> {
        let (sender, receiver) = oneshot::channel();
        self.state().questions.insert(id.to_owned(), sender);
        receiver
    }

    pub fn answered(&self, id: &str, answer: String) {
        if let Some(question) = self.state().questions.remove(id) {
            // The call that asked may have been cancelled.
            let _ = question.send(answer);
        }
    }

    /// Ends the call without an answer.
    pub fn cancel(&self, id: &str) {
        if let Some(call) = self.state().running.remove(id) {
            call.abort();
        }
    }

    /// Ends the calls in flight and the session's stream.
    pub fn close(&self) {
        let mut state = self.state();
        state.tasks.abort_all();
        state.outlet = None;
    }

    /// Does the work of a call until it has to wait, and the rest in a task of its own.
    pub fn drive(&self, call: Option<&str>, work: impl Future<Output = ()> + Send + 'static) {
        let mut work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(work);
        let mut noop_context = Context::from_waker(Waker::noop());
        if work.as_mut().poll(&mut noop_context).is_ready() {
            return;
        }
        let mut state = self.state();
        while let Some(ended_task) = state.tasks.try_join_next() {
            // Cancelled calls end as aborted tasks.
            if let Err(error) = ended_task
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        state.running.retain(|_, call| !call.is_finished());
        let task = state.tasks.spawn(work);
        if let Some(id) = call {
            state.running.insert(id.to_owned(), task);
        }
    }
}
