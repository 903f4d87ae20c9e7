//! Judges whether a connected server is well, from evidence.
//!
//! Ordinary traffic is the first evidence. A message of the protocol shows that the server is well; a
//! call that got anything else shows that it is not. A server is probed only after it was silent for an
//! interval or failed a call. The probe goes over the live session, and never while the server may be
//! at work on a call.

mod failing;

use std::time::{Duration, Instant};

use self::failing::Row;
pub use self::failing::{FailingCalls, FailingRow};
use crate::{
    lifecycle::{Loss, jittered},
    words::words,
};

/// When to ask, how, and what a bad answer leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Silence after which a probe is sent; `None` never asks.
    pub interval: Option<Duration>,
    /// Fraction of the interval by which it varies, so that a fleet is not asked in step.
    pub jitter: f64,
    /// What a probe's answer may take.
    pub timeout: Duration,
    pub method: Method,
    /// Failures in a row after which a server is degraded.
    pub threshold: u32,
    pub action: Action,
    /// Without a message for this long, and all other evidence gone, a server hangs.
    pub hang_after: Duration,
    /// Calls in a row without an answer, and with nothing else heard, after which calls are refused
    /// until the server is heard; `None` refuses none.
    pub unanswered_calls: Option<u32>,
}

/// CPU time of a server's processes, as a fraction of the time that they are watched, from which on
/// they count as busy; an idle runtime's own housekeeping stays below.
pub const BUSY_SHARE: f64 = 0.05;

/// Between two probes of a server whose calls are refused: only probes find out that it is back.
const STALLED_PAUSE: Duration = Duration::from_secs(1);

impl Default for Policy {
    /// The values of preset `default`.
    fn default() -> Self {
        Self {
            interval: Some(Duration::from_secs(30)),
            jitter: 0.1,
            timeout: Duration::from_secs(10),
            method: Method::Ping,
            threshold: 3,
            action: Action::Verify,
            hang_after: Duration::from_secs(120),
            unanswered_calls: Some(2),
        }
    }
}

impl Policy {
    /// Whether calls to a server are refused that has left so many in a row without an answer, said
    /// nothing since then, and spent this CPU time in this time.
    pub fn stalls(&self, calls: u32, spent: Duration, watched: Duration) -> bool {
        let is_busy = spent > watched.mul_f64(BUSY_SHARE);
        self.unanswered_calls.is_some_and(|limit| calls >= limit) && !is_busy
    }
}

/// How a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// MCP's `ping`. Any answer proves life, −32601 too.
    Ping,
    ToolsList,
    /// GET of the configured health URL, and `ping` where there is none.
    Http,
}

words!(Method { "ping" => Ping, "tools_list" => ToolsList, "http" => Http });

/// What the threshold leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `degraded`, and asked once more; a new connection only on hard evidence: errors of the
    /// connection, an answer that is none of the protocol to that last question, or a hang.
    Verify,
    /// A new connection.
    Reconnect,
    /// `degraded` and its event, and nothing else.
    Event,
    /// A line in the log.
    Log,
}

words!(Action { "verify" => Verify, "reconnect" => Reconnect, "event" => Event, "log" => Log });

/// How a probe went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Any answer proves life; this is how long it took.
    Answered(Duration),
    /// The server said that it is not well, or the probe could not be sent.
    Failed(String),
    /// What came in place of an answer.
    Broken(Fault),
    /// No answer in time, and what excuses the server, if anything.
    Unanswered(Option<Excuse>),
    /// Not asked: it is at work on a call.
    Busy,
}

/// What came in place of an answer of the protocol, to a probe or to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// In words.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The connection was cut. That is evidence for a new one whatever the action is.
    Cut,
    /// No connection can be made, which is the same evidence. The reason says why not.
    Unreachable,
    /// An error status, or a body that is no message.
    Foreign,
    /// HTTP 401 or 403.
    Unauthorized,
    /// HTTP 429: a new connection would only add to it.
    Throttled,
}

/// Why a server that does not answer may be well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// A call that it may be at work on is within its deadline.
    Call,
    /// Its processes have used CPU time meanwhile.
    Cpu,
}

/// What is known of a server's health since it came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// When it was last heard.
    heard: Instant,
    /// Probes in a row that failed.
    probes: u32,
    /// Calls in a row that got something else than an answer.
    calls: u32,
    /// Calls in a row that failed, whatever probes showed between them.
    row: Row,
    /// Calls in a row without an answer, if that many that calls are refused.
    stalled: Option<u32>,
    /// When the first of these probes and calls was known.
    failing_since: Option<Instant>,
    last_error: Option<String>,
    /// What the latest failure was, where it was not silence.
    last_fault: Option<FaultKind>,
    /// Whether the latest failure was silence, and not a word or a refused connection.
    is_unanswered: bool,
    last_ping: Option<Duration>,
    ask: Ask,
}

/// When to ask next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ask {
    /// An interval after this.
    After(Instant),
    /// At once, since this.
    Now(Instant),
    /// A probe is out.
    Asked,
}

/// What follows from a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Keep,
    /// As good as dead: only a new connection can help.
    Reconnect,
}

/// What is shown of a connected server's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub degraded: bool,
    /// The calls because of which it is degraded, which no answer to a probe changes.
    pub failing_calls: Option<FailingRow>,
    pub heard: Instant,
    pub failures: u32,
    pub last_error: Option<String>,
    pub last_ping: Option<Duration>,
}

impl Tally {
    pub fn new(now: Instant) -> Self {
        Self {
            heard: now,
            probes: 0,
            calls: 0,
            row: Row::default(),
            stalled: None,
            failing_since: None,
            last_error: None,
            last_fault: None,
            is_unanswered: true,
            last_ping: None,
            ask: Ask::After(now),
        }
    }

    /// When a probe is due: derived, so that it follows a policy that changes.
    pub fn due(&self, policy: &Policy, seed: u64) -> Option<Instant> {
        match self.ask {
            Ask::After(at) => {
                let interval = policy.interval?.as_secs_f64();
                Some(at + jittered(interval, policy.jitter, seed))
            }
            Ask::Now(at) => Some(at),
            Ask::Asked => None,
        }
    }

    /// How much later than it is due a probe may be sent, so that it goes with others. The interval varies by no
    /// more than the policy's jitter all the same.
    pub fn leeway(&self, policy: &Policy, seed: u64) -> Duration {
        let (Ask::After(at), Some(interval)) = (&self.ask, policy.interval) else {
            return Duration::ZERO;
        };
        let latest = *at + interval.mul_f64(1.0 + policy.jitter);
        let due = self.due(policy, seed);
        due.map_or(Duration::ZERO, |due| latest.saturating_duration_since(due))
    }

    /// A message that came from the server after what was known is a success.
    pub fn heard(&mut self, at: Instant) {
        if at <= self.heard {
            return;
        }
        self.heard = at;
        self.calls = 0;
        self.stalled = None;
        self.succeed();
        match self.ask {
            Ask::After(_) => self.ask = Ask::After(at),
            // What was heard before is what is in doubt.
            Ask::Now(since) if at > since => self.ask = Ask::After(at),
            Ask::Now(_) | Ask::Asked => {}
        }
    }

    /// Something has happened that makes all older evidence doubtful: a probe is due, even where
    /// none is sent otherwise.
    pub fn doubt(&mut self, now: Instant) {
        // A probe that is out will tell.
        match self.ask {
            Ask::After(_) => self.ask = Ask::Now(now),
            Ask::Now(_) | Ask::Asked => {}
        }
    }

    /// A probe is being sent.
    pub fn probing(&mut self) {
        self.ask = Ask::Asked;
    }

    /// `calls` is the number of calls in a row that have failed by now, the last one with `fault`. A
    /// new failure makes a probe due at once. Calls alone lead to a verdict only if they have failed
    /// for as long as a probe may take: a moment in which many failed at once is no evidence.
    pub fn calls_failed(
        &mut self,
        calls: u32,
        fault: Option<Fault>,
        now: Instant,
        policy: &Policy,
    ) -> Verdict {
        let before = std::mem::replace(&mut self.calls, calls);
        let Some(fault) = fault.filter(|_| calls > 0) else {
            if self.probes == 0 && self.stalled.is_none() {
                self.succeed();
            }
            return Verdict::Keep;
        };
        let since = *self.failing_since.get_or_insert(now);
        if calls != before {
            self.last_error = Some(fault.reason);
            self.last_fault = Some(fault.kind);
            self.doubt(now);
        }
        if now.duration_since(since) < policy.timeout {
            return Verdict::Keep;
        }
        let was_degraded = self.exceeds(policy, 1);
        self.broken(fault.kind, was_degraded, now, policy)
    }

    /// A server that fails every call is not well, whatever its answers to probes say, until it answers one.
    /// Its session is kept.
    pub fn calls_failed_in_row(&mut self, calls: FailingCalls, now: Instant) {
        self.row.note(calls, now);
    }

    /// `calls` is the number of calls in a row without an answer, because of which calls are refused
    /// until the server is heard. A probe is due at once.
    pub fn stall(&mut self, calls: Option<u32>, now: Instant) {
        let before = std::mem::replace(&mut self.stalled, calls);
        match calls {
            Some(calls) if before != Some(calls) => {
                self.last_error = Some(format!("{calls} calls in a row were not answered"));
                self.last_fault = None;
                self.is_unanswered = true;
                self.doubt(now);
            }
            None if before.is_some() && self.failures() == 0 => self.succeed(),
            Some(_) | None => {}
        }
    }

    /// Takes a probe's outcome into account, and judges.
    pub fn judge(&mut self, outcome: Outcome, now: Instant, policy: &Policy) -> Verdict {
        self.ask = match (self.stalled, policy.interval) {
            (None, _) => Ask::After(now),
            (Some(_), Some(interval)) => Ask::Now(now + interval.min(STALLED_PAUSE)),
            (Some(_), None) => Ask::Now(now + STALLED_PAUSE),
        };
        let was_degraded = self.exceeds(policy, 0);
        let trouble = match outcome {
            Outcome::Busy => return Verdict::Keep,
            Outcome::Answered(took) => {
                self.heard = self.heard.max(now);
                // Calls that failed are forgiven by a message alone, not by a health URL.
                if self.calls == 0 && self.stalled.is_none() {
                    self.succeed();
                }
                self.probes = 0;
                self.row.answers_probes(now);
                self.last_ping = Some(took);
                return Verdict::Keep;
            }
            Outcome::Failed(reason) => {
                self.fail(reason, None, now);
                self.is_unanswered = false;
                Trouble::SaidNo
            }
            Outcome::Broken(fault) => {
                self.fail(fault.reason, Some(fault.kind), now);
                return self.broken(fault.kind, was_degraded, now, policy);
            }
            Outcome::Unanswered(excuse) => {
                let seconds = policy.timeout.as_secs_f64();
                self.fail(format!("ping timed out after {seconds}s"), None, now);
                let silence = now.duration_since(self.heard);
                match excuse {
                    Some(_) => Trouble::Excused,
                    None if silence >= policy.hang_after => Trouble::Hangs,
                    None => Trouble::Slow,
                }
            }
        };
        match (policy.action, trouble) {
            (Action::Event | Action::Log, _) | (_, Trouble::Excused) => Verdict::Keep,
            (Action::Verify | Action::Reconnect, Trouble::Hangs) => Verdict::Reconnect,
            (Action::Verify, Trouble::SaidNo | Trouble::Slow) => Verdict::Keep,
            // One late answer is no evidence, whatever the threshold.
            (Action::Reconnect, Trouble::Slow) if policy.threshold <= 1 => Verdict::Keep,
            (Action::Reconnect, Trouble::SaidNo | Trouble::Slow) => self.at_threshold(policy),
        }
    }

    /// What follows from something that came in place of an answer.
    fn broken(
        &mut self,
        kind: FaultKind,
        was_degraded: bool,
        now: Instant,
        policy: &Policy,
    ) -> Verdict {
        match (policy.action, kind) {
            (_, FaultKind::Cut | FaultKind::Unreachable) => self.at_threshold(policy),
            (Action::Event | Action::Log, _) | (Action::Verify, FaultKind::Throttled) => {
                Verdict::Keep
            }
            (Action::Verify, FaultKind::Foreign) if !was_degraded => {
                if self.exceeds(policy, 0) {
                    self.doubt(now);
                }
                Verdict::Keep
            }
            (
                Action::Verify | Action::Reconnect,
                FaultKind::Foreign | FaultKind::Unauthorized | FaultKind::Throttled,
            ) => self.at_threshold(policy),
        }
    }

    fn at_threshold(&self, policy: &Policy) -> Verdict {
        if self.exceeds(policy, 0) {
            Verdict::Reconnect
        } else {
            Verdict::Keep
        }
    }

    /// Whether there are so many failures beyond those that make a server degraded. With a threshold of
    /// one, a single failed call is not enough: the probe that follows it decides.
    fn exceeds(&self, policy: &Policy, beyond: u32) -> bool {
        let total = self.failures();
        self.probes >= policy.threshold.max(1) + beyond || total >= policy.threshold.max(2) + beyond
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

    /// How a session is lost that this evidence ends.
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

    /// Whether it is a fault that the session may outlive.
    pub fn may_pass(&self) -> bool {
        self.last_fault.is_some()
    }

    /// The calls that failed in a row, if they are so many that they make a server degraded.
    fn row(&self, policy: &Policy) -> Option<&Row> {
        Some(&self.row).filter(|row| row.length() >= policy.threshold.max(2))
    }

    /// Why the last probe failed, or the last call.
    fn reason(&self) -> Option<String> {
        match self.last_fault {
            Some(FaultKind::Unreachable) => Some(self.loss().to_string()),
            _ => self.last_error.clone(),
        }
    }

    pub fn health(&self, policy: &Policy) -> Health {
        let row = self.row(policy);
        let failures = self.failures().max(row.map_or(0, Row::length));
        let is_probed_well = self.probes == 0 && self.stalled.is_none();
        Health {
            degraded: self.stalled.is_some() || self.exceeds(policy, 0) || row.is_some(),
            failing_calls: row.and_then(Row::shown),
            heard: self.heard,
            failures: failures.saturating_add(self.stalled.unwrap_or(0)),
            last_error: row
                .filter(|_| is_probed_well)
                .map(Row::reason)
                .or_else(|| self.reason()),
            last_ping: self.last_ping,
        }
    }
}

/// What a failed probe shows.
enum Trouble {
    SaidNo,
    /// Late, and that is all that is known.
    Slow,
    /// Late, but something speaks for it.
    Excused,
    /// Late, silent for `hang_after`, and nothing speaks for it.
    Hangs,
}

#[cfg(test)]
mod tests;
