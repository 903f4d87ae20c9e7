//! What one message leads to: actions, which [`run`](crate::run::run) carries out.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::flood::Flood;
use crate::session::Session;

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

/// What ends in an answer, and counts as finished just before.
pub(crate) fn finishing(tool: &str, mut actions: Vec<Action>) -> Vec<Action> {
    if let Some(answer) = actions.pop_if(|it| matches!(it, Action::Send(_))) {
        actions.extend([Action::Finish(tool.to_owned()), answer]);
    }
    actions
}
