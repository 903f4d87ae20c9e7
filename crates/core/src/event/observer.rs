//! Derives a server's events from its statuses.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::EventKind;
use crate::{
    ids::Epoch,
    lifecycle::{State, Status},
};

/// The first attempts of an outage are announced, and after them one in a while. Counters are always
/// live in the status.
const TOLD_ATTEMPTS: u32 = 5;
const TOLD_EVERY: Duration = Duration::from_mins(10);

/// Remembers what was said of one server.
#[derive(Clone, Debug)]
pub struct Observer {
    /// The status shown last.
    state: State,
    epoch: Epoch,
    degraded: bool,
    /// It is down as its operator wants it, and that has been announced.
    at_rest: bool,
    /// It was up until this attempt's session was lost, or given up for a new one.
    lost: Option<Epoch>,
    /// The latest attempt whose beginning was seen.
    starting: Epoch,
    retries: Retries,
}

impl Default for Observer {
    fn default() -> Self {
        Self {
            state: State::Disconnected,
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
    /// The events that follow from a new status. `capabilities` are those of the live session, as
    /// the server declared them.
    pub fn observe(
        &mut self,
        status: &Status,
        capabilities: impl FnOnce() -> Value,
        now: Instant,
    ) -> Vec<EventKind> {
        let before = std::mem::replace(&mut self.state, status.state);
        let epoch = std::mem::replace(&mut self.epoch, status.epoch);
        let was_up = before == State::Connected;
        let is_up = status.state == State::Connected;
        let mut events = Vec::new();

        if was_up && !(is_up && epoch == status.epoch) {
            events.push(EventKind::ServerDisconnected {
                was_intentional: is_wanted(status),
                reason: status.reason.clone().filter(|_| !is_up),
            });
            self.degraded = false;
            self.lost = Some(epoch);
        }
        if status.begun.is_some() && status.epoch != self.starting {
            self.starting = status.epoch;
            let is_told = match status.state {
                State::Connecting => true,
                State::Reconnecting => self.retries.is_followed_by(status.epoch),
                // A server that lets nobody in is tried again and again.
                _ => false,
            };
            events.extend(is_told.then_some(EventKind::ServerStarting {}));
        }
        match status.state {
            State::Connected => {
                if !was_up || epoch != status.epoch {
                    events.push(self.up(status, capabilities));
                }
                events.extend(self.health(status));
            }
            State::Reconnecting => events.extend(self.retries.told(status, now)),
            State::Failed | State::Error | State::Crashed => {
                if before != status.state {
                    events.push(EventKind::ServerFailed {
                        status: status.state,
                        last_error: status.reason.clone(),
                    });
                }
            }
            State::Stopping | State::Disconnected if is_wanted(status) => {
                // A server that is stopped or removed while it reconnects announces nothing else.
                if !self.at_rest && !was_up {
                    events.push(EventKind::ServerDisconnected {
                        was_intentional: true,
                        reason: None,
                    });
                }
                self.lost = None;
                self.retries = Retries::default();
            }
            State::Connecting | State::Stopping | State::Disconnected => {}
        }
        self.at_rest = matches!(status.state, State::Stopping | State::Disconnected)
            && (is_wanted(status) || self.at_rest);
        events
    }

    fn up(&mut self, status: &Status, capabilities: impl FnOnce() -> Value) -> EventKind {
        self.retries = Retries::default();
        match self.lost.take() {
            None => EventKind::ServerConnected {},
            Some(lost) => EventKind::ServerReconnected {
                capabilities: capabilities(),
                attempts_taken: status.epoch.0.saturating_sub(lost.0),
            },
        }
    }

    /// Announces degraded health once, and restored health only after it.
    fn health(&mut self, status: &Status) -> Option<EventKind> {
        let health = status.health.as_ref()?;
        let was = std::mem::replace(&mut self.degraded, health.degraded);
        match (was, health.degraded) {
            (false, true) => Some(EventKind::ServerHealthDegraded {
                consecutive_failures: health.failures,
                last_error: health.last_error.clone(),
            }),
            (true, false) => Some(EventKind::ServerHealthRestored {}),
            (false, false) | (true, true) => None,
        }
    }
}

/// Whether a server that is no longer up is so because its operator wanted it: a loss has a reason,
/// or the attempt that follows at once.
fn is_wanted(status: &Status) -> bool {
    match status.state {
        State::Stopping | State::Connecting => true,
        State::Disconnected => status.reason.is_none(),
        // A forced reconnect closes the session and opens another.
        State::Reconnecting => status.reason.is_none() && !status.attempting,
        State::Connected | State::Error | State::Failed | State::Crashed => false,
    }
}

/// What was told of the attempts of one outage.
#[derive(Clone, Debug, Default)]
struct Retries {
    told: u32,
    last: Option<(Epoch, Instant)>,
}

impl Retries {
    /// Whether this attempt follows a failure that was told, or is the first one of an outage.
    fn is_followed_by(&self, attempt: Epoch) -> bool {
        self.last.is_none_or(|(told, _)| told.next() == attempt)
    }

    /// Once for each failed attempt and each loss, as far as [`TOLD_ATTEMPTS`] allows.
    fn told(&mut self, status: &Status, now: Instant) -> Option<EventKind> {
        let next_retry = status.next_retry?;
        let due = self.last.is_none_or(|(epoch, at)| {
            let rare = now.duration_since(at) >= TOLD_EVERY;
            epoch != status.epoch && (self.told < TOLD_ATTEMPTS || rare)
        });
        if !due {
            return None;
        }
        self.told += 1;
        self.last = Some((status.epoch, now));
        let wait = next_retry.saturating_duration_since(now);
        Some(EventKind::ServerReconnecting {
            attempt: status.attempt,
            next_retry_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            last_error: status.reason.clone(),
        })
    }
}
