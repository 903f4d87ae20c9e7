//! The published view of a server, and the details that it adds to the failures of calls.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::{
    catalog::ServerCatalog,
    era::Eras,
    failure::Failure,
    ids::{Epoch, ServerName},
    lifecycle::{SessionState, SessionStatus},
};
use mainstay_transport::UpstreamSession;
use tokio::time::Instant;

use super::listing_schedule::ListTrouble;

/// A snapshot of a server, as its supervisor publishes it.
#[derive(Clone, Debug)]
pub struct ServerView {
    pub status: SessionStatus,
    /// True if the operator wants the server up.
    pub is_desired_up: bool,
    pub session: Option<Arc<UpstreamSession>>,
    /// The last complete catalog. It is kept while the server is down, and in a file between runs.
    pub catalog: Option<Arc<ServerCatalog>>,
    /// The attempt whose session was listed last. `None` if the catalog is from an earlier run.
    pub listed: Option<Epoch>,
    /// The trouble with the server's lists, if there is any.
    pub list_trouble: Option<ListTrouble>,
    /// True when the first attempt of this run has ended, with or without success. A success includes
    /// the listing.
    pub attempted: bool,
    /// True if the catalog file has lists for the present client declaration. Callers get these lists
    /// and need not wait for the first attempt.
    pub has_kept_lists: bool,
    pub connected_at: Option<SystemTime>,
    /// Time at which the server was last lost, or at which Mainstay started. `None` while connected.
    pub down_since: Option<SystemTime>,
    /// Time at which the connected server became degraded.
    pub degraded_since: Option<SystemTime>,
    /// Duration of the last handshake, from the start of its attempt.
    pub handshake: Option<Duration>,
    /// The transport of the last session. For a URL whose entry names no transport, this is the
    /// detected one.
    pub last_transport: Option<&'static str>,
    /// Number of shared sessions that have been opened in this run.
    pub sessions: u64,
    /// The eras that the server is known to speak. Stored between runs.
    pub eras: Eras,
    /// True if the server failed after `server/discover`. For some time, or until the operator starts
    /// the server, no further `server/discover` is sent.
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
    /// True if the process served the shared session. False if it served an isolated session.
    pub is_shared: bool,
}

impl ServerView {
    /// True if the server is connected and was listed in this attempt or a later attempt.
    pub fn is_ready(&self, epoch: Epoch) -> bool {
        self.status.state == SessionState::Connected
            && self.listed.is_some_and(|listed| listed >= epoch)
    }

    /// True if clients see the server's items: the operator wants the server up, and it is either
    /// connected or will be reconnected.
    pub fn is_offered(&self) -> bool {
        self.is_desired_up && self.status.is_kept_up()
    }

    /// True if a listing of the open session, or of a session that is being opened, is still to come.
    pub fn is_to_be_listed(&self) -> bool {
        let status = &self.status;
        match status.state {
            SessionState::Connected => !self.is_ready(status.epoch),
            SessionState::Connecting | SessionState::Reconnecting => status.next_retry.is_none(),
            _ => false,
        }
    }

    /// True if attempt `epoch` or a later attempt has failed.
    pub fn has_failed(&self, epoch: Epoch) -> bool {
        self.status.epoch >= epoch
            && !self.status.attempting
            && self.status.state != SessionState::Connected
            && self.session.is_none()
    }

    pub fn is_degraded(&self) -> bool {
        self.status.is_degraded() || self.has_bad_lists()
    }

    /// Updates `down_since` and `degraded_since`. Must be called after each change of the status or
    /// the lists.
    pub(super) fn update_since(&mut self) {
        let is_connected = self.status.state == SessionState::Connected;
        let is_degraded = is_connected && self.is_degraded();
        let update = |since: &mut Option<SystemTime>, holds: bool| {
            *since = holds.then(|| since.unwrap_or_else(SystemTime::now));
        };
        update(&mut self.down_since, !is_connected);
        update(&mut self.degraded_since, is_degraded);
    }

    /// True if trouble with the lists makes the server degraded.
    pub fn has_bad_lists(&self) -> bool {
        let trouble = self.list_trouble.as_ref();
        trouble.is_some_and(|trouble| trouble.degrades)
    }

    /// The reason of the trouble with the server's lists, if there is any.
    pub fn list_note(&self) -> Option<String> {
        let trouble = self.list_trouble.as_ref();
        trouble.map(|trouble| trouble.reason.clone())
    }

    /// The current state. Unlike `status.state`, it reflects a loss that the supervisor has not
    /// handled yet.
    pub fn state(&self) -> SessionState {
        let over = self
            .session
            .as_ref()
            .is_some_and(|session| session.is_over());
        match self.status.state {
            SessionState::Connected if over => self.status.if_lost,
            _ if !self.is_desired_up => SessionState::Disconnected,
            state => state,
        }
    }

    /// Time at which the server's last message arrived. `None` while the server is not up. More
    /// current than the lifecycle's health data, which the supervisor updates only at intervals.
    pub fn last_message_at(&self) -> Option<std::time::Instant> {
        let health = self.status.health.as_ref()?;
        let session = self.session.as_ref();
        let last_message_at = session.map(|session| session.liveness.last_message_at().into_std());
        Some(last_message_at.map_or(health.last_message_at, |time| {
            time.max(health.last_message_at)
        }))
    }

    /// Adds the server's status to the failure of a call, as details.
    pub fn describe(&self, failure: Failure, server: &ServerName) -> Failure {
        let status = &self.status;
        let mut failure = failure
            .with_server(server)
            .with("status", self.state().as_str());
        if status.attempt > 0 {
            failure = failure.with("attempt", status.attempt);
        }
        if self.state() == SessionState::Reconnecting {
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

    /// The health of the server, as `mainstay health` shows it.
    pub fn diagnosis(&self) -> &'static str {
        match self.state() {
            SessionState::Connected if self.is_degraded() => "unhealthy",
            SessionState::Connected => "healthy",
            other => other.as_str(),
        }
    }
}
