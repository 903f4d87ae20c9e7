//! Calls of clients without a session. A client cancels a call by closing its stream.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use mainstay_gateway::calls::{
    CallClient, CallSink, CallStream, Calls, Cancel, Closed, Detachable,
};

use crate::mcp::reply::RpcReply;

/// A running request: the messages before its reply, and the reply.
pub struct StatelessCall {
    /// Dropping it cancels the request to the server (specification, "Cancellation").
    pub reply: Pin<Box<dyn Future<Output = Closed<RpcReply>> + Send>>,
    pub messages: CallStream,
}

impl StatelessCall {
    /// A request that has no messages before its reply.
    pub fn silent(reply: impl Future<Output = Closed<RpcReply>> + Send + 'static) -> Self {
        let (_, messages) = CallSink::new(CallClient::nobody(), None);
        Self::joining(reply, messages)
    }

    /// A request that another task runs. The task detects that `reply` was dropped.
    pub fn joining(
        reply: impl Future<Output = Closed<RpcReply>> + Send + 'static,
        messages: CallStream,
    ) -> Self {
        Self {
            reply: Box::pin(reply),
            messages,
        }
    }

    /// A request that ends early when `cancel` is used, or when the result is dropped.
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
    /// Cancels the call. It ends in the background, where it notifies the server.
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            // An error means that the call has already ended.
            cancel.send("the client has gone".to_owned()).ok();
        }
    }
}
