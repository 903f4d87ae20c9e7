//! The actions for one message, which [`run`](crate::run::run) performs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::flood::Flood;
use crate::session::FakeSession;

/// An action of the service. Actions are performed in order.
pub(crate) enum ServiceAction {
    /// Sends a message on the call's own stream, if it has one.
    Send(String),
    /// Sends a message on the stream of a session, outside any call.
    Publish(Arc<FakeSession>, String),
    Wait(Duration),
    /// Blocks the only thread.
    Burn(Duration),
    Flood(Flood),
    /// Sends requests to the client in rounds. The answers determine the last messages.
    Ask {
        rounds: Vec<Vec<ClientRequest>>,
        then: Conclusion,
    },
    /// Sends the events of a subscription. Ends with this response after the sender is dropped.
    Listen(mpsc::UnboundedReceiver<SubscriptionEvent>, String),
    /// Counts a finished run of a tool.
    Finish(String),
    /// Moves a task to its next state.
    Advance(String),
    /// Waits until the receiver resolves or its sender is dropped.
    Park(oneshot::Receiver<()>),
    Release(oneshot::Sender<()>),
    /// Sends the first half of a message, and breaks the connection.
    BreakOff(String),
    Hang,
    Exit(i32),
}

/// A request to the client, and the receiver of its answer: `{"result":…}` or `{"error":…}`.
pub(crate) struct ClientRequest {
    pub request: String,
    pub answer: oneshot::Receiver<String>,
}

/// Builds the last messages from all answers, which are in the order of the requests.
pub(crate) type Conclusion = Box<dyn FnOnce(Vec<String>) -> Vec<String> + Send>;

/// An event of a subscription.
#[derive(Debug)]
pub(crate) enum SubscriptionEvent {
    Message(String),
    /// The subscription's stream breaks.
    Cut,
}

/// Inserts [`ServiceAction::Finish`] before the final answer, so that the tool counts as finished
/// when the client gets the answer.
pub(crate) fn finishing(tool: &str, mut actions: Vec<ServiceAction>) -> Vec<ServiceAction> {
    if let Some(answer) = actions.pop_if(|action| matches!(action, ServiceAction::Send(_))) {
        actions.extend([ServiceAction::Finish(tool.to_owned()), answer]);
    }
    actions
}
