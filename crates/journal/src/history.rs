//! The history of servers: every change of a status, and the starts and stops of Mainstay.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::{ids::ServerName, redact::Secrets};

/// A change of a server's status: the new status, its time and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    pub at: SystemTime,
    /// The status word.
    pub status: Cow<'static, str>,
    /// True if the server is connected but unhealthy.
    pub degraded: bool,
    pub reason: Option<String>,
    /// The exit code of the process, if the exit caused the change.
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// The number of the next attempt.
    pub attempt: Option<u32>,
    /// The time from `at` to the next attempt, with a precision of a millisecond.
    pub next_retry: Option<Duration>,
    /// The last lines of the server's stderr.
    pub stderr: Vec<String>,
}

impl Transition {
    pub fn now(status: &'static str) -> Self {
        Self {
            at: SystemTime::now(),
            status: status.into(),
            degraded: false,
            reason: None,
            exit_code: None,
            exit_signal: None,
            attempt: None,
            next_retry: None,
            stderr: Vec::new(),
        }
    }
}

/// A transition that waits to be written.
#[derive(Debug)]
pub struct PendingTransition {
    pub server: ServerName,
    pub transition: Transition,
    /// Secrets of the server, which are redacted in the record.
    pub secrets: Option<Arc<Secrets>>,
}

impl PendingTransition {
    /// Approximate size of the transition in the journal, in bytes.
    pub fn bytes(&self) -> u64 {
        let Transition { reason, stderr, .. } = &self.transition;
        let texts = reason.iter().chain(stderr).map(String::len).sum::<usize>();
        128 + texts as u64
    }
}

/// A start or an end of Mainstay itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Started,
    Stopped,
    /// Mainstay ended at this time or later, and did not record its end.
    Lost,
}

impl Mark {
    const ALL: [Self; 3] = [Self::Started, Self::Stopped, Self::Lost];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| mark.as_str() == word)
    }
}

/// A period in which some calls were not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub since: SystemTime,
    /// `None` while the gap lasts.
    pub until: Option<SystemTime>,
    /// Number of calls that are not recorded.
    pub calls: u64,
    pub reason: String,
}

/// A query about the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// `None` selects all servers.
    pub server: Option<String>,
    pub since: SystemTime,
    pub until: SystemTime,
    /// Maximum number of transitions of each server. The newest are returned.
    pub limit: usize,
}

/// The history of a period, oldest first. Each server's first transition is its status at the start
/// of the period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalHistory {
    /// Sorted by name.
    pub servers: Vec<ServerHistory>,
    pub daemon: Vec<(SystemTime, Mark)>,
    /// Periods in which some calls were not recorded, oldest first.
    pub gaps: Vec<Gap>,
    /// True if transitions were left out.
    pub truncated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHistory {
    pub server: String,
    pub transitions: Vec<Transition>,
    /// True if older transitions of the period were left out.
    pub truncated: bool,
}
