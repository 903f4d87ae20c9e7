//! Judges the health of a connected server from evidence.
//!
//! Ordinary traffic is the first evidence. A protocol message shows that the server is healthy. A
//! call without a protocol answer shows that the server is not. A probe is sent only after an
//! interval of silence or a failed call. A probe uses the live session, and is never sent while the
//! server may be at work on a call.

mod failing;

use std::time::{Duration, Instant};

use self::failing::Row;
pub use self::failing::{FailingCalls, FailingRow};
use crate::{
    lifecycle::{Loss, add_jitter},
    words::words,
};

/// The settings of probes: their times, their kind, and the consequences of a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthPolicy {
    /// Silence after which a probe is sent. `None` sends no probes.
    pub interval: Option<Duration>,
    /// Fraction by which the interval varies, so that many servers are not probed at the same
    /// moment.
    pub jitter: f64,
    /// Time limit for the answer to a probe.
    pub timeout: Duration,
    pub method: ProbeMethod,
    /// Failures in a row after which a server is degraded.
    pub threshold: u32,
    pub action: HealthAction,
    /// Silence after which a server without any other sign of life counts as hanging.
    pub hang_after: Duration,
    /// Number of calls in a row without an answer, and without any other message, after which calls
    /// are refused until the server sends a message. `None` never refuses calls.
    pub unanswered_calls: Option<u32>,
}

/// A server's processes count as busy if their CPU time reaches this fraction of the observed time.
/// The housekeeping of an idle runtime uses less.
pub const BUSY_SHARE: f64 = 0.05;

/// Pause between two probes of a server whose calls are refused. Only a probe can show that the
/// server is back.
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
    /// True if calls to the server are refused: the last `calls` calls have no answer, no other
    /// message came since, and the server used the CPU time `spent` in the time `watched`.
    pub fn stalls(&self, calls: u32, spent: Duration, watched: Duration) -> bool {
        let is_busy = spent > watched.mul_f64(BUSY_SHARE);
        self.unanswered_calls.is_some_and(|limit| calls >= limit) && !is_busy
    }
}

/// The kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeMethod {
    /// MCP's `ping`. Any answer proves life, even −32601.
    Ping,
    ToolsList,
    /// GET of the configured health URL, or `ping` if there is none.
    Http,
}

words!(ProbeMethod { "ping" => Ping, "tools_list" => ToolsList, "http" => Http });

/// The action at the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthAction {
    /// Set `degraded` and probe once more. Reconnect only on hard evidence: errors of the
    /// connection, a response to that last probe that is no protocol message, or a hang.
    Verify,
    /// Reconnect.
    Reconnect,
    /// Set `degraded` and emit its event, and nothing else.
    Event,
    /// Write a line to the log.
    Log,
}

words!(HealthAction { "verify" => Verify, "reconnect" => Reconnect, "event" => Event, "log" => Log });

/// The outcome of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// An answer came after this time. Any answer proves life.
    Answered(Duration),
    /// The server reported an error, or the probe could not be sent.
    Failed(String),
    /// A response that is no protocol answer.
    Broken(Fault),
    /// No answer came in time. The excuse, if any, is the reason that the server may still be
    /// healthy.
    Unanswered(Option<Excuse>),
    /// No probe was sent, because the server is at work on a call.
    Busy,
}

/// A failure in place of a protocol answer, to a probe or to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// The description of the fault.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The connection was cut. This is evidence for a reconnect with every action.
    Cut,
    /// No connection can be made. This is the same evidence as `Cut`. The reason names the cause.
    Unreachable,
    /// An error status, or a body that is no message.
    Foreign,
    /// HTTP 401 or 403.
    Unauthorized,
    /// HTTP 429. A new connection would only add load.
    Throttled,
}

/// The reason that a server may be healthy although it does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// A call within its deadline, which the server may be at work on.
    Call,
    /// The server's processes have used CPU time since the probe was sent.
    Cpu,
}

/// The evidence about a server's health since it came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Time of the last message from the server.
    last_message_at: Instant,
    /// Probes in a row that failed.
    probes: u32,
    /// Failed calls in a row.
    calls: u32,
    /// Calls in a row that failed, even if probes succeeded between them.
    row: Row,
    /// Number of unanswered calls in a row, while calls are refused.
    stalled: Option<u32>,
    /// Time at which the first of the current failures was noticed.
    failing_since: Option<Instant>,
    last_error: Option<String>,
    /// The fault of the latest failure. `None` if the latest failure was silence or an error
    /// message.
    last_fault: Option<FaultKind>,
    /// True if the latest failure was silence, and not an error message or a refused connection.
    is_unanswered: bool,
    last_ping: Option<Duration>,
    next_probe: NextProbe,
}

/// Time of the next probe.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NextProbe {
    /// One interval after this time of the last evidence.
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
    /// The session is beyond repair. Only a new connection can help.
    Reconnect,
}

/// The health of a connected server, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub degraded: bool,
    /// The failed calls that make the server degraded. Answered probes do not change this row.
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

    /// Time at which a probe is due. Each call computes the time anew, so that changes of the
    /// policy apply.
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

    /// Tolerated delay of a due probe, so that probes are sent together. The interval still varies
    /// by no more than the policy's jitter.
    pub fn leeway(&self, policy: &HealthPolicy, seed: u64) -> Duration {
        let (NextProbe::After(time), Some(interval)) = (&self.next_probe, policy.interval) else {
            return Duration::ZERO;
        };
        let latest = *time + interval.mul_f64(1.0 + policy.jitter);
        let due = self.due(policy, seed);
        due.map_or(Duration::ZERO, |due| latest.saturating_duration_since(due))
    }

    /// Handles a message of the server. If the message is later than the last evidence, it counts
    /// as a success.
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
            // A message that is older than the doubt proves nothing.
            NextProbe::At(since) if time > since => self.next_probe = NextProbe::After(time),
            NextProbe::At(_) | NextProbe::InFlight => {}
        }
    }

    /// Handles an incident that puts all older evidence in doubt. A probe is due, even if the
    /// policy sends no probes.
    pub fn doubt(&mut self, now: Instant) {
        // If a probe is in flight, its outcome decides.
        match self.next_probe {
            NextProbe::After(_) => self.next_probe = NextProbe::At(now),
            NextProbe::At(_) | NextProbe::InFlight => {}
        }
    }

    /// Notes that a probe is being sent.
    pub fn probing(&mut self) {
        self.next_probe = NextProbe::InFlight;
    }

    /// Handles failed calls. `calls` is the number of calls in a row that have failed by now, the
    /// last one with `fault`. A new failure makes a probe due at once. Calls alone lead to a
    /// verdict only after they failed for as long as a probe may take, because many failures in one
    /// moment are no evidence.
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

    /// Handles calls that fail in a row. The server is degraded until it answers a call, even if it
    /// answers probes. Its session stays open.
    pub fn calls_failed_in_row(&mut self, calls: FailingCalls, now: Instant) {
        self.row.note(calls, now);
    }

    /// Handles unanswered calls. `calls` is their number in a row, if calls are refused because of
    /// them until the server sends a message. A probe is due at once.
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
                // Only a message forgives failed calls. An answer of the health URL does not.
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
            // One late answer is no evidence, whatever the threshold.
            (HealthAction::Reconnect, ProbeFailure::Slow) if policy.threshold <= 1 => {
                HealthVerdict::Keep
            }
            (HealthAction::Reconnect, ProbeFailure::Unwell | ProbeFailure::Slow) => {
                self.at_threshold(policy)
            }
        }
    }

    /// The verdict after a fault in place of an answer.
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

    /// True if the number of failures exceeds the threshold of a degraded server by `extra_failures`. With
    /// a threshold of one, a single failed call is not enough: the next probe decides.
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

    /// The loss of a session that ends because of the current evidence.
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

    /// True if the session may survive the latest fault.
    pub fn may_pass(&self) -> bool {
        self.last_fault.is_some()
    }

    /// The calls that failed in a row, if there are enough to make the server degraded.
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

/// The meaning of a failed probe.
enum ProbeFailure {
    Unwell,
    /// The answer is late. There is no other evidence.
    Slow,
    /// The answer is late, but the server has an excuse.
    Excused,
    /// The answer is late, the server was silent for `hang_after`, and there is no excuse.
    Hangs,
}

#[cfg(test)]
mod tests;
