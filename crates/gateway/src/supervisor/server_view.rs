//! The published view of a server, and the error of a server that cannot be called.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::{
    catalog::ServerCatalog,
    era::Eras,
    failure::Failure,
    ids::{Epoch, ServerName},
    lifecycle::{State, Status},
};
use mainstay_transport::Session;
use tokio::time::Instant;

use super::listing_schedule::Trouble;

/// A server as of now.
#[derive(Clone, Debug)]
pub struct ServerView {
    pub status: Status,
    /// Whether its operator wants it up.
    pub wanted: bool,
    pub session: Option<Arc<Session>>,
    /// The last good one; it stays while the server is being brought back, and between runs.
    pub catalog: Option<Arc<ServerCatalog>>,
    /// The attempt whose session gave the catalog; `None` while it is an earlier run's.
    pub listed: Option<Epoch>,
    /// The trouble with its lists, if there is any.
    pub list_trouble: Option<Trouble>,
    /// Whether the first attempt of this run, with its listing, is over, however it went.
    pub attempted: bool,
    /// Whether lists need not wait for that attempt: those of an earlier run are served meanwhile.
    pub has_kept_lists: bool,
    pub connected_at: Option<SystemTime>,
    /// Since when it is not connected; attempts that fail do not change it.
    pub down_since: Option<SystemTime>,
    /// Since when it is connected and degraded.
    pub degraded_since: Option<SystemTime>,
    /// How long the handshake of the session took, from the start of its attempt.
    pub handshake: Option<Duration>,
    /// The transport of the last session, which says what a URL without a transport turned out to be.
    pub spoken: Option<&'static str>,
    /// Shared sessions that have been opened.
    pub sessions: u64,
    /// Which eras it speaks, as far as that is known; kept between runs.
    pub eras: Eras,
    /// It failed after `server/discover`, and is not sent it until its operator starts it.
    pub avoids_probe: bool,
    pub crashes: Crashes,
}

/// Crashes of the server's processes since Mainstay started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    pub count: u32,
    pub last: Option<Crash>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    pub at: SystemTime,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Whether it was the process of all clients, and not one of a client's own.
    pub is_shared: bool,
}

impl ServerView {
    /// Up, with lists that come from this session.
    pub fn is_ready(&self, epoch: Epoch) -> bool {
        self.status.state == State::Connected && self.listed.is_some_and(|listed| listed >= epoch)
    }

    /// Whether clients are shown what it offers: its operator wants it up, and somebody brings it back if it is
    /// down.
    pub fn is_offered(&self) -> bool {
        self.wanted && self.status.is_kept_up()
    }

    /// Whether lists are about to be read: of the session that is open, or of one that is being opened.
    pub fn is_to_be_listed(&self) -> bool {
        let status = &self.status;
        match status.state {
            State::Connected => !self.is_ready(status.epoch),
            State::Connecting | State::Reconnecting => status.next_retry.is_none(),
            _ => false,
        }
    }

    /// Whether attempt `epoch`, or a later one, has failed.
    pub fn has_failed(&self, epoch: Epoch) -> bool {
        self.status.epoch >= epoch
            && !self.status.attempting
            && self.status.state != State::Connected
            && self.session.is_none()
    }

    pub fn is_degraded(&self) -> bool {
        self.status.is_degraded() || self.has_bad_lists()
    }

    /// Notes since when it is down or degraded. To be called when its status or its lists have changed.
    pub(super) fn note_since(&mut self) {
        let is_connected = self.status.state == State::Connected;
        let is_degraded = is_connected && self.is_degraded();
        let note = |since: &mut Option<SystemTime>, holds: bool| {
            *since = holds.then(|| since.unwrap_or_else(SystemTime::now));
        };
        note(&mut self.down_since, !is_connected);
        note(&mut self.degraded_since, is_degraded);
    }

    /// Whether its lists alone make it degraded.
    pub fn has_bad_lists(&self) -> bool {
        let trouble = self.list_trouble.as_ref();
        trouble.is_some_and(|trouble| trouble.degrades)
    }

    /// A note about its lists.
    pub fn list_note(&self) -> Option<String> {
        let trouble = self.list_trouble.as_ref();
        trouble.map(|trouble| trouble.reason.clone())
    }

    /// The state, as a call that fails now should see it: a loss may not have been noticed yet.
    pub fn state(&self) -> State {
        let over = self
            .session
            .as_ref()
            .is_some_and(|session| session.is_over());
        match self.status.state {
            State::Connected if over => self.status.if_lost,
            _ if !self.wanted => State::Disconnected,
            state => state,
        }
    }

    /// When the server was last heard, while it is up. The supervisor looks at the traffic of a session only now and
    /// then.
    pub fn heard(&self) -> Option<std::time::Instant> {
        let health = self.status.health.as_ref()?;
        let session = self.session.as_ref();
        let heard = session.map(|session| session.liveness.heard().into_std());
        Some(heard.map_or(health.heard, |heard| heard.max(health.heard)))
    }

    /// Adds what is known of the server to a failure of one of its calls.
    pub fn describe(&self, failure: Failure, server: &ServerName) -> Failure {
        let status = &self.status;
        let mut failure = failure
            .of_server(server)
            .with("status", self.state().as_str());
        if status.attempt > 0 {
            failure = failure.with("attempt", status.attempt);
        }
        if self.state() == State::Reconnecting {
            failure = failure.with("lastAttempt", status.attempt);
        }
        if let Some(reason) = &status.reason {
            failure = failure.with("lastError", reason.as_str());
        }
        if let Some(retry) = status.next_retry {
            let wait = retry.saturating_duration_since(Instant::now().into_std());
            failure = failure.with(
                "nextRetryMs",
                u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            );
        }
        failure
    }

    /// The word for the server's health in `mainstay health`, as far as evidence goes.
    pub fn diagnosis(&self) -> &'static str {
        match self.state() {
            State::Connected if self.is_degraded() => "unhealthy",
            State::Connected => "healthy",
            other => other.as_str(),
        }
    }
}
