//! The status of a session, derived from the phase and never stored (invariant 2), and the words
//! for each state.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{DownReason, Lifecycle, Loss, Phase, Policy, ReconnectMode, Then};
use crate::{health::Health, ids::Epoch, start::HANG_AFTER};

/// Time without a sign of work after which a start counts as silent. It is longer than
/// [`HANG_AFTER`], because Mainstay reads signs of work less often on a busy machine.
const SILENCE: Duration = HANG_AFTER.saturating_add(Duration::from_secs(1));

/// The states of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    Disconnected,
    Connecting,
    Connected,
    Reconnecting,
    Error,
    Failed,
    Crashed,
    Stopping,
}

/// The words for one state. Each surface keeps the words of an older program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Mainstay's own word.
    pub canonical: &'static str,
    /// The word on the page of a router, and the message next to it.
    pub page: &'static str,
    pub page_message: Option<&'static str>,
    /// The word in the tools `list_servers` and `reconnect_server`.
    pub tools: &'static str,
    /// The word in the routes under `/api/mcp-clients`.
    pub rest: &'static str,
    /// The word in the desktop application.
    pub desktop: &'static str,
}

impl SessionState {
    pub const ALL: [Self; 8] = [
        Self::Disconnected,
        Self::Connecting,
        Self::Connected,
        Self::Reconnecting,
        Self::Error,
        Self::Failed,
        Self::Crashed,
        Self::Stopping,
    ];

    pub const fn words(self) -> Words {
        // Order: canonical, page, page_message, tools, rest, desktop.
        let (canonical, page, page_message, tools, rest, desktop) = match self {
            Self::Disconnected => (
                "disconnected",
                "stopped",
                None,
                "disconnected",
                "disconnected",
                "stopped",
            ),
            Self::Connecting => (
                "connecting",
                "starting",
                None,
                "connecting",
                "connecting",
                "starting",
            ),
            Self::Connected => (
                "connected",
                "running",
                None,
                "connected",
                "connected",
                "running",
            ),
            Self::Reconnecting => (
                "reconnecting",
                "starting",
                Some("Reconnecting..."),
                "reconnecting",
                "reconnecting",
                "starting",
            ),
            Self::Error => ("error", "error", None, "error", "error", "error"),
            Self::Failed => (
                "failed",
                "error",
                Some("Connection failed after max retries"),
                "error",
                "failed",
                "error",
            ),
            Self::Crashed => ("crashed", "error", None, "error", "disconnected", "crashed"),
            Self::Stopping => (
                "stopping",
                "stopping",
                None,
                "disconnected",
                "disconnected",
                "stopped",
            ),
        };
        Words {
            canonical,
            page,
            page_message,
            tools,
            rest,
            desktop,
        }
    }

    pub const fn as_str(self) -> &'static str {
        self.words().canonical
    }

    /// True while a session may open without a person. Calls wait for it.
    pub const fn is_hopeful(self) -> bool {
        matches!(self, Self::Connecting | Self::Reconnecting)
    }
}

impl std::fmt::Display for SessionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The status of a session, with its reason, the attempt and the next retry (invariant 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    pub state: SessionState,
    /// The number of the latest attempt.
    pub epoch: Epoch,
    /// True during an attempt.
    pub attempting: bool,
    /// Time at which the current attempt began. `None` while it waits for a slot or for the attempt
    /// limiter.
    pub begun_at: Option<Instant>,
    /// Time of the last sign of work of the attempt's processes.
    pub last_work_at: Option<Instant>,
    /// Limits of the attempt: `silence_limit` without a sign of work or a handshake, and
    /// `start_limit` for the whole attempt.
    pub silence_limit: Duration,
    pub start_limit: Duration,
    /// Number of losses in a row that are not yet forgiven. It is also the number of the next or
    /// current attempt.
    pub attempt: u32,
    pub reason: Option<String>,
    /// True if the server refused Mainstay's credentials.
    pub unauthorized: bool,
    /// True during an attempt, and if an attempt follows without a request.
    pub retried: bool,
    pub next_retry: Option<Instant>,
    /// True if a call can start an attempt.
    pub on_call: bool,
    /// Time before which no call can start an attempt.
    pub calls_from: Option<Instant>,
    /// The state to show after a session has ended and before the supervisor has reported the loss.
    pub if_lost: SessionState,
    /// `None` if the server is not connected.
    pub health: Option<Health>,
}

impl SessionStatus {
    /// True while the server is connected, or if Mainstay connects it without a person: after a
    /// delay, or for a call. Also true before the first attempt.
    pub fn is_kept_up(&self) -> bool {
        self.state == SessionState::Connected
            || self.retried
            || self.on_call
            || self.epoch == Epoch::NONE
    }

    pub fn is_degraded(&self) -> bool {
        self.health.as_ref().is_some_and(|health| health.degraded)
    }

    /// Describes the current start in words. `None` outside of an attempt.
    pub fn start_words(&self, now: Instant) -> Option<String> {
        if !self.attempting {
            return None;
        }
        let Some(begun_at) = self.begun_at else {
            return Some("waits for its turn".to_owned());
        };
        let time = now.saturating_duration_since(begun_at);
        let last_work_at = self
            .last_work_at
            .filter(|last_work_at| *last_work_at >= begun_at);
        let silence = last_work_at.map(|last_work_at| now.saturating_duration_since(last_work_at));
        let (activity, time, limit) = match silence {
            None => ("no sign of work", time, self.silence_limit),
            Some(silence) if silence < SILENCE => ("at work", time, self.start_limit),
            Some(silence) => {
                let at_work = time.saturating_sub(silence);
                let remaining = self.start_limit.saturating_sub(at_work);
                ("silent", silence, self.silence_limit.min(remaining))
            }
        };
        let (time, limit) = (time.as_secs(), limit.as_secs_f64());
        Some(format!("{activity} for {time} s, given up after {limit} s"))
    }
}

impl Lifecycle {
    /// The status that commands, the REST API and the web page show.
    pub fn status(&self, policy: &Policy) -> SessionStatus {
        let reconnecting = |then: &Then| match then {
            Then::Stay => (SessionState::Stopping, None),
            Then::Reopen => (SessionState::Reconnecting, None),
            Then::Retry { loss, .. } | Then::Lose { loss, .. } => {
                (SessionState::Reconnecting, Some(loss.clone()))
            }
        };
        let (state, reason) = match &self.phase {
            Phase::Down(reason) => match reason {
                DownReason::Stopped => (SessionState::Disconnected, None),
                DownReason::Lost(loss @ Loss::Crashed { .. }) => {
                    (SessionState::Crashed, Some(loss.clone()))
                }
                DownReason::Lost(loss) if loss.is_retried() && !loss.is_unauthorized() => {
                    (SessionState::Disconnected, Some(loss.clone()))
                }
                DownReason::Lost(loss) | DownReason::Refused(loss) => {
                    (SessionState::Error, Some(loss.clone()))
                }
                DownReason::Failed(loss) => (SessionState::Failed, Some(loss.clone())),
            },
            Phase::Connecting { .. } => {
                let state = match &self.last_loss {
                    Some(loss) if loss.is_unauthorized() => SessionState::Error,
                    Some(_) => SessionState::Reconnecting,
                    None => SessionState::Connecting,
                };
                (state, self.last_loss.clone())
            }
            Phase::Up { .. } => (SessionState::Connected, None),
            Phase::Closing { then, .. } => reconnecting(then),
            Phase::Waiting { loss, .. } if loss.is_unauthorized() => {
                (SessionState::Error, Some(loss.clone()))
            }
            Phase::Waiting { loss, .. } => (SessionState::Reconnecting, Some(loss.clone())),
        };
        let health = match &self.phase {
            Phase::Up { tally, .. } => Some(tally.health(&policy.health)),
            _ => None,
        };
        let (begun_at, last_work_at) = match self.phase {
            Phase::Connecting {
                since,
                last_work_at,
                ..
            } => (since, last_work_at),
            _ => (None, None),
        };
        SessionStatus {
            state,
            epoch: self.epoch,
            attempting: matches!(self.phase, Phase::Connecting { .. }),
            begun_at,
            last_work_at,
            silence_limit: policy.connect_timeout,
            start_limit: policy.longest_start(),
            attempt: self.attempt(),
            unauthorized: reason.as_ref().is_some_and(Loss::is_unauthorized),
            reason: reason
                .map(|loss| loss.to_string())
                .or_else(|| health.as_ref()?.last_error.clone()),
            retried: match &self.phase {
                Phase::Connecting { .. } | Phase::Waiting { .. } => true,
                Phase::Closing { then, .. } => !matches!(then, Then::Stay),
                Phase::Down(_) | Phase::Up { .. } => false,
            },
            next_retry: match self.phase {
                Phase::Waiting { until, .. } => Some(until),
                _ => None,
            },
            on_call: self.opens_on_call(policy),
            calls_from: self.calls_from(policy),
            if_lost: match policy.reconnect.mode {
                ReconnectMode::Auto => SessionState::Reconnecting,
                ReconnectMode::Manual | ReconnectMode::Off => SessionState::Disconnected,
            },
            health,
        }
    }
}
