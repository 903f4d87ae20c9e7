//! Histories of a session: the invariants over any of them, and the exact course of a few.

use proptest::prelude::*;

use super::*;

fn crash() -> Loss {
    Loss::Crashed {
        code: Some(3),
        signal: None,
    }
}

/// Row `default` without its jitter.
fn steady() -> Policy {
    let mut policy = Policy::default();
    policy.reconnect.jitter = 0.0;
    policy.health.jitter = 0.0;
    policy
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
    let policy = steady();
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
    let policy = steady();
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
    assert_eq!(life.status(&policy).state, State::Failed);
    assert_eq!(
        life.status(&policy).reason.as_deref(),
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
        (life.status(&policy).state, life.deadline(&policy)),
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
    assert_eq!(life.status(&policy).state, State::Reconnecting);
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
    let life = go(
        life,
        Event::Io(Epoch(1), Report::Begun),
        start,
        &policy,
        None,
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
        life.status(&policy).reason.as_deref(),
        Some("no handshake within 30000 ms")
    );
}

/// G8: a waiting call brings the attempt forward, at least a second after the last one.
#[test]
fn a_call_brings_the_attempt_forward() {
    let mut policy = steady();
    policy.reconnect.initial_delay = Duration::from_secs(20);
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
            if life.status(&policy).state == State::Connected { break; }
            let event = match life.phase {
                Phase::Down(_) | Phase::Waiting { .. } | Phase::Closing { then: Then::Stay, .. } => Event::Start,
                Phase::Connecting { .. } => Event::Io(life.epoch, Report::Opened),
                Phase::Closing { .. } => Event::Io(life.epoch, Report::Ended(crash())),
                Phase::Up { .. } => Event::Tick,
            };
            life = life.step(event, now, &policy).0;
        }
        prop_assert_eq!(life.status(&policy).state, State::Connected);
    }
}
