//! The life of one upstream session: pure decisions about when to open, close, wait and give up
//! (design section 5).
//!
//! [`Lifecycle::step`] takes what happened and answers with at most one thing to do. Time is an
//! argument; the driver sleeps until [`Lifecycle::deadline`] and then steps with [`Event::Tick`].

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
    health::{Fault, Outcome, Tally, Verdict},
    ids::Epoch,
};

/// A waiting call may bring an attempt forward, but not sooner than this after the last one began; a
/// session that lived for less shows nothing.
const ATTEMPT_SPACING: Duration = Duration::from_secs(1);

/// A server that asks to be left alone for longer is asked after this all the same.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Why a session is down and stays down until someone starts it.
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

/// Where a session stands. Statuses are derived from this, never stored (invariant 2).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Down(Why),
    Connecting {
        /// When the attempt began; `None` while it waits for its turn among others.
        since: Option<Instant>,
        /// A call brought it about: its failure is not counted against the budget.
        by_call: bool,
    },
    Up {
        since: Instant,
        tally: Tally,
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
        /// A call has brought it forward.
        by_call: bool,
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
        by_call: bool,
    },
    /// It was up since then, and what ends it is a loss.
    Lose {
        loss: Loss,
        since: Instant,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The operator wants it up; in any state but `Up` and `Connecting` this opens at once.
    Start,
    Stop,
    /// The operator wants a new session, whatever there is (O2).
    Reconnect,
    /// A call found no session and waits for one.
    CallWaiting,
    /// The machine slept (G11).
    Resumed,
    /// The deadline has come.
    Tick,
    Io(Epoch, Report),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Its turn has come: the attempt begins, and its time runs.
    Begun,
    Opened,
    /// The server was last heard at this time; traffic is the first evidence of health.
    Heard(Instant),
    /// So many calls in a row have got something else than an answer since then, and what the last one
    /// got.
    Failed(u32, Option<Fault>),
    /// So many calls in a row were not answered, if calls are refused therefore.
    Stalled(Option<u32>),
    /// Something happened that makes older evidence doubtful: the server is asked at once.
    Doubted,
    Probe(Outcome),
    /// The session, and its process with its whole tree, is gone.
    Ended(Loss),
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
    /// has lived for [`ATTEMPT_SPACING`].
    expired: bool,
    /// When the last attempt began, or was queued for its turn.
    tried: Option<Instant>,
    /// How the last attempt ended, if the server refused us. It shows until an attempt ends otherwise.
    unauthorized: Option<Loss>,
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
            unauthorized: None,
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
            Event::Io(_, Report::Opened) => self.opened(now),
            Event::Io(_, Report::Heard(at)) => self.heard(at),
            Event::Io(_, Report::Failed(calls, fault)) => self.failed(calls, fault, now, policy),
            Event::Io(_, Report::Stalled(calls)) => self.stalled(calls, now),
            Event::Io(_, Report::Doubted) => self.doubted(now),
            Event::Io(_, Report::Probe(outcome)) => self.probed(outcome, now, policy),
            Event::Io(_, Report::Ended(loss)) => self.ended(loss, now, policy),
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
            Phase::Connecting { since, .. } => Some((*since)? + policy.connect_timeout),
            Phase::Up { tally, .. } => tally.due(&policy.health, self.seed(policy)),
            Phase::Closing { kill_at, .. } => *kill_at,
            Phase::Waiting { until, .. } => Some(*until),
        }
    }

    fn to(self, phase: Phase) -> Step {
        (Self { phase, ..self }, None)
    }

    fn open(self, by_call: bool, now: Instant) -> Step {
        let epoch = self.epoch.next();
        let phase = Phase::Connecting {
            since: None,
            by_call,
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
            unauthorized: None,
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
        self.losses.saturating_add(self.crashes)
    }

    /// The jitter of this epoch.
    fn seed(&self, policy: &Policy) -> u64 {
        policy.seed ^ self.epoch.0
    }

    fn begun(self, now: Instant) -> Step {
        match self.phase {
            Phase::Connecting {
                since: None,
                by_call,
            } => {
                let this = Self {
                    tried: Some(now),
                    ..self
                };
                this.to(Phase::Connecting {
                    since: Some(now),
                    by_call,
                })
            }
            Phase::Connecting { .. }
            | Phase::Down(_)
            | Phase::Up { .. }
            | Phase::Closing { .. }
            | Phase::Waiting { .. } => (self, None),
        }
    }

    fn opened(self, now: Instant) -> Step {
        match self.phase {
            Phase::Connecting { .. } => {
                let tally = Tally::new(now);
                let this = Self {
                    greeted: true,
                    unauthorized: None,
                    ..self
                };
                this.to(Phase::Up { since: now, tally })
            }
            Phase::Down(_) | Phase::Up { .. } | Phase::Closing { .. } | Phase::Waiting { .. } => {
                (self, None)
            }
        }
    }

    fn heard(mut self, at: Instant) -> Step {
        if let Phase::Up { tally, .. } = &mut self.phase {
            tally.heard(at);
        }
        (self, None)
    }

    fn stalled(mut self, calls: Option<u32>, now: Instant) -> Step {
        if let Phase::Up { tally, .. } = &mut self.phase {
            tally.stall(calls, now);
        }
        (self, None)
    }

    fn failed(mut self, calls: u32, fault: Option<Fault>, now: Instant, policy: &Policy) -> Step {
        let Phase::Up { tally, .. } = &mut self.phase else {
            return (self, None);
        };
        let verdict = tally.calls_failed(calls, fault, now, &policy.health);
        self.judged(verdict, now, policy)
    }

    fn probed(mut self, outcome: Outcome, now: Instant, policy: &Policy) -> Step {
        let Phase::Up { tally, .. } = &mut self.phase else {
            return (self, None);
        };
        let verdict = tally.judge(outcome, now, &policy.health);
        self.judged(verdict, now, policy)
    }

    /// Carries out what the evidence leads to. What may pass by itself does not take a session from
    /// people who would have to open the next one by hand.
    fn judged(self, verdict: Verdict, now: Instant, policy: &Policy) -> Step {
        let (Verdict::Reconnect, Phase::Up { since, tally }) = (verdict, &self.phase) else {
            return (self, None);
        };
        if tally.may_pass() && !policy.opens_unasked() {
            return (self, None);
        }
        let (loss, since) = (tally.loss(), *since);
        self.close(Then::Lose { loss, since }, now, policy)
    }

    fn ended(self, loss: Loss, now: Instant, policy: &Policy) -> Step {
        match self.phase {
            Phase::Connecting { by_call, .. } => self.refused(loss, by_call, now, policy),
            Phase::Up { since, .. } => self.lost(loss, since, now, policy),
            Phase::Closing { ref then, .. } => match then.clone() {
                Then::Stay => self.to(Phase::Down(Why::Stopped)),
                Then::Reopen => self.forgiven().open(false, now),
                Then::Retry { loss, by_call } => self.refused(loss, by_call, now, policy),
                Then::Lose { loss, since } => self.lost(loss, since, now, policy),
            },
            Phase::Down(_) | Phase::Waiting { .. } => (self, None),
        }
    }

    /// An attempt failed.
    fn refused(self, loss: Loss, by_call: bool, now: Instant, policy: &Policy) -> Step {
        let at_first = !self.greeted && policy.reconnect.initial_failure == InitialFailure::Error;
        if at_first || !policy.comes_back(&loss) {
            return self.to(Phase::Down(Why::Refused(loss)));
        }
        self.retry(loss, by_call, now, policy)
    }

    /// A session that was up since then is gone.
    fn lost(mut self, loss: Loss, since: Instant, now: Instant, policy: &Policy) -> Step {
        let uptime = now.duration_since(since);
        if uptime >= policy.reconnect.forgive_after {
            self.losses = 0;
        }
        if uptime >= policy.restart.reset_after {
            self.crashes = 0;
        }
        if !policy.comes_back(&loss) {
            return self.to(Phase::Down(Why::Lost(loss)));
        }
        if uptime >= ATTEMPT_SPACING {
            self.expired = false;
        }
        // A server that forgets sessions is asked for a new one without a wait, once in a row (E11),
        // even where every loss is forgiven on connect.
        if loss == Loss::SessionExpired && self.attempt() == 0 && !self.expired {
            self.losses = 1;
            self.expired = true;
            return self.open(false, now);
        }
        self.retry(loss, false, now, policy)
    }

    /// Waits for the next attempt, unless the budget is spent.
    fn retry(mut self, loss: Loss, by_call: bool, now: Instant, policy: &Policy) -> Step {
        let crash =
            matches!(loss, Loss::Crashed { .. }) && policy.restart.mode == RestartMode::OnCrash;
        let (counter, budget) = if crash {
            (&mut self.crashes, policy.restart.max_attempts)
        } else {
            (&mut self.losses, policy.reconnect.max_attempts)
        };
        if !by_call {
            if budget.is_some_and(|budget| *counter >= budget) {
                return self.to(Phase::Down(Why::Failed(loss)));
            }
            *counter = counter.saturating_add(1);
        }
        let wanted = loss.retry_after().min(LONGEST_RETRY_AFTER);
        self.unauthorized = loss.is_unauthorized().then(|| loss.clone());
        let delay = match self.unauthorized {
            Some(_) => policy.unauthorized_delay(self.epoch),
            None => policy.delay(self.attempt(), self.epoch).max(wanted),
        };
        let spaced = self.spaced(&loss, policy).unwrap_or(now);
        self.to(Phase::Waiting {
            until: now + delay,
            earliest: spaced.max(now + wanted),
            by_call: false,
            loss,
        })
    }

    /// When a call may bring about an attempt after this loss.
    fn spaced(&self, loss: &Loss, policy: &Policy) -> Option<Instant> {
        let spacing = if loss.is_unauthorized() {
            policy.reconnect.unauthorized_spacing
        } else {
            ATTEMPT_SPACING
        };
        Some(self.tried? + spacing)
    }

    /// Before this no call brings about anything: the server has just refused us.
    fn calls_from(&self, policy: &Policy) -> Option<Instant> {
        match &self.phase {
            Phase::Waiting { earliest, loss, .. } if loss.is_unauthorized() => Some(*earliest),
            Phase::Down(Why::Lost(loss)) if loss.is_unauthorized() => self.spaced(loss, policy),
            Phase::Waiting { .. }
            | Phase::Down(_)
            | Phase::Connecting { .. }
            | Phase::Up { .. }
            | Phase::Closing { .. } => None,
        }
    }

    fn start(self, now: Instant, policy: &Policy) -> Step {
        match self.phase {
            Phase::Down(_) => self.fresh().open(false, now),
            Phase::Waiting { .. } => self.forgiven().open(false, now),
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
            Phase::Connecting { since, .. } => {
                let phase = Phase::Connecting {
                    since,
                    by_call: false,
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
                by_call,
                ..
            } => {
                *by_call |= *earliest < *until;
                *until = (*until).min(*earliest);
                if *until > now {
                    return (self, None);
                }
                self.open(true, now)
            }
            Phase::Down(_) => self.open(true, now),
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
            Phase::Waiting { .. } => self.open(false, now),
            Phase::Up { .. } => self.doubted(now),
            Phase::Down(_) | Phase::Connecting { .. } | Phase::Closing { .. } => (self, None),
        }
    }

    fn doubted(mut self, now: Instant) -> Step {
        if let Phase::Up { tally, .. } = &mut self.phase {
            tally.doubt(now);
        }
        (self, None)
    }

    fn tick(mut self, now: Instant, policy: &Policy) -> Step {
        if self.deadline(policy).is_none_or(|deadline| now < deadline) {
            return (self, None);
        }
        let epoch = self.epoch;
        match &mut self.phase {
            Phase::Connecting { by_call, .. } => {
                let (loss, by_call) = (Loss::ConnectTimeout(policy.connect_timeout), *by_call);
                self.close(Then::Retry { loss, by_call }, now, policy)
            }
            Phase::Up { tally, .. } => {
                tally.probing();
                (self, Some(Effect::Probe(epoch)))
            }
            Phase::Closing { kill_at, .. } => {
                *kill_at = None;
                (self, Some(Effect::Kill(epoch)))
            }
            Phase::Waiting { by_call, .. } => {
                let by_call = *by_call;
                self.open(by_call, now)
            }
            Phase::Down(_) => (self, None),
        }
    }

    /// The projection that people and programs see.
    pub fn status(&self, policy: &Policy) -> Status {
        let reconnecting = |then: &Then| match then {
            Then::Stay => (State::Stopping, None),
            Then::Reopen => (State::Reconnecting, None),
            Then::Retry { loss, .. } | Then::Lose { loss, .. } => {
                (State::Reconnecting, Some(loss.clone()))
            }
        };
        let (state, reason) = match &self.phase {
            Phase::Down(why) => match why {
                Why::Stopped => (State::Disconnected, None),
                Why::Lost(loss @ Loss::Crashed { .. }) => (State::Crashed, Some(loss.clone())),
                Why::Lost(loss) if loss.retried() && !loss.is_unauthorized() => {
                    (State::Disconnected, Some(loss.clone()))
                }
                Why::Lost(loss) | Why::Refused(loss) => (State::Error, Some(loss.clone())),
                Why::Failed(loss) => (State::Failed, Some(loss.clone())),
            },
            Phase::Connecting { .. } if self.unauthorized.is_some() => {
                (State::Error, self.unauthorized.clone())
            }
            Phase::Connecting { .. } if self.attempt() == 0 => (State::Connecting, None),
            Phase::Connecting { .. } => (State::Reconnecting, None),
            Phase::Up { .. } => (State::Connected, None),
            Phase::Closing { then, .. } => reconnecting(then),
            Phase::Waiting { loss, .. } if loss.is_unauthorized() => {
                (State::Error, Some(loss.clone()))
            }
            Phase::Waiting { loss, .. } => (State::Reconnecting, Some(loss.clone())),
        };
        let health = match &self.phase {
            Phase::Up { tally, .. } => Some(tally.health(&policy.health)),
            _ => None,
        };
        Status {
            state,
            epoch: self.epoch,
            attempting: matches!(self.phase, Phase::Connecting { .. }),
            attempt: self.attempt(),
            reason: reason
                .map(|loss| loss.to_string())
                .or_else(|| health.as_ref()?.last_error.clone()),
            next_retry: match self.phase {
                Phase::Waiting { until, .. } => Some(until),
                _ => None,
            },
            on_call: self.opens_on_call(policy),
            calls_from: self.calls_from(policy),
            if_lost: match policy.reconnect.mode {
                ReconnectMode::Auto => State::Reconnecting,
                ReconnectMode::Manual | ReconnectMode::Off => State::Disconnected,
            },
            health,
        }
    }
}

#[cfg(test)]
mod tests;
