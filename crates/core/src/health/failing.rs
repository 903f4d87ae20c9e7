//! Counts calls that fail in a row. A server may answer `ping` and fail every call.

use std::time::{Duration, Instant};

/// Failed calls count for this long after the latest of them.
const MEMORY: Duration = Duration::from_secs(60);

/// Calls that failed with no call answered between, whatever else the server said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// How many the connection has counted.
    counted: u32,
    /// How many of these are too long ago.
    forgotten: u32,
    latest: Option<Latest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Latest {
    at: Instant,
    reason: String,
}

impl Row {
    /// The connection has counted so many by now, the last of which failed for this reason.
    pub fn note(&mut self, counted: u32, reason: Option<String>, now: Instant) {
        if counted < self.counted {
            self.forgotten = 0;
        }
        if counted != self.counted {
            self.counted = counted;
            self.latest = reason.map(|reason| Latest { at: now, reason });
        }
        let is_old = |latest: &Latest| now.duration_since(latest.at) >= MEMORY;
        if self.latest.as_ref().is_some_and(is_old) {
            self.forgotten = counted;
        }
    }

    pub fn length(&self) -> u32 {
        self.counted.saturating_sub(self.forgotten)
    }

    pub fn reason(&self) -> String {
        let latest = self.latest.as_ref();
        let reason = latest.map_or("", |latest| &latest.reason);
        format!("{} calls in a row failed: {reason}", self.length())
    }
}
