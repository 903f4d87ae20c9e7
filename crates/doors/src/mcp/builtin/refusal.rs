//! Errors of own tools. Their output has the form `{"error": KIND, …}`.

use mainstay_core::failure::{Failure, FailureKind};
use serde_json::{Value, json};

use mainstay_doorway::json_views::lists::NotFound;

#[derive(Debug, thiserror::Error)]
pub enum ToolRefusal {
    #[error("the arguments are not as the tool's schema has them: {0}")]
    Arguments(String),
    /// The name is neither `server/tool` nor a spelling of exactly one tool.
    #[error("{name:?} is not the name of a tool: {reason}")]
    ToolName { name: String, reason: String },
    #[error("this tool is for the bearer of the control token alone")]
    Forbidden,
    /// The object does not exist, or the client may not read it.
    #[error("nothing is kept under {0}")]
    CidNotFound(String),
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<NotFound> for ToolRefusal {
    fn from(error: NotFound) -> Self {
        match error {
            NotFound::Unclear { name, reason } => Self::ToolName { name, reason },
            NotFound::Failed(failure) => failure.into(),
        }
    }
}

impl ToolRefusal {
    /// The error as the failure of the requested call, for its record.
    pub fn into_failure(self) -> Failure {
        let message = self.to_string();
        let kind = match self {
            Self::Failed(failure) => return failure,
            Self::ToolName { .. } => FailureKind::ToolNotFound,
            Self::CidNotFound(_) => FailureKind::CidNotFound,
            Self::Arguments(_) | Self::Forbidden => FailureKind::InvalidRequest,
        };
        Failure::new(kind, message)
    }

    pub fn body(&self) -> Value {
        let message = self.to_string();
        match self {
            Self::Arguments(_) => {
                json!({"error": FailureKind::InvalidRequest.code(), "message": message})
            }
            Self::ToolName { name, .. } => {
                json!({"error": "invalid_tool_name", "message": message, "tool": name})
            }
            Self::Forbidden => json!({"error": "forbidden", "message": message}),
            Self::CidNotFound(cid) => {
                json!({"error": FailureKind::CidNotFound.code(), "message": message, "cid": cid})
            }
            // An exceeded time limit is `call_timeout` here, and `call_failed` over REST.
            Self::Failed(failure) => {
                let mut body = json!({"error": failure.kind.code(), "message": message});
                for (key, value) in &failure.details {
                    body[key] = value.clone();
                }
                body
            }
        }
    }
}
