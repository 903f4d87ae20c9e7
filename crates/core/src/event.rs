//! What happens to servers, in the words of `mainstay events` and `/api/events`
//! (docs/dev/requirements.md, section I).
//!
//! An [`Observer`] per server is shown each status in order and says which events follow: only real
//! changes, one of them for several triggers.

mod observer;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::observer::Observer;
use crate::{ids::ServerName, lifecycle::State, suspects::Arguments};

/// Names in one `tools_changed`; the rest is only counted, so that a thousand tools do not fill the
/// ring.
pub const MAX_NAMES: usize = 100;

/// Characters of such a name.
const MAX_NAME: usize = 256;

/// The position of an event among all others: fixed width, so that it sorts as text. Milliseconds since
/// 1970 and a counter: ids go on growing after a restart of Mainstay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(u64);

/// Ids in one millisecond; more borrow from the next.
const PER_MILLI: u64 = 10_000;
/// Decimal digits of an id: enough until the year 2286.
const DIGITS: usize = 17;

impl EventId {
    /// The id of what happens at `unix_millis`, after this one. A clock that was set back is not
    /// followed.
    #[must_use]
    pub fn next(self, unix_millis: u64) -> Self {
        Self((self.0 + 1).max(unix_millis.saturating_mul(PER_MILLI)))
    }

    /// When it happened.
    pub fn unix_millis(self) -> u64 {
        self.0 / PER_MILLI
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$}", self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event id has {DIGITS} digits")]
pub struct InvalidEventId;

impl FromStr for EventId {
    type Err = InvalidEventId;

    fn from_str(text: &str) -> Result<Self, InvalidEventId> {
        if text.len() != DIGITS || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidEventId);
        }
        text.parse().map(Self).map_err(|_| InvalidEventId)
    }
}

/// Something that happened, to a server or to the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: EventId,
    pub server: Option<ServerName>,
    pub kind: EventKind,
}

/// What happened. Beside these members, `data` on the wire has the server's `name`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    content = "data",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum EventKind {
    /// Added while Mainstay runs.
    ServerAdded {},
    ServerRemoved {},
    /// An attempt to start or to connect it has begun. Of a long outage only some attempts are announced.
    ServerStarting {},
    /// For the first time since its operator started it.
    ServerConnected {},
    /// The session is gone. Intentional: its operator stopped, removed or reconnected the server.
    ServerDisconnected {
        was_intentional: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Waiting for the next attempt. Of a long outage only some attempts are announced.
    ServerReconnecting {
        attempt: u32,
        next_retry_ms: u64,
        last_error: Option<String>,
    },
    /// The server is back after [`EventKind::ServerDisconnected`].
    ServerReconnected {
        capabilities: Value,
        attempts_taken: u64,
    },
    /// Checks or calls fail, so that the server counts as degraded.
    ServerHealthDegraded {
        consecutive_failures: u32,
        last_error: Option<String>,
    },
    /// The server is well again after [`EventKind::ServerHealthDegraded`].
    ServerHealthRestored {},
    /// It is not tried again by itself, or rarely; `status` is `failed`, `error` or `crashed`.
    ServerFailed {
        status: State,
        last_error: Option<String>,
    },
    /// A call that was in flight at so many crashes is not sent for a while. `tool` is the server's own
    /// name of what was called, if its lists have it.
    CallRefused {
        method: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        arguments: Arguments,
        crashes: u32,
        retry_after_ms: u64,
    },
    /// It is sent again: its time is over, or its operator has started the server.
    CallAllowed {
        method: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        arguments: Arguments,
    },
    /// A request of the server waits for an answer by hand (`GET /api/server-requests`).
    ServerRequestWaiting {
        id: u64,
        method: String,
    },
    /// It waits no more.
    ServerRequestSettled {
        id: u64,
        method: String,
        outcome: Settled,
    },
    /// Its list of tools differs from the last one known. Names, at most [`MAX_NAMES`] each, and how
    /// many tools there are now.
    ToolsChanged {
        added: Vec<String>,
        removed: Vec<String>,
        count: usize,
    },
    /// A new configuration is in force; the servers that it added, took away, or changed.
    ConfigReloaded {
        added: Vec<ServerName>,
        removed: Vec<ServerName>,
        changed: Vec<ServerName>,
    },
    /// A new configuration is unusable; the old one stays in force.
    ConfigRejected {
        reason: String,
    },
}

/// What became of a request that waited for an answer by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    Answered,
    Refused,
    /// Nobody answered in time.
    Expired,
    /// Its server has gone.
    Disconnected,
    /// Its server does not want an answer any more.
    TakenBack,
}

impl Settled {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Disconnected => "disconnected",
            Self::TakenBack => "taken_back",
        }
    }
}

impl EventKind {
    /// Whether it tells of what a server asks, which may be for one client only.
    pub const fn is_of_requests(&self) -> bool {
        matches!(
            self,
            Self::ServerRequestWaiting { .. } | Self::ServerRequestSettled { .. }
        )
    }

    /// What changed between two lists of tools; `None` if nothing did.
    pub fn tools_changed<'a>(
        before: impl IntoIterator<Item = &'a str>,
        after: impl IntoIterator<Item = &'a str>,
    ) -> Option<Self> {
        use std::collections::BTreeSet;
        let (before, after): (BTreeSet<_>, BTreeSet<_>) =
            (before.into_iter().collect(), after.into_iter().collect());
        let names = |one: &BTreeSet<&str>, other| told_names(one.difference(other).copied());
        let (added, removed) = (names(&after, &before), names(&before, &after));
        let count = after.len();
        (!added.is_empty() || !removed.is_empty()).then_some(Self::ToolsChanged {
            added,
            removed,
            count,
        })
    }
}

/// Names as they are told: at most [`MAX_NAMES`], none endless.
pub fn told_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let told = names.take(MAX_NAMES);
    told.map(|name| name.chars().take(MAX_NAME).collect())
        .collect()
}

#[cfg(test)]
mod tests;
