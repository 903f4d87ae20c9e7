//! The status of a session. It is derived from the phase and never stored (invariant 2). Also the word
//! of each surface for a state.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Lifecycle, Loss, Phase, Policy, ReconnectMode, Then, Why};
use crate::{health::Health, ids::Epoch, start::HANG_AFTER};

/// A start counts as silent after this time without a sign of work. Signs are looked for less often
/// than once a second on a busy machine.
const SILENCE: Duration = HANG_AFTER.saturating_add(Duration::from_secs(1));

/// The canonical states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Disconnected,
    Connecting,
    Connected,
    Reconnecting,
    Error,
    Failed,
    Crashed,
    Stopping,
}

/// The words of one state on the surfaces of the documents that we unite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// The word of Mainstay itself.
    pub canonical: &'static str,
    /// A router's page, with the message that it shows beside.
    pub page: &'static str,
    pub page_message: Option<&'static str>,
    /// The tools `list_servers` and `reconnect_server`.
    pub tools: &'static str,
    /// The routes under `/api/mcp-clients`.
    pub rest: &'static str,
    /// A desktop application.
    pub desktop: &'static str,
}

impl State {
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
        // canonical, page, its message, tools, rest, desktop
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

    /// Whether a session may open without a person: a call should wait.
    pub const fn is_hopeful(self) -> bool {
        matches!(self, Self::Connecting | Self::Reconnecting)
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A status always carries its reason, the attempt and the next retry (invariant 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub state: State,
    /// The latest attempt, counted from the beginning.
    pub epoch: Epoch,
    /// Whether an attempt is under way.
    pub attempting: bool,
    /// When the attempt under way began; `None` while it waits for its turn.
    pub begun: Option<Instant>,
    /// When its processes were last seen at work.
    pub worked: Option<Instant>,
    /// Without a handshake the attempt ends after so long a silence, and after so long a time.
    pub silence_limit: Duration,
    pub start_limit: Duration,
    /// Losses in a row, not yet forgiven: the number of the attempt that follows, or is under way.
    pub attempt: u32,
    pub reason: Option<String>,
    /// The reason is that the server accepts none of the credentials in its entry.
    pub unauthorized: bool,
    /// Another attempt comes by itself, or is under way.
    pub retried: bool,
    pub next_retry: Option<Instant>,
    /// Whether a call can bring a session about.
    pub on_call: bool,
    /// No call can before this.
    pub calls_from: Option<Instant>,
    /// What it is once its session is gone, before that has been noticed.
    pub if_lost: State,
    /// While connected.
    pub health: Option<Health>,
}

impl Status {
    /// Whether it is up, or Mainstay means to bring it back: by itself, or for a call. One that has not been tried
    /// yet is about to be.
    pub fn is_kept_up(&self) -> bool {
        self.state == State::Connected || self.retried || self.on_call || self.epoch == Epoch::NONE
    }

    pub fn is_degraded(&self) -> bool {
        self.health.as_ref().is_some_and(|health| health.degraded)
    }

    /// What the start of a process that is under way does, in words.
    pub fn start_words(&self, now: Instant) -> Option<String> {
        if !self.attempting {
            return None;
        }
        let Some(begun) = self.begun else {
            return Some("waits for its turn".to_owned());
        };
        let time = now.saturating_duration_since(begun);
        let worked = self.worked.filter(|worked| *worked >= begun);
        let silence = worked.map(|worked| now.saturating_duration_since(worked));
        let (what, time, limit) = match silence {
            None => ("no sign of work", time, self.silence_limit),
            Some(silence) if silence < SILENCE => ("at work", time, self.start_limit),
            Some(silence) => {
                let at_work = time.saturating_sub(silence);
                let left = self.start_limit.saturating_sub(at_work);
                ("silent", silence, self.silence_limit.min(left))
            }
        };
        let (time, limit) = (time.as_secs(), limit.as_secs_f64());
        Some(format!("{what} for {time} s, given up after {limit} s"))
    }
}

impl Lifecycle {
    /// The projection that people and programs see.
    pub fn status(&self, policy: &Policy) -> Status {
        let reconnecting = |then: &Then| match then {
            Then::Stay => (State::Stopping, None),
            Then::Reopen => (State::Reconnecting, None),
            Then::Retry { loss, .. } | Then::Lose { loss, .. } => {
                (State::Reconnecting, Some(loss.clone()))
            }
        };
        let (state, reason) = match &self.phase {
            Phase::Down(why) => match why {
                Why::Stopped => (State::Disconnected, None),
                Why::Lost(loss @ Loss::Crashed { .. }) => (State::Crashed, Some(loss.clone())),
                Why::Lost(loss) if loss.retried() && !loss.is_unauthorized() => {
                    (State::Disconnected, Some(loss.clone()))
                }
                Why::Lost(loss) | Why::Refused(loss) => (State::Error, Some(loss.clone())),
                Why::Failed(loss) => (State::Failed, Some(loss.clone())),
            },
            Phase::Connecting { .. } => {
                let state = match &self.lost {
                    Some(lost) if lost.is_unauthorized() => State::Error,
                    Some(_) => State::Reconnecting,
                    None => State::Connecting,
                };
                (state, self.lost.clone())
            }
            Phase::Up { .. } => (State::Connected, None),
            Phase::Closing { then, .. } => reconnecting(then),
            Phase::Waiting { loss, .. } if loss.is_unauthorized() => {
                (State::Error, Some(loss.clone()))
            }
            Phase::Waiting { loss, .. } => (State::Reconnecting, Some(loss.clone())),
        };
        let health = match &self.phase {
            Phase::Up { tally, .. } => Some(tally.health(&policy.health)),
            _ => None,
        };
        let (begun, worked) = match self.phase {
            Phase::Connecting { since, worked, .. } => (since, worked),
            _ => (None, None),
        };
        Status {
            state,
            epoch: self.epoch,
            attempting: matches!(self.phase, Phase::Connecting { .. }),
            begun,
            worked,
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
                ReconnectMode::Auto => State::Reconnecting,
                ReconnectMode::Manual | ReconnectMode::Off => State::Disconnected,
            },
            health,
        }
    }
}
