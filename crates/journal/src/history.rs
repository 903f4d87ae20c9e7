//! The history of servers: each change of a status, and when Mainstay ran.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::{ids::ServerName, redact::Secrets};

/// A server's status from a time on, and what led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    pub at: SystemTime,
    /// The canonical word.
    pub status: Cow<'static, str>,
    /// It is connected, and not well.
    pub degraded: bool,
    pub reason: Option<String>,
    /// How its process ended, where that is what led here.
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// The number of the attempt that follows.
    pub attempt: Option<u32>,
    /// The time from `at` to that attempt, to the millisecond.
    pub next_retry: Option<Duration>,
    /// Its last lines of stderr.
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

/// A transition on its way to the disk.
#[derive(Debug)]
pub struct Noted {
    pub server: ServerName,
    pub transition: Transition,
    /// Secrets of the server: they are kept out of the record.
    pub secrets: Option<Arc<Secrets>>,
}

impl Noted {
    /// What it takes in the journal, about.
    pub fn bytes(&self) -> u64 {
        let Transition { reason, stderr, .. } = &self.transition;
        let texts = reason.iter().chain(stderr).map(String::len).sum::<usize>();
        128 + texts as u64
    }
}

/// What happened to Mainstay itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Started,
    Stopped,
    /// It ended without a word, at this time or later.
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

/// A time in which calls were not put on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub since: SystemTime,
    /// `None` while it lasts.
    pub until: Option<SystemTime>,
    /// Calls that are not on record.
    pub calls: u64,
    pub reason: String,
}

/// What is asked of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// `None` asks for all.
    pub server: Option<String>,
    pub since: SystemTime,
    pub until: SystemTime,
    /// Transitions of each server, at most; the newest.
    pub limit: usize,
}

/// What happened in a period, the oldest first. What was so when it began comes before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// By name.
    pub servers: Vec<ServerHistory>,
    pub daemon: Vec<(SystemTime, Mark)>,
    /// Times of which calls are not on record, the oldest first.
    pub gaps: Vec<Gap>,
    /// Whether some were left out.
    pub truncated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHistory {
    pub server: String,
    pub transitions: Vec<Transition>,
    /// Whether older ones of the period were left out.
    pub truncated: bool,
}
