//! The life of one upstream session: pure decisions about when to open, close, wait and give up
//! (design section 5).
//!
//! [`Lifecycle::step`] takes what happened and answers with at most one thing to do. Time is an
//! argument; the driver sleeps until [`Lifecycle::deadline`] and then steps with [`Event::Tick`].

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::ids::Epoch;

/// When and how often to try again. The presets of later versions are values of this type.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Spawn or connect, and handshake.
    pub connect_timeout: Duration,
    /// How long a closing session may take before it is killed.
    pub close_timeout: Duration,
    /// Whether lost sessions come back by themselves.
    pub reconnect: bool,
    pub initial_delay: Duration,
    pub max_delay: Duration,
    pub multiplier: u32,
    /// Fraction of a delay by which it varies, up or down, applied after the cap (G7).
    pub jitter: f64,
    /// Crashes in a row after which a process is left alone (Y1).
    pub max_crashes: u32,
    /// Losses are forgiven after this time of being up, not on connect: a server that dies after
    /// each handshake backs off.
    pub forgive_after: Duration,
    /// Feeds the jitter, so that a history can be repeated.
    pub seed: u64,
}

impl Default for Policy {
    /// Row `default` of section Y of the requirements.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(10),
            reconnect: true,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
            multiplier: 2,
            jitter: 0.1,
            max_crashes: 5,
            forgive_after: Duration::from_secs(60),
            seed: 0,
        }
    }
}

/// A waiting call may bring an attempt forward, but not sooner than this after the last one.
const CALL_ATTEMPT_SPACING: Duration = Duration::from_secs(1);

impl Policy {
    /// The wait before attempt `attempt` (1, 2, …) of `epoch`.
    fn delay(&self, attempt: u32, epoch: Epoch) -> Duration {
        let factor = self.multiplier.saturating_pow(attempt.saturating_sub(1));
        let capped = self
            .initial_delay
            .saturating_mul(factor)
            .min(self.max_delay);
        let swing = capped.mul_f64(self.jitter * 2.0 * unit_random(self.seed ^ epoch.0));
        capped.saturating_sub(capped.mul_f64(self.jitter)) + swing
    }
}

/// A number in 0..1 that depends on `seed` alone (SplitMix64).
#[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64")]
fn unit_random(seed: u64) -> f64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// How a session was lost, or why none came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    #[error("disconnected: {0}")]
    Disconnected(String),
    #[error("process exited unexpectedly ({})", exit_words(*code, *signal))]
    Crashed {
        code: Option<i32>,
        signal: Option<i32>,
    },
    #[error("no handshake within {} ms", .0.as_millis())]
    ConnectTimeout(Duration),
    #[error("cannot connect: {0}")]
    ConnectFailed(String),
    #[error("the server ended the session")]
    SessionExpired,
    #[error("cannot start: {0}")]
    CannotSpawn(String),
    #[error("initialize failed: {0}")]
    Rejected(String),
    #[error("unauthorized: {0}")]
    Unauthorized(String),
}

fn exit_words(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => format!("code {code}"),
        (None, None) => "no exit status".to_owned(),
    }
}

impl Loss {
    /// Whether trying again by itself could help.
    fn retried(&self) -> bool {
        !matches!(
            self,
            Self::CannotSpawn(_) | Self::Rejected(_) | Self::Unauthorized(_)
        )
    }
}

/// Why a session is down and stays down until someone starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Never started, or stopped by its operator.
    Stopped,
    /// Lost, and not to be retried by itself.
    Lost(Loss),
    /// Given up after too many crashes.
    Failed(Loss),
}

/// Where a session stands. Statuses are derived from this, never stored (invariant 2).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Down(Why),
    Connecting {
        since: Instant,
    },
    Up {
        since: Instant,
    },
    /// The old session must end before anything else may begin (invariant 9).
    Closing {
        kill_at: Option<Instant>,
        then: Then,
    },
    Waiting {
        until: Instant,
        last_attempt: Instant,
        loss: Loss,
    },
}

/// What follows a closing session.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Then {
    Stay,
    Reopen,
    Retry(Loss),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The operator wants it up; in any state but `Up` and `Connecting` this opens at once.
    Start,
    Stop,
    /// A call found no session and waits for one.
    CallWaiting,
    /// The deadline has come.
    Tick,
    Io(Epoch, Report),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Opened,
    /// The session, and its process with its whole tree, is gone.
    Ended(Loss),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Open(Epoch),
    Close(Epoch),
    Kill(Epoch),
}

/// The state of one upstream session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    epoch: Epoch,
    /// Losses in a row, not yet forgiven: the number of the attempt that follows.
    losses: u32,
    /// Crashes in a row, not yet forgiven.
    crashes: u32,
    phase: Phase,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            epoch: Epoch::NONE,
            losses: 0,
            crashes: 0,
            phase: Phase::Down(Why::Stopped),
        }
    }
}

impl Lifecycle {
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What follows from `event` at `now`: the new state, and at most one thing to do.
    #[must_use]
    pub fn step(self, event: Event, now: Instant, policy: &Policy) -> (Self, Option<Effect>) {
        match event {
            Event::Io(epoch, _) if epoch != self.epoch => (self, None),
            Event::Io(_, Report::Opened) => self.opened(now),
            Event::Io(_, Report::Ended(loss)) => self.ended(loss, now, policy),
            Event::Start => self.start(now, policy),
            Event::Stop => self.stop(now, policy),
            Event::CallWaiting => self.call_waiting(now),
            Event::Tick => self.tick(now, policy),
        }
    }

    /// When the driver must step with [`Event::Tick`], if nothing else happens before.
    pub fn deadline(&self, policy: &Policy) -> Option<Instant> {
        match &self.phase {
            Phase::Down(_) | Phase::Up { .. } => None,
            Phase::Connecting { since } => Some(*since + policy.connect_timeout),
            Phase::Closing { kill_at, .. } => *kill_at,
            Phase::Waiting { until, .. } => Some(*until),
        }
    }

    fn to(self, phase: Phase) -> (Self, Option<Effect>) {
        (Self { phase, ..self }, None)
    }

    fn open(self, now: Instant) -> (Self, Option<Effect>) {
        let epoch = self.epoch.next();
        (
            Self {
                epoch,
                phase: Phase::Connecting { since: now },
                ..self
            },
            Some(Effect::Open(epoch)),
        )
    }

    fn close(self, then: Then, now: Instant, policy: &Policy) -> (Self, Option<Effect>) {
        let epoch = self.epoch;
        let kill_at = Some(now + policy.close_timeout);
        (
            Self {
                phase: Phase::Closing { kill_at, then },
                ..self
            },
            Some(Effect::Close(epoch)),
        )
    }

    fn opened(self, now: Instant) -> (Self, Option<Effect>) {
        match self.phase {
            Phase::Connecting { .. } => self.to(Phase::Up { since: now }),
            Phase::Down(_) | Phase::Up { .. } | Phase::Closing { .. } | Phase::Waiting { .. } => {
                (self, None)
            }
        }
    }

    fn ended(mut self, loss: Loss, now: Instant, policy: &Policy) -> (Self, Option<Effect>) {
        match self.phase {
            Phase::Connecting { .. } => self.lost(loss, now, policy),
            Phase::Up { since } => {
                if now.duration_since(since) >= policy.forgive_after {
                    (self.losses, self.crashes) = (0, 0);
                }
                self.lost(loss, now, policy)
            }
            Phase::Closing {
                then: Then::Stay, ..
            } => self.to(Phase::Down(Why::Stopped)),
            Phase::Closing {
                then: Then::Reopen, ..
            } => self.open(now),
            Phase::Closing {
                then: Then::Retry(ref cause),
                ..
            } => {
                let cause = cause.clone();
                self.lost(cause, now, policy)
            }
            Phase::Down(_) | Phase::Waiting { .. } => (self, None),
        }
    }

    /// The session is gone: try again at once, later, or not at all.
    fn lost(mut self, loss: Loss, now: Instant, policy: &Policy) -> (Self, Option<Effect>) {
        if !policy.reconnect || !loss.retried() {
            return self.to(Phase::Down(Why::Lost(loss)));
        }
        // A server that forgets sessions is asked for a new one without a wait, once in a row (E11).
        if loss == Loss::SessionExpired && self.losses == 0 {
            self.losses = 1;
            return self.open(now);
        }
        if matches!(loss, Loss::Crashed { .. }) {
            self.crashes += 1;
            if self.crashes > policy.max_crashes {
                return self.to(Phase::Down(Why::Failed(loss)));
            }
        }
        self.losses += 1;
        let until = now + policy.delay(self.losses, self.epoch);
        self.to(Phase::Waiting {
            until,
            last_attempt: now,
            loss,
        })
    }

    fn start(mut self, now: Instant, policy: &Policy) -> (Self, Option<Effect>) {
        match self.phase {
            Phase::Down(_) | Phase::Waiting { .. } => {
                (self.losses, self.crashes) = (0, 0);
                self.open(now)
            }
            Phase::Closing { kill_at, .. } => self.to(Phase::Closing {
                kill_at,
                then: Then::Reopen,
            }),
            Phase::Connecting { since } if now.duration_since(since) >= policy.connect_timeout => {
                self.tick(now, policy)
            }
            Phase::Connecting { .. } | Phase::Up { .. } => (self, None),
        }
    }

    fn stop(self, now: Instant, policy: &Policy) -> (Self, Option<Effect>) {
        match self.phase {
            Phase::Down(_) | Phase::Waiting { .. } => self.to(Phase::Down(Why::Stopped)),
            Phase::Closing { kill_at, .. } => self.to(Phase::Closing {
                kill_at,
                then: Then::Stay,
            }),
            Phase::Connecting { .. } | Phase::Up { .. } => self.close(Then::Stay, now, policy),
        }
    }

    fn call_waiting(self, now: Instant) -> (Self, Option<Effect>) {
        match self.phase {
            Phase::Waiting {
                until,
                last_attempt,
                loss,
            } => {
                let until = until.min(last_attempt + CALL_ATTEMPT_SPACING);
                let this = Self {
                    phase: Phase::Waiting {
                        until,
                        last_attempt,
                        loss,
                    },
                    ..self
                };
                if until <= now {
                    this.open(now)
                } else {
                    (this, None)
                }
            }
            Phase::Down(_)
            | Phase::Connecting { .. }
            | Phase::Up { .. }
            | Phase::Closing { .. } => (self, None),
        }
    }

    fn tick(self, now: Instant, policy: &Policy) -> (Self, Option<Effect>) {
        if self.deadline(policy).is_none_or(|deadline| now < deadline) {
            return (self, None);
        }
        match self.phase {
            Phase::Connecting { .. } => {
                let loss = Loss::ConnectTimeout(policy.connect_timeout);
                self.close(Then::Retry(loss), now, policy)
            }
            Phase::Closing { then, .. } => {
                let epoch = self.epoch;
                (
                    Self {
                        phase: Phase::Closing {
                            kill_at: None,
                            then,
                        },
                        ..self
                    },
                    Some(Effect::Kill(epoch)),
                )
            }
            Phase::Waiting { .. } => self.open(now),
            Phase::Down(_) | Phase::Up { .. } => (self, None),
        }
    }

    /// The projection that people and programs see.
    pub fn status(&self) -> Status {
        let (state, reason, next_retry) = match &self.phase {
            Phase::Down(Why::Stopped) => (State::Disconnected, None, None),
            Phase::Down(Why::Lost(loss @ Loss::Crashed { .. })) => {
                (State::Crashed, Some(loss), None)
            }
            Phase::Down(Why::Lost(loss)) => (State::Error, Some(loss), None),
            Phase::Down(Why::Failed(loss)) => (State::Failed, Some(loss), None),
            Phase::Connecting { .. } if self.losses == 0 => (State::Connecting, None, None),
            Phase::Connecting { .. } => (State::Reconnecting, None, None),
            Phase::Up { .. } => (State::Connected, None, None),
            Phase::Closing {
                then: Then::Stay, ..
            } => (State::Stopping, None, None),
            Phase::Closing {
                then: Then::Reopen, ..
            } => (State::Reconnecting, None, None),
            Phase::Closing {
                then: Then::Retry(loss),
                ..
            } => (State::Reconnecting, Some(loss), None),
            Phase::Waiting { until, loss, .. } => (State::Reconnecting, Some(loss), Some(*until)),
        };
        Status {
            state,
            attempt: self.losses,
            reason: reason.map(ToString::to_string),
            next_retry,
        }
    }
}

/// The canonical states (Y3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Disconnected,
    Connecting,
    Connected,
    Reconnecting,
    Error,
    Failed,
    Crashed,
    Stopping,
}

impl State {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Reconnecting => "reconnecting",
            Self::Error => "error",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::Stopping => "stopping",
        }
    }

    /// Whether a session may come about without anyone starting it: a call does well to wait.
    pub const fn is_hopeful(self) -> bool {
        matches!(self, Self::Connecting | Self::Reconnecting)
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A status always carries its reason, the attempt and the next retry (invariant 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub state: State,
    /// Losses in a row; 0 when all is well.
    pub attempt: u32,
    pub reason: Option<String>,
    pub next_retry: Option<Instant>,
}

#[cfg(test)]
mod tests;
