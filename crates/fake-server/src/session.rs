//! One client's session: what it subscribed to, its own stream, its calls in
//! flight, and how the actions the service decided on are carried out.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use crate::modern::tasks;
use crate::process::{self, Flood};
use crate::service::{Service, Turn};

/// What the service decided on, in order.
pub(crate) enum Action {
    /// On the call's own stream, where it has one.
    Send(String),
    /// On the stream of a session, outside any call.
    Publish(Arc<Session>, String),
    Wait(Duration),
    /// Keeps the only thread, and with it the whole fake, from anything else.
    Burn(Duration),
    Flood(Flood),
    /// Sends requests to the client, round by round; the answers lead to the last messages.
    Ask {
        rounds: Vec<Vec<Asked>>,
        then: Conclusion,
    },
    /// Sends what a subscription hears; ends with this response once its sender is gone.
    Listen(mpsc::UnboundedReceiver<Heard>, String),
    /// Counts a tool that came to its end.
    Finish(String),
    /// Takes a task on to its next state.
    Advance(String),
    /// Goes on when the other call is done, or will never be.
    Park(oneshot::Receiver<()>),
    Release(oneshot::Sender<()>),
    /// Sends the first half of a message, and breaks the connection there.
    BreakOff(String),
    Hang,
    Exit(i32),
}

/// A request to the client, and where its answer arrives: `{"result":…}` or `{"error":…}`.
pub(crate) struct Asked {
    pub request: String,
    pub answer: oneshot::Receiver<String>,
}

/// What to send once all answers are there, in the order of the requests.
pub(crate) type Conclusion = Box<dyn FnOnce(Vec<String>) -> Vec<String> + Send>;

/// What a subscription hears.
#[derive(Debug)]
pub(crate) enum Heard {
    Message(String),
    /// Its stream breaks.
    Cut,
}

/// What a stream carries to the client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Message {
        text: String,
        /// Nothing follows on the stream of this call.
        last: bool,
    },
    /// This much of a message, and there the connection breaks.
    Half(String),
    /// The connection breaks here.
    Cut,
}

pub(crate) type Outlet = mpsc::UnboundedSender<Outgoing>;

#[derive(Default)]
pub(crate) struct Session {
    pub id: String,
    /// One modern request over HTTP: closing its stream cancels it.
    ends_with_stream: bool,
    // Held only to look up or change a field, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Known since `initialize`.
    pub revision: Option<String>,
    /// The raw params of `initialize`.
    pub client: Option<String>,
    /// Index into [`crate::catalog::LEVELS`].
    pub level: usize,
    /// Once -32042 has been answered.
    pub sent_to_url: bool,
    /// How often each URI was subscribed to since it was last unsubscribed.
    pub subscriptions: BTreeMap<String, u64>,
    /// Messages received beyond `initialize`.
    pub messages: u64,
    outlet: Option<Outlet>,
    /// Messages that wait for a stream.
    backlog: Vec<String>,
    asked: HashMap<String, oneshot::Sender<String>>,
    running: HashMap<String, AbortHandle>,
    tasks: JoinSet<()>,
}

impl Session {
    pub fn new(id: String) -> Arc<Self> {
        Arc::new(Self {
            id,
            ..Self::default()
        })
    }

    /// For one modern request over HTTP.
    pub fn of_request() -> Arc<Self> {
        Arc::new(Self {
            ends_with_stream: true,
            ..Self::default()
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the session a stream; an earlier one ends.
    pub fn attach(&self, outlet: Outlet) {
        let mut state = self.state();
        for text in std::mem::take(&mut state.backlog) {
            // A stream that is gone already loses what it was given, as on a real network.
            let _ = outlet.send(Outgoing::Message { text, last: false });
        }
        state.outlet = Some(outlet);
    }

    /// Whether the session's stream has a reader.
    pub fn is_attached(&self) -> bool {
        let state = self.state();
        state.outlet.as_ref().is_some_and(|it| !it.is_closed())
    }

    /// Sends on the session's own stream, or keeps the message until there is one.
    pub fn publish(&self, text: String) {
        let mut state = self.state();
        match state.outlet.as_ref().filter(|it| !it.is_closed()) {
            Some(outlet) => {
                // Closed in between: lost with its stream.
                let _ = outlet.send(Outgoing::Message { text, last: false });
            }
            None => state.backlog.push(text),
        }
    }

    /// Drops what waits for the session's stream.
    pub fn forget(&self) {
        self.state().backlog.clear();
    }

    /// Breaks the session's stream, if there is one, after what `end` still carries.
    pub fn break_stream(&self, end: Outgoing) {
        if let Some(outlet) = &self.state().outlet {
            // Its reader is gone: broken already.
            let _ = outlet.send(end);
        }
    }

    /// Registers a request to the client; the receiver gets what it answers.
    pub fn expect_answer(&self, id: &str) -> oneshot::Receiver<String> {
        let (sender, receiver) = oneshot::channel();
        self.state().asked.insert(id.to_owned(), sender);
        receiver
    }

    pub fn answered(&self, id: &str, answer: String) {
        if let Some(asked) = self.state().asked.remove(id) {
            // The call that asked may have been cancelled.
            let _ = asked.send(answer);
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

    /// Carries the actions out, on `outlet` or else on the session's stream.
    /// What needs no waiting is done before this returns, so that answers keep
    /// the order of their requests.
    pub fn run(
        self: &Arc<Self>,
        service: &Arc<Service>,
        call: Option<&str>,
        actions: Vec<Action>,
        outlet: Option<Outlet>,
        turn: Turn,
    ) {
        let stream = outlet.clone().filter(|_| self.ends_with_stream);
        let work = perform(Arc::clone(service), Arc::clone(self), actions, outlet, turn);
        let work = unless_closed(Arc::clone(service), call.map(str::to_owned), stream, work);
        let mut work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(work);
        let mut nobody = Context::from_waker(Waker::noop());
        if work.as_mut().poll(&mut nobody).is_ready() {
            return;
        }
        let mut state = self.state();
        while let Some(ended) = state.tasks.try_join_next() {
            // Aborted is how cancelled calls end.
            if let Err(error) = ended
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

/// Gives the work up when the client closes the stream, which cancels the call.
async fn unless_closed(
    service: Arc<Service>,
    call: Option<String>,
    stream: Option<Outlet>,
    work: impl Future<Output = ()>,
) {
    let Some(stream) = stream else {
        return work.await;
    };
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        () = &mut work => return,
        () = stream.closed() => service.shared().cancelled.extend(call),
    }
    if service.script().ignore_cancel {
        work.await;
    }
}

async fn perform(
    service: Arc<Service>,
    session: Arc<Session>,
    actions: Vec<Action>,
    outlet: Option<Outlet>,
    // Held until all is done, or nothing is left but to listen.
    mut turn: Turn,
) {
    let send = |text, last| match &outlet {
        // The client may have left; its call runs on all the same.
        Some(outlet) => drop(outlet.send(Outgoing::Message { text, last })),
        None => session.publish(text),
    };
    let count = actions.len();
    for (position, action) in actions.into_iter().enumerate() {
        let last = position + 1 == count;
        service.responsive().await;
        match action {
            Action::Send(text) => send(text, last),
            Action::Publish(to, text) => to.publish(text),
            Action::Wait(time) => tokio::time::sleep(time).await,
            Action::Burn(time) => burn(time),
            Action::Flood(flood) => process::pour(flood).await,
            Action::Ask { rounds, then } => {
                let mut answers = Vec::new();
                for round in rounds {
                    let mut asked = Vec::new();
                    for Asked { request, answer } in round {
                        send(request, false);
                        asked.push(answer);
                    }
                    for answer in asked {
                        let Ok(answer) = answer.await else { return };
                        answers.push(answer);
                    }
                }
                let mut messages = then(answers).into_iter().peekable();
                while let Some(text) = messages.next() {
                    send(text, last && messages.peek().is_none());
                }
            }
            Action::Listen(mut events, end) => {
                drop(turn.take());
                while let Some(heard) = events.recv().await {
                    match (heard, &outlet) {
                        (Heard::Message(text), _) => send(text, false),
                        (Heard::Cut, Some(outlet)) => {
                            // Its reader is gone: cut already.
                            let _ = outlet.send(Outgoing::Cut);
                            return;
                        }
                        // A pipe has one stream for all.
                        (Heard::Cut, None) => {}
                    }
                }
                send(end, last);
            }
            Action::Finish(subject) => service.shared().finished(&subject),
            Action::Advance(task) => tasks::advance(&service, &task),
            // An error means that the other call is gone: nothing to wait for.
            Action::Park(other) => drop(other.await),
            Action::Release(other) => drop(other.send(())),
            Action::BreakOff(text) => {
                let half = text[..text.len() / 2].to_owned();
                match &outlet {
                    Some(outlet) => drop(outlet.send(Outgoing::Half(half))),
                    None => session.break_stream(Outgoing::Half(half)),
                }
            }
            Action::Hang => std::future::pending().await,
            Action::Exit(code) => {
                service.exit(code);
                // In a test we are still here, until the connection is cut: no
                // orderly end of the stream may come before that.
                std::future::pending::<()>().await;
            }
        }
    }
}

fn burn(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}
