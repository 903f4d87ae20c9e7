//! Events of servers, in the format of `mainstay events` and `/api/events`
//! (docs/dev/requirements.md, section I).
//!
//! Each server has an [`Observer`]. It gets every status in order, and returns one event for each
//! real change, even if the change has several triggers.

mod observer;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::observer::Observer;
use crate::{ids::ServerName, lifecycle::SessionState, suspects::Arguments};

/// Maximum number of names in `tools_changed`. The others are only counted, so that a thousand
/// tools do not fill the ring of events.
pub const MAX_NAMES: usize = 100;

/// Maximum length of a name in `tools_changed`, in characters.
const MAX_NAME: usize = 256;

/// The id of an event: milliseconds since 1970 and a counter. Ids grow, also across restarts. The
/// text has a fixed width, so texts sort like ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(u64);

/// Number of ids in one millisecond. If it is exceeded, ids continue in the next millisecond.
const IDS_PER_MILLI: u64 = 10_000;
/// Number of decimal digits of an id. It is enough until the year 2286.
const DIGITS: usize = 17;

impl EventId {
    /// Returns the id of the next event, at `unix_millis`. It is greater than this id, even if the
    /// clock was set back.
    #[must_use]
    pub fn next(self, unix_millis: u64) -> Self {
        Self((self.0 + 1).max(unix_millis.saturating_mul(IDS_PER_MILLI)))
    }

    /// Time of the event, in milliseconds since 1970.
    pub fn unix_millis(self) -> u64 {
        self.0 / IDS_PER_MILLI
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

/// An event of a server, of the configuration, or of the listener's certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerEvent {
    pub id: EventId,
    pub server: Option<ServerName>,
    pub kind: EventKind,
}

/// The kind of an event, with its data. In JSON, `data` also contains the server's `name`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    content = "data",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum EventKind {
    /// An operator or a client added the server at run time.
    ServerAdded {},
    ServerRemoved {},
    /// An attempt has begun. During a long outage, only some attempts have an event.
    ServerStarting {},
    /// The server connected for the first time since the operator started it.
    ServerConnected {},
    /// The session ended. `was_intentional` is true if the operator stopped, removed or reconnected
    /// the server.
    ServerDisconnected {
        was_intentional: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The server waits for the next attempt. During a long outage, only some attempts have an
    /// event.
    ServerReconnecting {
        attempt: u32,
        next_retry_ms: u64,
        last_error: Option<String>,
    },
    /// The server connected again after [`EventKind::ServerDisconnected`].
    ServerReconnected {
        capabilities: Value,
        attempts_taken: u64,
    },
    /// The server became degraded, because probes or calls failed.
    ServerHealthDegraded {
        consecutive_failures: u32,
        last_error: Option<String>,
    },
    /// The server became healthy again after [`EventKind::ServerHealthDegraded`].
    ServerHealthRestored {},
    /// Mainstay does not retry the server, or only rarely. `status` is `failed`, `error` or
    /// `crashed`.
    ServerFailed {
        status: SessionState,
        last_error: Option<String>,
    },
    /// Mainstay refuses this call for a while, because it was in flight at `crashes` crashes.
    /// `tool` is the original name, if the server's lists contain it.
    CallRefused {
        method: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        arguments: Arguments,
        crashes: u32,
        retry_after_ms: u64,
    },
    /// Mainstay allows the call again. The time is over, or the operator started the server.
    CallAllowed {
        method: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        arguments: Arguments,
    },
    /// A request of the server waits for the operator's answer (`GET /api/server-requests`).
    ServerRequestWaiting {
        id: u64,
        method: String,
    },
    /// The server's request does not wait any more.
    ServerRequestSettled {
        id: u64,
        method: String,
        outcome: Settled,
    },
    /// The list of tools has changed. `added` and `removed` have at most [`MAX_NAMES`] names each.
    /// `count` is the number of tools now.
    ToolsChanged {
        added: Vec<String>,
        removed: Vec<String>,
        count: usize,
    },
    /// A new configuration is in force. The members are the servers that it added, removed or
    /// changed.
    ConfigReloaded {
        added: Vec<ServerName>,
        removed: Vec<ServerName>,
        changed: Vec<ServerName>,
    },
    /// A new configuration is invalid and was ignored.
    ConfigRejected {
        reason: String,
    },
    /// A new certificate of the listener is in use. After [`EventKind::CertificateRejected`] it may also be the old
    /// one, whose files are back.
    CertificateReplaced {
        path: String,
        expires_at: String,
    },
    /// The listener's certificate ends in less than 14 days, or less than 3.
    CertificateExpiring {
        path: String,
        expires_at: String,
        days_left: u64,
    },
    /// The listener's certificate has expired. It stays in use.
    CertificateExpired {
        path: String,
        expires_at: String,
    },
    /// New files of the listener's certificate cannot be used. The old certificate stays in use.
    CertificateRejected {
        path: String,
        reason: String,
    },
}

/// The outcome of a server's request that waited for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    Answered,
    Refused,
    /// The time limit passed without an answer.
    Expired,
    /// The server disconnected.
    Disconnected,
    /// The server cancelled the request.
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
    /// True for events about a request of a server. Such a request may concern only one client.
    pub const fn is_about_request(&self) -> bool {
        matches!(
            self,
            Self::ServerRequestWaiting { .. } | Self::ServerRequestSettled { .. }
        )
    }

    /// Compares two lists of tools. `None` if they have the same names.
    pub fn tools_changed<'a>(
        before: impl IntoIterator<Item = &'a str>,
        after: impl IntoIterator<Item = &'a str>,
    ) -> Option<Self> {
        use std::collections::BTreeSet;
        let (before, after): (BTreeSet<_>, BTreeSet<_>) =
            (before.into_iter().collect(), after.into_iter().collect());
        let names = |left: &BTreeSet<&str>, right| listed_names(left.difference(right).copied());
        let (added, removed) = (names(&after, &before), names(&before, &after));
        let count = after.len();
        (!added.is_empty() || !removed.is_empty()).then_some(Self::ToolsChanged {
            added,
            removed,
            count,
        })
    }
}

/// Returns at most [`MAX_NAMES`] names, each shortened to a maximum length.
pub fn listed_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let first_names = names.take(MAX_NAMES);
    first_names
        .map(|name| name.chars().take(MAX_NAME).collect())
        .collect()
}

#[cfg(test)]
mod tests;
