//! Applies the evidence of probes and traffic to a session that is up.

use std::time::Instant;

use super::{Lifecycle, Phase, Policy, Step, Then};
use crate::health::{FailingCalls, Fault, HealthVerdict, ProbeOutcome};

impl Lifecycle {
    pub(super) fn handle_message(mut self, time: Instant) -> Step {
        if let Phase::Up { tally, .. } = &mut self.phase {
            tally.message_received(time);
        }
        (self, None)
    }

    pub(super) fn handle_stall(mut self, calls: Option<u32>, now: Instant) -> Step {
        if let Phase::Up { tally, .. } = &mut self.phase {
            tally.stall(calls, now);
        }
        (self, None)
    }

    pub(super) fn handle_failed_calls(
        mut self,
        calls: u32,
        fault: Option<Fault>,
        now: Instant,
        policy: &Policy,
    ) -> Step {
        let Phase::Up { tally, .. } = &mut self.phase else {
            return (self, None);
        };
        let verdict = tally.calls_failed(calls, fault, now, &policy.health);
        self.apply_verdict(verdict, now, policy)
    }

    pub(super) fn failed_in_row(mut self, calls: FailingCalls, now: Instant) -> Step {
        if let Phase::Up { tally, .. } = &mut self.phase {
            tally.calls_failed_in_row(calls, now);
        }
        (self, None)
    }

    pub(super) fn handle_probe(
        mut self,
        outcome: ProbeOutcome,
        now: Instant,
        policy: &Policy,
    ) -> Step {
        let Phase::Up { tally, .. } = &mut self.phase else {
            return (self, None);
        };
        let verdict = tally.judge(outcome, now, &policy.health);
        self.apply_verdict(verdict, now, policy)
    }

    /// Carries out the verdict. A fault, which may be temporary, does not end a session that the
    /// policy would not reopen.
    fn apply_verdict(self, verdict: HealthVerdict, now: Instant, policy: &Policy) -> Step {
        let (
            HealthVerdict::Reconnect,
            Phase::Up {
                since,
                tally,
                planned,
            },
        ) = (verdict, &self.phase)
        else {
            return (self, None);
        };
        if tally.may_pass() && !policy.reopens_alone() {
            return (self, None);
        }
        let then = Then::Lose {
            loss: tally.loss(),
            since: *since,
            planned: *planned,
        };
        self.close(then, now, policy)
    }

    pub(super) fn handle_doubt(mut self, now: Instant) -> Step {
        if let Phase::Up { tally, .. } = &mut self.phase {
            tally.doubt(now);
        }
        (self, None)
    }
}
