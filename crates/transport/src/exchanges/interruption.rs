//! Why a request has no answer, and how far it got.

use mainstay_core::health::{Fault, FaultKind};

/// How far a call got before it was lost (invariant 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// The server cannot have seen it.
    NotSent,
    /// It may have run.
    Sent,
}

/// Why there will be no answer.
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
    /// HTTP 307 or 308 within the origin. The next request goes where it leads.
    #[error("the server redirected the request")]
    Redirected,
    /// The server does not know the session any more, as it showed by this answer.
    #[error("the server ended the session: it answered {0}")]
    SessionExpired(String),
    #[error("the server answered HTTP {status}{}{}", detail(body), advice(*status))]
    Refused { status: u16, body: String },
    #[error("the server's answer is not a JSON-RPC message: {0}")]
    Unreadable(String),
    /// Answers came under these ids (JSON texts), which name none of the requests that wait.
    #[error("the server answers under ids that no request has: {0}")]
    Misaddressed(String),
    #[error("the server's answer exceeds {0} bytes")]
    TooLarge(usize),
    #[error("the server ended its answer without a result")]
    Unanswered,
    /// 2026-07-28 forbids requests of servers. A server asks in its result instead.
    #[error("the server made a request of its own, which its protocol revision forbids")]
    Asked,
    /// The request itself came back.
    #[error(
        "the request came back as it was sent: a program that only repeats its input is no MCP server"
    )]
    Echoed,
    /// 2026-07-28 over HTTP: a tool with an invalid `x-mcp-header` must not be called.
    #[error("the tool's definition is invalid: {0}")]
    InvalidTool(String),
}

/// The advice for 401 and 403, where it is not known whether credentials were sent.
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

    /// Whether the request was redirected, and is to be sent again.
    pub fn is_redirect(&self) -> bool {
        self.kind == InterruptionKind::Redirected
    }

    /// What the interruption shows against the server's health. `None` if the server followed the protocol,
    /// or if the interruption shows nothing about it.
    pub fn fault(&self) -> Option<Fault> {
        let kind = match &self.kind {
            InterruptionKind::Lost => FaultKind::Cut,
            InterruptionKind::Unreachable(_) => FaultKind::Unreachable,
            InterruptionKind::SessionExpired(_)
            | InterruptionKind::TooLarge(_)
            | InterruptionKind::Asked
            | InterruptionKind::InvalidTool(_) => return None,
            InterruptionKind::Refused { status, .. } => match status {
                401 | 403 => FaultKind::Unauthorized,
                429 => FaultKind::Throttled,
                _ => FaultKind::Foreign,
            },
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
    /// The reason as text, without "cannot connect", which callers that quote it add themselves.
    pub fn reason(&self) -> String {
        match self {
            Self::Unreachable(reason) => reason.clone(),
            kind => kind.to_string(),
        }
    }
}
