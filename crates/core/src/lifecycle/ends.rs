//! Decides what follows the end of a session or an attempt: a new attempt at once, a wait, or no
//! attempt.

use std::time::{Duration, Instant};

use super::{DownReason, InitialFailure, Lifecycle, Loss, Phase, Policy, RestartMode, Step, Then};

/// Minimum time between the beginnings of two attempts, also if a call brings the second one
/// forward. A session with a shorter life does not count as a success.
pub(super) const ATTEMPT_SPACING: Duration = Duration::from_secs(1);

/// Maximum wait for `Retry-After`. A longer `Retry-After` is cut to this time.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The cost of a loss in the policy's budget of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charge {
    Counted,
    Free,
    /// Free, because a call brought the attempt forward. The policy's own attempt stays due at this
    /// time.
    Early(Instant),
}

impl Lifecycle {
    pub(super) fn handle_end(self, loss: Loss, now: Instant, policy: &Policy) -> Step {
        match self.phase {
            Phase::Connecting { planned, .. } => {
                self.handle_failed_attempt(loss, planned, now, policy)
            }
            Phase::Up { since, planned, .. } => self.handle_loss(loss, since, planned, now, policy),
            Phase::Closing { ref then, .. } => match then.clone() {
                Then::Stay => self.to(Phase::Down(DownReason::Stopped)),
                Then::Reopen => self.forgive_losses().open(None, now),
                Then::Retry { loss, planned } => {
                    self.handle_failed_attempt(loss, planned, now, policy)
                }
                Then::Lose {
                    loss,
                    since,
                    planned,
                } => self.handle_loss(loss, since, planned, now, policy),
            },
            Phase::Down(_) | Phase::Waiting { .. } => (self, None),
        }
    }

    /// Handles a crash by calls that are refused from now on. `crashes` is the number of crashes by
    /// these calls, including this one. If the session was up, none of them counts.
    pub(super) fn handle_poisoned_crash(
        mut self,
        loss: Loss,
        crashes: u32,
        now: Instant,
        policy: &Policy,
    ) -> Step {
        if !matches!(self.phase, Phase::Up { .. }) {
            return self.handle_end(loss, now, policy);
        }
        let (counter, _) = self.budget(&loss, policy);
        *counter = counter.saturating_sub(crashes.saturating_sub(1));
        if policy.comes_back(&loss) {
            self.retry(loss, Charge::Free, now, policy)
        } else {
            self.to(Phase::Down(DownReason::Lost(loss)))
        }
    }

    /// Handles a failed attempt. An attempt that a call brought forward does not count.
    fn handle_failed_attempt(
        self,
        loss: Loss,
        planned: Option<Instant>,
        now: Instant,
        policy: &Policy,
    ) -> Step {
        let at_first = !self.was_up && policy.reconnect.initial_failure == InitialFailure::Error;
        if at_first || !policy.comes_back(&loss) {
            return self.to(Phase::Down(DownReason::Refused(loss)));
        }
        let charge = planned.map_or(Charge::Counted, |_| Charge::Free);
        self.retry(loss, charge, now, policy)
    }

    /// Handles the loss of a session that was up since this time.
    fn handle_loss(
        mut self,
        loss: Loss,
        since: Instant,
        planned: Option<Instant>,
        now: Instant,
        policy: &Policy,
    ) -> Step {
        let uptime = now.duration_since(since);
        if uptime >= policy.reconnect.forgive_after {
            self.losses = 0;
        }
        if uptime >= policy.restart.reset_after {
            self.crashes = 0;
        }
        if !policy.comes_back(&loss) {
            return self.to(Phase::Down(DownReason::Lost(loss)));
        }
        if uptime >= ATTEMPT_SPACING {
            self.reopened_expired = false;
        }
        // A server that forgot the session gets a new one without a wait. This happens only once in
        // a row, even if the policy forgives losses on connect.
        if loss == Loss::SessionExpired && self.attempt() == 0 && !self.reopened_expired {
            self.losses = 1;
            self.reopened_expired = true;
            self.last_loss = Some(loss);
            return self.open(None, now);
        }
        // Attempts that calls bring forward must not use up the budget faster than the policy does.
        let is_first = *self.budget(&loss, policy).0 == 0;
        let future_plan = planned.filter(|planned| now < *planned && !is_first);
        self.retry(
            loss,
            future_plan.map_or(Charge::Counted, Charge::Early),
            now,
            policy,
        )
    }

    /// The counter for this kind of loss, and the maximum of the counter.
    fn budget(&mut self, loss: &Loss, policy: &Policy) -> (&mut u32, Option<u32>) {
        let is_crash =
            matches!(loss, Loss::Crashed { .. }) && policy.restart.mode == RestartMode::OnCrash;
        if is_crash {
            (&mut self.crashes, policy.restart.max_attempts)
        } else {
            (&mut self.losses, policy.reconnect.max_attempts)
        }
    }

    /// Waits for the next attempt, or gives up if the budget is used up.
    fn retry(mut self, loss: Loss, charge: Charge, now: Instant, policy: &Policy) -> Step {
        if charge == Charge::Counted {
            let (counter, budget) = self.budget(&loss, policy);
            if budget.is_some_and(|budget| *counter >= budget) {
                return self.to(Phase::Down(DownReason::Failed(loss)));
            }
            *counter = counter.saturating_add(1);
        }
        self.last_loss = Some(loss.clone());
        let retry_after = loss.retry_after().min(MAX_RETRY_AFTER);
        let earliest = self
            .earliest_call_attempt(&loss, policy)
            .unwrap_or(now)
            .max(now + retry_after);
        let next_attempt_at = match charge {
            _ if loss.is_unauthorized() => now + policy.unauthorized_delay(self.epoch),
            Charge::Early(planned) => planned.max(earliest),
            Charge::Counted | Charge::Free => {
                now + policy.delay(self.attempt(), self.epoch).max(retry_after)
            }
        };
        self.to(Phase::Waiting {
            until: next_attempt_at,
            earliest,
            planned: None,
            loss,
        })
    }

    /// Earliest time at which a call may start an attempt after this loss.
    fn earliest_call_attempt(&self, loss: &Loss, policy: &Policy) -> Option<Instant> {
        let spacing = if loss.is_unauthorized() {
            policy.reconnect.unauthorized_spacing
        } else {
            ATTEMPT_SPACING
        };
        Some(self.last_attempt_at? + spacing)
    }

    /// Earliest time at which a call may start an attempt after the server refused the credentials.
    /// `None` if there was no such refusal.
    pub(super) fn calls_from(&self, policy: &Policy) -> Option<Instant> {
        match &self.phase {
            Phase::Waiting { earliest, loss, .. } if loss.is_unauthorized() => Some(*earliest),
            Phase::Down(DownReason::Lost(loss)) if loss.is_unauthorized() => {
                self.earliest_call_attempt(loss, policy)
            }
            Phase::Waiting { .. }
            | Phase::Down(_)
            | Phase::Connecting { .. }
            | Phase::Up { .. }
            | Phase::Closing { .. } => None,
        }
    }
}
