//! What a tool of ours says, or why it says nothing.

use mainstay_core::failure::{Failure, FailureKind};
use serde::Serialize;
use tokio::sync::oneshot;

use super::refusal::Refusal;
use crate::mcp::reply::Reply;

/// What a tool of ours says.
pub enum ToolOutput {
    /// One text that holds this JSON.
    Json(String),
    /// JSON of a call that failed.
    Failed(String),
    /// What a server says, in its own words.
    Server(Reply),
}

pub type Outcome = Result<ToolOutput, Refusal>;

impl ToolOutput {
    pub fn json(value: &impl Serialize) -> Self {
        // Maps with text keys cannot fail.
        Self::Json(serde_json::to_string(value).unwrap_or_default())
    }
}

/// What is done here, unless the client cancels it; calls of servers hear of that themselves.
pub async fn here<T>(
    cancelled: oneshot::Receiver<String>,
    answer: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let cancelled = async {
        match cancelled.await {
            Ok(reason) => reason,
            // It cannot be cancelled any more.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        outcome = answer => outcome,
        reason = cancelled => {
            let message = format!("cancelled: {reason}");
            Err(Failure::new(FailureKind::Cancelled, message).into())
        }
    }
}
