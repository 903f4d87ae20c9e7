//! Checks from the five older documents, with the presets that keep their behaviour (X1–X3;
//! docs/dev/seeds.md lists the checks).

use super::*;
use crate::health::ProbeOutcome;

/// Document 000's monitor: three attempts with delays of 100 ms to 1 s.
fn monitor() -> Policy {
    let mut policy = Preset::Router.policy();
    policy.reconnect.max_attempts = Some(3);
    policy.reconnect.initial_delay = Duration::from_millis(100);
    policy.reconnect.max_delay = Duration::from_millis(1000);
    policy
}

/// Begins the next attempt, and makes it fail.
fn fail_attempt(course: &mut Course) {
    let epoch = course.life.epoch.0 + 1;
    assert_eq!(course.tick(), open_effect(epoch));
    course.report(SessionReport::Begun);
    course.end_session(connect_failure());
}

#[test]
fn router_begins_disconnected() {
    let course = Course::new(monitor());
    assert_eq!(
        (course.state(), course.due()),
        (SessionState::Disconnected, None)
    );
}

/// F4: the words on document 000's page change only with the state.
#[test]
fn router_shows_running_once_connected() {
    let mut course = Course::new(monitor());
    let mut page_words = vec![course.state().words().page];
    for event in [
        Event::Start,
        Event::Io(Epoch(1), SessionReport::Begun),
        Event::Io(Epoch(1), SessionReport::Opened),
        Event::Start,
    ] {
        course.step(event);
        page_words.push(course.state().words().page);
    }
    assert_eq!(
        page_words,
        ["stopped", "starting", "starting", "running", "running"]
    );
}

#[test]
fn router_tries_again_after_a_loss() {
    let mut course = Course::after_loss(monitor(), connection_loss());
    assert_eq!(course.state(), SessionState::Reconnecting);
    assert_eq!(course.state().words().page_message, Some("Reconnecting..."));
    assert_eq!(course.due(), Some(100));
    assert_eq!(course.tick(), open_effect(2));
    assert_eq!(course.status().attempt, 1);
}

#[test]
fn router_doubles_its_waits_then_fails() {
    let mut course = Course::after_loss(monitor(), connection_loss());
    let mut waits = Vec::new();
    while course.state() == SessionState::Reconnecting {
        waits.push(course.due());
        fail_attempt(&mut course);
    }
    assert_eq!(waits, [100, 200, 400].map(Some));
    assert_eq!((course.state(), course.due()), (SessionState::Failed, None));
}

#[test]
fn router_forgets_failed_attempts_once_one_succeeds() {
    let mut course = Course::after_loss(monitor(), connection_loss());
    fail_attempt(&mut course);
    assert_eq!((course.due(), course.tick()), (Some(200), open_effect(3)));
    course.open_session();
    // The next loss is the first loss again.
    course.end_session(connection_loss());
    assert_eq!((course.due(), course.status().attempt), (Some(100), 1));
}

#[test]
fn router_makes_no_attempt_after_a_stop() {
    let mut course = Course::after_loss(monitor(), connection_loss());
    assert_eq!(course.step(Event::Stop), None);
    assert_eq!(
        (course.state(), course.due()),
        (SessionState::Disconnected, None)
    );
    course.wait(SECOND);
    assert_eq!(course.step(Event::Tick), None);
}

/// Document 000's health checker: a probe per second, unhealthy after three failures.
fn checker() -> Policy {
    let mut policy = monitor();
    policy.health.interval = Some(Duration::from_secs(1));
    policy.health.threshold = 3;
    policy
}

/// Sends the next probe, which is due in a second, and reports this outcome.
fn send_probe(course: &mut Course, outcome: ProbeOutcome) -> Option<Effect> {
    let epoch = course.life.epoch.0;
    assert_eq!((course.due(), course.tick()), (Some(SECOND), probe(epoch)));
    course.report(SessionReport::Probe(outcome))
}

fn answered_probe() -> ProbeOutcome {
    ProbeOutcome::Answered(Duration::from_millis(1))
}

fn failed_probe() -> ProbeOutcome {
    ProbeOutcome::Failed("HTTP 500".to_owned())
}

#[test]
fn router_sends_no_probe_before_the_handshake() {
    let mut course = Course::new(checker());
    assert_eq!(course.due(), None);
    course.step(Event::Start);
    course.report(SessionReport::Begun);
    assert_eq!(course.due(), Some(30 * SECOND), "the handshake's own limit");
}

/// H1, H14: the handshake counts as a message, so the first probe is due one interval later.
#[test]
fn router_probes_at_its_interval() {
    let mut course = Course::connected(checker());
    for _ in 0..3 {
        assert_eq!(send_probe(&mut course, answered_probe()), None);
    }
}

/// H2, H3: the third failure in a row leads to a reconnect. A success resets the counter.
#[test]
fn router_reconnects_after_three_failures_in_a_row() {
    let mut course = Course::connected(checker());
    for outcome in [
        failed_probe(),
        failed_probe(),
        answered_probe(),
        failed_probe(),
        failed_probe(),
    ] {
        assert_eq!(send_probe(&mut course, outcome), None);
        assert_eq!(course.state(), SessionState::Connected);
    }
    assert_eq!(send_probe(&mut course, failed_probe()), close_effect(1));
    assert_eq!(course.state(), SessionState::Reconnecting);
}

/// H2: a successful probe restores the server's health.
#[test]
fn router_is_healthy_after_a_successful_probe() {
    let mut course = Course::connected(checker());
    for _ in 0..2 {
        send_probe(&mut course, failed_probe());
    }
    assert_eq!(send_probe(&mut course, failed_probe()), close_effect(1));
    course.end_session(connection_loss());
    assert_eq!((course.due(), course.tick()), (Some(100), open_effect(2)));
    course.open_session();
    assert_eq!(send_probe(&mut course, answered_probe()), None);
    let health = course.status().health.expect("it is up");
    assert_eq!((health.degraded, health.failures), (false, 0));
}

#[test]
fn router_sends_no_probe_after_a_stop() {
    let mut course = Course::connected(checker());
    assert_eq!(send_probe(&mut course, answered_probe()), None);
    assert_eq!(course.step(Event::Stop), close_effect(1));
    course.end_session(connection_loss());
    course.wait(5 * SECOND);
    assert_eq!((course.due(), course.step(Event::Tick)), (None, None));
}

/// Document 000's second scenario, W27: a stopped HTTP server is noticed within 90 s.
#[test]
fn router_notices_a_stopped_server_within_90_s() {
    let mut course = Course::connected(Preset::Router.policy());
    let start = course.now;
    loop {
        assert_eq!(course.tick(), probe(1));
        if course.report(SessionReport::Probe(failed_probe())) == close_effect(1) {
            break;
        }
    }
    assert_eq!(course.now - start, Duration::from_secs(90));
}

/// F6: every transition in document 001's diagram.
#[test]
fn persistent_makes_every_transition_of_its_document() {
    let mut course = Course::new(steady(Preset::Persistent));
    let mut states = Vec::new();
    let mut step = |course: &mut Course, event: Event| {
        course.step(event);
        states.push(course.state().words().tools);
    };
    let end_event =
        |course: &Course, loss| Event::Io(course.life.epoch, SessionReport::Ended(loss));
    let open_event = |course: &Course| Event::Io(course.life.epoch, SessionReport::Opened);
    step(&mut course, Event::Start);
    let event = end_event(&course, connect_failure());
    step(&mut course, event);
    course.wait(SECOND);
    step(&mut course, Event::Tick);
    let event = end_event(&course, connect_failure());
    step(&mut course, event);
    course.wait(2 * SECOND);
    step(&mut course, Event::Tick);
    let event = open_event(&course);
    step(&mut course, event);
    let event = end_event(&course, connection_loss());
    step(&mut course, event);
    step(&mut course, Event::Stop);
    assert_eq!(
        states,
        [
            "connecting",
            "reconnecting",
            "reconnecting",
            "reconnecting",
            "reconnecting",
            "connected",
            "reconnecting",
            "disconnected",
        ]
    );
    let mut course = Course::new(steady(Preset::Persistent));
    course.step(Event::Start);
    course.open_session();
    course.step(Event::Stop);
    course.end_session(connection_loss());
    assert_eq!(course.state().words().tools, "disconnected");
}

/// H5, G9, G10: while a session reconnects, there are no probes, and only one attempt at a time. A
/// success resets the counters.
#[test]
fn persistent_probes_again_after_a_reconnect() {
    let mut course = Course::after_loss(steady(Preset::Persistent), connection_loss());
    assert_eq!(course.due(), Some(SECOND), "the attempt, and no probe");
    fail_attempt(&mut course);
    assert_eq!(
        (course.due(), course.tick()),
        (Some(2 * SECOND), open_effect(3))
    );
    assert_eq!(course.step(Event::CallWaiting), None);
    course.open_session();
    assert_eq!(
        (course.due(), course.tick()),
        (Some(120 * SECOND), probe(3))
    );
    course.report(SessionReport::Probe(answered_probe()));
    course.end_session(connection_loss());
    assert_eq!(course.due(), Some(SECOND));
}

/// H6: a degraded server keeps its session.
#[test]
fn persistent_is_degraded_and_never_reconnects_for_a_probe() {
    let mut course = Course::connected(steady(Preset::Persistent));
    for failures in 1..=20 {
        assert_eq!(
            (course.due(), course.tick()),
            (Some(120 * SECOND), probe(1))
        );
        course.wait(60 * SECOND);
        assert_eq!(
            course.report(SessionReport::Probe(ProbeOutcome::Unanswered(None))),
            None
        );
        let health = course.status().health.expect("it is up");
        assert_eq!(
            (health.degraded, health.failures),
            (failures >= 3, failures)
        );
    }
    course.report(SessionReport::MessageReceived(course.now));
    assert!(!course.status().is_degraded());
}

/// G14, F10: five attempts, and five more after a reconnect by the operator.
#[test]
fn bounded_has_five_attempts_and_five_more_by_hand() {
    let mut course = Course::after_loss(steady(Preset::Bounded), connection_loss());
    for _ in 0..2 {
        let mut waits = Vec::new();
        while course.state() == SessionState::Reconnecting {
            waits.push(course.due());
            fail_attempt(&mut course);
        }
        assert_eq!(waits, [1000, 2000, 4000, 8000, 16_000].map(Some));
        assert_eq!(course.state().words().rest, "failed");
        course.step(Event::Reconnect);
        course.open_session();
        course.end_session(connection_loss());
    }
}

#[test]
fn bounded_without_auto_reconnect_stays_disconnected() {
    for loss in [connection_loss(), crash()] {
        let mut policy = steady(Preset::Bounded);
        policy.reconnect.mode = ReconnectMode::Off;
        let course = Course::after_loss(policy, loss);
        assert_eq!(course.state().words().rest, "disconnected");
        assert_eq!(course.due(), None);
        assert!(course.status().reason.is_some());
    }
}

/// C7, C10: a crashed server stays down until a person starts it.
#[test]
fn desktop_starts_nothing_again() {
    let mut course = Course::after_loss(steady(Preset::Desktop), crash());
    assert_eq!(course.state().words().desktop, "crashed");
    assert_eq!(
        (course.due(), course.step(Event::CallWaiting)),
        (None, None)
    );
    assert_eq!(course.step(Event::Start), open_effect(2));
    course.open_session();
    assert_eq!(course.state().words().desktop, "running");
}

/// Document 004: only a person reconnects.
#[test]
fn manual_waits_for_a_person() {
    let mut course = Course::after_loss(steady(Preset::Manual), connection_loss());
    assert_eq!(
        (course.due(), course.step(Event::CallWaiting)),
        (None, None)
    );
    assert_eq!(course.step(Event::Reconnect), open_effect(2));
    course.open_session();
    assert_eq!(course.due(), None, "nobody is asked in the background");
    // The status must not promise a reconnect.
    assert_eq!(course.status().if_lost, SessionState::Disconnected);
}

/// Five failures in a row make a server degraded. The time of its last message stays the same.
#[test]
fn manual_is_unwell_after_five_failures() {
    let mut course = Course::connected(steady(Preset::Manual));
    let last_message_at = course.now;
    for failures in 1..=6 {
        course.wait(SECOND);
        course.report(SessionReport::Doubted);
        assert_eq!(course.tick(), probe(1));
        course.report(SessionReport::Probe(ProbeOutcome::Failed("no".to_owned())));
        let health = course.status().health.expect("it is up");
        assert_eq!(
            (health.degraded, health.failures),
            (failures >= 5, failures)
        );
        assert_eq!(health.last_message_at, last_message_at);
    }
    course.report(SessionReport::MessageReceived(course.now));
    assert!(!course.status().is_degraded());
}
