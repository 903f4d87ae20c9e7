//! Tests the invariants of the lifecycle with random event sequences and presets.

use proptest::prelude::*;

use super::{ends::ATTEMPT_SPACING, *};
use crate::health::{Excuse, FailingCalls, Fault, FaultKind};

#[derive(Clone, Debug)]
enum Act {
    Event(Event),
    /// A report of the live session. Skipped if such a report is impossible now.
    Report(SessionReport),
    /// Makes the current attempt succeed.
    Opens,
    /// A report of an earlier session.
    Late(u64, SessionReport),
    Wait(u64),
    WaitForDeadline,
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        1 => Just(crash()),
        1 => Just(connection_loss()),
        1 => Just(connect_failure()),
        4 => Just(Loss::SessionExpired),
        1 => Just(Loss::Unauthorized("HTTP 401".to_owned())),
        1 => (0..1000u64).prop_map(unavailable),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let kinds = [
        FaultKind::Cut,
        FaultKind::Unreachable,
        FaultKind::Foreign,
        FaultKind::Unauthorized,
        FaultKind::Throttled,
    ];
    prop::sample::select(kinds.to_vec()).prop_map(|kind| Fault {
        kind,
        reason: "HTTP 500".to_owned(),
    })
}

fn report() -> impl Strategy<Value = SessionReport> {
    let outcome = prop_oneof![
        1 => Just(ProbeOutcome::Answered(Duration::from_millis(1))),
        1 => Just(ProbeOutcome::Failed("HTTP 500".to_owned())),
        2 => fault().prop_map(ProbeOutcome::Broken),
        3 => Just(ProbeOutcome::Unanswered(None)),
        1 => Just(ProbeOutcome::Unanswered(Some(Excuse::Cpu))),
        1 => Just(ProbeOutcome::Busy),
    ];
    prop_oneof![
        2 => Just(SessionReport::Begun),
        // [`World::event`] sets the real time.
        1 => Just(SessionReport::AtWork(*EPOCH)),
        4 => Just(SessionReport::Opened),
        // [`World::event`] sets the real time.
        1 => Just(SessionReport::MessageReceived(*EPOCH)),
        1 => Just(SessionReport::Doubted),
        1 => (0..5u32, fault()).prop_map(|(calls, fault)| SessionReport::Failed(calls, Some(fault))),
        1 => (0..5u32, fault()).prop_map(|(failed, fault)| SessionReport::FailedInRow(FailingCalls { failed, total: 9, reason: fault.reason })),
        2 => outcome.prop_map(SessionReport::Probe),
        4 => loss().prop_map(SessionReport::Ended),
        1 => (1..4u32).prop_map(|crashes| SessionReport::Poisoned(crash(), crashes)),
    ]
}

/// A placeholder time.
static EPOCH: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

fn act() -> impl Strategy<Value = Act> {
    let event = prop_oneof![
        1 => Just(Event::Start),
        1 => Just(Event::Stop),
        1 => Just(Event::Reconnect),
        3 => Just(Event::CallWaiting),
        1 => Just(Event::Resumed),
        2 => Just(Event::Tick),
    ];
    prop_oneof![
        3 => event.prop_map(Act::Event),
        6 => report().prop_map(Act::Report),
        4 => Just(Act::Opens),
        3 => loss().prop_map(|loss| Act::Report(SessionReport::Ended(loss))),
        1 => (1..4u64, report()).prop_map(|(age, report)| Act::Late(age, report)),
        2 => (0..3000u64).prop_map(Act::Wait),
        1 => (0..200_000u64).prop_map(Act::Wait),
        5 => Just(Act::WaitForDeadline),
    ]
}

fn preset() -> impl Strategy<Value = Preset> {
    prop::sample::select(Preset::ALL.to_vec())
}

/// The driver's state of the session that it opened.
#[derive(Clone, Debug)]
struct Live {
    epoch: Epoch,
    has_begun: bool,
    is_open: bool,
    /// True while a probe is in flight.
    is_probed: bool,
    /// Time at which a doubt made a probe due, also if the policy sends no probes.
    doubted_at: Option<Instant>,
    closing: bool,
    killed: bool,
}

impl Live {
    fn doubt(&mut self, now: Instant) {
        if self.is_open && !self.is_probed {
            self.doubted_at.get_or_insert(now);
        }
    }
}

/// A driver that carries out each effect and checks that the effect is allowed.
struct World {
    course: Course,
    live: Option<Live>,
    /// True if the operator's last command was a stop.
    stopped: bool,
    /// True if a person or a resume has requested a session since the last session opened.
    is_requested: bool,
    opened_at: Option<Instant>,
    /// Time of the last reopening of an expired session without a wait.
    free_at: Option<Instant>,
}

impl World {
    fn new(preset: Preset, seed: u64) -> Self {
        let policy = Policy {
            seed,
            ..preset.policy()
        };
        Self {
            course: Course::new(policy),
            live: None,
            stopped: true,
            is_requested: false,
            opened_at: None,
            free_at: None,
        }
    }

    /// Returns the event of an act. `None` if the act is impossible now.
    fn event(&mut self, act: Act) -> Option<Event> {
        match act {
            Act::Opens => None,
            Act::Event(event) => Some(event),
            Act::Report(report) => {
                let session = self.live.as_mut()?;
                let (epoch, now) = (session.epoch, self.course.now);
                let report = match report {
                    // The driver reports `Begun` before `Opened`.
                    SessionReport::Begun | SessionReport::Opened if !session.has_begun => {
                        session.has_begun = true;
                        SessionReport::Begun
                    }
                    SessionReport::Begun | SessionReport::Opened if !session.is_open => {
                        session.is_open = true;
                        SessionReport::Opened
                    }
                    SessionReport::AtWork(_) if session.has_begun && !session.is_open => {
                        SessionReport::AtWork(now)
                    }
                    SessionReport::MessageReceived(_) if session.is_open => {
                        session.doubted_at = session.doubted_at.filter(|time| *time == now);
                        SessionReport::MessageReceived(now)
                    }
                    SessionReport::Doubted if session.is_open => {
                        session.doubt(now);
                        SessionReport::Doubted
                    }
                    SessionReport::Failed(..) | SessionReport::FailedInRow(..)
                        if session.is_open =>
                    {
                        report
                    }
                    SessionReport::Probe(outcome) if session.is_probed => {
                        session.is_probed = false;
                        SessionReport::Probe(outcome)
                    }
                    SessionReport::Ended(loss) => {
                        self.live = None;
                        SessionReport::Ended(loss)
                    }
                    SessionReport::Poisoned(..) if session.is_open => {
                        self.live = None;
                        report
                    }
                    _ => return None,
                };
                Some(Event::Io(epoch, report))
            }
            Act::Late(age, report) => {
                let epoch = self.course.life.epoch.0.checked_sub(age)?;
                Some(Event::Io(Epoch(epoch), report))
            }
            Act::Wait(milliseconds) => {
                self.course.wait(milliseconds);
                Some(Event::Tick)
            }
            Act::WaitForDeadline => {
                self.course.wait(self.course.due().unwrap_or_default());
                Some(Event::Tick)
            }
        }
    }

    fn act(&mut self, act: Act) -> Result<(), TestCaseError> {
        if matches!(act, Act::Opens) {
            self.act(Act::Report(SessionReport::Begun))?;
            return self.act(Act::Report(SessionReport::Opened));
        }
        let Some(event) = self.event(act) else {
            return Ok(());
        };
        match event {
            Event::Start | Event::Reconnect => (self.stopped, self.is_requested) = (false, true),
            Event::Resumed => {
                self.is_requested = true;
                if let Some(session) = &mut self.live {
                    session.doubt(self.course.now);
                }
            }
            Event::Stop => self.stopped = true,
            Event::CallWaiting | Event::Tick | Event::Io(..) => {}
        }
        let previous_life = self.course.life.clone();
        let effect = self.course.step(event.clone());
        let life = &self.course.life;
        prop_assert!(life.epoch >= previous_life.epoch, "epochs only grow");
        if matches!(&event, Event::Io(epoch, _) if *epoch != previous_life.epoch) {
            prop_assert_eq!(
                (life, effect),
                (&previous_life, None),
                "a late report did something"
            );
        }
        // A failure may make a probe due at once.
        let is_fault = matches!(
            &event,
            Event::Io(
                _,
                SessionReport::Failed(..) | SessionReport::Probe(ProbeOutcome::Broken(_))
            )
        );
        if let Some(session) = &mut self.live
            && is_fault
            && self.course.due() == Some(0)
        {
            session.doubt(self.course.now);
        }
        self.perform(effect, &event, previous_life.epoch)?;
        self.check_deadline()?;
        self.check_reason()
    }

    fn perform(
        &mut self,
        effect: Option<Effect>,
        event: &Event,
        previous_epoch: Epoch,
    ) -> Result<(), TestCaseError> {
        let session = self.live.as_mut();
        match effect {
            None => {}
            Some(Effect::Open(epoch)) => {
                prop_assert!(session.is_none(), "a second session beside a live one");
                prop_assert!(
                    epoch > previous_epoch && !self.stopped,
                    "opened after a stop"
                );
                self.check_pause(event)?;
                self.live = Some(Live {
                    epoch,
                    has_begun: false,
                    is_open: false,
                    is_probed: false,
                    doubted_at: None,
                    closing: false,
                    killed: false,
                });
                self.opened_at = Some(self.course.now);
                self.is_requested = false;
            }
            Some(Effect::Probe(epoch)) => {
                let session = session.expect("a live session");
                prop_assert!(session.is_open && !session.is_probed && !session.closing);
                prop_assert_eq!(epoch, session.epoch);
                session.is_probed = true;
                session.doubted_at = None;
            }
            Some(Effect::Close(epoch)) => {
                let session = session.expect("a live session");
                prop_assert!(!session.closing);
                prop_assert_eq!(epoch, session.epoch);
                session.closing = true;
            }
            Some(Effect::Kill(epoch)) => {
                let session = session.expect("a live session");
                prop_assert!(session.closing && !session.killed);
                prop_assert_eq!(epoch, session.epoch);
                session.killed = true;
            }
        }
        Ok(())
    }

    /// Checks the pause between attempts. It is at least the initial delay, less the jitter, or
    /// [`ATTEMPT_SPACING`] for a call. An expired session is reopened at once only if the session
    /// before it did not expire.
    fn check_pause(&mut self, event: &Event) -> Result<(), TestCaseError> {
        let now = self.course.now;
        if self.is_requested {
            self.free_at = None;
            return Ok(());
        }
        let reconnect = &self.course.policy.reconnect;
        let min_pause = match event {
            Event::Io(_, SessionReport::Ended(Loss::SessionExpired)) => {
                let last_reopening = self.free_at.replace(now);
                let is_spaced = last_reopening
                    .is_none_or(|last_reopening| now - last_reopening >= ATTEMPT_SPACING);
                prop_assert!(is_spaced, "an expired session is reopened for free, again");
                return Ok(());
            }
            Event::CallWaiting => ATTEMPT_SPACING,
            _ => reconnect.initial_delay.mul_f64(1.0 - reconnect.jitter),
        };
        let opened_at = self.opened_at.expect("the first attempt is asked for");
        let pause = now - opened_at;
        prop_assert!(pause >= min_pause, "a hot retry after {pause:?}");
        Ok(())
    }

    /// Checks that the status shows the reason of a loss until the next session is up, or until the
    /// operator requests one.
    fn check_reason(&self) -> Result<(), TestCaseError> {
        let status = self.course.status();
        let is_explained = match status.state {
            SessionState::Reconnecting => match &self.course.life.phase {
                Phase::Closing { then, .. } => status.reason.is_some() == (*then != Then::Reopen),
                _ => status.reason.is_some() && status.attempt > 0,
            },
            SessionState::Error | SessionState::Failed | SessionState::Crashed => {
                status.reason.is_some()
            }
            SessionState::Connecting => status.reason.is_none() && status.attempt == 0,
            SessionState::Connected | SessionState::Disconnected | SessionState::Stopping => true,
        };
        prop_assert!(is_explained, "{:?}", status);
        Ok(())
    }

    /// Checks that there is a deadline. Exceptions: the session is down, its attempt is queued, it
    /// was killed, a probe is in flight, or the policy sends no probes.
    fn check_deadline(&self) -> Result<(), TestCaseError> {
        let life = &self.course.life;
        let is_live = |check: fn(&Live) -> bool| self.live.as_ref().is_some_and(check);
        let has_deadline = match life.phase {
            Phase::Down(_) => false,
            Phase::Waiting { .. } => true,
            Phase::Connecting { .. } => is_live(|live| live.has_begun),
            Phase::Up { .. } => {
                let has_probes = self.course.policy.health.interval.is_some();
                (has_probes || is_live(|live| live.doubted_at.is_some()))
                    && !is_live(|live| live.is_probed)
            }
            Phase::Closing { .. } => !is_live(|live| live.killed),
        };
        prop_assert_eq!(self.course.due().is_some(), has_deadline, "{:?}", life);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Two sessions are never live at the same time. No session opens after a stop. Epochs only
    /// grow. Late reports have no effect. There is a deadline only if the driver must wait for a
    /// time. Attempts are not too close.
    #[test]
    fn histories_keep_the_invariants(
        preset in preset(),
        seed in any::<u64>(),
        acts in prop::collection::vec(act(), 1..120),
    ) {
        let mut world = World::new(preset, seed);
        world.act(Act::Event(Event::Start))?;
        for act in acts {
            world.act(act)?;
        }
    }

    /// From every phase, a start by the operator leads to `connected` if the server works.
    #[test]
    fn a_start_leads_to_connected_from_every_phase(
        preset in preset(),
        acts in prop::collection::vec(act(), 0..60),
    ) {
        let mut world = World::new(preset, 0);
        for act in acts {
            world.act(act)?;
        }
        for _ in 0..8 {
            let act = match world.course.life.phase {
                Phase::Down(_) | Phase::Waiting { .. } | Phase::Closing { then: Then::Stay, .. } => {
                    Act::Event(Event::Start)
                }
                Phase::Connecting { since: None, .. } => Act::Report(SessionReport::Begun),
                Phase::Connecting { .. } => Act::Report(SessionReport::Opened),
                Phase::Closing { .. } => Act::Report(SessionReport::Ended(connection_loss())),
                Phase::Up { .. } => break,
            };
            world.act(act)?;
        }
        prop_assert_eq!(world.course.state(), SessionState::Connected);
    }
}
