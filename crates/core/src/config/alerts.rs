//! Alerts: receivers that are told when a server goes down, flaps, loses its tools or recovers.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::ids::ServerName;

use super::{Glob, Secret};

/// One alert: what is sent to which receiver. A bad one fails the file: an alert that never comes is
/// noticed too late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// What is told (`on`, default everything); never empty.
    pub on: Vec<AlertKind>,
    /// Which servers it is about (`servers`, default all).
    pub servers: Vec<Glob>,
    pub to: Receiver,
    /// How long a server must be down before it is told (`afterMs`, default 60 s; 0 is at once).
    pub after: Duration,
    pub flapping: Flapping,
    /// What one delivery may take (`timeoutMs`, default 10 s).
    pub timeout: Duration,
}

impl Alert {
    /// Whether this is told of this server.
    pub fn is_about(&self, kind: AlertKind, server: &ServerName) -> bool {
        let chosen = self.servers.is_empty()
            || self
                .servers
                .iter()
                .any(|glob| glob.matches(server.as_str()));
        self.on.contains(&kind) && chosen
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// Not connected for [`Alert::after`], although its operator wants it up.
    ServerDown,
    /// Lost again and again; see [`Flapping`].
    Flapping,
    /// It is connected, and its list of tools is empty where it had some.
    ToolsVanished,
    /// What was told before is over.
    Recovered,
}

impl AlertKind {
    pub const ALL: [Self; 4] = [
        Self::ServerDown,
        Self::Flapping,
        Self::ToolsVanished,
        Self::Recovered,
    ];

    /// The word in the configuration, and in what is delivered.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServerDown => "server_down",
            Self::Flapping => "flapping",
            Self::ToolsVanished => "tools_vanished",
            Self::Recovered => "recovered",
        }
    }
}

/// When a server counts as flapping (`flapping.losses`, default 3, within `flapping.withinMs`,
/// default 10 min).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flapping {
    pub losses: u32,
    pub within: Duration,
}

/// Where an alert goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receiver {
    Webhook(Webhook),
    Command(AlertCommand),
}

/// Receives a POST with the alert as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// `http://` or `https://`, checked. Chat services put their key into its path.
    pub url: Secret,
    /// As in [`super::HttpLaunch`].
    pub headers: Vec<(String, Secret)>,
}

/// Receives the alert on stdin. Run without a shell.
#[derive(Clone, PartialEq, Eq)]
pub struct AlertCommand {
    pub program: String,
    /// Expanded, and so maybe secret: `Debug` shows their number only.
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
