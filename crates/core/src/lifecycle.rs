//! The life of one upstream session: pure decisions about when to open, close, wait and give up.
//!
//! [`Lifecycle::step`] takes what happened and answers with at most one thing to do. Time is an
//! argument; the driver sleeps until [`Lifecycle::deadline`] and then steps with [`Event::Tick`].

mod ends;
mod evidence;
mod loss;
mod policy;
mod status;

use std::time::{Duration, Instant};

pub(crate) use self::policy::jittered;
pub use self::{
    loss::Loss,
    policy::{InitialFailure, Policy, Preset, Reconnect, ReconnectMode, Restart, RestartMode},
    status::{State, Status, Words},
};
use crate::{
    health::{FailingCalls, Fault, Outcome, Tally},
    ids::Epoch,
};

/// Why a session is down and stays down until a person starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Never started, or stopped by its operator.
    Stopped,
    /// It was up, was lost, and does not come back by itself.
    Lost(Loss),
    /// It never came up, and is not tried again by itself.
    Refused(Loss),
    /// Given up after too many attempts.
    Failed(Loss),
}

/// The phase of a session. Statuses are derived from it, never stored (invariant 2).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Down(Why),
    Connecting {
        /// When the attempt began; `None` while it waits for its turn among others.
        since: Option<Instant>,
        /// When its processes were last seen at work.
        worked: Option<Instant>,
        /// A call brought it forward from this time.
        planned: Option<Instant>,
    },
    Up {
        since: Instant,
        tally: Tally,
        /// A call brought its attempt forward from this time.
        planned: Option<Instant>,
    },
    /// The old session must end before anything else may begin (invariant 9).
    Closing {
        kill_at: Option<Instant>,
        then: Then,
    },
    Waiting {
        until: Instant,
        /// No call brings the attempt forward beyond this.
        earliest: Instant,
        /// A call has brought it forward from this time.
        planned: Option<Instant>,
        loss: Loss,
    },
}

/// What follows a closing session.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Then {
    Stay,
    Reopen,
    /// It had never come up, and what ends it is a loss.
    Retry {
        loss: Loss,
        planned: Option<Instant>,
    },
    /// It was up since then, and what ends it is a loss.
    Lose {
        loss: Loss,
        since: Instant,
        planned: Option<Instant>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The operator wants it up; in any state but `Up` and `Connecting` this opens at once.
    Start,
    Stop,
    /// The operator wants a new session, whatever there is.
    Reconnect,
    /// A call found no session and waits for one.
    CallWaiting,
    /// The machine slept.
    Resumed,
    /// The deadline has come.
    Tick,
    Io(Epoch, Report),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Its turn has come: the attempt begins, and its time runs.
    Begun,
    /// The processes of the attempt were seen at work at this time.
    AtWork(Instant),
    Opened,
    /// The server was last heard at this time; traffic is the first evidence of health.
    Heard(Instant),
    /// The number of calls in a row since then that got something else than an answer, and what the
    /// last one got.
    Failed(u32, Option<Fault>),
    /// The calls that have failed since one was answered.
    FailedInRow(FailingCalls),
    /// The number of calls in a row without an answer, if calls are refused because of it.
    Stalled(Option<u32>),
    /// Something happened that makes older evidence doubtful: the server is asked at once.
    Doubted,
    Probe(Outcome),
    /// The session, and its process with its whole tree, is gone.
    Ended(Loss),
    /// Like `Ended`, of a crash that was caused by calls that are refused from now on. The number
    /// counts this crash and the earlier ones of these calls.
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
    /// Losses in a row, not yet forgiven.
    losses: u32,
    /// Crashes in a row, not yet forgiven, where they are counted apart.
    crashes: u32,
    /// Whether it has been up since its operator started it.
    greeted: bool,
    /// Whether it has forgotten a session that was opened anew without a wait, and none since then
    /// has lived for [`ends::ATTEMPT_SPACING`].
    expired: bool,
    /// When the last attempt began, or was queued for its turn.
    tried: Option<Instant>,
    /// How the last session or attempt ended, until one opens. It shows while the next is under way.
    lost: Option<Loss>,
    phase: Phase,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            epoch: Epoch::NONE,
            losses: 0,
            crashes: 0,
            greeted: false,
            expired: false,
            tried: None,
            lost: None,
            phase: Phase::Down(Why::Stopped),
        }
    }
}

type Step = (Lifecycle, Option<Effect>);

impl Lifecycle {
    /// One whose epochs are all later than `past`.
    pub fn after(past: Epoch) -> Self {
        Self {
            epoch: past,
            ..Self::default()
        }
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What follows from `event` at `now`: the new state, and at most one thing to do.
    #[must_use]
    pub fn step(self, event: Event, now: Instant, policy: &Policy) -> Step {
        match event {
            Event::Io(epoch, _) if epoch != self.epoch => (self, None),
            Event::Io(_, Report::Begun) => self.begun(now),
            Event::Io(_, Report::AtWork(at)) => self.at_work(at),
            Event::Io(_, Report::Opened) => self.opened(now),
            Event::Io(_, Report::Heard(at)) => self.heard(at),
            Event::Io(_, Report::Failed(calls, fault)) => self.failed(calls, fault, now, policy),
            Event::Io(_, Report::FailedInRow(calls)) => self.failed_in_row(calls, now),
            Event::Io(_, Report::Stalled(calls)) => self.stalled(calls, now),
            Event::Io(_, Report::Doubted) => self.doubted(now),
            Event::Io(_, Report::Probe(outcome)) => self.probed(outcome, now, policy),
            Event::Io(_, Report::Ended(loss)) => self.ended(loss, now, policy),
            Event::Io(_, Report::Poisoned(loss, crashes)) => {
                self.poisoned(loss, crashes, now, policy)
            }
            Event::Start => self.start(now, policy),
            Event::Stop => self.stop(now, policy),
            Event::Reconnect => self.reconnect(now, policy),
            Event::CallWaiting => self.call_waiting(now, policy),
            Event::Resumed => self.resumed(now),
            Event::Tick => self.tick(now, policy),
        }
    }

    /// When the driver must step with [`Event::Tick`], if nothing else happens before.
    pub fn deadline(&self, policy: &Policy) -> Option<Instant> {
        match &self.phase {
            Phase::Down(_) => None,
            Phase::Connecting { since, worked, .. } => {
                let since = (*since)?;
                let silent_since = worked.map_or(since, |worked| worked.max(since));
                let end = since + policy.longest_start();
                Some(end.min(silent_since + policy.connect_timeout))
            }
            Phase::Up { tally, .. } => tally.due(&policy.health, self.seed(policy)),
            Phase::Closing { kill_at, .. } => *kill_at,
            Phase::Waiting { until, .. } => Some(*until),
        }
    }

    /// How much later than its deadline the driver may step, so as to do so for many sessions at once.
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
            worked: None,
            planned,
        };
        (
            Self {
                epoch,
                tried: Some(now),
                phase,
                ..self
            },
            Some(Effect::Open(epoch)),
        )
    }

    /// Forgets all losses: a person wants it.
    fn forgiven(self) -> Self {
        Self {
            losses: 0,
            crashes: 0,
            expired: false,
            lost: None,
            ..self
        }
    }

    /// Forgets everything: its operator starts it.
    fn fresh(self) -> Self {
        Self {
            greeted: false,
            ..self.forgiven()
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

    /// The number of the attempt that follows, or is under way, since all was well.
    fn attempt(&self) -> u32 {
        let counted = self.losses.saturating_add(self.crashes);
        counted.max(u32::from(self.lost.is_some()))
    }

    /// The jitter of this epoch.
    fn seed(&self, policy: &Policy) -> u64 {
        policy.seed ^ self.epoch.0
    }

    fn begun(self, now: Instant) -> Step {
        match self.phase {
            Phase::Connecting {
                since: None,
                worked,
                planned,
            } => {
                let this = Self {
                    tried: Some(now),
                    ..self
                };
                this.to(Phase::Connecting {
                    since: Some(now),
                    worked,
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

    /// Its time limit counts silence, not work.
    fn at_work(mut self, at: Instant) -> Step {
        if let Phase::Connecting { worked, .. } = &mut self.phase {
            *worked = (*worked).max(Some(at));
        }
        (self, None)
    }

    fn opened(self, now: Instant) -> Step {
        match self.phase {
            Phase::Connecting { planned, .. } => {
                let tally = Tally::new(now);
                let this = Self {
                    greeted: true,
                    lost: None,
                    ..self
                };
                this.to(Phase::Up {
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
            Phase::Down(_) => self.fresh().open(None, now),
            Phase::Waiting { .. } => self.forgiven().open(None, now),
            Phase::Closing { kill_at, ref then } => {
                let stopped = *then == Then::Stay;
                let this = if stopped { self.fresh() } else { self };
                this.to(Phase::Closing {
                    kill_at,
                    then: Then::Reopen,
                })
            }
            Phase::Connecting { .. } | Phase::Up { .. } => self.tick(now, policy),
        }
    }

    fn stop(self, now: Instant, policy: &Policy) -> Step {
        match self.phase {
            Phase::Down(_) | Phase::Waiting { .. } => self.to(Phase::Down(Why::Stopped)),
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
            // The attempt under way is as new as any, and a person's from now on.
            Phase::Connecting { since, worked, .. } => {
                let phase = Phase::Connecting {
                    since,
                    worked,
                    planned: None,
                };
                let this = Self {
                    phase,
                    ..self.forgiven()
                };
                this.tick(now, policy)
            }
            Phase::Down(_) | Phase::Closing { .. } | Phase::Waiting { .. } => {
                self.start(now, policy)
            }
        }
    }

    fn call_waiting(mut self, now: Instant, policy: &Policy) -> Step {
        let refused = self.calls_from(policy).is_some_and(|from| now < from);
        if refused || !self.opens_on_call(policy) {
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
            Phase::Down(Why::Lost(loss)) => {
                self.lost = Some(loss.clone());
                self.open(Some(now), now)
            }
            Phase::Down(_) => self.open(Some(now), now),
            Phase::Connecting { .. } | Phase::Up { .. } | Phase::Closing { .. } => (self, None),
        }
    }

    /// Whether a call brings about an attempt: never from `failed`, nor after what cannot be helped.
    fn opens_on_call(&self, policy: &Policy) -> bool {
        let on_call = policy.reconnect.on_call;
        match &self.phase {
            Phase::Waiting { .. } => on_call,
            Phase::Down(Why::Lost(loss)) => {
                on_call && policy.reconnect.mode == ReconnectMode::Manual && loss.retried()
            }
            Phase::Down(Why::Stopped | Why::Refused(_) | Why::Failed(_))
            | Phase::Connecting { .. }
            | Phase::Up { .. }
            | Phase::Closing { .. } => false,
        }
    }

    /// What was waited for may have passed while the machine slept, and connections with it.
    fn resumed(self, now: Instant) -> Step {
        match self.phase {
            Phase::Waiting { .. } => self.open(None, now),
            Phase::Up { .. } => self.doubted(now),
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
                worked,
                planned,
            } => {
                let longest = policy.longest_start();
                let is_longest = since.is_some_and(|since| now >= since + longest);
                let loss = match worked {
                    None => Loss::ConnectTimeout(policy.connect_timeout),
                    Some(_) if is_longest => Loss::ConnectTimeout(longest),
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
