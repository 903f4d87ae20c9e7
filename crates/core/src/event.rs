//! Events of servers, in the format of `mainstay events` and `/api/events`
//! (docs/dev/requirements.md, section I).
//!
//! Each server has an [`Observer`]. It receives every status in order. It returns events only for
//! real changes, and one event for several triggers.

mod observer;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::observer::Observer;
use crate::{ids::ServerName, lifecycle::SessionState, suspects::Arguments};

/// Maximum number of names in one `tools_changed`. Further names are only counted, so that a
/// thousand tools do not fill the ring.
pub const MAX_NAMES: usize = 100;

/// Maximum length of a name in `tools_changed`, in characters.
const MAX_NAME: usize = 256;

/// The position of an event among all events. The text form has a fixed width, so that texts sort
/// in the same order. An id consists of the milliseconds since 1970 and a counter, so ids keep
/// growing after a restart of Mainstay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(u64);

/// Ids in one millisecond. More ids borrow from the next millisecond.
const IDS_PER_MILLI: u64 = 10_000;
/// Decimal digits of an id, enough until the year 2286.
const DIGITS: usize = 17;

impl EventId {
    /// The id after this one, for an event at `unix_millis`. Ids grow even if the clock was set
    /// back.
    #[must_use]
    pub fn next(self, unix_millis: u64) -> Self {
        Self((self.0 + 1).max(unix_millis.saturating_mul(IDS_PER_MILLI)))
    }

    /// Time of the event.
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

/// The kind of an event, with its data. On the wire, `data` also has the server's `name`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    content = "data",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum EventKind {
    /// An operator or a client added the server while Mainstay runs.
    ServerAdded {},
    ServerRemoved {},
    /// An attempt to start or connect the server has begun. In a long outage only some attempts are
    /// announced.
    ServerStarting {},
    /// The server is connected for the first time since the operator started it.
    ServerConnected {},
    /// The session ended. The end is intentional if the operator stopped, removed or reconnected
    /// the server.
    ServerDisconnected {
        was_intentional: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The server waits for the next attempt. In a long outage only some attempts are announced.
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
    /// Probes or calls fail, so the server is degraded.
    ServerHealthDegraded {
        consecutive_failures: u32,
        last_error: Option<String>,
    },
    /// The server is healthy again after [`EventKind::ServerHealthDegraded`].
    ServerHealthRestored {},
    /// The server is not retried without a person, or only rarely. `status` is `failed`, `error` or
    /// `crashed`.
    ServerFailed {
        status: SessionState,
        last_error: Option<String>,
    },
    /// A call was in flight at this number of crashes and is refused for a while. `tool` is the
    /// original name of the called tool, if the server's lists have it.
    CallRefused {
        method: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        arguments: Arguments,
        crashes: u32,
        retry_after_ms: u64,
    },
    /// The call is allowed again, because the time of the refusal has passed or the operator has
    /// started the server.
    CallAllowed {
        method: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        arguments: Arguments,
    },
    /// A request of the server waits for an answer of the operator (`GET /api/server-requests`).
    ServerRequestWaiting {
        id: u64,
        method: String,
    },
    /// The request no longer waits.
    ServerRequestSettled {
        id: u64,
        method: String,
        outcome: Settled,
    },
    /// The server's list of tools differs from the last known one. `added` and `removed` have at
    /// most [`MAX_NAMES`] names each. `count` is the present number of tools.
    ToolsChanged {
        added: Vec<String>,
        removed: Vec<String>,
        count: usize,
    },
    /// A new configuration is in force. It added, removed or changed these servers.
    ConfigReloaded {
        added: Vec<ServerName>,
        removed: Vec<ServerName>,
        changed: Vec<ServerName>,
    },
    /// A new configuration is invalid. The old one stays in force.
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

/// The end of a request that waited for an answer of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    Answered,
    Refused,
    /// There was no answer in time.
    Expired,
    /// The server is gone.
    Disconnected,
    /// The server has cancelled the request.
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
    /// True if the event is about a request of a server, which may be for one client only.
    pub const fn is_about_request(&self) -> bool {
        matches!(
            self,
            Self::ServerRequestWaiting { .. } | Self::ServerRequestSettled { .. }
        )
    }

    /// The changes between two lists of tools. `None` if there are none.
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

/// At most [`MAX_NAMES`] names, each of a limited length.
pub fn listed_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let first_names = names.take(MAX_NAMES);
    first_names
        .map(|name| name.chars().take(MAX_NAME).collect())
        .collect()
}

#[cfg(test)]
mod tests;
