//! Calls of modern clients. A call is cancelled when its client closes the stream.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use mainstay_gateway::calls::{
    CallClient, CallSink, CallStream, Calls, Cancel, Closed, Detachable,
};

use crate::mcp::reply::RpcReply;

/// The future reply to a request, and its earlier messages.
pub struct StatelessCall {
    /// Dropping it cancels the request to the server (specification, "Cancellation").
    pub reply: Pin<Box<dyn Future<Output = Closed<RpcReply>> + Send>>,
    pub messages: CallStream,
}

impl StatelessCall {
    /// A call without messages before its reply.
    pub fn silent(reply: impl Future<Output = Closed<RpcReply>> + Send + 'static) -> Self {
        let (_, messages) = CallSink::new(CallClient::nobody(), None);
        Self::joining(reply, messages)
    }

    /// A call that runs in another task, which detects when `reply` is dropped.
    pub fn joining(
        reply: impl Future<Output = Closed<RpcReply>> + Send + 'static,
        messages: CallStream,
    ) -> Self {
        Self {
            reply: Box::pin(reply),
            messages,
        }
    }

    /// Sending to `cancel` ends `reply` with a failure that no client reads.
    pub fn new(
        calls: &Calls,
        reply: impl Future<Output = Closed<RpcReply>> + Send + 'static,
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
    reply: Detachable<Closed<RpcReply>>,
}

impl Future for Cancelling {
    type Output = Closed<RpcReply>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Closed<RpcReply>> {
        Pin::new(&mut self.reply).poll(context)
    }
}

impl Drop for Cancelling {
    /// The call continues in the background, and notifies the server.
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            // The call may have ended.
            cancel.send("the client has gone".to_owned()).ok();
        }
    }
}
