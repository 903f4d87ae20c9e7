//! Tests of exact event sequences: budgets, forgiveness, calls, hangs and probes.

use super::*;
use crate::health::{Excuse, HealthAction};

/// Y1: a local crash loop ends after five restarts. One click starts the server again.
#[test]
fn y1_a_crash_loop_ends_in_failed_and_a_start_resets_it() {
    let mut course = Course::after_loss(steady(Preset::Default), crash());
    for epoch in 2..=6 {
        assert_eq!(course.tick(), open_effect(epoch));
        course.open_session();
        course.end_session(crash());
    }
    assert_eq!(course.state(), SessionState::Failed);
    let reason = course.status().reason;
    assert_eq!(
        reason.as_deref(),
        Some("process exited unexpectedly (code 3)")
    );
    assert_eq!(course.step(Event::CallWaiting), None);
    assert_eq!(course.due(), None);
    assert_eq!(course.step(Event::Start), open_effect(7));
    course.open_session();
    course.end_session(crash());
    assert_eq!(
        (course.state(), course.due()),
        (SessionState::Reconnecting, Some(SECOND))
    );
}

/// Y1: lost connections and crashes have separate budgets, but the same delays.
#[test]
fn y1_crashes_and_losses_have_separate_budgets() {
    let mut policy = steady(Preset::Default);
    policy.reconnect.max_attempts = Some(2);
    policy.restart.max_attempts = Some(2);
    let mut course = Course::after_loss(policy, crash());
    let mut waits = Vec::new();
    for loss in [
        connect_failure(),
        crash(),
        connect_failure(),
        connect_failure(),
    ] {
        waits.push(course.due());
        course.tick();
        course.report(SessionReport::Begun);
        course.end_session(loss);
    }
    assert_eq!(waits, [1000, 2000, 4000, 8000].map(Some));
    assert_eq!(course.state(), SessionState::Failed);
    assert_eq!(course.status().attempt, 4);
}

#[test]
fn as_reconnect_counts_a_crash_among_the_losses() {
    let mut course = Course::after_loss(steady(Preset::Router), crash());
    for loss in [
        connect_failure(),
        crash(),
        connect_failure(),
        crash(),
        connect_failure(),
    ] {
        course.tick();
        course.report(SessionReport::Begun);
        course.end_session(loss);
    }
    assert_eq!(course.state(), SessionState::Failed);
}

/// A server that dies after each handshake gets growing delays. An uptime of a minute resets them.
#[test]
fn losses_are_forgiven_after_stable_uptime_not_on_connect() {
    let mut course = Course::after_loss(steady(Preset::Default), connection_loss());
    let mut waits = Vec::new();
    for uptime in [0, 59_999, 60_000, 0] {
        waits.push(course.due());
        course.tick();
        course.open_session();
        course.wait(uptime);
        course.end_session(connection_loss());
    }
    waits.push(course.due());
    assert_eq!(waits, [1000, 2000, 4000, 1000, 2000].map(Some));
}

/// G2, G10: documents 000 and 001 forgive losses on connect.
#[test]
fn losses_are_forgiven_on_connect_by_some_presets() {
    for preset in [Preset::Router, Preset::Persistent] {
        let mut course = Course::after_loss(steady(preset), connection_loss());
        for _ in 0..7 {
            assert_eq!(course.due(), Some(SECOND), "{preset:?}");
            course.tick();
            course.open_session();
            course.end_session(connection_loss());
        }
    }
}

#[test]
fn crashes_are_forgiven_after_their_own_time() {
    let mut policy = steady(Preset::Default);
    policy.restart.reset_after = Duration::from_secs(10);
    let mut course = Course::after_loss(policy, crash());
    for _ in 0..10 {
        course.tick();
        course.open_session();
        course.wait(10 * SECOND);
        course.end_session(crash());
        assert_eq!(
            (course.state(), course.due()),
            (SessionState::Reconnecting, Some(SECOND))
        );
    }
}

/// Invariant 8: an attempt that cannot succeed is never retried, not even for a call.
#[test]
fn a_wrong_configuration_is_not_retried() {
    let mut course = Course::new(Policy::default());
    course.step(Event::Start);
    course.end_session(Loss::Misconfigured("`command` is missing".to_owned()));
    assert_eq!((course.state(), course.due()), (SessionState::Error, None));
    assert_eq!(course.step(Event::CallWaiting), None);
    assert_eq!(course.step(Event::Resumed), None);
}

/// A temporary failure is retried with the policy's delays, and for a call.
#[test]
fn a_start_without_a_resource_is_retried() {
    for loss in [
        Loss::CannotSpawn("command not found: x".to_owned()),
        Loss::Rejected("the server answered an error".to_owned()),
    ] {
        let mut course = Course::new(steady(Preset::Default));
        course.step(Event::Start);
        for wait in [SECOND, 2 * SECOND, 4 * SECOND] {
            course.end_session(loss.clone());
            let actual = (course.state(), course.due());
            assert_eq!(actual, (SessionState::Reconnecting, Some(wait)), "{loss:?}");
            assert_eq!(course.status().reason, Some(loss.to_string()));
            course.tick();
        }
        course.end_session(loss.clone());
        course.wait(SECOND);
        assert_eq!(course.step(Event::CallWaiting), open_effect(5), "{loss:?}");
        course.open_session();
        // This preset does not retry a failed first attempt.
        let mut course = Course::new(steady(Preset::Bounded));
        course.step(Event::Start);
        course.end_session(loss.clone());
        assert_eq!((course.state(), course.due()), (SessionState::Error, None));
    }
}

/// After HTTP 401 or 403, the status is an error with this reason. The server is retried every ten
/// minutes, or for a call, but at most once a minute.
#[test]
fn an_unauthorized_server_is_tried_rarely() {
    const MINUTE: u64 = 60 * SECOND;
    let unauthorized_loss = || Loss::Unauthorized("the server answered HTTP 401".to_owned());
    let assert_status = |course: &Course, due| {
        let status = course.status();
        let reason = Some(unauthorized_loss().to_string());
        assert_eq!((status.state, status.reason), (SessionState::Error, reason));
        assert_eq!(course.due(), due);
    };
    let mut at_first = Course::new(steady(Preset::Default));
    at_first.step(Event::Start);
    at_first.end_session(unauthorized_loss());
    for mut course in [
        at_first,
        Course::after_loss(steady(Preset::Default), unauthorized_loss()),
    ] {
        // Without a request or a call, the status stays the same.
        for _ in 0..3 {
            assert_status(&course, Some(10 * MINUTE));
            let epoch = course.life.epoch.0;
            assert_eq!(course.tick(), open_effect(epoch + 1));
            assert_status(&course, None);
            course.end_session(unauthorized_loss());
        }
        // Attempts for calls.
        for _ in 0..3 {
            let from = course.status().calls_from.expect("a time");
            assert_eq!(from - course.now, Duration::from_mins(1));
            course.wait(MINUTE - 1);
            assert_eq!(course.step(Event::CallWaiting), None);
            assert_status(&course, Some(9 * MINUTE + 1));
            course.wait(1);
            let epoch = course.life.epoch.0;
            assert_eq!(course.step(Event::CallWaiting), open_effect(epoch + 1));
            course.end_session(unauthorized_loss());
        }
        // A reconnect by the operator begins at once.
        let epoch = course.life.epoch.0;
        assert_eq!(course.step(Event::Reconnect), open_effect(epoch + 1));
        assert_eq!(course.state(), SessionState::Connecting);
        course.open_session();
    }
}

/// Y: `initialFailure` applies only to the first attempt after a start. A server that was up is
/// reconnected.
#[test]
fn an_initial_failure_is_an_error_until_the_first_connect() {
    let mut course = Course::new(steady(Preset::Bounded));
    course.step(Event::Start);
    course.end_session(connect_failure());
    assert_eq!(course.state(), SessionState::Error);
    assert_eq!(course.step(Event::Start), open_effect(2));
    course.open_session();
    course.end_session(connection_loss());
    assert_eq!(course.tick(), open_effect(3));
    course.end_session(connect_failure());
    assert_eq!(
        (course.state(), course.due()),
        (SessionState::Reconnecting, Some(2 * SECOND))
    );
}

/// Invariant 9: an attempt that hangs in its handshake ends before the next attempt begins.
#[test]
fn a_hanging_handshake_is_closed_then_killed_then_retried() {
    let mut course = Course::new(steady(Preset::Default));
    assert_eq!(course.step(Event::Start), open_effect(1));
    assert_eq!(course.due(), None, "an attempt that waits for its turn");
    course.wait(HOUR);
    course.report(SessionReport::Begun);
    assert_eq!(course.due(), Some(30 * SECOND));
    assert_eq!(course.tick(), close_effect(1));
    assert_eq!(course.due(), Some(10 * SECOND));
    assert_eq!(course.tick(), kill(1));
    assert_eq!(course.due(), None, "nothing helps but its end");
    assert_eq!(
        course.end_session(Loss::Disconnected("killed".to_owned())),
        None
    );
    let reason = course.status().reason;
    assert_eq!(reason.as_deref(), Some("no handshake within 30000 ms"));
    assert_eq!(course.due(), Some(SECOND));
}

/// A start has a time limit without signs of work, and a longer one for the whole start.
#[test]
fn a_start_at_work_has_ten_minutes() {
    let mut course = Course::new(steady(Preset::Default));
    course.step(Event::Start);
    assert_eq!(
        course.status().start_words(course.now).as_deref(),
        Some("waits for its turn")
    );
    course.wait(HOUR);
    course.report(SessionReport::Begun);
    let begun_at = course.now;
    while course.now - begun_at < Duration::from_mins(10) - Duration::from_secs(20) {
        course.wait(20 * SECOND);
        assert_eq!(course.step(Event::Tick), None);
        assert_eq!(course.report(SessionReport::AtWork(course.now)), None);
    }
    let text = course.status().start_words(course.now);
    assert_eq!(
        text.as_deref(),
        Some("at work for 580 s, given up after 600 s")
    );
    let text = course
        .status()
        .start_words(course.now + Duration::from_secs(15));
    assert_eq!(
        text.as_deref(),
        Some("silent for 15 s, given up after 20 s"),
        "the ten minutes end before thirty seconds of silence"
    );
    assert_eq!(
        course.due(),
        Some(20 * SECOND),
        "the end of the ten minutes"
    );
    assert_eq!(course.tick(), close_effect(1));
    course.end_session(connection_loss());
    let reason = course.status().reason;
    assert_eq!(reason.as_deref(), Some("no handshake within 600000 ms"));
}

#[test]
fn a_silent_start_is_ended() {
    let mut course = Course::new(steady(Preset::Default));
    course.step(Event::Start);
    course.report(SessionReport::Begun);
    let begun_at = course.now;
    course.wait(2 * SECOND);
    let text = course.status().start_words(course.now);
    assert_eq!(
        text.as_deref(),
        Some("no sign of work for 2 s, given up after 30 s")
    );
    course.wait(48 * SECOND);
    course.report(SessionReport::AtWork(course.now));
    // This report is older than the last one.
    course.report(SessionReport::AtWork(begun_at));
    assert_eq!(course.due(), Some(30 * SECOND));
    course.wait(20 * SECOND);
    let text = course.status().start_words(course.now);
    assert_eq!(
        text.as_deref(),
        Some("silent for 20 s, given up after 30 s")
    );
    assert_eq!(course.tick(), close_effect(1));
    course.end_session(connection_loss());
    let reason = course.status().reason;
    let expected = "no handshake within 30000 ms of its last sign of work";
    assert_eq!(reason.as_deref(), Some(expected));
    assert_eq!(course.status().start_words(course.now), None);
}

/// With a time limit of one hour, a start may be silent for an hour.
#[test]
fn a_longer_connect_timeout_applies() {
    let mut policy = steady(Preset::Default);
    policy.connect_timeout = Duration::from_mins(60);
    let mut course = Course::new(policy);
    course.step(Event::Start);
    course.report(SessionReport::Begun);
    assert_eq!(course.due(), Some(HOUR));
    course.wait(HOUR / 2);
    course.report(SessionReport::AtWork(course.now));
    assert_eq!(course.due(), Some(HOUR / 2));
}

/// E11: HTTP 404 for a session id leads to a new `initialize` at once, but only once in a row.
#[test]
fn e11_an_expired_session_is_reopened_once_without_a_wait() {
    for preset in [Preset::Default, Preset::Persistent, Preset::Router] {
        let mut course = Course::connected(steady(preset));
        assert_eq!(
            course.end_session(Loss::SessionExpired),
            open_effect(2),
            "{preset:?}"
        );
        course.open_session();
        assert_eq!(course.end_session(Loss::SessionExpired), None, "{preset:?}");
        assert_eq!(course.state(), SessionState::Reconnecting);
        course.tick();
        course.open_session();
        assert_eq!(course.end_session(Loss::SessionExpired), None, "{preset:?}");
        course.tick();
        course.open_session();
        course.wait(HOUR);
        assert_eq!(
            course.end_session(Loss::SessionExpired),
            open_effect(5),
            "{preset:?}"
        );
    }
}

/// G8: a waiting call brings the attempt forward, but attempts stay at least a second apart.
#[test]
fn g8_a_call_brings_the_attempt_forward() {
    let mut policy = steady(Preset::Default);
    policy.reconnect.initial_delay = Duration::from_secs(20);
    let mut course = Course::after_loss(policy, connection_loss());
    assert_eq!(course.due(), Some(20 * SECOND));
    assert_eq!(course.step(Event::CallWaiting), open_effect(2));
    // A second caller shares the attempt.
    assert_eq!(course.step(Event::CallWaiting), None);
    course.wait(100);
    course.report(SessionReport::Begun);
    course.wait(300);
    course.end_session(connect_failure());
    assert_eq!(course.due(), Some(20 * SECOND));
    assert_eq!(course.step(Event::CallWaiting), None);
    assert_eq!(course.due(), Some(700));
    assert_eq!(course.tick(), open_effect(3));
}

/// Attempts for calls do not use up the budget of losses or of crashes.
#[test]
fn calls_spend_no_budget() {
    for loss in [connect_failure(), crash()] {
        let mut policy = steady(Preset::Default);
        policy.reconnect.max_attempts = Some(3);
        policy.restart.max_attempts = Some(3);
        policy.reconnect.initial_delay = Duration::from_secs(20);
        let mut course = Course::after_loss(policy, loss.clone());
        assert_eq!(course.step(Event::CallWaiting), open_effect(2));
        for epoch in 3..20 {
            course.report(SessionReport::Begun);
            course.end_session(loss.clone());
            assert_eq!(course.status().attempt, 1);
            // The call brings the attempt forward to a later time, so it does not begin yet.
            assert_eq!(course.step(Event::CallWaiting), None);
            assert_eq!(course.tick(), open_effect(epoch));
        }
        course.end_session(loss.clone());
        for _ in 0..3 {
            assert_eq!(course.state(), SessionState::Reconnecting);
            course.tick();
            course.end_session(loss.clone());
        }
        assert_eq!(course.state(), SessionState::Failed, "{loss:?}");
    }
}

#[test]
fn calls_start_no_attempt_if_the_policy_forbids_it() {
    for preset in [
        Preset::Router,
        Preset::Bounded,
        Preset::Desktop,
        Preset::Manual,
    ] {
        let mut course = Course::after_loss(steady(preset), connection_loss());
        let due = course.due();
        assert!(!course.status().on_call, "{preset:?}");
        assert_eq!(course.step(Event::CallWaiting), None, "{preset:?}");
        assert_eq!(course.due(), due, "{preset:?}");
    }
}

/// With `manual` and `onCall`, a call reconnects a server that was lost, but not one that was
/// stopped.
#[test]
fn a_call_may_reconnect_a_manual_server() {
    let mut policy = steady(Preset::Manual);
    policy.reconnect.on_call = true;
    let mut course = Course::after_loss(policy, connection_loss());
    assert_eq!(course.step(Event::CallWaiting), open_effect(2));
    course.open_session();
    course.step(Event::Stop);
    course.end_session(connection_loss());
    assert_eq!(course.step(Event::CallWaiting), None);
}

/// HTTP `Retry-After` applies, also to calls, if it is longer than the backoff. It is cut to five
/// minutes.
#[test]
fn retry_after_is_honoured_within_reason() {
    let check = |seconds: u64, expected: u64, by_call: u64| {
        let mut course = Course::after_loss(steady(Preset::Default), unavailable(seconds));
        assert_eq!(course.due(), Some(expected), "{seconds}");
        course.step(Event::CallWaiting);
        assert_eq!(course.due(), Some(by_call), "{seconds}");
    };
    check(1, SECOND, SECOND);
    check(120, 120 * SECOND, 120 * SECOND);
    check(86_400, 300 * SECOND, 300 * SECOND);
}

/// H14: no probe is due while the server sends messages, or while a probe is in flight.
#[test]
fn h14_only_silence_is_probed() {
    let mut course = Course::connected(steady(Preset::Default));
    for _ in 0..10 {
        course.wait(29 * SECOND);
        assert_eq!(course.step(Event::Tick), None);
        course.report(SessionReport::MessageReceived(course.now));
        assert_eq!(course.due(), Some(30 * SECOND));
    }
    let start = course.now;
    assert_eq!(course.tick(), probe(1));
    assert_eq!(course.due(), None);
    // A report that is older than the last message changes nothing.
    course.report(SessionReport::MessageReceived(start));
    assert_eq!(course.due(), None);
    course.wait(12);
    course.report(SessionReport::Probe(ProbeOutcome::Answered(
        Duration::from_millis(12),
    )));
    let health = course.status().health.expect("it is up");
    assert_eq!(health.last_ping, Some(Duration::from_millis(12)));
    assert_eq!(course.due(), Some(30 * SECOND));
}

/// A change of the policy applies to the live session.
#[test]
fn a_new_interval_applies_at_once() {
    let mut course = Course::connected(steady(Preset::Manual));
    assert_eq!(course.due(), None);
    course.policy.health.interval = Some(Duration::from_secs(5));
    assert_eq!(course.due(), Some(5 * SECOND));
    course.policy.health.interval = None;
    assert_eq!(course.due(), None);
}

/// A half-open connection is replaced. The reason stays the hang, not the later kill.
#[test]
fn a_hang_is_closed_and_reconnected() {
    let mut course = Course::connected(steady(Preset::Default));
    let mut probes = 0;
    loop {
        assert_eq!(course.tick(), probe(1));
        probes += 1;
        course.wait(10 * SECOND);
        match course.report(SessionReport::Probe(ProbeOutcome::Unanswered(None))) {
            None => assert_eq!(course.state(), SessionState::Connected),
            effect => {
                assert_eq!(effect, close_effect(1));
                break;
            }
        }
    }
    // 120 s of silence: three probes, each after 30 s, with a time limit of 10 s.
    assert_eq!(probes, 3);
    let status = course.status();
    assert_eq!(status.state, SessionState::Reconnecting);
    let reason = "the server hangs: ping timed out after 10s";
    assert_eq!(status.reason.as_deref(), Some(reason));
    assert_eq!(course.tick(), kill(1));
    course.end_session(Loss::Disconnected("killed".to_owned()));
    assert_eq!(course.status().reason.as_deref(), Some(reason));
    assert_eq!(course.tick(), open_effect(2));
}

/// A stdio server that handles one request at a time keeps its running call if it answers no ping.
#[test]
fn a_busy_server_is_never_closed_for_a_late_ping() {
    for action in [HealthAction::Verify, HealthAction::Reconnect] {
        let mut policy = steady(Preset::Default);
        policy.health.action = action;
        let mut course = Course::connected(policy);
        for outcome in [
            ProbeOutcome::Busy,
            ProbeOutcome::Unanswered(Some(Excuse::Call)),
            ProbeOutcome::Unanswered(Some(Excuse::Cpu)),
        ] {
            for _ in 0..20 {
                assert_eq!(course.tick(), probe(1));
                course.wait(10 * SECOND);
                assert_eq!(course.report(SessionReport::Probe(outcome.clone())), None);
            }
        }
        assert_eq!(course.state(), SessionState::Connected);
    }
}

/// W14: reports of a session that is closing have no effect.
#[test]
fn a_late_probe_of_a_closing_session_does_nothing() {
    let mut course = Course::connected(steady(Preset::Bounded));
    course.tick();
    assert_eq!(course.step(Event::Stop), close_effect(1));
    course.wait(HOUR);
    assert_eq!(
        course.report(SessionReport::Probe(ProbeOutcome::Unanswered(None))),
        None
    );
    assert_eq!(
        course.report(SessionReport::MessageReceived(course.now)),
        None
    );
    assert_eq!(course.report(SessionReport::Opened), None);
    assert_eq!(course.state(), SessionState::Stopping);
    course.end_session(connection_loss());
    assert_eq!(
        (course.state(), course.due()),
        (SessionState::Disconnected, None)
    );
}
