//! The result of an own tool: its output or a refusal.

use mainstay_core::failure::{Failure, FailureKind};
use serde::Serialize;
use tokio::sync::oneshot;

use super::refusal::ToolRefusal;
use crate::mcp::reply::RpcReply;

/// The output of an own tool.
pub enum ToolOutput {
    /// A result whose text is this JSON.
    Json(String),
    /// A result with `isError` whose text is this JSON.
    Failed(String),
    /// The answer of a server, which is passed on.
    Server(RpcReply),
}

pub type ToolOutcome = Result<ToolOutput, ToolRefusal>;

impl ToolOutput {
    pub fn json(value: &impl Serialize) -> Self {
        // Maps with text keys always serialize.
        Self::Json(serde_json::to_string(value).unwrap_or_default())
    }
}

/// Runs work of Mainstay until the client cancels the request. Requests to servers handle
/// cancellation themselves.
pub async fn here<T>(
    cancel_signal: oneshot::Receiver<String>,
    answer: impl Future<Output = Result<T, ToolRefusal>>,
) -> Result<T, ToolRefusal> {
    let cancel_signal = async {
        match cancel_signal.await {
            Ok(reason) => reason,
            // Without a sender, the request cannot be cancelled.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        outcome = answer => outcome,
        reason = cancel_signal => {
            let message = format!("cancelled: {reason}");
            Err(Failure::new(FailureKind::Cancelled, message).into())
        }
    }
}
