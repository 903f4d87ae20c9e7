//! Judges the health of a connected server from evidence.
//!
//! Ordinary traffic is the first evidence. A message of the protocol shows that the server is
//! healthy. A call without a protocol answer shows that the server is unhealthy. A probe is sent
//! only after an interval of silence or a failed call. A probe uses the live session. No probe is
//! sent while the server may be at work on a call.

mod failing;

use std::time::{Duration, Instant};

use self::failing::Row;
pub use self::failing::{FailingCalls, FailingRow};
use crate::{
    lifecycle::{Loss, add_jitter},
    words::words,
};

/// Settings of probes: when and how to probe, and the action after failures.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthPolicy {
    /// Silence after which a probe is sent. `None` sends no probes.
    pub interval: Option<Duration>,
    /// Fraction by which the interval varies, so that probes of many servers spread over time.
    pub jitter: f64,
    /// Time limit for the answer to a probe.
    pub timeout: Duration,
    pub method: ProbeMethod,
    /// Number of failures in a row after which a server is degraded.
    pub threshold: u32,
    pub action: HealthAction,
    /// Silence after which a server that does not answer a probe counts as hanging.
    pub hang_after: Duration,
    /// Limit of unanswered calls in a row. At the limit, calls are refused until the server sends a
    /// message. `None` never refuses calls.
    pub unanswered_calls: Option<u32>,
}

/// A server's processes are busy if they use at least this fraction of a processor. An idle runtime
/// uses less.
pub const BUSY_SHARE: f64 = 0.05;

/// Pause between two probes while calls to a server are refused. Without calls, only a probe can
/// show that the server is back.
const STALL_PROBE_PAUSE: Duration = Duration::from_secs(1);

impl Default for HealthPolicy {
    /// The values of preset `default`.
    fn default() -> Self {
        Self {
            interval: Some(Duration::from_secs(30)),
            jitter: 0.1,
            timeout: Duration::from_secs(10),
            method: ProbeMethod::Ping,
            threshold: 3,
            action: HealthAction::Verify,
            hang_after: Duration::from_secs(120),
            unanswered_calls: Some(2),
        }
    }
}

impl HealthPolicy {
    /// True if calls to the server are refused. `calls` is the number of unanswered calls since the
    /// server's last message. `spent` is the CPU time of the server during `watched`.
    pub fn stalls(&self, calls: u32, spent: Duration, watched: Duration) -> bool {
        let is_busy = spent > watched.mul_f64(BUSY_SHARE);
        self.unanswered_calls.is_some_and(|limit| calls >= limit) && !is_busy
    }
}

/// The kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeMethod {
    /// `ping`. Any answer is a sign of life, even the error −32601.
    Ping,
    ToolsList,
    /// GET of the health URL, or `ping` if none is configured.
    Http,
}

words!(ProbeMethod { "ping" => Ping, "tools_list" => ToolsList, "http" => Http });

/// The action when a server reaches the threshold of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthAction {
    /// Set `degraded` and probe once more. Reconnect only on hard evidence: a connection error, an
    /// answer to that last probe that is not a protocol message, or a hang.
    Verify,
    /// Reconnect.
    Reconnect,
    /// Set `degraded` and emit an event. Never reconnect because of missed probes.
    Event,
    /// Write a log line. Never reconnect because of missed probes.
    Log,
}

words!(HealthAction { "verify" => Verify, "reconnect" => Reconnect, "event" => Event, "log" => Log });

/// The outcome of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The server answered after this time. Any answer is a sign of life.
    Answered(Duration),
    /// The server answered with an error, or the probe could not be sent.
    Failed(String),
    /// The response was not a protocol answer.
    Broken(Fault),
    /// No answer within the time limit. An excuse is a reason that the server may still be healthy.
    Unanswered(Option<Excuse>),
    /// No probe was sent, because the server is at work on a call.
    Busy,
}

/// The failure of a probe or call that got no protocol answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// The description of the fault.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The connection was cut. With every action, this can lead to a reconnect.
    Cut,
    /// No connection can be made. Judged like `Cut`. The reason names the cause.
    Unreachable,
    /// An error status, or a body that is not a message.
    Foreign,
    /// HTTP 401 or 403.
    Unauthorized,
    /// HTTP 429. A new connection would only add load.
    Throttled,
}

/// A reason that a server may be healthy although it does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// A call within its deadline. The server may be at work on it.
    Call,
    /// The server's processes have used CPU time since the probe was sent.
    Cpu,
}

/// The evidence about a server's health since its session opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Time of the last message from the server.
    last_message_at: Instant,
    /// Failed probes in a row.
    probes: u32,
    /// Failed calls since the last message.
    calls: u32,
    /// Failed calls in a row. Successful probes do not end the row.
    row: Row,
    /// Number of unanswered calls in a row. Set while calls are refused.
    stalled: Option<u32>,
    /// Time at which the first failure of the current row was noticed.
    failing_since: Option<Instant>,
    last_error: Option<String>,
    /// The fault of the latest failure. `None` if the probe was not answered, or answered with an
    /// error.
    last_fault: Option<FaultKind>,
    /// True if the latest failure was a missing answer, and not an error or a refused connection.
    is_unanswered: bool,
    last_ping: Option<Duration>,
    next_probe: NextProbe,
}

/// Time of the next probe.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NextProbe {
    /// One interval after the last evidence, which arrived at this time.
    After(Instant),
    /// At this exact time.
    At(Instant),
    /// A probe is in flight.
    InFlight,
}

/// The consequence of the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthVerdict {
    Keep,
    /// The session cannot recover. Open a new session.
    Reconnect,
}

/// The health of a connected server, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub degraded: bool,
    /// The row of failed calls, if it makes the server degraded. Answered probes do not end it.
    pub failing_calls: Option<FailingRow>,
    pub last_message_at: Instant,
    pub failures: u32,
    pub last_error: Option<String>,
    pub last_ping: Option<Duration>,
}

impl Tally {
    pub fn new(now: Instant) -> Self {
        Self {
            last_message_at: now,
            probes: 0,
            calls: 0,
            row: Row::default(),
            stalled: None,
            failing_since: None,
            last_error: None,
            last_fault: None,
            is_unanswered: true,
            last_ping: None,
            next_probe: NextProbe::After(now),
        }
    }

    /// Time at which a probe is due. It is not stored, so that changes of the policy apply at once.
    pub fn due(&self, policy: &HealthPolicy, seed: u64) -> Option<Instant> {
        match self.next_probe {
            NextProbe::After(time) => {
                let interval = policy.interval?.as_secs_f64();
                Some(time + add_jitter(interval, policy.jitter, seed))
            }
            NextProbe::At(time) => Some(time),
            NextProbe::InFlight => None,
        }
    }

    /// Tolerated delay of a due probe, so that one wake-up can send many probes. The delay keeps
    /// the interval within the policy's jitter.
    pub fn leeway(&self, policy: &HealthPolicy, seed: u64) -> Duration {
        let (NextProbe::After(time), Some(interval)) = (&self.next_probe, policy.interval) else {
            return Duration::ZERO;
        };
        let latest = *time + interval.mul_f64(1.0 + policy.jitter);
        let due = self.due(policy, seed);
        due.map_or(Duration::ZERO, |due| latest.saturating_duration_since(due))
    }

    /// Handles a message of the server. A message that is newer than the last one is a success.
    pub fn message_received(&mut self, time: Instant) {
        if time <= self.last_message_at {
            return;
        }
        self.last_message_at = time;
        self.calls = 0;
        self.stalled = None;
        self.succeed();
        match self.next_probe {
            NextProbe::After(_) => self.next_probe = NextProbe::After(time),
            // A message from before the doubt proves nothing.
            NextProbe::At(since) if time > since => self.next_probe = NextProbe::After(time),
            NextProbe::At(_) | NextProbe::InFlight => {}
        }
    }

    /// Handles an incident after which older evidence does not count. A probe is due at once, even
    /// if the policy sends no probes.
    pub fn doubt(&mut self, now: Instant) {
        // The outcome of a probe in flight decides, so no further probe is needed.
        match self.next_probe {
            NextProbe::After(_) => self.next_probe = NextProbe::At(now),
            NextProbe::At(_) | NextProbe::InFlight => {}
        }
    }

    /// Notes that the due probe is sent now.
    pub fn probing(&mut self) {
        self.next_probe = NextProbe::InFlight;
    }

    /// Handles failed calls. `calls` counts the failed calls in a row, and `fault` is the fault of
    /// the last one. A new failure makes a probe due at once. Failed calls alone lead to a verdict
    /// only after the policy's `timeout`, because many failures in one moment are weak evidence.
    pub fn calls_failed(
        &mut self,
        calls: u32,
        fault: Option<Fault>,
        now: Instant,
        policy: &HealthPolicy,
    ) -> HealthVerdict {
        let previous_calls = std::mem::replace(&mut self.calls, calls);
        let Some(fault) = fault.filter(|_| calls > 0) else {
            if self.probes == 0 && self.stalled.is_none() {
                self.succeed();
            }
            return HealthVerdict::Keep;
        };
        let since = *self.failing_since.get_or_insert(now);
        if calls != previous_calls {
            self.last_error = Some(fault.reason);
            self.last_fault = Some(fault.kind);
            self.doubt(now);
        }
        if now.duration_since(since) < policy.timeout {
            return HealthVerdict::Keep;
        }
        let was_degraded = self.exceeds(policy, 1);
        self.judge_fault(fault.kind, was_degraded, now, policy)
    }

    /// Handles a row of failed calls. The server stays degraded until it answers a call, even if it
    /// answers probes. Its session stays open.
    pub fn calls_failed_in_row(&mut self, calls: FailingCalls, now: Instant) {
        self.row.note(calls, now);
    }

    /// Handles a change of `calls`, the number of unanswered calls in a row. It is `None` if calls
    /// are not refused. A new number makes a probe due at once.
    pub fn stall(&mut self, calls: Option<u32>, now: Instant) {
        let previous_calls = std::mem::replace(&mut self.stalled, calls);
        match calls {
            Some(calls) if previous_calls != Some(calls) => {
                self.last_error = Some(format!("{calls} calls in a row were not answered"));
                self.last_fault = None;
                self.is_unanswered = true;
                self.doubt(now);
            }
            None if previous_calls.is_some() && self.failures() == 0 => self.succeed(),
            Some(_) | None => {}
        }
    }

    /// Adds the outcome of a probe to the evidence and returns the verdict.
    pub fn judge(
        &mut self,
        outcome: ProbeOutcome,
        now: Instant,
        policy: &HealthPolicy,
    ) -> HealthVerdict {
        self.next_probe = match (self.stalled, policy.interval) {
            (None, _) => NextProbe::After(now),
            (Some(_), Some(interval)) => NextProbe::At(now + interval.min(STALL_PROBE_PAUSE)),
            (Some(_), None) => NextProbe::At(now + STALL_PROBE_PAUSE),
        };
        let was_degraded = self.exceeds(policy, 0);
        let failure = match outcome {
            ProbeOutcome::Busy => return HealthVerdict::Keep,
            ProbeOutcome::Answered(elapsed) => {
                self.last_message_at = self.last_message_at.max(now);
                // Only a message of the server resets the failed calls. An answer of the health URL
                // does not.
                if self.calls == 0 && self.stalled.is_none() {
                    self.succeed();
                }
                self.probes = 0;
                self.row.answers_probes(now);
                self.last_ping = Some(elapsed);
                return HealthVerdict::Keep;
            }
            ProbeOutcome::Failed(reason) => {
                self.fail(reason, None, now);
                self.is_unanswered = false;
                ProbeFailure::Unwell
            }
            ProbeOutcome::Broken(fault) => {
                self.fail(fault.reason, Some(fault.kind), now);
                return self.judge_fault(fault.kind, was_degraded, now, policy);
            }
            ProbeOutcome::Unanswered(excuse) => {
                let seconds = policy.timeout.as_secs_f64();
                self.fail(format!("ping timed out after {seconds}s"), None, now);
                let silence = now.duration_since(self.last_message_at);
                match excuse {
                    Some(_) => ProbeFailure::Excused,
                    None if silence >= policy.hang_after => ProbeFailure::Hangs,
                    None => ProbeFailure::Slow,
                }
            }
        };
        match (policy.action, failure) {
            (HealthAction::Event | HealthAction::Log, _) | (_, ProbeFailure::Excused) => {
                HealthVerdict::Keep
            }
            (HealthAction::Verify | HealthAction::Reconnect, ProbeFailure::Hangs) => {
                HealthVerdict::Reconnect
            }
            (HealthAction::Verify, ProbeFailure::Unwell | ProbeFailure::Slow) => {
                HealthVerdict::Keep
            }
            // With a threshold of one, a single late answer would be enough. It is too weak as
            // evidence.
            (HealthAction::Reconnect, ProbeFailure::Slow) if policy.threshold <= 1 => {
                HealthVerdict::Keep
            }
            (HealthAction::Reconnect, ProbeFailure::Unwell | ProbeFailure::Slow) => {
                self.at_threshold(policy)
            }
        }
    }

    /// The verdict after a probe or a call got a fault in place of an answer.
    fn judge_fault(
        &mut self,
        kind: FaultKind,
        was_degraded: bool,
        now: Instant,
        policy: &HealthPolicy,
    ) -> HealthVerdict {
        match (policy.action, kind) {
            (_, FaultKind::Cut | FaultKind::Unreachable) => self.at_threshold(policy),
            (HealthAction::Event | HealthAction::Log, _)
            | (HealthAction::Verify, FaultKind::Throttled) => HealthVerdict::Keep,
            (HealthAction::Verify, FaultKind::Foreign) if !was_degraded => {
                if self.exceeds(policy, 0) {
                    self.doubt(now);
                }
                HealthVerdict::Keep
            }
            (
                HealthAction::Verify | HealthAction::Reconnect,
                FaultKind::Foreign | FaultKind::Unauthorized | FaultKind::Throttled,
            ) => self.at_threshold(policy),
        }
    }

    fn at_threshold(&self, policy: &HealthPolicy) -> HealthVerdict {
        if self.exceeds(policy, 0) {
            HealthVerdict::Reconnect
        } else {
            HealthVerdict::Keep
        }
    }

    /// True if the failures reach the threshold plus `extra_failures`. Even with a threshold of
    /// one, a single failed call is not enough: the next probe decides.
    fn exceeds(&self, policy: &HealthPolicy, extra_failures: u32) -> bool {
        let total = self.failures();
        self.probes >= policy.threshold.max(1) + extra_failures
            || total >= policy.threshold.max(2) + extra_failures
    }

    fn failures(&self) -> u32 {
        self.probes.saturating_add(self.calls)
    }

    fn fail(&mut self, reason: String, kind: Option<FaultKind>, now: Instant) {
        self.probes = self.probes.saturating_add(1);
        self.failing_since.get_or_insert(now);
        self.last_error = Some(reason);
        self.last_fault = kind;
        self.is_unanswered = kind.is_none();
    }

    fn succeed(&mut self) {
        self.probes = 0;
        self.failing_since = None;
        self.last_error = None;
        self.last_fault = None;
    }

    /// The loss to report when this evidence ends the session.
    pub fn loss(&self) -> Loss {
        let reason = self.last_error.clone().unwrap_or_default();
        match self.last_fault {
            None if self.is_unanswered => Loss::Unresponsive(reason),
            None => Loss::Disconnected(reason),
            Some(FaultKind::Unauthorized) => Loss::Unauthorized(reason),
            Some(FaultKind::Unreachable) => Loss::ConnectFailed(reason),
            Some(FaultKind::Cut | FaultKind::Foreign | FaultKind::Throttled) => {
                Loss::Disconnected(reason)
            }
        }
    }

    /// True if the latest failure was a fault, which may be temporary, and not silence.
    pub fn may_pass(&self) -> bool {
        self.last_fault.is_some()
    }

    /// The row of failed calls, if it is long enough to make the server degraded.
    fn row(&self, policy: &HealthPolicy) -> Option<&Row> {
        Some(&self.row).filter(|row| row.length() >= policy.threshold.max(2))
    }

    /// The error of the last failed probe or call.
    fn reason(&self) -> Option<String> {
        match self.last_fault {
            Some(FaultKind::Unreachable) => Some(self.loss().to_string()),
            _ => self.last_error.clone(),
        }
    }

    pub fn health(&self, policy: &HealthPolicy) -> Health {
        let row = self.row(policy);
        let failures = self.failures().max(row.map_or(0, Row::length));
        let is_probed_well = self.probes == 0 && self.stalled.is_none();
        Health {
            degraded: self.stalled.is_some() || self.exceeds(policy, 0) || row.is_some(),
            failing_calls: row.and_then(Row::summary),
            last_message_at: self.last_message_at,
            failures: failures.saturating_add(self.stalled.unwrap_or(0)),
            last_error: row
                .filter(|_| is_probed_well)
                .map(Row::reason)
                .or_else(|| self.reason()),
            last_ping: self.last_ping,
        }
    }
}

/// The conclusion from a failed probe.
enum ProbeFailure {
    Unwell,
    /// The answer is late, and nothing else is wrong.
    Slow,
    /// The answer is late, but there is an [`Excuse`].
    Excused,
    /// The answer is late without an excuse, and the server was silent for `hang_after`.
    Hangs,
}

#[cfg(test)]
mod tests;
