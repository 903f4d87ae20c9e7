//! The losses of a session, and the failures of an attempt.

use std::time::Duration;

use serde::Serialize;

/// The prefix of the text of [`Loss::Unauthorized`]. No other loss has it.
const UNAUTHORIZED: &str = "unauthorized: ";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    #[error("disconnected: {0}")]
    Disconnected(String),
    #[error("process exited unexpectedly ({})", exit_words(*code, *signal))]
    Crashed {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// The process or the connection is alive, but does not answer.
    #[error("the server hangs: {0}")]
    Unresponsive(String),
    #[error("no handshake within {} ms", .0.as_millis())]
    ConnectTimeout(Duration),
    /// The server's processes worked, and then showed no sign of work for this time.
    #[error("no handshake within {} ms of its last sign of work", .0.as_millis())]
    SilentStart(Duration),
    #[error("cannot connect: {0}")]
    ConnectFailed(String),
    /// The server requested a pause (HTTP `Retry-After`).
    #[error("cannot connect: {reason}; it asks to be tried again after {} s", retry_after.as_secs())]
    Unavailable {
        reason: String,
        retry_after: Duration,
    },
    #[error("the server ended the session")]
    SessionExpired,
    /// The configuration is wrong, so no attempt can succeed.
    #[error("cannot start: {0}")]
    Misconfigured(String),
    /// A resource is missing and may come back, such as memory, file descriptors, or a program that
    /// is being replaced.
    #[error("cannot start: {0}")]
    CannotSpawn(String),
    #[error("initialize failed: {0}")]
    Rejected(String),
    #[error("{prefix}{0}", prefix = UNAUTHORIZED)]
    Unauthorized(String),
}

fn exit_words(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => format!("code {code}"),
        (None, None) => "no exit status".to_owned(),
    }
}

impl Loss {
    /// Applies `reword` to the texts that may quote a server.
    #[must_use]
    pub fn reworded(self, reword: impl Fn(String) -> String) -> Self {
        match self {
            Self::Disconnected(text) => Self::Disconnected(reword(text)),
            Self::Unresponsive(text) => Self::Unresponsive(reword(text)),
            Self::ConnectFailed(text) => Self::ConnectFailed(reword(text)),
            Self::Misconfigured(text) => Self::Misconfigured(reword(text)),
            Self::CannotSpawn(text) => Self::CannotSpawn(reword(text)),
            Self::Rejected(text) => Self::Rejected(reword(text)),
            Self::Unauthorized(text) => Self::Unauthorized(reword(text)),
            Self::Unavailable {
                reason,
                retry_after,
            } => Self::Unavailable {
                reason: reword(reason),
                retry_after,
            },
            Self::Crashed { .. }
            | Self::ConnectTimeout(_)
            | Self::SilentStart(_)
            | Self::SessionExpired => self,
        }
    }

    /// True if an automatic retry could help.
    pub(super) fn is_retried(&self) -> bool {
        match self {
            Self::Misconfigured(_) => false,
            Self::CannotSpawn(_)
            | Self::Rejected(_)
            | Self::Unauthorized(_)
            | Self::Disconnected(_)
            | Self::Crashed { .. }
            | Self::Unresponsive(_)
            | Self::ConnectTimeout(_)
            | Self::SilentStart(_)
            | Self::ConnectFailed(_)
            | Self::Unavailable { .. }
            | Self::SessionExpired => true,
        }
    }

    /// True if the server refused Mainstay's credentials.
    pub(super) fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Unauthorized(_))
    }

    /// True if this stored text is the text of a [`Loss::Unauthorized`].
    pub fn is_unauthorized_text(text: &str) -> bool {
        text.starts_with(UNAUTHORIZED)
    }

    /// The pause that the server requested, or zero.
    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The history stores only the text of a loss, so the prefix must be unique.
    #[test]
    fn only_one_loss_begins_with_unauthorized() {
        let text = || "unauthorized: go away".to_owned();
        for loss in [
            Loss::Disconnected(text()),
            Loss::Crashed {
                code: Some(1),
                signal: None,
            },
            Loss::Unresponsive(text()),
            Loss::ConnectTimeout(Duration::from_secs(1)),
            Loss::SilentStart(Duration::from_secs(1)),
            Loss::ConnectFailed(text()),
            Loss::Unavailable {
                reason: text(),
                retry_after: Duration::ZERO,
            },
            Loss::SessionExpired,
            Loss::Misconfigured(text()),
            Loss::CannotSpawn(text()),
            Loss::Rejected(text()),
            Loss::Unauthorized(text()),
        ] {
            let text = loss.to_string();
            assert_eq!(
                Loss::is_unauthorized_text(&text),
                loss.is_unauthorized(),
                "{text}"
            );
        }
    }
}
