//! Alerts: messages to receivers when a server goes down, flaps, loses its tools or recovers, and when the
//! listener's certificate needs a person.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::ids::ServerName;

use super::{Glob, Secret};

/// One alert: the events and their receiver. An invalid alert makes the whole file invalid, because
/// people would notice a missing alert too late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The events to report (`on`, default all). Never empty.
    pub on: Vec<AlertKind>,
    /// Patterns for the names of the servers to report on (`servers`). Empty selects all servers.
    pub servers: Vec<Glob>,
    pub to: Receiver,
    /// Time that a server must be down before the alert (`afterMs`, default 60 s; 0 is at once).
    pub after: Duration,
    pub flapping: Flapping,
    /// Time limit of one delivery (`timeoutMs`, default 10 s).
    pub timeout: Duration,
}

impl Alert {
    /// True if this alert reports events of Mainstay itself of this kind, which no choice of servers restricts.
    pub fn is_about_itself(&self, kind: AlertKind) -> bool {
        self.on.contains(&kind)
    }

    /// True if this alert reports events of this kind for this server.
    pub fn is_about(&self, kind: AlertKind, server: &ServerName) -> bool {
        let is_selected = self.servers.is_empty()
            || self
                .servers
                .iter()
                .any(|glob| glob.matches(server.as_str()));
        self.on.contains(&kind) && is_selected
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// The server has been down for [`Alert::after`], although it should be connected.
    ServerDown,
    /// The server was lost several times; see [`Flapping`].
    Flapping,
    /// The server is connected, but no longer lists any tools.
    ToolsVanished,
    /// The listener's certificate ends soon, has expired, or cannot be replaced.
    Certificate,
    /// The problem of an earlier alert is over.
    Recovered,
}

impl AlertKind {
    pub const ALL: [Self; 5] = [
        Self::ServerDown,
        Self::Flapping,
        Self::ToolsVanished,
        Self::Certificate,
        Self::Recovered,
    ];

    /// The name in the configuration and in the delivered alert.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServerDown => "server_down",
            Self::Flapping => "flapping",
            Self::ToolsVanished => "tools_vanished",
            Self::Certificate => "certificate",
            Self::Recovered => "recovered",
        }
    }
}

/// The rule for flapping: at least `losses` losses (`flapping.losses`, default 3) within `within`
/// (`flapping.withinMs`, default 10 min).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flapping {
    pub losses: u32,
    pub within: Duration,
}

/// The destination of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receiver {
    Webhook(Webhook),
    Command(AlertCommand),
}

/// A URL that receives a POST with the alert as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// A valid `http://` or `https://` URL. It is a secret, because chat services put a key into
    /// the path.
    pub url: Secret,
    /// Valid names and values, as in [`super::HttpLaunch::headers`].
    pub headers: Vec<(String, Secret)>,
}

/// A program that receives the alert on stdin. It runs without a shell.
#[derive(Clone, PartialEq, Eq)]
pub struct AlertCommand {
    pub program: String,
    /// Expanded arguments, which may hold secrets. `Debug` shows only their number.
    pub args: Vec<String>,
}

impl fmt::Debug for AlertCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, args } = self;
        f.debug_struct("AlertCommand")
            .field("program", program)
            .field("args", &format_args!("[{} ***]", args.len()))
            .finish()
    }
}
