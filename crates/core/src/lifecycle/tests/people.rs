//! Tests commands of the operator, and the wake-up of the machine, in each phase of a session.

use super::*;

/// Returns a course in each phase, with the name of the phase.
fn everywhere(preset: Preset) -> Vec<(&'static str, Course)> {
    let policy = || steady(preset);
    let queued = || {
        let mut course = Course::new(policy());
        course.step(Event::Start);
        course
    };
    let connecting_course = || {
        let mut course = queued();
        course.report(SessionReport::Begun);
        course
    };
    let closing = |event| {
        let mut course = Course::connected(policy());
        course.step(event);
        course
    };
    let failed_course = || {
        let mut course = Course::after_loss(policy(), connection_loss());
        course.life.phase = Phase::Down(DownReason::Failed(connection_loss()));
        course
    };
    let mut timed_out_course = connecting_course();
    timed_out_course.tick();
    let mut refused_course = connecting_course();
    refused_course.end_session(Loss::Misconfigured("not found".to_owned()));
    vec![
        ("stopped", Course::new(policy())),
        ("queued", queued()),
        ("connecting", connecting_course()),
        ("up", Course::connected(policy())),
        ("stopping", closing(Event::Stop)),
        ("reopening", closing(Event::Reconnect)),
        ("timed out", timed_out_course),
        ("waiting", Course::after_loss(policy(), connection_loss())),
        ("error", refused_course),
        ("failed", failed_course()),
    ]
}

/// O2: a reconnect by the operator leads to a new session from every phase, and resets the backoff.
/// Two sessions never exist at the same time.
#[test]
fn o2_a_forced_reconnect_opens_a_session_from_every_phase() {
    for (phase, mut course) in everywhere(Preset::Default) {
        let effect = course.step(Event::Reconnect);
        let expected = match phase {
            "stopped" => open_effect(1),
            "up" => close_effect(1),
            "waiting" | "failed" | "error" => open_effect(2),
            _ => None,
        };
        assert_eq!(effect, expected, "{phase}");
        let epoch = match phase {
            "queued" | "connecting" => 1,
            "up" | "stopping" | "reopening" | "timed out" => {
                assert_eq!(
                    course.end_session(connection_loss()),
                    open_effect(2),
                    "{phase}"
                );
                2
            }
            _ => course.life.epoch.0,
        };
        assert_eq!(course.life.epoch, Epoch(epoch), "{phase}");
        assert_eq!(course.status().attempt, 0, "{phase}");
        course.report(SessionReport::Begun);
        course.report(SessionReport::Opened);
        assert_eq!(course.state(), SessionState::Connected, "{phase}");
    }
}

/// After a failed reconnect by the operator, the server is retried, even if the policy does not
/// retry a failed first attempt.
#[test]
fn o2_a_failed_reconnect_is_no_first_attempt() {
    for event in [Event::Reconnect, Event::Start] {
        let mut course = Course::after_loss(steady(Preset::Router), connection_loss());
        assert_eq!(course.step(event.clone()), open_effect(2));
        course.end_session(connect_failure());
        assert_eq!(course.state(), SessionState::Reconnecting, "{event:?}");
    }
    let mut course = Course::connected(steady(Preset::Router));
    course.step(Event::Reconnect);
    assert_eq!(course.end_session(connection_loss()), open_effect(2));
    course.end_session(connect_failure());
    assert_eq!(course.state(), SessionState::Reconnecting);

    // A start after a stop counts as a first attempt.
    let mut course = Course::connected(steady(Preset::Router));
    course.step(Event::Stop);
    course.step(Event::Start);
    assert_eq!(course.end_session(connection_loss()), open_effect(2));
    course.end_session(connect_failure());
    assert_eq!(course.state(), SessionState::Error);
}

/// F10, G14: a reconnect by the operator after `failed` resets the counter.
#[test]
fn f10_a_reconnect_from_failed_has_the_whole_budget() {
    let mut course = Course::after_loss(steady(Preset::Router), connection_loss());
    for _ in 0..5 {
        course.tick();
        course.end_session(connect_failure());
    }
    assert_eq!(course.state(), SessionState::Failed);
    course.step(Event::Reconnect);
    course.open_session();
    course.end_session(connection_loss());
    assert_eq!(
        (course.state(), course.due()),
        (SessionState::Reconnecting, Some(SECOND))
    );
}

/// G11: a resume starts a waiting attempt at once, and makes a probe of a live session due. Other
/// phases stay the same.
#[test]
fn g11_a_resume_affects_every_phase() {
    for (phase, mut course) in everywhere(Preset::Default) {
        course.wait(SECOND);
        let (previous_life, due) = (course.life.clone(), course.due());
        let effect = course.step(Event::Resumed);
        match phase {
            "waiting" => assert_eq!(effect, open_effect(2)),
            "up" => {
                assert_eq!((effect, course.due()), (None, Some(0)));
                assert_eq!(course.step(Event::Tick), probe(1));
            }
            _ => {
                assert_eq!(effect, None, "{phase}");
                assert_eq!(
                    (course.life.clone(), course.due()),
                    (previous_life, due),
                    "{phase}"
                );
            }
        }
    }
}

/// A resume makes one probe due, even if the policy sends no probes.
#[test]
fn g11_a_resume_probes_once_without_health_checks() {
    let mut course = Course::connected(steady(Preset::Manual));
    assert_eq!(course.due(), None);
    course.step(Event::Resumed);
    assert_eq!(course.tick(), probe(1));
    assert_eq!(
        course.report(SessionReport::Probe(ProbeOutcome::Busy)),
        None
    );
    assert_eq!(course.due(), None);
}

/// H9: a failed call makes a probe due. Only one probe is sent at a time.
#[test]
fn h9_a_doubt_is_settled_by_one_probe() {
    let mut course = Course::connected(steady(Preset::Default));
    course.wait(SECOND);
    course.report(SessionReport::Doubted);
    course.wait(1);
    course.report(SessionReport::Doubted);
    assert_eq!(course.tick(), probe(1));
    course.report(SessionReport::Doubted);
    assert_eq!(course.due(), None);
    course.report(SessionReport::Probe(ProbeOutcome::Unanswered(None)));
    assert_eq!(
        (course.state(), course.due()),
        (SessionState::Connected, Some(30 * SECOND))
    );
}

/// After a resume, messages from before the sleep are not evidence.
#[test]
fn g11_a_doubt_ends_with_a_new_message() {
    let mut course = Course::connected(steady(Preset::Default));
    course.wait(5 * SECOND);
    let start = course.now;
    course.wait(5 * SECOND);
    course.step(Event::Resumed);
    course.report(SessionReport::MessageReceived(start));
    assert_eq!(course.due(), Some(0));
    course.wait(1);
    course.report(SessionReport::MessageReceived(course.now));
    assert_eq!(course.due(), Some(30 * SECOND));
}

/// F9, T1: a stop ends every session and attempt. Later events open no session.
#[test]
fn a_stop_ends_every_phase() {
    for (phase, mut course) in everywhere(Preset::Default) {
        let effect = course.step(Event::Stop);
        let expected = match phase {
            "queued" | "connecting" | "up" => close_effect(1),
            _ => None,
        };
        assert_eq!(effect, expected, "{phase}");
        for event in [Event::CallWaiting, Event::Resumed, Event::Tick] {
            assert_eq!(course.step(event), None, "{phase}");
        }
        course.end_session(connection_loss());
        assert_eq!(course.state(), SessionState::Disconnected, "{phase}");
        assert_eq!(course.status().reason, None, "{phase}");
    }
}
