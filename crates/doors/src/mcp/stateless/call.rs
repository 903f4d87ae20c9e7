//! The answer of a modern call, and its early end when the client closes the stream.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use mainstay_gateway::calls::{CallSink, CallStream, Calls, Cancel, Client, Closed, Detachable};

use crate::mcp::reply::Reply;

/// The answer of a request, once it is known, and the messages before it.
pub struct Call {
    /// Dropped, it cancels what goes on upstream (specification, "Cancellation").
    pub reply: Pin<Box<dyn Future<Output = Closed<Reply>> + Send>>,
    pub messages: CallStream,
}

impl Call {
    /// A call without messages before its answer.
    pub fn silent(reply: impl Future<Output = Closed<Reply>> + Send + 'static) -> Self {
        let (_, messages) = CallSink::new(Client::nobody(), None);
        Self::joining(reply, messages)
    }

    /// One that goes on elsewhere, where it is noticed that `reply` is dropped.
    pub fn joining(
        reply: impl Future<Output = Closed<Reply>> + Send + 'static,
        messages: CallStream,
    ) -> Self {
        Self {
            reply: Box::pin(reply),
            messages,
        }
    }

    /// `cancel` makes `reply` end soon, with a failure that is not read.
    pub fn new(
        calls: &Calls,
        reply: impl Future<Output = Closed<Reply>> + Send + 'static,
        messages: CallStream,
        cancel: Cancel,
    ) -> Self {
        Self {
            reply: Box::pin(Cancelling {
                cancel: Some(cancel),
                reply: calls.detachable(reply),
            }),
            messages,
        }
    }
}

struct Cancelling {
    cancel: Option<Cancel>,
    reply: Detachable<Closed<Reply>>,
}

impl Future for Cancelling {
    type Output = Closed<Reply>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Closed<Reply>> {
        Pin::new(&mut self.reply).poll(context)
    }
}

impl Drop for Cancelling {
    /// The rest of the call, which tells the server, runs on without us.
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            // The call may be over.
            cancel.send("the client has gone".to_owned()).ok();
        }
    }
}
