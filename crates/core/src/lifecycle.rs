//! The lifecycle of one upstream session: pure decisions to open, close, wait and give up.
//!
//! [`Lifecycle::step`] takes an event and returns the new state and at most one effect. Time is an
//! argument. The supervisor sleeps until [`Lifecycle::deadline`] and then steps with
//! [`Event::Tick`].

mod ends;
mod evidence;
mod loss;
mod policy;
mod status;

use std::time::{Duration, Instant};

pub(crate) use self::policy::add_jitter;
pub use self::{
    loss::Loss,
    policy::{InitialFailure, Policy, Preset, Reconnect, ReconnectMode, Restart, RestartMode},
    status::{SessionState, SessionStatus, Words},
};
use crate::{
    health::{FailingCalls, Fault, ProbeOutcome, Tally},
    ids::Epoch,
};

/// The reason that a session is down. No timer opens it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// The session was never started, or the operator stopped it.
    Stopped,
    /// The session was lost, and the policy does not reopen it by itself.
    Lost(Loss),
    /// An attempt failed, and the policy does not retry.
    Refused(Loss),
    /// The policy gave up after too many attempts.
    Failed(Loss),
}

/// The phase of a session. The status is derived from the phase and never stored (invariant 2).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Down(DownReason),
    Connecting {
        /// Time at which the attempt began. `None` while it waits for a slot or for the attempt
        /// limiter.
        since: Option<Instant>,
        /// Time of the last sign of work of the attempt's processes.
        last_work_at: Option<Instant>,
        /// The planned time of this attempt, if a call brought it forward.
        planned: Option<Instant>,
    },
    Up {
        since: Instant,
        tally: Tally,
        /// The planned time of the attempt that opened this session, if a call brought it forward.
        planned: Option<Instant>,
    },
    /// The old session must end before the next attempt begins (invariant 9).
    Closing {
        kill_at: Option<Instant>,
        then: Then,
    },
    Waiting {
        until: Instant,
        /// Earliest time of the attempt, if a call brings it forward.
        earliest: Instant,
        /// The original value of `until`, if a call has brought the attempt forward.
        planned: Option<Instant>,
        loss: Loss,
    },
}

/// The next step after a session has closed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Then {
    Stay,
    Reopen,
    /// Make a new attempt. The closed session was never up, so its end is a failed attempt.
    Retry {
        loss: Loss,
        planned: Option<Instant>,
    },
    /// Make a new attempt. The closed session was up since `since`, so its end is a loss.
    Lose {
        loss: Loss,
        since: Instant,
        planned: Option<Instant>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The operator starts the server. Opens a session, unless one is up or being opened.
    Start,
    Stop,
    /// The operator requests a new session. Valid in any phase.
    Reconnect,
    /// A call waits for a session.
    CallWaiting,
    /// The machine woke from sleep.
    Resumed,
    /// The deadline has passed.
    Tick,
    Io(Epoch, SessionReport),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionReport {
    /// The attempt has its slot or its turn, and begins. Its time limit starts now.
    Begun,
    /// The attempt's processes showed a sign of work at this time.
    AtWork(Instant),
    Opened,
    /// The server sent its last message at this time.
    MessageReceived(Instant),
    /// The number of failed calls since the server's last message, and the fault of the last call.
    Failed(u32, Option<Fault>),
    /// The calls that have failed since the last answered call.
    FailedInRow(FailingCalls),
    /// The number of unanswered calls in a row, or `None` if the connection does not refuse calls.
    Stalled(Option<u32>),
    /// An incident after which older evidence does not count. A probe is due at once.
    Doubted,
    Probe(ProbeOutcome),
    /// The session has ended, and its whole process tree is gone.
    Ended(Loss),
    /// Like `Ended`, for a crash whose suspect calls are refused from now on. The number counts all
    /// crashes by these calls, including this one.
    Poisoned(Loss, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Open(Epoch),
    Probe(Epoch),
    Close(Epoch),
    Kill(Epoch),
}

/// The state of one upstream session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    epoch: Epoch,
    /// Losses in a row that are not yet forgiven.
    losses: u32,
    /// Crashes in a row that are not yet forgiven, if the policy counts crashes separately.
    crashes: u32,
    /// True if a session has been up since the operator started the server.
    was_up: bool,
    /// True after an expired session was reopened without a wait. Reset by a later session that
    /// lives for [`ends::ATTEMPT_SPACING`].
    reopened_expired: bool,
    /// Time at which the last attempt began or was queued.
    last_attempt_at: Option<Instant>,
    /// The loss of the last session or attempt. The status shows it until a session opens.
    last_loss: Option<Loss>,
    phase: Phase,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            epoch: Epoch::NONE,
            losses: 0,
            crashes: 0,
            was_up: false,
            reopened_expired: false,
            last_attempt_at: None,
            last_loss: None,
            phase: Phase::Down(DownReason::Stopped),
        }
    }
}

type Step = (Lifecycle, Option<Effect>);

impl Lifecycle {
    /// Returns a new lifecycle whose epochs are all later than `past`.
    pub fn after(past: Epoch) -> Self {
        Self {
            epoch: past,
            ..Self::default()
        }
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the state after `event` at `now`, and at most one effect for the supervisor.
    #[must_use]
    pub fn step(self, event: Event, now: Instant, policy: &Policy) -> Step {
        match event {
            Event::Io(epoch, _) if epoch != self.epoch => (self, None),
            Event::Io(_, SessionReport::Begun) => self.attempt_begun(now),
            Event::Io(_, SessionReport::AtWork(time)) => self.handle_work(time),
            Event::Io(_, SessionReport::Opened) => self.handle_open(now),
            Event::Io(_, SessionReport::MessageReceived(time)) => self.handle_message(time),
            Event::Io(_, SessionReport::Failed(calls, fault)) => {
                self.handle_failed_calls(calls, fault, now, policy)
            }
            Event::Io(_, SessionReport::FailedInRow(calls)) => self.failed_in_row(calls, now),
            Event::Io(_, SessionReport::Stalled(calls)) => self.handle_stall(calls, now),
            Event::Io(_, SessionReport::Doubted) => self.handle_doubt(now),
            Event::Io(_, SessionReport::Probe(outcome)) => self.handle_probe(outcome, now, policy),
            Event::Io(_, SessionReport::Ended(loss)) => self.handle_end(loss, now, policy),
            Event::Io(_, SessionReport::Poisoned(loss, crashes)) => {
                self.handle_poisoned_crash(loss, crashes, now, policy)
            }
            Event::Start => self.start(now, policy),
            Event::Stop => self.stop(now, policy),
            Event::Reconnect => self.reconnect(now, policy),
            Event::CallWaiting => self.call_waiting(now, policy),
            Event::Resumed => self.handle_resume(now),
            Event::Tick => self.tick(now, policy),
        }
    }

    /// Time at which the supervisor must step with [`Event::Tick`] if no event comes first.
    pub fn deadline(&self, policy: &Policy) -> Option<Instant> {
        match &self.phase {
            Phase::Down(_) => None,
            Phase::Connecting {
                since,
                last_work_at,
                ..
            } => {
                let since = (*since)?;
                let silent_since =
                    last_work_at.map_or(since, |last_work_at| last_work_at.max(since));
                let end = since + policy.longest_start();
                Some(end.min(silent_since + policy.connect_timeout))
            }
            Phase::Up { tally, .. } => tally.due(&policy.health, self.seed(policy)),
            Phase::Closing { kill_at, .. } => *kill_at,
            Phase::Waiting { until, .. } => Some(*until),
        }
    }

    /// Tolerated delay of the tick after the deadline, so that one wake-up serves many sessions.
    pub fn leeway(&self, policy: &Policy) -> Duration {
        match &self.phase {
            Phase::Up { tally, .. } => tally.leeway(&policy.health, self.seed(policy)),
            Phase::Down(_)
            | Phase::Connecting { .. }
            | Phase::Closing { .. }
            | Phase::Waiting { .. } => Duration::ZERO,
        }
    }

    fn to(self, phase: Phase) -> Step {
        (Self { phase, ..self }, None)
    }

    fn open(self, planned: Option<Instant>, now: Instant) -> Step {
        let epoch = self.epoch.next();
        let phase = Phase::Connecting {
            since: None,
            last_work_at: None,
            planned,
        };
        (
            Self {
                epoch,
                last_attempt_at: Some(now),
                phase,
                ..self
            },
            Some(Effect::Open(epoch)),
        )
    }

    /// Forgives all losses, because a person requested a session.
    fn forgive_losses(self) -> Self {
        Self {
            losses: 0,
            crashes: 0,
            reopened_expired: false,
            last_loss: None,
            ..self
        }
    }

    /// Forgets the history, because the operator starts the server.
    fn reset(self) -> Self {
        Self {
            was_up: false,
            ..self.forgive_losses()
        }
    }

    fn close(self, then: Then, now: Instant, policy: &Policy) -> Step {
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

    /// The number of the next or current attempt since the last success.
    fn attempt(&self) -> u32 {
        let total_losses = self.losses.saturating_add(self.crashes);
        total_losses.max(u32::from(self.last_loss.is_some()))
    }

    /// The seed of this epoch's jitter.
    fn seed(&self, policy: &Policy) -> u64 {
        policy.seed ^ self.epoch.0
    }

    fn attempt_begun(self, now: Instant) -> Step {
        match self.phase {
            Phase::Connecting {
                since: None,
                last_work_at,
                planned,
            } => {
                let next_life = Self {
                    last_attempt_at: Some(now),
                    ..self
                };
                next_life.to(Phase::Connecting {
                    since: Some(now),
                    last_work_at,
                    planned,
                })
            }
            Phase::Connecting { .. }
            | Phase::Down(_)
            | Phase::Up { .. }
            | Phase::Closing { .. }
            | Phase::Waiting { .. } => (self, None),
        }
    }

    /// Extends the time limit of a start. The limit counts only time without a sign of work.
    fn handle_work(mut self, time: Instant) -> Step {
        if let Phase::Connecting { last_work_at, .. } = &mut self.phase {
            *last_work_at = (*last_work_at).max(Some(time));
        }
        (self, None)
    }

    fn handle_open(self, now: Instant) -> Step {
        match self.phase {
            Phase::Connecting { planned, .. } => {
                let tally = Tally::new(now);
                let next_life = Self {
                    was_up: true,
                    last_loss: None,
                    ..self
                };
                next_life.to(Phase::Up {
                    since: now,
                    tally,
                    planned,
                })
            }
            Phase::Down(_) | Phase::Up { .. } | Phase::Closing { .. } | Phase::Waiting { .. } => {
                (self, None)
            }
        }
    }

    fn start(self, now: Instant, policy: &Policy) -> Step {
        match self.phase {
            Phase::Down(_) => self.reset().open(None, now),
            Phase::Waiting { .. } => self.forgive_losses().open(None, now),
            Phase::Closing { kill_at, ref then } => {
                let is_stopped = *then == Then::Stay;
                let next_life = if is_stopped { self.reset() } else { self };
                next_life.to(Phase::Closing {
                    kill_at,
                    then: Then::Reopen,
                })
            }
            Phase::Connecting { .. } | Phase::Up { .. } => self.tick(now, policy),
        }
    }

    fn stop(self, now: Instant, policy: &Policy) -> Step {
        match self.phase {
            Phase::Down(_) | Phase::Waiting { .. } => self.to(Phase::Down(DownReason::Stopped)),
            Phase::Closing { kill_at, .. } => self.to(Phase::Closing {
                kill_at,
                then: Then::Stay,
            }),
            Phase::Connecting { .. } | Phase::Up { .. } => self.close(Then::Stay, now, policy),
        }
    }

    fn reconnect(self, now: Instant, policy: &Policy) -> Step {
        match self.phase {
            Phase::Up { .. } => self.close(Then::Reopen, now, policy),
            // The current attempt already opens a new session. `planned: None` marks the attempt as
            // requested by a person.
            Phase::Connecting {
                since,
                last_work_at,
                ..
            } => {
                let phase = Phase::Connecting {
                    since,
                    last_work_at,
                    planned: None,
                };
                let next_life = Self {
                    phase,
                    ..self.forgive_losses()
                };
                next_life.tick(now, policy)
            }
            Phase::Down(_) | Phase::Closing { .. } | Phase::Waiting { .. } => {
                self.start(now, policy)
            }
        }
    }

    fn call_waiting(mut self, now: Instant, policy: &Policy) -> Step {
        let is_refused = self.calls_from(policy).is_some_and(|from| now < from);
        if is_refused || !self.opens_on_call(policy) {
            return (self, None);
        }
        match &mut self.phase {
            Phase::Waiting {
                until,
                earliest,
                planned,
                ..
            } => {
                if *earliest < *until {
                    planned.get_or_insert(*until);
                    *until = *earliest;
                }
                if *until > now {
                    return (self, None);
                }
                let planned = planned.or(Some(*until));
                self.open(planned, now)
            }
            Phase::Down(DownReason::Lost(loss)) => {
                self.last_loss = Some(loss.clone());
                self.open(Some(now), now)
            }
            Phase::Down(_) => self.open(Some(now), now),
            Phase::Connecting { .. } | Phase::Up { .. } | Phase::Closing { .. } => (self, None),
        }
    }

    /// True if a call can start an attempt. No call starts one after the policy gave up, or after a
    /// loss that a retry cannot cure.
    fn opens_on_call(&self, policy: &Policy) -> bool {
        let on_call = policy.reconnect.on_call;
        match &self.phase {
            Phase::Waiting { .. } => on_call,
            Phase::Down(DownReason::Lost(loss)) => {
                on_call && policy.reconnect.mode == ReconnectMode::Manual && loss.is_retried()
            }
            Phase::Down(DownReason::Stopped | DownReason::Refused(_) | DownReason::Failed(_))
            | Phase::Connecting { .. }
            | Phase::Up { .. }
            | Phase::Closing { .. } => false,
        }
    }

    /// Handles the machine's wake-up. During the sleep, the cause of the last loss may have passed,
    /// and connections may have died.
    fn handle_resume(self, now: Instant) -> Step {
        match self.phase {
            Phase::Waiting { .. } => self.open(None, now),
            Phase::Up { .. } => self.handle_doubt(now),
            Phase::Down(_) | Phase::Connecting { .. } | Phase::Closing { .. } => (self, None),
        }
    }

    fn tick(mut self, now: Instant, policy: &Policy) -> Step {
        if self.deadline(policy).is_none_or(|deadline| now < deadline) {
            return (self, None);
        }
        let epoch = self.epoch;
        match &mut self.phase {
            Phase::Connecting {
                since,
                last_work_at,
                planned,
            } => {
                let max_duration = policy.longest_start();
                let exceeds_limit = since.is_some_and(|since| now >= since + max_duration);
                let loss = match last_work_at {
                    None => Loss::ConnectTimeout(policy.connect_timeout),
                    Some(_) if exceeds_limit => Loss::ConnectTimeout(max_duration),
                    Some(_) => Loss::SilentStart(policy.connect_timeout),
                };
                let planned = *planned;
                self.close(Then::Retry { loss, planned }, now, policy)
            }
            Phase::Up { tally, .. } => {
                tally.probing();
                (self, Some(Effect::Probe(epoch)))
            }
            Phase::Closing { kill_at, .. } => {
                *kill_at = None;
                (self, Some(Effect::Kill(epoch)))
            }
            Phase::Waiting { planned, .. } => {
                let planned = *planned;
                self.open(planned, now)
            }
            Phase::Down(_) => (self, None),
        }
    }
}

#[cfg(test)]
mod tests;
