//! Derives the events of a server from its statuses.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::EventKind;
use crate::{
    ids::Epoch,
    lifecycle::{SessionState, SessionStatus},
};

/// Number of attempts that get an event at the beginning of an outage. Later, only one attempt per
/// interval gets an event. The status always shows the real number.
const MAX_ANNOUNCED_ATTEMPTS: u32 = 5;
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_mins(10);

/// The state of one server, as far as its events have announced it.
#[derive(Clone, Debug)]
pub struct Observer {
    /// The state in the latest status.
    state: SessionState,
    epoch: Epoch,
    degraded: bool,
    /// True if the operator stopped the server and the stop was announced.
    at_rest: bool,
    /// The epoch of the session that ended. Set until the server connects again.
    lost: Option<Epoch>,
    /// The epoch of the latest attempt that has begun.
    starting: Epoch,
    retries: Retries,
}

impl Default for Observer {
    fn default() -> Self {
        Self {
            state: SessionState::Disconnected,
            epoch: Epoch::NONE,
            degraded: false,
            at_rest: true,
            lost: None,
            starting: Epoch::NONE,
            retries: Retries::default(),
        }
    }
}

impl Observer {
    /// Returns the events for a new status. `capabilities` returns the server's capabilities in the
    /// live session.
    pub fn observe(
        &mut self,
        status: &SessionStatus,
        capabilities: impl FnOnce() -> Value,
        now: Instant,
    ) -> Vec<EventKind> {
        let previous_state = std::mem::replace(&mut self.state, status.state);
        let epoch = std::mem::replace(&mut self.epoch, status.epoch);
        let was_up = previous_state == SessionState::Connected;
        let is_up = status.state == SessionState::Connected;
        let mut events = Vec::new();

        if was_up && !(is_up && epoch == status.epoch) {
            events.push(EventKind::ServerDisconnected {
                was_intentional: is_intended(status),
                reason: status.reason.clone().filter(|_| !is_up),
            });
            self.degraded = false;
            self.lost = Some(epoch);
        }
        if status.begun_at.is_some() && status.epoch != self.starting {
            self.starting = status.epoch;
            let is_announced = match status.state {
                SessionState::Connecting => true,
                SessionState::Reconnecting => self.retries.is_followed_by(status.epoch),
                // An attempt of a server that refuses the credentials. There may be many, so they
                // get no event.
                _ => false,
            };
            events.extend(is_announced.then_some(EventKind::ServerStarting {}));
        }
        match status.state {
            SessionState::Connected => {
                if !was_up || epoch != status.epoch {
                    events.push(self.announce_up(status, capabilities));
                }
                events.extend(self.health(status));
            }
            SessionState::Reconnecting => events.extend(self.retries.announce(status, now)),
            SessionState::Failed | SessionState::Error | SessionState::Crashed => {
                if previous_state != status.state {
                    events.push(EventKind::ServerFailed {
                        status: status.state,
                        last_error: status.reason.clone(),
                    });
                }
            }
            SessionState::Stopping | SessionState::Disconnected if is_intended(status) => {
                // If the server was reconnecting, no event has announced the stop yet.
                if !self.at_rest && !was_up {
                    events.push(EventKind::ServerDisconnected {
                        was_intentional: true,
                        reason: None,
                    });
                }
                self.lost = None;
                self.retries = Retries::default();
            }
            SessionState::Connecting | SessionState::Stopping | SessionState::Disconnected => {}
        }
        self.at_rest = matches!(
            status.state,
            SessionState::Stopping | SessionState::Disconnected
        ) && (is_intended(status) || self.at_rest);
        events
    }

    fn announce_up(
        &mut self,
        status: &SessionStatus,
        capabilities: impl FnOnce() -> Value,
    ) -> EventKind {
        self.retries = Retries::default();
        match self.lost.take() {
            None => EventKind::ServerConnected {},
            Some(lost_epoch) => EventKind::ServerReconnected {
                capabilities: capabilities(),
                attempts_taken: status.epoch.0.saturating_sub(lost_epoch.0),
            },
        }
    }

    /// Announces that health is degraded, and later that it is restored, once each.
    fn health(&mut self, status: &SessionStatus) -> Option<EventKind> {
        let health = status.health.as_ref()?;
        let was_degraded = std::mem::replace(&mut self.degraded, health.degraded);
        match (was_degraded, health.degraded) {
            (false, true) => Some(EventKind::ServerHealthDegraded {
                consecutive_failures: health.failures,
                last_error: health.last_error.clone(),
            }),
            (true, false) => Some(EventKind::ServerHealthRestored {}),
            (false, false) | (true, true) => None,
        }
    }
}

/// True if the operator ended the session. After a loss, the status has a reason, or an attempt is
/// under way.
fn is_intended(status: &SessionStatus) -> bool {
    match status.state {
        SessionState::Stopping | SessionState::Connecting => true,
        SessionState::Disconnected => status.reason.is_none(),
        // A reconnect by the operator closes the session and opens another one.
        SessionState::Reconnecting => status.reason.is_none() && !status.attempting,
        SessionState::Connected
        | SessionState::Error
        | SessionState::Failed
        | SessionState::Crashed => false,
    }
}

/// The attempts of one outage that were announced.
#[derive(Clone, Debug, Default)]
struct Retries {
    announced: u32,
    last: Option<(Epoch, Instant)>,
}

impl Retries {
    /// True for the first attempt of an outage, and for an attempt right after an announced one.
    fn is_followed_by(&self, attempt: Epoch) -> bool {
        self.last
            .is_none_or(|(announced, _)| announced.next() == attempt)
    }

    /// Announces a failed attempt or a loss once. After [`MAX_ANNOUNCED_ATTEMPTS`], only one per
    /// interval.
    fn announce(&mut self, status: &SessionStatus, now: Instant) -> Option<EventKind> {
        let next_retry = status.next_retry?;
        let is_due = self.last.is_none_or(|(epoch, announced_at)| {
            let is_rare = now.duration_since(announced_at) >= ANNOUNCEMENT_INTERVAL;
            epoch != status.epoch && (self.announced < MAX_ANNOUNCED_ATTEMPTS || is_rare)
        });
        if !is_due {
            return None;
        }
        self.announced += 1;
        self.last = Some((status.epoch, now));
        let wait = next_retry.saturating_duration_since(now);
        Some(EventKind::ServerReconnecting {
            attempt: status.attempt,
            next_retry_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            last_error: status.reason.clone(),
        })
    }
}
