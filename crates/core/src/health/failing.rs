//! Counts calls that fail in a row. A server may answer `ping` while every call fails.

use std::time::Instant;

/// The failed and total calls of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailingCalls {
    /// Calls that failed since the last answered call.
    pub failed: u32,
    /// Calls that ended since the session was opened, answered or not.
    pub total: u32,
    /// The error of the last failed call.
    pub reason: String,
}

/// The row of failed calls that makes a server degraded, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingRow {
    /// Calls that failed since the last answered call.
    pub failed: u32,
    /// Calls that ended since the session was opened, answered or not.
    pub total: u32,
    /// Time at which the first of the failed calls was noticed.
    pub since: Instant,
}

/// A row of failed calls. An answered call ends the row. Other messages of the server do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    calls: FailingCalls,
    since: Option<Instant>,
    /// True if a probe was answered since the first failed call.
    answers_probes: bool,
}

impl Row {
    pub fn note(&mut self, calls: FailingCalls, now: Instant) {
        if calls.failed < self.calls.failed {
            *self = Self::default();
        }
        if calls.failed > 0 {
            self.since.get_or_insert(now);
        }
        self.calls = calls;
    }

    /// Notes that a probe was answered at `now`.
    pub fn answers_probes(&mut self, now: Instant) {
        self.answers_probes = self.since.is_some_and(|since| since <= now);
    }

    pub fn length(&self) -> u32 {
        self.calls.failed
    }

    pub fn summary(&self) -> Option<FailingRow> {
        let FailingCalls {
            failed,
            total: total_calls,
            ..
        } = self.calls;
        let since = self.since?;
        Some(FailingRow {
            failed,
            total: total_calls,
            since,
        })
    }

    pub fn reason(&self) -> String {
        let FailingCalls { failed, reason, .. } = &self.calls;
        let prefix = if self.answers_probes {
            "answers pings; "
        } else {
            ""
        };
        format!("{prefix}its last {failed} calls failed: {reason}")
    }
}
