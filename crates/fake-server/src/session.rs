//! One client's session: subscriptions, stream, and calls in flight.

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
        /// True if this is the last message of a call.
        last: bool,
    },
    /// The first half of a message, before a broken connection.
    Half(String),
    /// A broken connection.
    Cut,
}

pub(crate) type Outlet = mpsc::UnboundedSender<Outgoing>;

#[derive(Default)]
pub(crate) struct FakeSession {
    pub id: String,
    /// True for one modern request over HTTP, which ends with its stream.
    pub ends_with_stream: bool,
    // Locked to read or change a field, never across an await.
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
    /// Number of subscriptions to each URI since its last unsubscription.
    pub subscriptions: BTreeMap<String, u64>,
    /// Number of messages received after `initialize`.
    pub messages: u64,
    /// Number of GETs of the stream.
    pub gets: u64,
    /// True if the session's lists are empty.
    pub spoiled: bool,
    outlet: Option<Outlet>,
    /// Messages that wait for the stream.
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

    /// Attaches a stream, which replaces an earlier one.
    pub fn attach(&self, outlet: Outlet) {
        let mut state = self.state();
        for text in std::mem::take(&mut state.backlog) {
            // Messages to a closed stream are lost.
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

    /// Sends on the session's stream, or stores the message for it.
    pub fn publish(&self, text: String) {
        let mut state = self.state();
        match state.outlet.as_ref().filter(|outlet| !outlet.is_closed()) {
            Some(outlet) => {
                // A message to a closed stream is lost.
                let _ = outlet.send(Outgoing::Message { text, last: false });
            }
            None => state.backlog.push(text),
        }
    }

    /// Drops the stored messages.
    pub fn forget(&self) {
        self.state().backlog.clear();
    }

    /// Breaks the session's stream with `end`.
    pub fn break_stream(&self, end: Outgoing) {
        if let Some(outlet) = &self.state().outlet {
            // The reader may have gone.
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
            // The call may have been cancelled.
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

    /// Runs a call until it first waits. A task runs the rest.
    pub fn drive(&self, call: Option<&str>, call_work: impl Future<Output = ()> + Send + 'static) {
        let mut call_work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(call_work);
        let mut noop_context = Context::from_waker(Waker::noop());
        if call_work.as_mut().poll(&mut noop_context).is_ready() {
            return;
        }
        let mut state = self.state();
        while let Some(ended_task) = state.tasks.try_join_next() {
            // Cancelled calls are aborted tasks.
            if let Err(error) = ended_task
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        state.running.retain(|_, call| !call.is_finished());
        let task = state.tasks.spawn(call_work);
        if let Some(id) = call {
            state.running.insert(id.to_owned(), task);
        }
    }
}
