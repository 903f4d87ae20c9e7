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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn crash() -> Loss {
        Loss::Crashed {
            code: Some(3),
            signal: None,
        }
    }

    /// Steps and checks the effect.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "written as one writes `step`"
    )]
    fn go(
        life: Lifecycle,
        event: Event,
        now: Instant,
        policy: &Policy,
        effect: Option<Effect>,
    ) -> Lifecycle {
        let (life, found) = life.step(event.clone(), now, policy);
        assert_eq!(found, effect, "after {event:?}");
        life
    }

    fn up(policy: &Policy, now: Instant) -> Lifecycle {
        let life = go(
            Lifecycle::default(),
            Event::Start,
            now,
            policy,
            Some(Effect::Open(Epoch(1))),
        );
        go(life, Event::Io(Epoch(1), Report::Opened), now, policy, None)
    }

    /// Y, row `default`, without its jitter: 1, 2, 4, 8, 16, 30, 30 s.
    #[test]
    fn delays_double_up_to_the_cap() {
        let policy = Policy {
            jitter: 0.0,
            ..Policy::default()
        };
        let delays: Vec<_> = (1..=7)
            .map(|n| policy.delay(n, Epoch(n.into())).as_millis())
            .collect();
        assert_eq!(delays, [1000, 2000, 4000, 8000, 16000, 30000, 30000]);
    }

    #[test]
    fn jitter_stays_within_its_fraction() {
        let policy = Policy::default();
        for epoch in 0..1000 {
            let delay = policy.delay(1, Epoch(epoch)).as_millis();
            assert!((900..=1100).contains(&delay), "{delay}");
        }
    }

    /// Y1: a local crash loop stops after five restarts and waits for one click.
    #[test]
    fn a_crash_loop_ends_in_failed_and_a_start_begins_anew() {
        let policy = Policy {
            jitter: 0.0,
            ..Policy::default()
        };
        let mut now = Instant::now();
        let mut life = up(&policy, now);
        for epoch in 1..=5 {
            life = go(
                life,
                Event::Io(Epoch(epoch), Report::Ended(crash())),
                now,
                &policy,
                None,
            );
            now = life.deadline(&policy).expect("a retry is due");
            life = go(
                life,
                Event::Tick,
                now,
                &policy,
                Some(Effect::Open(Epoch(epoch + 1))),
            );
            life = go(
                life,
                Event::Io(Epoch(epoch + 1), Report::Opened),
                now,
                &policy,
                None,
            );
        }
        life = go(
            life,
            Event::Io(Epoch(6), Report::Ended(crash())),
            now,
            &policy,
            None,
        );
        assert_eq!(life.status().state, State::Failed);
        assert_eq!(
            life.status().reason.as_deref(),
            Some("process exited unexpectedly (code 3)")
        );
        go(
            life,
            Event::Start,
            now,
            &policy,
            Some(Effect::Open(Epoch(7))),
        );
    }

    #[test]
    fn a_permanent_error_is_not_retried() {
        let (policy, now) = (Policy::default(), Instant::now());
        let life = go(
            Lifecycle::default(),
            Event::Start,
            now,
            &policy,
            Some(Effect::Open(Epoch(1))),
        );
        let loss = Loss::CannotSpawn("command not found".to_owned());
        let life = go(
            life,
            Event::Io(Epoch(1), Report::Ended(loss)),
            now,
            &policy,
            None,
        );
        assert_eq!(
            (life.status().state, life.deadline(&policy)),
            (State::Error, None)
        );
    }

    /// E11: 404 with a session id: initialize anew, at once, but not for ever.
    #[test]
    fn an_expired_session_is_reopened_once_without_a_wait() {
        let (policy, now) = (Policy::default(), Instant::now());
        let expired = |epoch| Event::Io(Epoch(epoch), Report::Ended(Loss::SessionExpired));
        let life = go(
            up(&policy, now),
            expired(1),
            now,
            &policy,
            Some(Effect::Open(Epoch(2))),
        );
        let life = go(
            life,
            Event::Io(Epoch(2), Report::Opened),
            now,
            &policy,
            None,
        );
        let life = go(life, expired(2), now, &policy, None);
        assert_eq!(life.status().state, State::Reconnecting);
    }

    /// Invariant 9: what hangs in its handshake ends before the next attempt begins.
    #[test]
    fn a_hanging_handshake_is_closed_then_killed_then_retried() {
        let policy = Policy::default();
        let start = Instant::now();
        let life = go(
            Lifecycle::default(),
            Event::Start,
            start,
            &policy,
            Some(Effect::Open(Epoch(1))),
        );
        let late = start + policy.connect_timeout;
        let life = go(
            life,
            Event::Tick,
            late,
            &policy,
            Some(Effect::Close(Epoch(1))),
        );
        let life = go(
            life,
            Event::Tick,
            late + policy.close_timeout,
            &policy,
            Some(Effect::Kill(Epoch(1))),
        );
        let gone = Event::Io(
            Epoch(1),
            Report::Ended(Loss::Disconnected("killed".to_owned())),
        );
        let life = go(life, gone, late + policy.close_timeout, &policy, None);
        assert_eq!(
            life.status().reason.as_deref(),
            Some("no handshake within 30000 ms")
        );
    }

    /// G8: a waiting call brings the attempt forward, at least a second after the last one.
    #[test]
    fn a_call_brings_the_attempt_forward() {
        let policy = Policy {
            jitter: 0.0,
            initial_delay: Duration::from_secs(20),
            ..Policy::default()
        };
        let start = Instant::now();
        let lost = Event::Io(
            Epoch(1),
            Report::Ended(Loss::Disconnected("gone".to_owned())),
        );
        let life = go(up(&policy, start), lost, start, &policy, None);
        let life = go(life, Event::CallWaiting, start, &policy, None);
        assert_eq!(life.deadline(&policy), Some(start + CALL_ATTEMPT_SPACING));
        go(
            life,
            Event::CallWaiting,
            start + CALL_ATTEMPT_SPACING,
            &policy,
            Some(Effect::Open(Epoch(2))),
        );
    }

    #[derive(Clone, Debug)]
    enum Act {
        Event(Event),
        /// A report of the current session, or of an older one.
        Report {
            age: u64,
            report: Report,
        },
        Wait(u64),
        WaitForDeadline,
    }

    fn act() -> impl Strategy<Value = Act> {
        let report = prop_oneof![
            Just(Report::Opened),
            Just(Report::Ended(crash())),
            Just(Report::Ended(Loss::SessionExpired)),
            Just(Report::Ended(Loss::Disconnected("x".to_owned()))),
            Just(Report::Ended(Loss::Unauthorized("x".to_owned()))),
        ];
        prop_oneof![
            prop_oneof![
                Just(Event::Start),
                Just(Event::Stop),
                Just(Event::CallWaiting),
                Just(Event::Tick)
            ]
            .prop_map(Act::Event),
            (0..3u64, report).prop_map(|(age, report)| Act::Report { age, report }),
            (0..100_000u64).prop_map(Act::Wait),
            Just(Act::WaitForDeadline),
        ]
    }

    proptest! {
        /// Over any history: never two live sessions, epochs only grow, nothing opens after a stop,
        /// late reports do nothing.
        #[test]
        fn histories_keep_the_invariants(acts in prop::collection::vec(act(), 1..80)) {
            let policy = Policy::default();
            let mut now = Instant::now();
            let mut life = Lifecycle::default();
            let mut live: Option<Epoch> = None;
            let mut stopped = true;
            for act in acts {
                let event = match act {
                    Act::Event(event) => event,
                    Act::Report { age, report } => {
                        // Only what lives can report; a late report comes from an older epoch.
                        let Some(current) = live else { continue };
                        if age == 0 && matches!(report, Report::Ended(_)) {
                            live = None;
                        }
                        Event::Io(Epoch(current.0.saturating_sub(age)), report)
                    }
                    Act::Wait(ms) => { now += Duration::from_millis(ms); Event::Tick }
                    Act::WaitForDeadline => {
                        now = life.deadline(&policy).map_or(now, |deadline| deadline.max(now));
                        Event::Tick
                    }
                };
                match event { Event::Start => stopped = false, Event::Stop => stopped = true, _ => {} }
                let before = life.clone();
                let late = matches!(event, Event::Io(epoch, _) if epoch != before.epoch);
                let (after, effect) = life.step(event, now, &policy);
                prop_assert!(after.epoch >= before.epoch);
                if late { prop_assert_eq!((&after, effect), (&before, None)); }
                if let Some(Effect::Open(epoch)) = effect {
                    prop_assert!(live.is_none(), "a second session beside a live one");
                    prop_assert!(epoch > before.epoch && !stopped);
                    live = Some(epoch);
                }
                life = after;
            }
        }

        /// From anywhere, a willing operator and a willing backend reach `connected`.
        #[test]
        fn willingness_leads_to_connected(acts in prop::collection::vec(act(), 0..40)) {
            let policy = Policy::default();
            let mut now = Instant::now();
            let mut life = Lifecycle::default();
            for act in acts {
                let event = match act {
                    Act::Event(event) => event,
                    Act::Report { age, report } => Event::Io(Epoch(life.epoch.0.saturating_sub(age)), report),
                    Act::Wait(ms) => { now += Duration::from_millis(ms); Event::Tick }
                    Act::WaitForDeadline => Event::Tick,
                };
                life = life.step(event, now, &policy).0;
            }
            for _ in 0..8 {
                if life.status().state == State::Connected { break; }
                let event = match life.phase {
                    Phase::Down(_) | Phase::Waiting { .. } | Phase::Closing { then: Then::Stay, .. } => Event::Start,
                    Phase::Connecting { .. } => Event::Io(life.epoch, Report::Opened),
                    Phase::Closing { .. } => Event::Io(life.epoch, Report::Ended(crash())),
                    Phase::Up { .. } => Event::Tick,
                };
                life = life.step(event, now, &policy).0;
            }
            prop_assert_eq!(life.status().state, State::Connected);
        }
    }
}
