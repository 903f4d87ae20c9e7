//! Counts calls that fail in a row. A server may answer `ping` and fail every call.

use std::time::Instant;

/// What a connection has counted of its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailingCalls {
    /// Calls that failed with no call answered between.
    pub failed: u32,
    /// Calls that ended since the session was opened, answered or not.
    pub of: u32,
    /// How the last of those failed.
    pub reason: String,
}

/// The calls because of which a server is degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingRow {
    /// Calls that failed with no call answered between.
    pub failed: u32,
    /// Calls that ended since the session was opened, answered or not.
    pub of: u32,
    /// When the first of those that failed was known.
    pub since: Instant,
}

/// Calls that failed with no call answered between, whatever else the server said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    calls: FailingCalls,
    since: Option<Instant>,
    /// Whether a probe was answered since then.
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

    /// A probe was answered at this time.
    pub fn answers_probes(&mut self, now: Instant) {
        self.answers_probes = self.since.is_some_and(|since| since <= now);
    }

    pub fn length(&self) -> u32 {
        self.calls.failed
    }

    pub fn shown(&self) -> Option<FailingRow> {
        let FailingCalls { failed, of, .. } = self.calls;
        let since = self.since?;
        Some(FailingRow { failed, of, since })
    }

    pub fn reason(&self) -> String {
        let FailingCalls { failed, reason, .. } = &self.calls;
        let but = if self.answers_probes {
            "answers pings; "
        } else {
            ""
        };
        format!("{but}its last {failed} calls failed: {reason}")
    }
}
