//! Tests of calls in each phase of a session, and of the status while the session reconnects.

use super::*;

/// Sends a call every `every` milliseconds after the first loss, until the policy gives up. Returns
/// the total time in milliseconds, and the number of sessions.
fn given_up(mut course: Course, every: u64) -> (u128, u64) {
    let start = course.now;
    while course.state() != SessionState::Failed {
        course.wait(every);
        for event in [Event::CallWaiting, Event::Tick] {
            if course.step(event).is_some() {
                course.open_session();
                course.end_session(crash());
            }
        }
    }
    let time = course.now.duration_since(start).as_millis();
    (time, course.life.epoch.0)
}

/// A budget of five crashes lasts for 31 s without calls. Calls bring attempts forward, but do not
/// shorten this time.
#[test]
fn calls_do_not_spend_the_budget_faster_than_the_policy() {
    let result_without_calls = given_up(Course::after_loss(without_calls(), crash()), 100);
    assert_eq!(result_without_calls, (31_000, 6));
    let course = Course::after_loss(steady(Preset::Default), crash());
    let (time, sessions) = given_up(course, 100);
    assert!((31_000..=36_000).contains(&time), "{time}");
    assert!(sessions > 25, "{sessions}");
}

fn without_calls() -> Policy {
    let mut policy = steady(Preset::Default);
    policy.reconnect.on_call = false;
    policy
}

/// Crashes by a refused call do not count against the budget, including earlier ones.
#[test]
fn crashes_of_a_refused_call_are_not_counted() {
    let mut course = Course::after_loss(steady(Preset::Default), crash());
    for loss in [crash(), crash()] {
        course.tick();
        course.open_session();
        course.end_session(loss);
    }
    course.tick();
    course.open_session();
    assert_eq!(course.report(SessionReport::Poisoned(crash(), 3)), None);
    // One of the crashes had another cause, so it counts.
    assert_eq!(
        (course.state(), course.status().attempt),
        (SessionState::Reconnecting, 1)
    );
    assert_eq!(course.due(), Some(SECOND));
    for epoch in 5..=8 {
        assert_eq!(course.tick(), open_effect(epoch));
        course.open_session();
        course.end_session(crash());
        assert_eq!(course.state(), SessionState::Reconnecting);
    }
    course.tick();
    course.open_session();
    course.end_session(crash());
    assert_eq!(course.state(), SessionState::Failed);
}

/// A crash by a refused call does not restart a server that the policy does not restart.
#[test]
fn a_refused_call_does_not_restart_a_server() {
    let mut course = Course::connected(steady(Preset::Desktop));
    course.report(SessionReport::Poisoned(crash(), 1));
    assert_eq!(
        (course.state(), course.due()),
        (SessionState::Crashed, None)
    );
}

/// The status shows the loss and the attempt until the next session is up.
#[test]
fn the_status_shows_the_last_loss_during_a_reconnect() {
    for loss in [Loss::SessionExpired, crash(), connection_loss()] {
        let mut course = Course::after_loss(steady(Preset::Default), loss.clone());
        if loss != Loss::SessionExpired {
            course.tick();
        }
        course.report(SessionReport::Begun);
        let status = course.status();
        assert!(status.attempting && status.next_retry.is_none(), "{loss:?}");
        assert_eq!(
            (status.state, status.attempt),
            (SessionState::Reconnecting, 1)
        );
        assert_eq!(status.reason, Some(loss.to_string()));
        course.open_session();
        assert_eq!(
            (course.status().reason, course.status().attempt > 0),
            (None, true)
        );
    }
}

/// Like [`the_status_shows_the_last_loss_during_a_reconnect`], for a session that a call opens.
#[test]
fn the_status_shows_the_last_loss_while_a_call_opens_a_session() {
    let mut policy = steady(Preset::Manual);
    policy.reconnect.on_call = true;
    let mut course = Course::after_loss(policy, connection_loss());
    assert_eq!(course.step(Event::CallWaiting), open_effect(2));
    let status = course.status();
    assert_eq!(
        (status.state, status.attempt),
        (SessionState::Reconnecting, 1)
    );
    assert_eq!(status.reason, Some(connection_loss().to_string()));
}

/// A start by the operator removes the loss from the status.
#[test]
fn a_start_forgets_the_last_loss() {
    let mut course = Course::after_loss(steady(Preset::Default), crash());
    course.step(Event::Start);
    let status = course.status();
    assert_eq!(
        (status.state, status.reason),
        (SessionState::Connecting, None)
    );
}
