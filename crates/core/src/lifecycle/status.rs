//! What is shown of a session: derived from its phase, never stored (invariant 2), and the words of
//! every surface for it (Y3).

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::{health::Health, ids::Epoch};

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

/// The words of one state on the surfaces of the documents that we unite (Y3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Ours.
    pub canonical: &'static str,
    /// [000]'s page, with the message it shows beside.
    pub page: &'static str,
    pub page_message: Option<&'static str>,
    /// [001]'s tools.
    pub tools: &'static str,
    /// [002]'s REST routes.
    pub rest: &'static str,
    /// [003]'s desktop.
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

    /// Whether a session may come about without anyone starting it: a call does well to wait.
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
    /// Losses in a row, not yet forgiven: the number of the attempt that follows, or is under way.
    pub attempt: u32,
    pub reason: Option<String>,
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
    pub fn is_degraded(&self) -> bool {
        self.health.as_ref().is_some_and(|health| health.degraded)
    }
}
