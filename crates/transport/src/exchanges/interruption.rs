//! The reason that a request has no answer, and the state of the call at that moment.

use mainstay_core::health::{Fault, FaultKind};

/// The state of a call when it was lost (invariant 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// The server cannot have received the call.
    NotSent,
    /// The call may have run.
    Sent,
}

/// The reason that a request will get no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct Interruption {
    pub state: CallState,
    pub kind: InterruptionKind,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterruptionKind {
    #[error("the connection was lost")]
    Lost,
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// HTTP 307 or 308 within the origin. The next request goes to the new URL.
    #[error("the server redirected the request")]
    Redirected,
    /// The server has forgotten the session. The text is the server's answer that shows this.
    #[error("the server ended the session: it answered {0}")]
    SessionExpired(String),
    #[error("the server answered HTTP {status}{}{}", detail(body), advice(*status))]
    Refused { status: u16, body: String },
    /// The request has no valid credentials. The text is the reason.
    #[error("{0}")]
    NoCredentials(String),
    #[error("the server's answer is not a JSON-RPC message: {0}")]
    Unreadable(String),
    /// The ids (JSON texts) of answers that belong to no waiting request.
    #[error("the server answers under ids that no request has: {0}")]
    Misaddressed(String),
    #[error("the server's answer exceeds {0} bytes")]
    TooLarge(usize),
    #[error("the server ended its answer without a result")]
    Unanswered,
    /// The server made a request, which revision 2026-07-28 forbids: a server asks in its result instead.
    #[error("the server made a request of its own, which its protocol revision forbids")]
    ForbiddenRequest,
    /// The server sent the request back unchanged.
    #[error(
        "the request came back as it was sent: a program that only repeats its input is no MCP server"
    )]
    Echoed,
    /// 2026-07-28 over HTTP: a tool with an invalid `x-mcp-header` must not be called.
    #[error("the tool's definition is invalid: {0}")]
    InvalidTool(String),
}

/// The advice for 401 and 403, for callers that do not know whether credentials were sent.
pub fn advice(status: u16) -> &'static str {
    match status {
        401 => "; set or renew `bearerToken` or `headers`",
        403 => "; the credentials lack a permission, or there are none",
        _ => "",
    }
}

fn detail(body: &str) -> String {
    if body.is_empty() {
        String::new()
    } else {
        format!(": {body}")
    }
}

impl Interruption {
    pub fn not_sent(kind: InterruptionKind) -> Self {
        Self {
            state: CallState::NotSent,
            kind,
        }
    }

    pub fn sent(kind: InterruptionKind) -> Self {
        Self {
            state: CallState::Sent,
            kind,
        }
    }

    /// True if the server redirected the request. The caller sends it again.
    pub fn is_redirect(&self) -> bool {
        self.kind == InterruptionKind::Redirected
    }

    /// The fault of the server that the interruption shows. `None` if the server followed the protocol, or if
    /// the interruption says nothing about the server's health.
    pub fn fault(&self) -> Option<Fault> {
        let kind = match &self.kind {
            InterruptionKind::Lost => FaultKind::Cut,
            InterruptionKind::Unreachable(_) => FaultKind::Unreachable,
            InterruptionKind::SessionExpired(_)
            | InterruptionKind::TooLarge(_)
            | InterruptionKind::ForbiddenRequest
            | InterruptionKind::InvalidTool(_) => return None,
            InterruptionKind::Refused { status, .. } => match status {
                401 | 403 => FaultKind::Unauthorized,
                429 => FaultKind::Throttled,
                _ => FaultKind::Foreign,
            },
            InterruptionKind::NoCredentials(_) => FaultKind::Unauthorized,
            InterruptionKind::Redirected
            | InterruptionKind::Unreadable(_)
            | InterruptionKind::Misaddressed(_)
            | InterruptionKind::Echoed
            | InterruptionKind::Unanswered => FaultKind::Foreign,
        };
        let reason = self.kind.reason();
        Some(Fault { kind, reason })
    }
}

impl InterruptionKind {
    /// The reason as text, without the prefix "cannot connect". Callers add that prefix themselves.
    pub fn reason(&self) -> String {
        match self {
            Self::Unreachable(reason) => reason.clone(),
            kind => kind.to_string(),
        }
    }
}
