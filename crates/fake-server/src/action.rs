//! The reaction to one message: actions, which [`run`](crate::run::run) performs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::flood::Flood;
use crate::session::FakeSession;

/// A decision of the service. Actions are performed in order.
pub(crate) enum ServiceAction {
    /// Sends a message on the call's own stream, if it has one.
    Send(String),
    /// Sends a message on the stream of a session, outside any call.
    Publish(Arc<FakeSession>, String),
    Wait(Duration),
    /// Blocks the only thread, and so the whole fake.
    Burn(Duration),
    Flood(Flood),
    /// Sends requests to the client, round by round. The answers lead to the last messages.
    Ask {
        rounds: Vec<Vec<ClientRequest>>,
        then: Conclusion,
    },
    /// Sends the events of a subscription. Ends with this response after its sender is gone.
    Listen(mpsc::UnboundedReceiver<SubscriptionEvent>, String),
    /// Counts a tool that has ended.
    Finish(String),
    /// Moves a task to its next state.
    Advance(String),
    /// Continues when the other call has ended, or never will.
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

/// Makes the messages to send after all answers, which come in the order of the requests.
pub(crate) type Conclusion = Box<dyn FnOnce(Vec<String>) -> Vec<String> + Send>;

/// An event of a subscription.
#[derive(Debug)]
pub(crate) enum SubscriptionEvent {
    Message(String),
    /// The subscription's stream breaks.
    Cut,
}

/// Actions that end with an answer. The tool counts as finished just before it.
pub(crate) fn finishing(tool: &str, mut actions: Vec<ServiceAction>) -> Vec<ServiceAction> {
    if let Some(answer) = actions.pop_if(|action| matches!(action, ServiceAction::Send(_))) {
        actions.extend([ServiceAction::Finish(tool.to_owned()), answer]);
    }
    actions
}
