//! Is a connected server well? Evidence in, verdict out (design section 6).
//!
//! Ordinary traffic is the first evidence. Only a server that has been silent for an interval is
//! asked, on its live session, and never while it may be at work on a call.

use std::time::{Duration, Instant};

use crate::lifecycle::jittered;

/// When to ask, how, and what a bad answer leads to (Y2).
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
    /// Without a byte for this long, and all other evidence gone, a server hangs.
    pub hang_after: Duration,
}

impl Default for Policy {
    /// Row `default` of section Y of the requirements.
    fn default() -> Self {
        Self {
            interval: Some(Duration::from_secs(30)),
            jitter: 0.1,
            timeout: Duration::from_secs(10),
            method: Method::Ping,
            threshold: 3,
            action: Action::Verify,
            hang_after: Duration::from_secs(120),
        }
    }
}

/// How a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// MCP's `ping`. Any answer proves life, −32601 too (H13).
    Ping,
    ToolsList,
    /// GET of the configured health URL, and `ping` where there is none (H4).
    Http,
}

/// What the threshold leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `degraded`; a new connection only on hard evidence: an error of the connection, or a hang.
    Verify,
    /// A new connection.
    Reconnect,
    /// `degraded` and its event, and nothing else.
    Event,
    /// A line in the log.
    Log,
}

/// How a probe went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Any answer proves life; this is how long it took.
    Answered(Duration),
    /// The server said that it is not well, or the probe could not be sent.
    Failed(String),
    /// No answer in time, and what speaks for the server all the same.
    Unanswered(Option<Excuse>),
    /// Not asked: it is at work on a call.
    Busy,
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
    failures: u32,
    last_error: Option<String>,
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
    pub heard: Instant,
    pub failures: u32,
    pub last_error: Option<String>,
    pub last_ping: Option<Duration>,
}

impl Tally {
    pub fn new(now: Instant) -> Self {
        Self {
            heard: now,
            failures: 0,
            last_error: None,
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

    /// Anything that came from the server after what was known is a success.
    pub fn heard(&mut self, at: Instant) {
        if at <= self.heard {
            return;
        }
        self.heard = at;
        self.failures = 0;
        self.last_error = None;
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

    /// Takes a probe's outcome into account, and judges.
    pub fn judge(&mut self, outcome: Outcome, now: Instant, policy: &Policy) -> Verdict {
        self.ask = Ask::After(now);
        let trouble = match outcome {
            Outcome::Busy => return Verdict::Keep,
            Outcome::Answered(took) => {
                self.heard = self.heard.max(now);
                self.failures = 0;
                self.last_error = None;
                self.last_ping = Some(took);
                return Verdict::Keep;
            }
            Outcome::Failed(reason) => {
                self.last_error = Some(reason);
                Trouble::SaidNo
            }
            Outcome::Unanswered(excuse) => {
                let seconds = policy.timeout.as_secs_f64();
                self.last_error = Some(format!("ping timed out after {seconds}s"));
                let silence = now.duration_since(self.heard);
                match excuse {
                    Some(_) => Trouble::Excused,
                    None if silence >= policy.hang_after => Trouble::Hangs,
                    None => Trouble::Slow,
                }
            }
        };
        self.failures += 1;
        match (policy.action, trouble) {
            (Action::Event | Action::Log, _) | (_, Trouble::Excused) => Verdict::Keep,
            (Action::Verify | Action::Reconnect, Trouble::Hangs) => Verdict::Reconnect,
            (Action::Verify, Trouble::SaidNo | Trouble::Slow) => Verdict::Keep,
            // One late answer is no evidence, whatever the threshold.
            (Action::Reconnect, Trouble::Slow) if policy.threshold <= 1 => Verdict::Keep,
            (Action::Reconnect, Trouble::SaidNo | Trouble::Slow) => {
                if self.failures >= policy.threshold {
                    Verdict::Reconnect
                } else {
                    Verdict::Keep
                }
            }
        }
    }

    pub fn health(&self, policy: &Policy) -> Health {
        Health {
            degraded: self.failures >= policy.threshold.max(1),
            heard: self.heard,
            failures: self.failures,
            last_error: self.last_error.clone(),
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
